//! [`PlannedProfile`]: a profile that is for an object, with all that applying it takes.

use std::sync::Arc;

use serde_json::Value;

use super::{PriorityClass, Profile, ProfileTarget, error::with_causes};
use crate::{
    explain::{Explanation, Writer},
    switch::Switches,
};

/// A profile that is to be applied.
#[derive(Debug)]
pub struct PlannedProfile<'p> {
    name: &'p str,
    profile: &'p Profile,
    /// The class that it names, if that is known.
    class: Option<Arc<PriorityClass>>,
    target: ProfileTarget,
    switches: &'p Switches,
}

impl<'p> PlannedProfile<'p> {
    /// That profile, for such an object.
    pub(super) const fn new(
        name: &'p str,
        profile: &'p Profile,
        class: Option<Arc<PriorityClass>>,
        target: ProfileTarget,
        switches: &'p Switches,
    ) -> Self {
        Self {
            name,
            profile,
            class,
            target,
            switches,
        }
    }

    /// Applies the profile. After an error the object is half changed, and must be dropped.
    ///
    /// # Errors
    /// Why it cannot be applied.
    pub fn apply(&self, object: &mut Value) -> Result<(), String> {
        let class = self.class.as_deref();
        let applied = self.profile.apply(object, self.target, class, self.switches);
        applied.map_err(|error| with_causes(&error))
    }

    /// The places in the object that applying it may write, each as names from the outside in, in order: a place stands behind
    /// those around it. It reads nothing else.
    pub fn places(&self) -> &'p [Vec<String>] {
        self.profile.places(self.target)
    }

    /// Notes what the profile wrote. Only the places are compared that it may write, each once.
    pub fn note(&self, explanation: &mut Explanation, before: &Value, after: &Value) {
        explanation.begin(Writer::Profile(self.name.into()));
        let mut noted: Option<&Vec<String>> = None;
        for place in self.places() {
            if noted.is_some_and(|around| place.starts_with(around)) {
                continue;
            }
            let part = |value| {
                place
                    .iter()
                    .try_fold(value, |value: &Value, name| value.get(name.as_str()))
            };
            explanation.note_change(
                place,
                part(before).unwrap_or(&Value::Null),
                part(after).unwrap_or(&Value::Null),
            );
            noted = Some(place);
        }
    }
}
