//! Reads a `null` in JSON as an absent member, as Kubernetes reads it.

use serde::{Deserialize, Deserializer};

/// The value, or the default for `null`.
pub(crate) fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
