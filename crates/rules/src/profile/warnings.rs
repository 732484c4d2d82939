//! [`ProfileWarnings`]: warnings for the client about profiles, bounded in number.

use super::ProfileTarget;
use crate::pod_object::PodObject;

/// Maximum number of profiles that a response names in warnings. The API server forwards 4 KiB of warnings, and
/// authors of profiles must not use up the space of all other warnings.
const MOST_WARNINGS: usize = 16;

/// Warnings about profiles, bounded in number.
#[derive(Default)]
pub(super) struct ProfileWarnings {
    /// Texts of the first [`MOST_WARNINGS`] warnings.
    texts: Vec<String>,
    others: usize,
}

impl ProfileWarnings {
    pub(super) fn push(&mut self, text: impl FnOnce() -> String) {
        if self.texts.len() < MOST_WARNINGS {
            self.texts.push(text());
        } else {
            self.others = self.others.saturating_add(1);
        }
    }

    /// Only for pods are the results of each profile stored for `explain`.
    pub(super) fn write(self, target: ProfileTarget, object: &mut impl PodObject) {
        for text in self.texts {
            object.warn(text);
        }
        if self.others > 0 {
            let more = match target {
                ProfileTarget::Pod => "; see `kubectl headroom pod explain`",
                ProfileTarget::Reservation => "",
            };
            object.warn(format!(
                "warnings about {} more colocation profiles are not shown{more}",
                self.others
            ));
        }
    }
}
