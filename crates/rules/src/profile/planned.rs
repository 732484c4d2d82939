//! [`PlannedProfile`]: a matching profile with everything that applying it needs.

use serde_json::Value;

use super::{ClassLookup, Profile, ProfileTarget, error::with_causes};
use crate::{
    explain::{Explanation, Writer},
    pod_object::{EditFault, ObjectEdit},
    switch::Switches,
};

/// Profile that will be applied.
pub(super) struct PlannedProfile<'p> {
    name: &'p str,
    profile: &'p Profile,
    class: ClassLookup<'p>,
    target: ProfileTarget,
    switches: &'p Switches,
}

impl<'p> PlannedProfile<'p> {
    pub(super) const fn new(
        name: &'p str,
        profile: &'p Profile,
        class: ClassLookup<'p>,
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
}

impl ObjectEdit for PlannedProfile<'_> {
    fn apply(&self, object: &mut Value) -> Result<(), EditFault> {
        let applied = self.profile.apply(object, self.target, self.class, self.switches);
        applied.map_err(|error| EditFault {
            field: error.field(),
            reason: with_causes(&error),
            kind: error.kind(),
        })
    }

    fn places(&self) -> &[Vec<String>] {
        self.profile.places(self.target)
    }

    /// Compares only the paths that the profile may write, each once.
    fn note(&self, explanation: &mut Explanation, before: &Value, after: &Value) {
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
