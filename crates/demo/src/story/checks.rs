//! The checks at the end of the demo: one claim each, with its outcome.

use super::{Event, RECOVERED_PERCENT, RISEN_CENTS, Story};
use crate::{other_use::used, snapshot::Snapshot};

/// Time limit from the first saturated second to half of the free capacity.
const TAKEN_WITHIN_MS: u64 = 5000;
/// Accepted difference of measured CPU use from ground truth, in percent.
const TRUTH_PERCENT: u64 = 10;
/// Accepted share of larger differences, in percent: a sample can include a burst of the sampler itself.
const TRUTH_OUTLIERS_PERCENT: usize = 5;
/// Stolen share of a measurement up to which it is compared, in percent.
const TRUTH_STOLEN_PERCENT: u64 = 3;
/// Use by other processes from which the machine counts as busy, in percent of its CPUs over a second. The estimator counts
/// such a second as a peak for 20 s, and a node then has less free capacity than the claims need.
const BUSY_PERCENT: u64 = 10;

/// A claim of the demo, and its outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Check {
    pub(crate) claim: String,
    pub(crate) outcome: Outcome,
}

/// Outcome of a check, with the observation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    Held(String),
    /// The observation contradicts the claim.
    Failed(String),
    /// The observation contradicts a claim that needs idle CPU time, and other processes used that.
    Skipped(String),
}

impl Check {
    pub(crate) fn has_failed(&self) -> bool {
        matches!(self.outcome, Outcome::Failed(_))
    }
}

impl From<Result<String, String>> for Outcome {
    fn from(result: Result<String, String>) -> Self {
        result.map_or_else(Self::Failed, Self::Held)
    }
}

impl Story {
    /// All claims of the demo with their outcomes.
    pub(crate) fn checks(&self) -> Vec<Check> {
        vec![
            self.check_source(),
            self.check_runs(),
            self.check_truth(),
            check(
                "allocatable is floor(raw x ratio / 100) in every revision of the Node",
                self.formula_broken.clone(),
                "no revision differs",
            ),
            self.check_risen(),
            self.check_admitted(),
            self.check_taken(),
            self.check_bound_pods(),
            self.check_recovered(),
        ]
    }

    fn check_source(&self) -> Check {
        let wrong = (self.sources != ["ebpf"]).then(|| format!("sources: {:?}", self.sources));
        check("the agent measures through eBPF", wrong, "source: ebpf")
    }

    fn check_runs(&self) -> Check {
        let outcome = match self.runs {
            Some((first, last)) if last > first => Ok(format!("{first} -> {last} runs")),
            Some((first, last)) => Err(format!("{first} -> {last} runs")),
            None => Err("the kernel counted no runs".to_owned()),
        };
        Check {
            claim: "the kernel's run count of the eBPF program grows".to_owned(),
            outcome: outcome.into(),
        }
    }

    /// The agent learns of stolen time up to one measurement later, so only measurements without much of it are compared.
    fn check_truth(&self) -> Check {
        let is_stolen = |&(used, busy, _): &(u64, u64, u64)| {
            busy.saturating_sub(used) * 100 > busy * TRUTH_STOLEN_PERCENT
        };
        let compared = self.truth.windows(2).filter(|pair| !pair.iter().any(is_stolen));
        let differs: Vec<bool> = compared
            .filter_map(|pair| pair.first())
            .map(|&(used, _, truth)| used.abs_diff(truth) * 100 > truth * TRUTH_PERCENT)
            .collect();
        let outliers = differs.iter().filter(|&&differs| differs).count();
        let text = format!("{outliers} of {} measurements differ by more", differs.len());
        // One of few measurements is no pattern.
        let accepted = (differs.len() * TRUTH_OUTLIERS_PERCENT / 100).max(1);
        let is_good = !differs.is_empty() && outliers <= accepted;
        let outcome = if is_good { Ok(text) } else { Err(text) };
        Check {
            claim: format!("measured CPU use is within {TRUTH_PERCENT} % of the root cgroup's CPU time"),
            outcome: if differs.is_empty() {
                self.unless_busy(outcome)
            } else {
                outcome.into()
            },
        }
    }

    fn check_risen(&self) -> Check {
        let outcome = match self.at(Event::Risen) {
            Some(at) => Ok(format!("after {at} ms")),
            None => Err(self.budget()),
        };
        Check {
            claim: format!(
                "the CPU ratio reaches {}.{:02}",
                RISEN_CENTS / 100,
                RISEN_CENTS % 100
            ),
            outcome: self.unless_busy(outcome),
        }
    }

    fn check_admitted(&self) -> Check {
        let outcome = match (self.at(Event::Refused), self.at(Event::Admitted)) {
            (Some(refused), Some(admitted)) => {
                Ok(format!("rejected at {refused} ms, scheduled at {admitted} ms"))
            }
            (None, _) => Err("the scheduler rejected no pod".to_owned()),
            (Some(_), None) => Err(self.budget()),
        };
        Check {
            claim: "a Deployment that did not fit is scheduled".to_owned(),
            outcome: self.unless_busy(outcome),
        }
    }

    fn check_taken(&self) -> Check {
        let outcome = match (self.at(Event::Saturated), self.at(Event::Taken)) {
            // Half of the free capacity may be removed before a whole second is saturated.
            (Some(saturated), Some(taken)) if taken <= saturated + TAKEN_WITHIN_MS => Ok(format!(
                "{} ms after the first saturated second",
                taken.saturating_sub(saturated)
            )),
            (Some(saturated), Some(taken)) => Err(format!("{} ms", taken - saturated)),
            (None, Some(_)) => Err("the CPUs were never saturated for a second".to_owned()),
            (_, None) if !self.seen.contains_key(&Event::LoadStart) => {
                Err(format!("no free capacity to remove; {}", self.budget()))
            }
            (_, None) => Err("free capacity was not halved".to_owned()),
        };
        Check {
            claim: "under load, free capacity is halved within 5 s".to_owned(),
            outcome: self.unless_busy(outcome),
        }
    }

    fn check_bound_pods(&self) -> Check {
        let undercut = self
            .undercut
            .map(|milli| format!("allocatable was {milli}m below bound requests"));
        check(
            "no bound pod is affected",
            self.pod_failure.clone().or(undercut),
            "no pod failed or was deleted, and allocatable covered all bound requests",
        )
    }

    fn check_recovered(&self) -> Check {
        let free = |event| self.seen.get(&event).map_or(0, Snapshot::free_cpu);
        let outcome = match self.at(Event::Recovered) {
            Some(at) => Ok(format!(
                "{}m of {}m free again {} ms after the load",
                free(Event::Recovered),
                free(Event::LoadStart),
                at - self.at(Event::LoadEnd).unwrap_or(at)
            )),
            None => Err(format!(
                "{}m of {}m free; {}",
                self.last.free_cpu(),
                free(Event::LoadStart),
                self.budget()
            )),
        };
        Check {
            claim: format!("at least {RECOVERED_PERCENT} % of the free capacity returns"),
            outcome: self.unless_busy(outcome),
        }
    }

    /// Outcome of a claim that needs idle CPU time.
    fn unless_busy(&self, result: Result<String, String>) -> Outcome {
        let (peak, capacity) = self.busiest;
        match result {
            Err(_) if capacity > 0 && peak * 100 >= capacity * BUSY_PERCENT => {
                Outcome::Skipped(format!("the machine was busy ({})", used(peak, capacity / 1000)))
            }
            result => result.into(),
        }
    }

    /// The inputs of the ratio, which explain missing free capacity.
    fn budget(&self) -> String {
        let Snapshot {
            cpu_capacity,
            cpu_safe,
            cpu_predicted,
            cpu_warm,
            raw,
            ..
        } = &self.last;
        format!(
            "budget: capacity {cpu_capacity}m, safe use {cpu_safe}m, predicted peak {cpu_predicted}m, warm requests \
             {cpu_warm}m, raw {}m, safe use less predicted peak {}m",
            raw.cpu,
            i128::from(*cpu_safe) - i128::from(*cpu_predicted)
        )
    }
}

fn check(claim: &str, wrong: Option<String>, right: &str) -> Check {
    Check {
        claim: claim.to_owned(),
        outcome: wrong.map_or_else(|| Outcome::Held(right.to_owned()), Outcome::Failed),
    }
}
