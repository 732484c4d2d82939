//! End of a run of the interleavings: with no more changes, all must follow the rules within one sync of the kubelet.

use headroom_domain::{
    names,
    policy::{Floor, Mode, Policy},
    ratio::Cents,
    resource::Resource,
};
use serde_json::Value;

use super::{
    FORGOTTEN, HINTED, LIE, LIES, ModelWorld, NAME, REPORT, ROUND, ROUNDS, STILL, StepResult,
    agent_reports::{Says, hint_of},
    pick, policy_of,
};
use crate::interleavings::{
    Quiet,
    model_pods::PodChange,
    node::{allocatable, marker_of, own_cents, raw_of_marker, written_by_marker},
    oracle::{beside, covering, times},
};

impl ModelWorld {
    /// Nothing changes any more: both replicas are there and follow the same policy, and get the same reports again and
    /// again. Within one sync of the kubelet all must be as the rules say, and stay so whichever replica is asked.
    pub(in crate::interleavings) fn be_quiet(&mut self, quiet: Quiet) -> StepResult {
        let handle = self.runtime.handle().clone();
        let _entered = handle.enter();
        let policy = self.policies[0];
        for replica in 0..2 {
            self.replicas[replica].is_up = true;
            if self.replicas[replica].policy().is_none() {
                self.start(replica);
            }
        }
        self.configure(policy, None);
        while self.pods.are_waiting() {
            self.change(PodChange::Admit);
        }
        match quiet.streams {
            0 => self.wait(FORGOTTEN),
            1 => self.replicas[1].leave(NAME),
            _ => {}
        }
        if quiet.are_lies {
            for _ in 0..LIES {
                self.repeat(quiet);
                self.wait(LIE);
            }
        }
        self.settle(quiet)?;
        if self.is_forged() {
            // The kubelet's next value is taken for ours; the one after it is not.
            self.sync(0, false)?;
            self.settle(quiet)?;
        }
        let has_missed_news = self.has_missed_news();
        if has_missed_news {
            // The floor policy suppresses all but such a report, so no replica observes the kubelet before.
            self.wait(REPORT);
        }
        self.sync(0, has_missed_news)?;
        self.settle(quiet)?;
        self.expect(policy, quiet)?;
        self.have_said_all(quiet)?;
        self.stay()
    }

    /// Whichever replica is asked, nothing changes.
    fn stay(&mut self) -> StepResult {
        let (before, version) = (self.stored().clone(), self.version);
        for route in [0, 1, 0, 1] {
            self.route = route;
            self.sync(0, false)?;
            if let Some(replica) = (0..2).find(|&replica| self.is_due(replica)) {
                return Err(format!(
                    "replica {replica} still finds something to do: {:#}",
                    self.stored()
                ));
            }
        }
        // Heartbeats may be due once.
        let written = self.version - version;
        if written > 1 {
            return Err(format!(
                "{written} writes although nothing happened: {before:#} became {:#}",
                self.stored()
            ));
        }
        for resource in Resource::ALL {
            let (was, is) = (
                allocatable(&before, resource),
                allocatable(self.stored(), resource),
            );
            if was != is {
                return Err(format!(
                    "{resource} went from {was} to {is} although nothing happened"
                ));
            }
        }
        Ok(())
    }

    /// True if a kubelet reported another capacity while no replica answered. Its raw value can then equal the value
    /// computed from the one before, and only its next write, at the latest its report, distinguishes the two.
    pub(super) fn has_missed_news(&self) -> bool {
        marker_of(self.stored()).is_some_and(|marker| {
            marker["from"]["cpu"]["capacity"] != self.stored()["status"]["capacity"]["cpu"]
        })
    }

    /// True if the kubelet's value equals the stored and written one, and no replica observed its new capacity: the
    /// written value was computed from another raw value, and only the capacity in the marker distinguishes the two,
    /// in the kubelet's next sync. Other writes contain nothing about raw. A write that restores raw deletes the
    /// marker first, and the kubelet's value can then equal the next written one again.
    pub(super) fn is_raw_told_by_marker(&self) -> bool {
        let (found, node) = (self.raw.cpu, self.stored());
        self.has_missed_news()
            && allocatable(node, Resource::Cpu) == found
            && written_by_marker(node, Resource::Cpu) == Some(found)
            && raw_of_marker(node, Resource::Cpu) != Some(found)
    }

    /// True if the marker says another raw value than the kubelet does, or that another value was written than is stored.
    fn is_forged(&self) -> bool {
        let is_other = |resource| {
            raw_of_marker(self.stored(), resource).is_some_and(|raw| raw != *self.raw.get(resource))
                || (self.oracle.was_forged(resource)
                    && written_by_marker(self.stored(), resource)
                        .is_some_and(|written| written != allocatable(self.stored(), resource)))
        };
        Resource::ALL.into_iter().any(is_other)
    }

    /// True if the written value equals the kubelet's, by a forged raw value and the amount that pods hold of it, or
    /// because the kubelet reported its capacity without the raw value, or to no replica that could conclude from it:
    /// the values cannot be distinguished, and the node stays at raw meanwhile.
    fn is_kubelets_by_chance(&self, resource: Resource) -> bool {
        let raw = Some(*self.raw.get(resource));
        let is_unsaid = resource == Resource::Cpu && self.is_raw_unsaid;
        (is_unsaid || self.oracle.was_forged(resource))
            && written_by_marker(self.stored(), resource) == raw
            && raw_of_marker(self.stored(), resource) != raw
    }

    /// Syncs by way of both replicas until neither has more to say: in `guard` a hint may still rise beyond what is
    /// applied, a step at a time.
    fn have_said_all(&mut self, quiet: Quiet) -> StepResult {
        let mut still = 0;
        for round in 0..ROUNDS {
            self.route = round % 2;
            self.repeat(quiet);
            let version = self.version;
            self.sync(0, false)?;
            self.replicas
                .iter()
                .for_each(|replica| replica.observe(self.stored()));
            still = if self.version == version { still + 1 } else { 0 };
            if still == STILL {
                return Ok(());
            }
        }
        Err(format!("every sync is written: {:#}", self.stored()))
    }

    /// The agent reports the same again.
    fn repeat(&mut self, quiet: Quiet) {
        if quiet.streams > 0 {
            self.report(Says::when(quiet), (quiet.streams == 1).then_some(0), false);
        }
    }

    fn is_due(&self, replica: usize) -> bool {
        let replica = &self.replicas[replica];
        replica.observe(self.stored());
        replica.sweep(NAME).is_some()
    }

    /// Reports, nudges by the primary and sweeps until nothing is due.
    fn settle(&mut self, quiet: Quiet) -> StepResult {
        let mut still = 0;
        for round in 0..ROUNDS {
            self.wait(ROUND);
            self.repeat(quiet);
            // A write goes to either replica, and only one of them may know what there is to do.
            self.route = round % 2;
            self.replicas[0].observe(self.stored());
            let mut is_done = quiet.streams == 0 || !self.nudge(0)?;
            for replica in 0..2 {
                self.replicas[replica].observe(self.stored());
                is_done &= !self.sweep(replica)?;
            }
            still = if is_done { still + 1 } else { 0 };
            if still == STILL {
                return Ok(());
            }
        }
        Err(format!(
            "after {ROUNDS} rounds something is still due: {:#}",
            self.stored()
        ))
    }

    /// A replica's policy with the mode of the Node.
    pub(super) fn in_force(&self, configured: Policy) -> Policy {
        let mode = self.stored()["metadata"]["annotations"][names::MODE].as_str();
        Policy {
            mode: mode.and_then(|mode| mode.parse().ok()).unwrap_or(configured.mode),
            ..configured
        }
    }

    /// Exclusive CPUs of pods: without reports the Node's record counts, while a pod that may have them is there.
    fn apart(&self, quiet: Quiet) -> u64 {
        if quiet.streams > 0 {
            return self.exclusive(Says::when(quiet));
        }
        let hint = self.stored()["metadata"]["annotations"][names::HINT].as_str();
        let hint: Option<Value> = hint.and_then(|hint| serde_json::from_str(hint).ok());
        let recorded = hint.and_then(|hint| hint["excl"].as_u64());
        self.pods.guaranteed().and(recorded).unwrap_or_default()
    }

    /// Fails if more is published than exists, while no report of the agent is trusted.
    fn expect_quarantine(&self, resource: Resource) -> StepResult {
        let raw = *self.raw.get(resource);
        let most = covering(*self.pods.admitted().get(resource), raw).max(raw);
        let is = allocatable(self.stored(), resource);
        if is > most {
            return Err(format!("{resource} is {is} in quarantine, {most} is the most"));
        }
        Ok(())
    }

    /// Fails if allocatable is not what the rules say of the kubelet's raw values.
    fn expect(&self, policy: usize, quiet: Quiet) -> StepResult {
        let hinted = (quiet.streams > 0).then_some(pick(&HINTED, quiet.cents));
        let apart = self.apart(quiet);
        let is_quarantined = quiet.streams > 0 && quiet.are_lies;
        let configured = self.replicas[0].policy().expect("a policy");
        let policy_in_force = self.in_force(configured);
        for resource in Resource::ALL {
            let raw = *self.raw.get(resource);
            let own = own_cents(self.stored(), resource);
            let Some(cents) = wanted(&policy_in_force, resource, own, hinted) else {
                continue;
            };
            let follows_hint = matches!(policy_in_force.mode, Mode::Guard | Mode::Auto);
            if is_quarantined && follows_hint {
                self.expect_quarantine(resource)?;
                continue;
            }
            let is = allocatable(self.stored(), resource);
            if is == raw && self.is_kubelets_by_chance(resource) {
                continue;
            }
            let is_apart = resource == Resource::Cpu && policy_in_force.mode != Mode::Off;
            let decided = beside(if is_apart { apart } else { 0 }, raw, cents);
            let admitted = covering(*self.pods.admitted().get(resource), raw);
            let highest = times(raw, highest(&policy_in_force, resource, own));
            let expected = if policy_in_force.floor == Floor::None {
                decided
            } else if admitted > highest {
                // How much of it is covered depends on what was before.
                is.clamp(decided.max(highest), decided.max(admitted))
            } else if is == admitted && follows_hint {
                // Below the amount that pods hold, a ratio rises from 1.00 by a step with each written heartbeat: no
                // nudge is due. Below 1.00 it applies at once.
                is.max(decided.min(raw))
            } else {
                decided.max(admitted)
            };
            if is != expected {
                return Err(format!(
                    "{resource} is {is} in place of {expected} ({raw} times {cents} cents) under policy {}; stored is {:#}",
                    policy_of(policy),
                    self.stored()
                ));
            }
        }
        Ok(())
    }
}

/// The ratio that the rules ask for, in cents; `None` where it depends on what was before.
fn wanted(policy: &Policy, resource: Resource, own: Option<u32>, hinted: Option<u32>) -> Option<u32> {
    let own = own.unwrap_or(100).clamp(100, policy.static_max.get(resource).0);
    let hinted = hinted.map(|cents| hint_of(resource, cents));
    let hinted = hinted.map(|cents| policy.bounds.get(resource).clamp(Cents(cents)).0);
    match policy.mode {
        Mode::Off => Some(100),
        Mode::Static => Some(own),
        Mode::Guard => hinted.map(|hinted| own.min(hinted)),
        Mode::Auto => hinted,
    }
}

/// The highest ratio of a mode, in cents: up to there pods hold whatever they have.
pub(super) fn highest(policy: &Policy, resource: Resource, own: Option<u32>) -> u32 {
    match policy.mode {
        Mode::Off => 100,
        Mode::Static => own.unwrap_or(100).clamp(100, policy.static_max.get(resource).0),
        Mode::Guard | Mode::Auto => policy.bounds.get(resource).max.0.max(100),
    }
}
