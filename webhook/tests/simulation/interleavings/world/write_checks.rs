//! Checks after every write of the model Node: its allocatable is allowed by the oracle and covers admitted pods.

use headroom_domain::{
    hint::Note,
    names,
    policy::{Floor, Mode},
    resource::{PerResource, Resource},
};
use serde_json::Value;

use super::{ModelWorld, NAME, StepResult, quiet::highest};
use crate::interleavings::{
    node::{allocatable, own_cents, raw_of_marker, uid_of, written_by_marker},
    oracle,
};

impl ModelWorld {
    pub(super) fn truths(&self) -> PerResource<Vec<u64>> {
        PerResource::from_fn(|resource| self.oracle.truths(resource).iter().copied().collect())
    }

    /// After any decision, a replica that knows an admitted pod leaves it covered.
    pub(super) fn check_covered(&self, old: &Value) -> StepResult {
        let replica = &self.replicas[self.route];
        let Some(policy) = replica.policy().filter(|_| replica.is_up && replica.knows_pods()) else {
            return Ok(());
        };
        // A node that nothing of ours is on is not ours to hold.
        let marker = old["metadata"]["annotations"][names::MARKER].as_str();
        let is_ours = marker.is_some_and(|marker| marker.contains(&format!("\"uid\":\"{}\"", uid_of(old))));
        if policy.floor == Floor::None || !is_ours {
            return Ok(());
        }
        let policy = self.in_force(policy);
        let admitted = self.pods.admitted();
        for resource in Resource::ALL {
            if raw_of_marker(self.stored(), resource).is_none() {
                // Its raw value is unknown, so a user's value is left unchanged.
                continue;
            }
            let (was, is) = (allocatable(old, resource), allocatable(self.stored(), resource));
            let admitted = *admitted.get(resource);
            // What was let in under a forged raw value may be more than the node's maximum; and so may what was let in while it
            // offered more than it has, down to that maximum.
            let highest = highest(&policy, resource, own_cents(self.stored(), resource));
            let raw = self.oracle.truths(resource).first().copied().unwrap_or_default();
            // Or while a forged marker vouched for it, and the one that is there now does not.
            let is_unvouched =
                self.oracle.was_forged(resource) && written_by_marker(old, resource) < Some(admitted);
            let is_most =
                (self.oracle.was_shown(resource, was) || is_unvouched) && is >= oracle::times(raw, highest);
            if was >= admitted && is < admitted && !is_most && !self.oracle.believes(resource) {
                return Err(format!(
                    "{resource} went from {was} to {is} with {admitted} set aside; stored is {:#}",
                    self.stored()
                ));
            }
        }
        Ok(())
    }

    /// Fails if what is stored may not be.
    pub(super) fn check(&mut self, before: &PerResource<u64>) -> StepResult {
        let (admitted, fit) = (self.pods.admitted(), self.pods.fit(before));
        let replica = &self.replicas[self.route];
        let are_known = !replica.is_up || replica.knows_pods();
        let hint = self.stored()["metadata"]["annotations"][names::HINT].as_str();
        let is_unheard =
            !hint.is_some_and(|hint| hint.contains(&format!("\"uid\":\"{}\"", uid_of(self.stored()))));
        // A hint that is ahead of the replica's own, by another replica or forged, counts as the Node's.
        let seq = hint
            .and_then(|hint| hint.parse::<Note>().ok())
            .map_or(0, |note| note.seq);
        let hears_agent = !replica.is_up || replica.hears_agent(NAME, uid_of(self.stored()), seq);
        let policy = replica.policy().map(|policy| self.in_force(policy));
        let asks_agent =
            !replica.is_up || policy.is_none_or(|policy| matches!(policy.mode, Mode::Guard | Mode::Auto));
        let may_stay = !are_known || (asks_agent && (is_unheard || !hears_agent));
        let is_policy_unknown = replica.is_up && policy.is_none();
        let is_news = self.truths() != self.told_before;
        let is_alone = self.has_floor && !replica.is_up;
        for resource in Resource::ALL {
            let value = allocatable(self.stored(), resource);
            let before = *before.get(resource);
            // A forged marker can keep the stored value, or lower it, and its ratio outlives it while no replica
            // knows the policy. The check is that it raises nothing beyond raw, true or forged, and that the end
            // state is correct.
            let truth = self.oracle.truths(resource).last().copied().unwrap_or_default();
            let raw = truth.max(self.oracle.believed(resource));
            let is_low = self.oracle.was_forged(resource) && value <= before.max(raw);
            let pods = oracle::PodAmounts {
                admitted: *admitted.get(resource),
                fit: *fit.get(resource),
                stored: before,
                may_stay,
                is_policy_unknown,
            };
            if is_low {
                self.oracle.left_to_pods(resource, value, pods);
                continue;
            }
            // While no webhook answers, the floor policy keeps a user's value above capacity, up to the marker's
            // value.
            let is_floored = || {
                let written = written_by_marker(self.stored(), resource);
                is_alone && self.oracle.was_shown(resource, value) && written >= Some(value)
            };
            if value == before && (!is_news || is_floored()) {
                continue;
            }
            if !self.oracle.allows(resource, value, before)
                && !self.oracle.allows_for_pods(resource, value, pods)
            {
                return Err(format!(
                    "{resource} is {value}, neither raw {:?} nor that times a ratio, nor what pods hold ({pods:?}); stored is {:#}",
                    self.oracle.truths(resource),
                    self.stored()
                ));
            }
        }
        Ok(())
    }
}
