//! The checks at the end of the demo: one claim each, with its outcome.

use super::{Event, RECOVERED_PERCENT, RISEN_CENTS, Story};
use crate::snapshot::Snapshot;

/// Time limit from the first saturated second to half of the free capacity.
const TAKEN_WITHIN_MS: u64 = 5000;
/// Accepted difference of measured CPU use from ground truth, in percent.
const TRUTH_PERCENT: u64 = 10;
/// Accepted share of larger differences, in percent: a sample can include a burst of the sampler itself.
const TRUTH_OUTLIERS_PERCENT: usize = 5;

/// A claim of the demo, and its outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Check {
    pub(crate) claim: String,
    /// The observation; `Err` if it contradicts the claim.
    pub(crate) outcome: Result<String, String>,
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
            outcome,
        }
    }

    fn check_truth(&self) -> Check {
        let off = |&&(used, truth): &&(u64, u64)| used.abs_diff(truth) * 100 > truth * TRUTH_PERCENT;
        let outliers = self.truth.iter().filter(off).count();
        let text = format!("{outliers} of {} measurements differ by more", self.truth.len());
        let is_good = !self.truth.is_empty() && outliers * 100 <= self.truth.len() * TRUTH_OUTLIERS_PERCENT;
        let claim = format!("measured CPU use is within {TRUTH_PERCENT} % of the root cgroup's CPU time");
        Check {
            claim,
            outcome: if is_good { Ok(text) } else { Err(text) },
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
            outcome,
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
            outcome,
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
            outcome,
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
            outcome,
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
        outcome: wrong.map_or_else(|| Ok(right.to_owned()), Err),
    }
}
