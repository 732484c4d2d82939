//! Checks the claims of the demo and reports the outcome of each.

use super::{Event, RECOVERED_PERCENT, RISEN_CENTS, Story};
use crate::snapshot::Snapshot;

/// From the first saturated second to free capacity at half or less.
const TAKEN_WITHIN_MS: u64 = 5000;
/// Measured use may differ from ground truth by this, in percent ...
const TRUTH_PERCENT: u64 = 10;
/// ... in all but this share of the seconds, in percent: a sample can straddle a burst of the sampler itself.
const TRUTH_OUTLIERS_PERCENT: usize = 5;

/// One thing that the demo claims, and how it came out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Check {
    /// The claim.
    pub(crate) claim: String,
    /// What was seen; `Err` if the claim does not hold.
    pub(crate) outcome: Result<String, String>,
}

impl Story {
    /// The claims of the demo and how they came out.
    pub(crate) fn checks(&self) -> Vec<Check> {
        vec![
            self.check_source(),
            self.check_runs(),
            self.check_truth(),
            check(
                "allocatable is floor(raw x ratio / 100) in every revision",
                self.formula_broken.clone(),
                "held",
            ),
            self.check_risen(),
            self.check_admitted(),
            self.check_taken(),
            self.check_unhurt(),
            self.check_recovered(),
        ]
    }

    fn check_source(&self) -> Check {
        let wrong = (self.sources != ["ebpf"]).then(|| format!("measured by {:?}", self.sources));
        check("the kernel is measured through eBPF", wrong, "source: ebpf")
    }

    fn check_runs(&self) -> Check {
        let outcome = match self.runs {
            Some((first, last)) if last > first => Ok(format!("{first} -> {last} runs")),
            Some((first, last)) => Err(format!("{first} -> {last} runs")),
            None => Err("the kernel counted no run".to_owned()),
        };
        Check {
            claim: "the kernel's own count of our program's runs grows".to_owned(),
            outcome,
        }
    }

    fn check_truth(&self) -> Check {
        let off = |&&(used, truth): &&(u64, u64)| used.abs_diff(truth) * 100 > truth * TRUTH_PERCENT;
        let outliers = self.truth.iter().filter(off).count();
        let text = format!("{outliers} of {} measurements further off", self.truth.len());
        let is_good = !self.truth.is_empty() && outliers * 100 <= self.truth.len() * TRUTH_OUTLIERS_PERCENT;
        let claim = format!("measured CPU is within {TRUTH_PERCENT} % of the root group's runtime");
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
                Ok(format!("refused at {refused} ms, scheduled at {admitted} ms"))
            }
            (None, _) => Err("no pod was ever refused".to_owned()),
            (Some(_), None) => Err(self.budget()),
        };
        Check {
            claim: "a Deployment that did not fit gets its place".to_owned(),
            outcome,
        }
    }

    fn check_taken(&self) -> Check {
        let outcome = match (self.at(Event::Saturated), self.at(Event::Taken)) {
            // Taken before a whole second was saturated: sooner than asked for.
            (Some(saturated), Some(taken)) if taken <= saturated + TAKEN_WITHIN_MS => Ok(format!(
                "{} ms after the first saturated second",
                taken.saturating_sub(saturated)
            )),
            (Some(saturated), Some(taken)) => Err(format!("{} ms", taken - saturated)),
            (None, Some(_)) => Err("no second was saturated".to_owned()),
            (_, None) if !self.seen.contains_key(&Event::LoadStart) => {
                Err(format!("no room to take away; {}", self.budget()))
            }
            (_, None) => Err("free capacity was not halved".to_owned()),
        };
        Check {
            claim: "under load, half of the free capacity is gone within 5 s".to_owned(),
            outcome,
        }
    }

    fn check_unhurt(&self) -> Check {
        let undercut = self
            .undercut
            .map(|milli| format!("allocatable was {milli}m below what is bound"));
        check(
            "nothing bound is touched",
            self.hurt.clone().or(undercut),
            "no pod failed, moved or was undercut",
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
            claim: format!("at least {RECOVERED_PERCENT} % of the room comes back"),
            outcome,
        }
    }

    /// The terms of the budget, for when there is no room to give.
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
            "budget: C = {cpu_capacity}m, T = {cpu_safe}m, P = {cpu_predicted}m, Rw = {cpu_warm}m, A = {}m, T - P = {}m",
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
