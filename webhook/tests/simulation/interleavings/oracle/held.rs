//! What pods may hold beside the oracle's truths and ratios: the amount that the kubelet has set aside, up to the next cent of
//! a truth, and of the stored value as much as bound pods fit into. Their requests are no reason for more.

use std::collections::BTreeSet;

use headroom_domain::resource::Resource;

use super::{Oracle, share, times};

/// What pods hold of one resource when a write comes.
#[derive(Debug, Clone, Copy)]
pub(in crate::interleavings) struct PodAmounts {
    /// What is set aside.
    pub(in crate::interleavings) admitted: u64,
    /// That, and what fits beside it into what is stored.
    pub(in crate::interleavings) fit: u64,
    /// What was stored before the write.
    pub(in crate::interleavings) stored: u64,
    /// True while whoever decides has not heard of them, or asks for a hint of this Node and has none of the agent: then what
    /// is stored stays.
    pub(in crate::interleavings) may_stay: bool,
}

impl Oracle {
    /// True if pods may hold that value; remembers that they do.
    pub(in crate::interleavings) fn allows_for_pods(
        &mut self,
        resource: Resource,
        value: u64,
        pods: PodAmounts,
    ) -> bool {
        let PodAmounts {
            admitted,
            fit,
            stored,
            may_stay,
        } = pods;
        if may_stay {
            // Whoever knows no policy takes what was written unheard for a share of the raw value that the marker records.
            let is_share = |truth: u64| {
                let most = self.most(resource, truth).min(stored.max(truth));
                let recorded = *self.recorded.get(resource);
                value <= most && recorded.is_some_and(|marker| share(truth, stored, marker.raw) == value)
            };
            let is_kept = |truth: &u64| value == stored || is_share(*truth);
            let kept: Vec<(u64, u64)> = self
                .bases(resource)
                .filter(is_kept)
                .map(|truth| (value, truth))
                .collect();
            if !kept.is_empty() {
                self.kept.get_mut(resource).extend(kept);
                return true;
            }
        }
        let maxima = self
            .policies
            .iter()
            .map(|policy| policy.bounds.get(resource).max.0);
        let caps: BTreeSet<u32> = maxima.chain(self.ratios(resource)).chain([1_000]).collect();
        let was_held = self.held.get(resource);
        // What a forged marker says was written counts for what pods hold, of whatever it says was raw.
        let forged = self.recorded.get(resource).filter(|_| self.was_forged(resource));
        let is_held_of = |truth: u64| {
            let (needed, fit) = (covering(admitted, truth), covering(fit, truth).min(stored));
            let is_cap = || {
                let is_share = |&(held, of): &(u64, u64)| {
                    share(truth, held, of) == value || share(truth, covering(held, of), of) == value
                };
                caps.iter().any(|&cents| times(truth, cents) == value)
                    || was_held.iter().any(is_share)
                    || forged.is_some_and(|marker| share(truth, marker.written, marker.raw) == value)
            };
            value == needed || value == fit || (value <= needed.max(fit) && is_cap())
        };
        let bases: Vec<u64> = self.bases(resource).collect();
        let Some(truth) = bases.into_iter().find(|truth| is_held_of(*truth)) else {
            return false;
        };
        self.held.get_mut(resource).insert((value, truth));
        true
    }

    /// Pods hold that value under a forged marker: on another machine it may be the same share, as far as they have it.
    pub(in crate::interleavings) fn left_to_pods(
        &mut self,
        resource: Resource,
        value: u64,
        pods: PodAmounts,
    ) {
        let are_held = |truth: &u64| {
            let fit = covering(pods.fit, *truth).min(pods.stored);
            value > *truth && value <= covering(pods.admitted, *truth).max(fit)
        };
        let shares: Vec<(u64, u64)> = self
            .bases(resource)
            .filter(are_held)
            .map(|truth| (value, truth))
            .collect();
        self.held.get_mut(resource).extend(shares);
    }
}

/// An amount, up to the next cent of a truth.
pub(in crate::interleavings) fn covering(amount: u64, truth: u64) -> u64 {
    let cents = (u128::from(amount) * 100).div_ceil(u128::from(truth));
    let value = u128::from(truth) * cents / 100;
    u64::try_from(value).expect("amounts are small here").max(amount)
}
