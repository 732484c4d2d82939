//! [`ProfileWarnings`]: what a client is told about profiles, of which there may be many.

use super::ProfileTarget;
use crate::pod_object::PodObject;

/// Most profiles that an answer names in warnings. The API server hands on 4 KiB of warnings, and whoever may write profiles
/// must not take the room of all others.
const MOST_WARNINGS: usize = 16;

/// Warnings about profiles, of which there may be many.
#[derive(Default)]
pub(super) struct ProfileWarnings {
    /// Of the first.
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

    /// Only of pods it is kept what came of each profile.
    pub(super) fn write(self, target: ProfileTarget, object: &mut impl PodObject) {
        for text in self.texts {
            object.warn(text);
        }
        if self.others > 0 {
            let more = match target {
                ProfileTarget::Pod => "; `kubectl headroom pod explain` has their faults",
                ProfileTarget::Reservation => "",
            };
            object.warn(format!(
                "there are warnings about {} further colocation profiles{more}",
                self.others
            ));
        }
    }
}
