//! Oracle of the interleavings: the values of allocatable that may be stored, independent of the rules that decide
//! them.
//!
//! The truth about raw is the last value given for it: by the kubelet, in a write that contains the value, or by any
//! other writer who changed the value, because that is the new baseline. A value above the node's capacity is no truth,
//! but it may be stored while no webhook answers. Where a given value could as well be made from an earlier truth, as
//! when a user puts an amplified value back, both stay possible. At every revision allocatable is a truth, or a truth
//! times a ratio that was asked for at some time for this Node, cut off once. A hint may be followed in steps, so all
//! whole cents on the way to it count. Ratios of annotations are prime numbers of cents and no two machines are alike,
//! so a value that was amplified twice, or from the wrong raw value, differs from all of these, except for one CPU value
//! in a hundred that is equal by chance; memory is counted in bytes and is never equal.
//!
//! A replica that has observed no policies, no pods or no agent keeps the stored value. On another machine that is worth the
//! same share, within what was ever asked for.
//!
//! `held` contains the amounts that pods hold in addition.
//!
//! Where the marker was forged, its raw value counts, or the stored value if that is not the one that the marker
//! records as written, because nothing else records the kubelet's last value. Neither exceeds the node's capacity,
//! and the kubelet's next write ends it. No other forgery counts. For the rest of such a life a value of at most the
//! earlier one, or raw, is not checked.

mod held;

use std::{collections::BTreeSet, iter};

use headroom_domain::{
    policy::{Bounds, Policy},
    ratio::Cents,
    resource::{PerResource, Resource},
};

pub(super) use self::held::{PodAmounts, covering};

/// Reported raw values and requested ratios.
#[derive(Debug, Default)]
pub(super) struct Oracle {
    truths: PerResource<BTreeSet<u64>>,
    /// All that ever were, in this life of the Node.
    past: PerResource<BTreeSet<u64>>,
    /// Values that were written and are no truth.
    shown: PerResource<BTreeSet<u64>>,
    /// Ratios of annotations in this life of the Node, in cents.
    annotated: BTreeSet<u32>,
    /// Ratios of hints in this life of the Node, in cents.
    hinted: BTreeSet<u32>,
    /// Policies that were in force at any time.
    policies: Vec<Policy>,
    /// CPUs that pods hold for themselves in this life of the Node, in milli-cores.
    apart: BTreeSet<u64>,
    /// CPU values that were stored while pods held some for themselves, with the truth of that time: no ratio makes them, and
    /// on another machine the same share of it may be kept.
    shares: BTreeSet<(u64, u64)>,
    /// All of them, in this life of the Node.
    ever_shown: PerResource<BTreeSet<u64>>,
    /// Content of the marker that the last write found.
    recorded: PerResource<Option<Recorded>>,
    /// Raw values that a forged marker may suggest, and those of them in the stored Node.
    forged: PerResource<BTreeSet<u64>>,
    believed: PerResource<Vec<u64>>,
    /// Values that pods held, with the truth of that time: on another machine they are worth the same share.
    held: PerResource<BTreeSet<(u64, u64)>>,
    /// Values that stayed because the deciding replica knew no better, each with the true value of that time: they
    /// count as the same share of another value, up to the largest requested one.
    kept: PerResource<BTreeSet<(u64, u64)>>,
}

/// Content of a marker for one resource.
#[derive(Debug, Clone, Copy)]
pub(super) struct Recorded {
    pub(super) raw: u64,
    /// Value computed from it.
    pub(super) written: u64,
}

impl Oracle {
    /// Records `value` as a reported raw value.
    pub(super) fn record_raw(&mut self, resource: Resource, value: u64) {
        let makes = self.maker(resource);
        let is_made = |truth: &u64| *truth != value && makes(value, *truth);
        let made_of: BTreeSet<u64> = self.past.get(resource).iter().copied().filter(is_made).collect();
        let truths = self.truths.get_mut(resource);
        if made_of.is_empty() {
            truths.clear();
            self.shown.get_mut(resource).clear();
        }
        truths.extend(made_of);
        truths.insert(value);
        self.past.get_mut(resource).insert(value);
    }

    /// Records a written value that cannot be raw. It hides the value before it, so until raw is reported again any
    /// earlier true value may replace it.
    pub(super) fn shown(&mut self, resource: Resource, value: u64) {
        self.shown.get_mut(resource).insert(value);
        self.ever_shown.get_mut(resource).insert(value);
        let past = self.past.get(resource).clone();
        self.truths.get_mut(resource).extend(past);
    }

    /// A stored value counts as reported if it could not be raw and the node has that much now, or if a kubelet
    /// denied it without a replica observing the denial.
    pub(super) fn counts_as_told(&mut self, resource: Resource, value: u64) {
        self.truths.get_mut(resource).insert(value);
        self.past.get_mut(resource).insert(value);
    }

    /// True if a client wrote that value at any time, and it could not be raw.
    pub(super) fn was_shown(&self, resource: Resource, value: u64) -> bool {
        self.ever_shown.get(resource).contains(&value)
    }

    /// A write comes to a Node whose marker says that.
    pub(super) fn recorded(&mut self, marker: PerResource<Option<Recorded>>) {
        self.recorded = marker;
    }

    /// A ratio annotation is there.
    pub(super) fn annotated(&mut self, cents: u32) {
        self.annotated.insert(cents);
    }

    pub(super) fn hinted(&mut self, cents: u32) {
        self.hinted.insert(cents);
    }

    /// Records this number of exclusive milli-cores.
    pub(super) fn apart(&mut self, milli: u64) {
        self.apart.insert(milli);
    }

    /// Records a forged marker from which this value can be taken for raw.
    pub(super) fn forged(&mut self, resource: Resource, raw: u64) {
        self.forged.get_mut(resource).insert(raw);
    }

    /// A write comes to a Node that says this of raw: its marker, and what is stored if that is not the marker's.
    pub(super) fn believe(&mut self, said: &PerResource<[Option<u64>; 2]>) {
        self.believed = said.map(|resource, said| {
            let forged = self.forged.get(resource);
            said.iter()
                .flatten()
                .filter(|said| forged.contains(said))
                .copied()
                .collect()
        });
    }

    /// True if the marker was forged in this life of the Node.
    pub(super) fn was_forged(&self, resource: Resource) -> bool {
        !self.forged.get(resource).is_empty()
    }

    /// True if the last write used a forged raw value.
    pub(super) fn believes(&self, resource: Resource) -> bool {
        !self.believed.get(resource).is_empty()
    }

    /// Largest forged raw value that the last write used; 0 if there is none.
    pub(super) fn believed(&self, resource: Resource) -> u64 {
        self.believed
            .get(resource)
            .iter()
            .copied()
            .max()
            .unwrap_or_default()
    }

    /// A policy is in force.
    pub(super) fn allowed(&mut self, policy: Policy) {
        if !self.policies.contains(&policy) {
            self.policies.push(policy);
        }
    }

    /// The Node is another one: nothing of the old one counts.
    pub(super) fn forget(&mut self) {
        self.annotated.clear();
        self.hinted.clear();
        self.apart.clear();
        self.shares.clear();
        self.forged = PerResource::default();
        self.believed = PerResource::default();
        self.truths = PerResource::default();
        self.past = PerResource::default();
        self.shown = PerResource::default();
        self.ever_shown = PerResource::default();
        self.recorded = PerResource::default();
        self.held = PerResource::default();
        self.kept = PerResource::default();
    }

    /// True if that may be stored where `before` was.
    pub(super) fn allows(&mut self, resource: Resource, value: u64, before: u64) -> bool {
        let bases: Vec<u64> = self.bases(resource).collect();
        let is_share = |&base: &u64| {
            let is_of = |&(was, of): &(u64, u64)| share(base, was, of) == value;
            resource == Resource::Cpu && self.shares.iter().any(is_of)
        };
        let makes = self.maker(resource);
        let is_made = |&base: &u64| makes(value, base) || is_share(&base);
        if let Some(base) = bases.into_iter().find(is_made) {
            if resource == Resource::Cpu && !self.apart.is_empty() {
                self.shares.insert((value, base));
            }
            return true;
        }
        let base = self
            .bases(resource)
            .find(|base| value <= before.max(*base) && self.is_kept(resource, value, *base));
        if let Some(base) = base {
            self.kept.get_mut(resource).insert((value, base));
            return true;
        }
        self.shown.get(resource).contains(&value)
    }

    /// True if the value is the same share of `base` that stayed earlier, up to the largest requested one.
    fn is_kept(&self, resource: Resource, value: u64, base: u64) -> bool {
        let is_share = |&(was, of): &(u64, u64)| possible_shares(base, was, of).contains(&value);
        value <= self.most(resource, base) && self.kept.get(resource).iter().any(is_share)
    }

    /// The most that was ever asked for.
    fn most(&self, resource: Resource, base: u64) -> u64 {
        let ratios = self.ratios(resource);
        ratios.last().map_or(base, |&cents| times(base, cents))
    }

    /// True if a ratio that was asked for makes `value` of `base`.
    pub(super) fn makes(&self, resource: Resource, value: u64, base: u64) -> bool {
        self.maker(resource)(value, base)
    }

    /// Tells whether a ratio that was asked for makes a value of a base.
    fn maker(&self, resource: Resource) -> impl Fn(u64, u64) -> bool + use<> {
        let (ratios, apart) = (self.ratios(resource), self.apart_of(resource));
        move |value, base| {
            let is_made = |&cents: &u32| apart.iter().any(|&apart| beside(apart, base, cents) == value);
            ratios.iter().any(is_made)
        }
    }

    /// Possible bases of a value.
    fn bases(&self, resource: Resource) -> impl Iterator<Item = u64> {
        self.truths
            .get(resource)
            .iter()
            .chain(self.believed.get(resource))
            .copied()
    }

    /// Possible amounts of exclusive CPUs.
    fn apart_of(&self, resource: Resource) -> BTreeSet<u64> {
        let none = iter::once(0);
        match resource {
            Resource::Cpu => none.chain(self.apart.iter().copied()).collect(),
            Resource::Memory => none.collect(),
        }
    }

    /// Reported raw values, for messages.
    pub(super) fn truths(&self, resource: Resource) -> &BTreeSet<u64> {
        self.truths.get(resource)
    }

    /// All ratios that were in force for a resource, in cents.
    fn ratios(&self, resource: Resource) -> BTreeSet<u32> {
        let mut ratios = BTreeSet::from([Cents::ONE.0]);
        for policy in &self.policies {
            let max = policy.static_max.get(resource).0;
            ratios.extend(self.annotated.iter().map(|&cents| cents.clamp(Cents::ONE.0, max)));
            let bounds: Bounds = *policy.bounds.get(resource);
            // A hint moves on from whatever was applied last, and without one that stays for a while. Where that is less than
            // raw, it is within the bounds at once.
            let was_lowered = self.kept.get(resource).iter().any(|(kept, of)| kept < of);
            let least = bounds.clamp(if was_lowered { Cents(0) } else { Cents::ONE }).0;
            for &cents in self.hinted.iter().chain(&self.annotated) {
                let cents = bounds.clamp(Cents(cents)).0;
                ratios.extend(cents.min(least).min(Cents::ONE.0)..=cents.max(Cents::ONE.0));
            }
        }
        ratios
    }
}

/// Exclusive part plus the rest of a raw value times a ratio, rounded down.
pub(super) fn beside(apart: u64, raw: u64, cents: u32) -> u64 {
    let apart = apart.min(raw);
    apart + times(raw - apart, cents)
}

/// Share of a value that corresponds to `part` of `whole`, rounded down.
fn share(value: u64, part: u64, whole: u64) -> u64 {
    u64::try_from(u128::from(value) * u128::from(part) / u128::from(whole)).expect("amounts are small here")
}

/// That share, and where it is whole cents the one in cents: they stay whole.
fn possible_shares(value: u64, part: u64, whole: u64) -> [u64; 2] {
    let share = share(value, part, whole);
    let cents = u32::try_from((part * 100).div_ceil(whole)).expect("ratios are small here");
    let is_whole = times(whole, cents) == part;
    [share, if is_whole { times(value, cents) } else { share }]
}

/// A raw value times a ratio, cut off.
pub(super) fn times(raw: u64, cents: u32) -> u64 {
    u64::try_from(u128::from(raw) * u128::from(cents) / 100).expect("amounts are small here")
}
