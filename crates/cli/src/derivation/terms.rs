//! Prints a derivation as lines of a page: symbol, value, and the step from the lines above.

use std::{cmp::Ordering, fmt};

use headroom_domain::{
    estimate::{HIGHEST_PROC, LARGEST_MARGIN_PPM, MARGIN_PROC_PPM, STEP},
    hint::{AgentMode, Brake, Calibration, Highs, Progress},
    policy::Bounds,
    ratio::Cents,
    resource::Resource,
};

use super::Derivation;
use crate::{
    human_numbers::{age, exact, exact_percent, percent},
    view::brake_name,
};

/// Width of the column of symbols.
pub(crate) const SYMBOL: usize = 12;

#[derive(Debug, Clone)]
struct Term {
    symbol: &'static str,
    value: String,
    meaning: String,
}

fn term(symbol: &'static str, value: String, meaning: impl Into<String>) -> Term {
    Term {
        symbol,
        value,
        meaning: meaning.into(),
    }
}

impl Derivation {
    fn terms(&self) -> Vec<Term> {
        let derived = if self.valid_frames == 0 {
            self.underived()
        } else {
            [self.safe(), self.peak(), self.slack(), self.bounded()].concat()
        };
        [self.machine(), derived, self.publication()].concat()
    }

    fn amount(&self, amount: u64) -> String {
        exact(self.resource, amount.into())
    }

    fn machine(&self) -> Vec<Term> {
        vec![
            term("C", self.amount(self.capacity), "physical capacity"),
            term(
                "A",
                self.amount(self.slack.raw),
                "raw allocatable, from the kubelet",
            ),
        ]
    }

    /// Terms without a valid measurement.
    fn underived(&self) -> Vec<Term> {
        let why = match self.sight {
            AgentMode::Blind => "1.00, because the agent is blind for the reason below",
            AgentMode::Full | AgentMode::FullShed | AgentMode::Proc => {
                "1.00, because no frame of the history is valid"
            }
        };
        vec![self.target_term(why)]
    }

    /// The target; `how` describes its derivation, if there is one.
    fn target_term(&self, how: &str) -> Term {
        let comes_to = self.derived.cents;
        let meaning = if comes_to == self.target {
            how.to_owned()
        } else {
            format!("from the report; these numbers give {comes_to}, because A or the policy changed since")
        };
        term("target", self.target.to_string(), meaning)
    }

    /// The terms theta and T.
    fn safe(&self) -> Vec<Term> {
        let safe_is = match self.resource {
            Resource::Cpu => "safe use: the smaller of theta × C and A",
            Resource::Memory => "safe use: theta × A",
        };
        vec![
            term(
                "theta",
                exact_percent(self.theta_ppm),
                "highest share for predicted use",
            ),
            term("T", self.amount(self.slack.safe), safe_is),
        ]
    }

    /// From the highest peak to the predicted one.
    fn peak(&self) -> Vec<Term> {
        let when = age(self.peak_age);
        let mut terms = match self.highs {
            Some(Highs { highest, last, climb }) => {
                let highest_is =
                    format!("highest peak of the history, {when} ago; corrected for pods that left or came");
                let mut terms = vec![term("max H", self.amount(highest), highest_is)];
                if self.resource == Resource::Memory {
                    let span = age(self.timing.frame().saturating_mul(self.timing.climb_frames));
                    terms.push(term(
                        "H[t-1]",
                        self.amount(last),
                        "the last peak, likewise corrected",
                    ));
                    let climb_is = format!("largest climb of these peaks within {span}");
                    terms.push(term("G", self.amount(climb), climb_is));
                }
                terms
            }
            None => vec![term(
                "max H",
                format!("{when} ago"),
                "age of the highest peak of the history",
            )],
        };
        let peak_is = match (self.resource, self.highs) {
            (Resource::Cpu, _) => "expected peak: max H",
            (Resource::Memory, Some(_)) => "expected peak: the larger of max H and H[t-1] + G",
            (Resource::Memory, None) => {
                "expected peak: the larger of the highest one and the last one + the largest climb"
            }
        };
        terms.push(term("P0", self.amount(self.slack.peak), peak_is));
        terms.extend(self.margin());
        terms.push(term(
            "P",
            self.amount(self.slack.predicted_peak),
            "predicted peak: P0 × (1 + m), rounded up",
        ));
        terms
    }

    /// The terms M and m.
    fn margin(&self) -> Vec<Term> {
        let (least, most) = (percent(MARGIN_PROC_PPM), percent(LARGEST_MARGIN_PPM));
        let least = match self.sight {
            AgentMode::Full | AgentMode::FullShed => String::new(),
            AgentMode::Proc | AgentMode::Blind => format!(", at least {least} with procfs only"),
        };
        let applied = |is: String| term("m", exact_percent(self.margin_ppm), is);
        match self.calibration {
            None => vec![applied(format!("margin on the peak{least}"))],
            Some(Calibration { accumulator_ppm, .. }) => vec![
                term(
                    "M",
                    exact_percent(accumulator_ppm),
                    "margin from the outcomes of earlier ratios",
                ),
                applied(format!("margin on the peak: M, at most {most}{least}")),
            ],
        }
    }

    fn slack(&self) -> Vec<Term> {
        let (valid, ring) = (self.valid_frames, self.timing.ring_frames);
        let scaled_is = if self.slack.slack <= 0 {
            "S without a reduction, because it is not above 0".to_owned()
        } else if self.is_latched {
            "0, because outcomes latched amplification off".to_owned()
        } else {
            format!("S reduced by coverage: S × {valid} / {ring}")
        };
        vec![
            term(
                "Rw",
                self.amount(self.slack.warm_requests),
                "requests of the pods, each weighted by trust",
            ),
            term("R", self.amount(self.slack.bound), "requests of all bound pods"),
            term(
                "S",
                exact(self.resource, self.slack.slack),
                "slack: T - P + Rw - A",
            ),
            term(
                "coverage",
                percent(self.coverage_ppm),
                format!("valid share of the history: {valid} of {ring} frames"),
            ),
            term("S'", exact(self.resource, self.derived.scaled), scaled_is),
        ]
    }

    /// From A + S' to the target.
    fn bounded(&self) -> Vec<Term> {
        let (wanted, allowed) = (self.wanted(), i128::from(self.derived.allocatable));
        let Bounds { min, max } = self.bounds;
        let whose = if self.bounds == self.policy_bounds {
            "from the policy".to_owned()
        } else if self.bounds.max > Cents::ONE {
            format!("from the policy, and at most {HIGHEST_PROC} with procfs only")
        } else {
            "from the policy, and at most 1.00 because no brake could act".to_owned()
        };
        let (verdict, allowed_is) = match allowed.cmp(&wanted) {
            Ordering::Equal => ("wanted is within them", "wanted".to_owned()),
            Ordering::Less => ("wanted is above the maximum", format!("A × {max}, rounded down")),
            Ordering::Greater => (
                "wanted is below the minimum",
                format!("A × {}, rounded up", min.min(max)),
            ),
        };
        vec![
            term("wanted", exact(self.resource, wanted), "A + S'"),
            term("bounds", format!("{min}..{max}"), format!("{whose}: {verdict}")),
            term(
                "A*",
                exact(self.resource, allowed),
                format!("wanted, limited by the bounds: {allowed_is}"),
            ),
            self.target_term("A* / A, rounded down"),
        ]
    }

    /// From the target to the published ratio.
    fn publication(&self) -> Vec<Term> {
        let level = brake_name(self.brake).to_owned();
        let mut terms = vec![term("brake", level, "brake of the agent; its reasons are below")];
        if let Some(progress) = self.progress.filter(|_| self.sight != AgentMode::Blind) {
            terms.push(term("step", progress.stepped.to_string(), self.step(progress)));
        }
        let published_is = match self.progress {
            _ if self.sight == AgentMode::Blind => {
                "the agent publishes no ratio; the webhook covers admitted pods"
            }
            Some(Progress { stepped, .. }) if stepped == self.published => "the step",
            Some(_) => "reported by the agent; an older agent covers the requests bound at that time",
            None => self.older_progress(),
        };
        terms.push(term("published", self.published.to_string(), published_is));
        terms.push(term(
            "confidence",
            percent(self.confidence_ppm),
            "the smaller of coverage and Rw / R",
        ));
        terms
    }

    /// Progress of the published ratio, and the reason why it stays.
    fn step(
        &self,
        Progress {
            stepped,
            agreeing_frames,
        }: Progress,
    ) -> String {
        let (step, band, needed) = (Cents(STEP), Cents(self.timing.dead_band), self.timing.up_after);
        let missing = self.target.0.saturating_sub(stepped.0);
        match self.brake {
            _ if stepped == self.target => "at the target".to_owned(),
            Brake::Stop => format!("at most {} under this brake; it does not rise", Cents::ONE),
            Brake::Shed => format!(
                "each period, this brake halves the part above the larger of {} and the requests of admitted pods",
                Cents::ONE
            ),
            Brake::Hold => "it does not rise under this brake".to_owned(),
            Brake::Off if missing < self.timing.dead_band => {
                format!("unchanged, because it is less than {band} below the target")
            }
            Brake::Off => format!(
                "rises by at most {step} a frame after {needed} frames in a row with a target {band} higher; {agreeing_frames} so far"
            ),
        }
    }

    /// Progress for an older agent, which does not report the step.
    fn older_progress(&self) -> &'static str {
        if self.published < self.target && self.brake != Brake::Off {
            "held below the target by the brake"
        } else if self.published < self.target {
            "rises by 0.05 a frame after three frames with a target above the dead band"
        } else if self.published > self.target {
            "held above the target by bound requests"
        } else {
            "falls at once, rises slowly"
        }
    }
}

impl fmt::Display for Derivation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let terms = self.terms();
        let width = terms
            .iter()
            .map(|term| term.value.chars().count())
            .max()
            .unwrap_or_default();
        for Term {
            symbol,
            value,
            meaning,
        } in terms
        {
            writeln!(f, "  {symbol:<SYMBOL$}{value:>width$}  {meaning}")?;
        }
        Ok(())
    }
}
