//! Reads a JSON `null` as an absent member, like Kubernetes.

use serde::{Deserialize, Deserializer};

/// Deserializes a value; `null` becomes the default.
pub(crate) fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
