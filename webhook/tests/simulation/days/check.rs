//! Checks of the simulated days: invariants of the published allocatable, independent of the rules that decide it.
//!
//! At every moment:
//! - a pod is bound only where it fits into the published allocatable, and the published allocatable covers all amounts
//!   set aside for pods as soon as the deciding replica has received them;
//! - nothing outside the bounds is published, except for amounts set aside: a deferred resize raises nothing.
//!
//! When both replicas have received everything and the agent reports:
//! - no more is published than the agent reports;
//! - published room that is free was measured: T - P - (R - Rw), with the agent's last numbers and without trust in
//!   pods that are leaving (docs/estimator.md#what-holds);
//! - nothing is left to do.

use headroom_domain::{hint::NodeHint, resource::Resource};

use super::world::{CheckResult, SimulatedWorld};

const THETA: u64 = 900_000;

impl SimulatedWorld {
    /// Checks that the published value covers the admitted requests and is otherwise within bounds.
    pub(super) fn check_written(&self, resource: Resource, admitted: u64, before: u64) -> CheckResult {
        let published = self.stored.allocatable(resource);
        let raw = *self.raw.get(resource);
        let bounds = self.run.bounds.get(resource);
        let least = raw * u64::from(bounds.min.0) / 100;
        let most = (raw * u64::from(bounds.max.0) / 100).max(covering(admitted, raw));
        if published < admitted {
            return Err(format!(
                "{resource}: {published} published from {before}, {admitted} are set aside"
            ));
        }
        if !(least..=most).contains(&published) {
            return Err(format!(
                "{resource}: {published} published, outside {least}..{most}"
            ));
        }
        Ok(())
    }

    /// Checks, once all replicas have caught up and the agent reports, that only measured capacity is published.
    pub(super) fn check_all(&self) -> CheckResult {
        let Some((hint, at)) = &self.reported else {
            return Ok(());
        };
        let is_fresh = self.now - at <= 60;
        let all_hear = self
            .replicas
            .iter()
            .zip(self.informed)
            .all(|(replica, is_informed)| !replica.is_deaf() && is_informed);
        if !is_fresh || !all_hear {
            return Ok(());
        }
        let (bound, admitted) = (self.bound(), self.admitted());
        for resource in Resource::ALL {
            let (bound, admitted) = (*bound.get(resource), *admitted.get(resource));
            let raw = *self.raw.get(resource);
            let published = self.stored.allocatable(resource);
            let part = hint.resources.get(resource);
            let most = (raw * u64::from(part.published.0) / 100).max(covering(admitted, raw));
            if published < admitted || published > most {
                return Err(format!(
                    "{resource}: {published} published, outside {admitted}..{most} by {part:?}"
                ));
            }
            let free = i128::from(published) - i128::from(bound);
            let room = self.room(resource, hint);
            if published > raw.max(covering(admitted, raw)) && free > room {
                return Err(format!("{resource}: {free} free, {room} measured; {part:?}"));
            }
        }
        Ok(())
    }

    /// T - P - (R - Rw) by the agent's numbers, without trust in pods that are leaving or gone. Trust comes in ppm, rounded
    /// down: up to one more.
    fn room(&self, resource: Resource, hint: &NodeHint) -> i128 {
        let part = hint.resources.get(resource);
        let raw = *self.raw.get(resource);
        let safe = match resource {
            Resource::Cpu => (self.capacity.cpu * THETA / 1_000_000).min(raw),
            Resource::Memory => raw * (THETA / 1_000) / 1_000,
        };
        let warm: u64 = hint
            .trust
            .iter()
            .filter_map(|trust| {
                let pod = self.pods.get(&trust.uid).filter(|pod| pod.gone_at.is_none())?;
                let ppm = match resource {
                    Resource::Cpu => trust.cpu_ppm,
                    Resource::Memory => trust.memory_ppm,
                };
                let request = pod.counted(resource);
                let trusted = u128::from(request) * (u128::from(ppm) + 1) / 1_000_000 + 1;
                Some(u64::try_from(trusted).expect("small").min(request))
            })
            .sum();
        let warm = warm.min(part.warm_requests);
        i128::from(safe) - i128::from(part.predicted_peak) + i128::from(warm)
            - i128::from(*self.bound().get(resource))
    }
}

/// The least whole cents of `raw` that cover an amount.
fn covering(amount: u64, raw: u64) -> u64 {
    (raw * (amount * 100).div_ceil(raw) / 100).max(amount)
}
