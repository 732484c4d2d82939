//! Defaults of a new quota: parent, the parent's tree, and shared weight.

use headroom_domain::{amounts::Amounts, names};

use super::{QuotaParts, QuotaTree, annotation};

/// Values to write into a new quota. `None` leaves a value unchanged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QuotaDefaults {
    /// Label with the name of the parent.
    pub parent: Option<String>,
    /// Label with the ID of the tree.
    pub tree_id: Option<String>,
    /// Annotation with the weights for sharing unused amounts.
    pub shared_weight: Option<String>,
}

/// Reasons why defaults cannot be determined, in Koordinator's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DefaultsError {
    /// The parent with the tree ID does not exist.
    #[error("fill quota {name} failed, parent not exist")]
    NoParent {
        /// Name of the new quota.
        name: String,
        /// Name of the missing parent.
        parent: String,
    },
    /// The weight is not a resource list.
    #[error("fillDefaultQuotaInfo unmarshal sharedWeight failed:{reason}")]
    Weight {
        /// Text of the weight annotation.
        text: String,
        /// Reason from the decoder of resource lists.
        reason: String,
    },
}

/// Returns true if the parent must be known because it determines the tree.
pub fn needs_parent(parts: &QuotaParts) -> bool {
    let is_first = parts.name == names::ROOT_QUOTA || parts.parent() == names::ROOT_QUOTA;
    !is_first && parts.label(names::QUOTA_TREE_ID).is_empty()
}

/// Computes the defaults of a new quota.
///
/// # Errors
/// Its parent is not known, or its weight cannot be read.
pub fn defaults(parts: &QuotaParts, tree: &dyn QuotaTree) -> Result<QuotaDefaults, DefaultsError> {
    let mut defaults = QuotaDefaults::default();
    if parts.name == names::ROOT_QUOTA {
        return Ok(defaults);
    }
    if parts.label(names::QUOTA_PARENT).is_empty() {
        defaults.parent = Some(names::ROOT_QUOTA.to_owned());
    }
    if needs_parent(parts) {
        let parent = tree
            .by_name(parts.parent())
            .ok_or_else(|| DefaultsError::NoParent {
                name: parts.name.clone(),
                parent: parts.parent().to_owned(),
            })?;
        defaults.tree_id = Some(String::from(&*parent.tree_id)).filter(|id| !id.is_empty());
    }
    defaults.shared_weight = weight(parts)?;
    Ok(defaults)
}

/// Returns the weight if it must change: `max` if there is none, else the weight with exactly the resources of `max`.
fn weight(parts: &QuotaParts) -> Result<Option<String>, DefaultsError> {
    let text = parts.annotation(names::QUOTA_SHARED_WEIGHT);
    let max = parts.spec.max.as_ref();
    let written = annotation::amounts(text).map_err(|reason| DefaultsError::Weight {
        text: text.to_owned(),
        reason,
    })?;
    let Some(written) = written else {
        let default = max.map_or_else(|| "null".to_owned(), json);
        // `null` means the same as an absent value.
        return Ok((default != text).then_some(default));
    };
    let empty = Amounts::default();
    let max = max.unwrap_or(&empty);
    let has_same = written
        .iter()
        .map(|(key, _)| key)
        .eq(max.iter().map(|(key, _)| key));
    let aligned = max
        .iter()
        .map(|(key, amount)| (key, *written.get(key).unwrap_or(amount)));
    Ok((!has_same).then(|| json(&aligned.collect())))
}

fn json(amounts: &Amounts) -> String {
    // Maps from strings to strings can always be serialized.
    serde_json::to_string(amounts).unwrap_or_default()
}
