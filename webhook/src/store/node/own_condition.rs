//! [`OwnCondition`]: a condition of ours as it is stored on a Node, for Events about it.

use headroom_domain::names;
use jiff::Timestamp;

/// The conditions that the webhook writes.
const OWN: [&str; 3] = [names::BRAKED, names::CLAMPED, names::RATIO_OWNER_CONFLICT];
/// Maximum length of a kept message, in bytes: a client with the right to write node statuses can write longer ones.
const LONGEST_MESSAGE: usize = 1_024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnCondition {
    /// Its type, one of [`names::BRAKED`], [`names::CLAMPED`] and [`names::RATIO_OWNER_CONFLICT`].
    pub kind: &'static str,
    /// True while its status is `True`.
    pub is_true: bool,
    pub message: String,
    /// Since when it has its status, if that is written.
    pub since: Option<Timestamp>,
}

impl OwnCondition {
    /// The condition of that type, if it is one of ours. A time that cannot be read counts as none.
    pub(super) fn new(kind: &str, status: &str, message: &str, since: Option<&str>) -> Option<Self> {
        let kind = OWN.into_iter().find(|own| *own == kind)?;
        let message = message.get(..message.floor_char_boundary(LONGEST_MESSAGE));
        Some(Self {
            kind,
            is_true: status == "True",
            message: message.unwrap_or_default().to_owned(),
            since: since.and_then(|text| text.parse().ok()),
        })
    }
}
