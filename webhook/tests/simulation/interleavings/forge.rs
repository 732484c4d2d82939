//! Steps that forge the webhook's annotations on the model Node while no check refuses them.

use headroom_domain::{
    hint::{NodeHint, Note, ResourceHint},
    names,
    ratio::Cents,
    resource::{PerResource, Resource},
};
use serde_json::{Value, json};

use super::{
    Forgery,
    node::{allocatable, amount_in, marker_of, own_cents, put, raw_of_annotation, text, uid_of},
    oracle::times,
    world::{ModelWorld, Says, StepResult, hint},
};

/// Ratio of a forged hint, in cents, and its lead in sequence numbers.
const PROMISED: u32 = 500;
const AHEAD: u64 = 1_000;

impl ModelWorld {
    /// A user with the right to patch nodes writes the webhook's annotations.
    pub(super) fn forge(&mut self, what: Forgery) -> StepResult {
        let is_told = self.oracle.truths(Resource::Cpu).iter().eq([&self.raw.cpu]);
        if !is_told && what != Forgery::Raw && what != Forgery::Hint {
            // The kubelet has news, and its next words may be those that only the marker tells from ours.
            return Ok(());
        }
        let mut node = self.stored().clone();
        let annotations = &mut node["metadata"]["annotations"];
        match what {
            Forgery::Raw => {
                let forged = json!({"cpu": "1000", "memory": "9Ti"}).to_string();
                annotations[names::RAW_ALLOCATABLE] = forged.into();
            }
            Forgery::Hint => annotations[names::HINT] = self.promise().into(),
            Forgery::Nothing => put(annotations, names::MARKER, None),
            Forgery::Written | Forgery::Origin | Forgery::Quarter | Forgery::Both => {
                if let Some(marker) = self.forged_marker(what) {
                    annotations[names::MARKER] = marker.to_string().into();
                }
            }
        }
        if marker_of(&node).is_none() {
            self.believe_without_marker(&node);
        }
        self.store(node)
    }

    /// A hint of far more than there is.
    fn promise(&self) -> String {
        let promise = |_| ResourceHint {
            published: Cents(PROMISED),
            ..ResourceHint::default()
        };
        let forged = NodeHint {
            resources: PerResource::from_fn(promise),
            ..hint(uid_of(self.stored()), self.seq + AHEAD, Says::the_truth(0, 0))
        };
        Note::from_hint(&forged).to_string()
    }

    /// The stored marker with other values, or other raw values, or both.
    fn forged_marker(&mut self, what: Forgery) -> Option<Value> {
        let mut marker = marker_of(self.stored())?;
        for resource in Resource::ALL {
            let name = resource.name();
            let (raw, all) = (*self.raw.get(resource), *self.capacity.get(resource));
            let Some(from) = marker["from"].get_mut(name) else {
                continue;
            };
            if what != Forgery::Written {
                // A little more, of which no ratio makes the raw value of another machine.
                let forged = if what == Forgery::Quarter {
                    raw / 4 + 2
                } else {
                    all
                };
                from["raw"] = text(resource, forged).into();
                self.oracle.forged(resource, forged);
            }
            if matches!(what, Forgery::Written | Forgery::Both) {
                let stored = allocatable(self.stored(), resource);
                self.oracle.forged(resource, stored);
                let written = if what == Forgery::Both { raw } else { all * 2 };
                put(&mut marker, name, Some(text(resource, written).into()));
            }
        }
        Some(marker)
    }

    /// Without a marker, raw is what the raw annotation says, and where that cannot be, what is stored. If the stored value is not
    /// that times the Node's ratio, a kubelet whose copy is old and leaves it alone seems to have sent it.
    pub(super) fn believe_without_marker(&mut self, node: &Value) {
        for resource in Resource::ALL {
            let fits = |raw: &u64| *raw <= amount_in(node, "capacity", resource);
            let annotated = raw_of_annotation(node, resource);
            let (raw, stored) = (annotated.filter(fits), allocatable(node, resource));
            let ratio = own_cents(node, resource).unwrap_or(100);
            let is_unknown = raw.is_none_or(|raw| times(raw, ratio) != stored);
            if is_unknown && !self.oracle.truths(resource).contains(&stored) {
                self.oracle.forged(resource, stored);
            }
            // On a larger machine it may be what that one has.
            if let Some(raw) = annotated {
                self.oracle.forged(resource, raw);
            }
        }
    }
}
