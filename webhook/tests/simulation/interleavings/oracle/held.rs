//! Amounts that pods may hold in addition to the oracle's raw values and ratios: the kubelet's reservation, rounded
//! up to the next cent of a raw value, and the part of the stored value into which bound pods fit. Their requests
//! justify nothing more.

use std::collections::BTreeSet;

use headroom_domain::resource::Resource;

use super::{Oracle, Recorded, possible_shares, share, times};

/// Amounts that pods hold of one resource at the time of a write.
#[derive(Debug, Clone, Copy)]
pub(in crate::interleavings) struct PodAmounts {
    /// Sum of the kubelet's reservations.
    pub(in crate::interleavings) admitted: u64,
    /// That, and what fits beside it into what is stored.
    pub(in crate::interleavings) fit: u64,
    /// Stored value before the write.
    pub(in crate::interleavings) stored: u64,
    /// True while the deciding replica has not observed them, or needs a hint of this Node and has none from the
    /// agent: the stored value stays then.
    pub(in crate::interleavings) may_stay: bool,
    /// True if the deciding replica has observed no policy, and so no pods.
    pub(in crate::interleavings) is_policy_unknown: bool,
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
            is_policy_unknown,
        } = pods;
        let is_left = is_policy_unknown && self.is_left_of_pods(resource, value, stored);
        if (may_stay && self.stays(resource, value, stored)) || is_left {
            return true;
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

    /// True if the value is the stored one, or computed from it by a replica without a policy; records that it was
    /// kept.
    fn stays(&mut self, resource: Resource, value: u64, stored: u64) -> bool {
        // What was written unheard is taken for a share of the raw value that the marker records.
        let is_share = |truth: u64| {
            let most = self.most(resource, truth).min(stored.max(truth));
            let recorded = *self.recorded.get(resource);
            value <= most && recorded.is_some_and(|marker| share(truth, stored, marker.raw) == value)
        };
        let is_kept = |truth: &u64| value == stored || is_share(*truth);
        let kept = self.pairs(resource, value, is_kept);
        let stays = !kept.is_empty();
        self.kept.get_mut(resource).extend(kept);
        stays
    }

    /// True if the marker records the amount that pods held of its raw value, and `value` is the same share of
    /// today's raw value, or of the stored value if a client has lowered it since. It is at most the stored value or
    /// raw. Pods may hold less by now, and the ratio may never have been requested: a replica that knows neither
    /// policies nor pods leaves running pods their capacity until it does. Records that they hold it.
    fn is_left_of_pods(&mut self, resource: Resource, value: u64, stored: u64) -> bool {
        let was_held = |marker: &Recorded| self.held.get(resource).contains(&(marker.written, marker.raw));
        let Some(marker) = self.recorded.get(resource).filter(was_held) else {
            return false;
        };
        let is_share = |truth: &u64| {
            let shares = possible_shares(*truth, marker.written.min(stored), marker.raw);
            shares.map(|share| share.min(stored.max(*truth))).contains(&value)
        };
        let left = self.pairs(resource, value, is_share);
        let is_left = !left.is_empty();
        self.held.get_mut(resource).extend(left);
        is_left
    }

    /// The value beside each raw value that it may be made of.
    fn pairs(&self, resource: Resource, value: u64, is_made_of: impl Fn(&u64) -> bool) -> Vec<(u64, u64)> {
        let raw = self.bases(resource).filter(is_made_of);
        raw.map(|truth| (value, truth)).collect()
    }

    /// Records that pods hold this value under a forged marker; on another machine they may hold the same share.
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
