//! What a new quota gets that does not say it: a parent, the tree of its parent, and a weight.

use headroom_domain::{amounts::Amounts, names};

use super::{QuotaParts, QuotaTree, annotation};

/// What is written into a new quota. `None` leaves a value as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QuotaDefaults {
    /// The label that names its parent.
    pub parent: Option<String>,
    /// The label that names its tree.
    pub tree_id: Option<String>,
    /// The annotation by which what is left over is shared.
    pub shared_weight: Option<String>,
}

/// The texts are Koordinator's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DefaultsError {
    /// There is no parent to take the tree from.
    #[error("fill quota {name} failed, parent not exist")]
    NoParent {
        /// The quota.
        name: String,
        /// The parent that it names.
        parent: String,
    },
    /// The weight is no resource list.
    #[error("fillDefaultQuotaInfo unmarshal sharedWeight failed:{reason}")]
    Weight {
        /// Its text.
        text: String,
        /// Why not.
        reason: String,
    },
}

/// True if the parent has to be known, because the tree is taken from it.
pub fn needs_parent(parts: &QuotaParts) -> bool {
    let is_first = parts.name == names::ROOT_QUOTA || parts.parent() == names::ROOT_QUOTA;
    !is_first && parts.label(names::QUOTA_TREE_ID).is_empty()
}

/// What a new quota gets.
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

/// The weight, if it is to be another text: that of `max` where there is none, else with the same resources as `max`.
fn weight(parts: &QuotaParts) -> Result<Option<String>, DefaultsError> {
    let text = parts.annotation(names::QUOTA_SHARED_WEIGHT);
    let max = parts.spec.max.as_ref();
    let written = annotation::amounts(text).map_err(|reason| DefaultsError::Weight {
        text: text.to_owned(),
        reason,
    })?;
    let Some(written) = written else {
        let default = max.map_or_else(|| "null".to_owned(), json);
        // `null` says as little as nothing.
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
    // Texts by text always can be written.
    serde_json::to_string(amounts).unwrap_or_default()
}
