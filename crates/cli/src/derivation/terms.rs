//! Prints a derivation as lines of a page: symbol, value and the step from the lines above.

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

/// Width of the symbols.
pub(crate) const SYMBOL: usize = 12;

/// One line of a derivation.
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
            [self.safe(), self.peak(), self.slack(), self.wish()].concat()
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
                "raw allocatable, the kubelet's own",
            ),
        ]
    }

    /// An agent that sees nothing that counts.
    fn underived(&self) -> Vec<Term> {
        let why = match self.sight {
            AgentMode::Blind => "the agent is blind, for the reason below: it is 1.00",
            AgentMode::Full | AgentMode::FullShed | AgentMode::Proc => {
                "no frame of the history is valid: it is 1.00"
            }
        };
        vec![self.target_term(why)]
    }

    /// The target; `how` it follows, if it does.
    fn target_term(&self, how: &str) -> Term {
        let comes_to = self.derived.cents;
        let meaning = if comes_to == self.target {
            how.to_owned()
        } else {
            format!("of the report; these numbers come to {comes_to}: A or the policy changed after it")
        };
        term("target", self.target.to_string(), meaning)
    }

    /// theta and T.
    fn safe(&self) -> Vec<Term> {
        let safe_is = match self.resource {
            Resource::Cpu => "safe use: the smaller of theta × C and A",
            Resource::Memory => "safe use: theta × A",
        };
        vec![
            term(
                "theta",
                exact_percent(self.theta_ppm),
                "share that predicted use may reach",
            ),
            term("T", self.amount(self.slack.safe), safe_is),
        ]
    }

    /// From the highest peak to the predicted one.
    fn peak(&self) -> Vec<Term> {
        let when = age(self.peak_age);
        let mut terms = match self.highs {
            Some(Highs { highest, last, climb }) => {
                let highest_is = format!(
                    "highest peak of the history, {when} ago: without pods that left, with those that came"
                );
                let mut terms = vec![term("max H", self.amount(highest), highest_is)];
                if self.resource == Resource::Memory {
                    let span = age(self.timing.frame().saturating_mul(self.timing.climb_frames));
                    terms.push(term("H[t-1]", self.amount(last), "the last peak, likewise"));
                    let climb_is = format!("worst climb of these peaks within {span}");
                    terms.push(term("G", self.amount(climb), climb_is));
                }
                terms
            }
            None => vec![term(
                "max H",
                format!("{when} ago"),
                "when the highest peak of the history was",
            )],
        };
        let peak_is = match (self.resource, self.highs) {
            (Resource::Cpu, _) => "expected peak: max H",
            (Resource::Memory, Some(_)) => "expected peak: the larger of max H and H[t-1] + G",
            (Resource::Memory, None) => {
                "expected peak: the highest one, or the last one and the worst climb if that is more"
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

    /// M and m.
    fn margin(&self) -> Vec<Term> {
        let (least, most) = (percent(MARGIN_PROC_PPM), percent(LARGEST_MARGIN_PPM));
        let least = match self.sight {
            AgentMode::Full | AgentMode::FullShed => String::new(),
            AgentMode::Proc | AgentMode::Blind => format!(", at least {least} on the word of procfs alone"),
        };
        let applied = |is: String| term("m", exact_percent(self.margin_ppm), is);
        match self.calibration {
            None => vec![applied(format!("margin on the peak{least}"))],
            Some(Calibration { accumulator_ppm, .. }) => vec![
                term(
                    "M",
                    exact_percent(accumulator_ppm),
                    "margin that the outcomes of earlier ratios call for",
                ),
                applied(format!("margin on the peak: M, at most {most}{least}")),
            ],
        }
    }

    /// From requests to S'.
    fn slack(&self) -> Vec<Term> {
        let (valid, ring) = (self.valid_frames, self.timing.ring_frames);
        let scaled_is = if self.slack.slack <= 0 {
            "what counts of S: all, as it is not above zero".to_owned()
        } else if self.is_latched {
            "what counts of S: nothing, outcomes have latched amplification off".to_owned()
        } else {
            format!("what counts of S: S × {valid} / {ring}")
        };
        vec![
            term(
                "Rw",
                self.amount(self.slack.warm_requests),
                "requests of the pods, each weighted by trust",
            ),
            term("R", self.amount(self.slack.bound), "requests of all pods bound"),
            term(
                "S",
                exact(self.resource, self.slack.slack),
                "slack: T - P + Rw - A",
            ),
            term(
                "coverage",
                percent(self.coverage_ppm),
                format!("share of the history that is valid: {valid} of {ring} frames"),
            ),
            term("S'", exact(self.resource, self.derived.scaled), scaled_is),
        ]
    }

    /// From A + S' to the target.
    fn wish(&self) -> Vec<Term> {
        let (wanted, allowed) = (self.wanted(), i128::from(self.derived.allocatable));
        let Bounds { min, max } = self.bounds;
        let whose = if self.bounds == self.policy_bounds {
            "of the policy".to_owned()
        } else if self.bounds.max > Cents::ONE {
            format!("of the policy, and at most {HIGHEST_PROC} on the word of procfs alone")
        } else {
            "of the policy, and at most 1.00 where nothing would brake".to_owned()
        };
        let (verdict, allowed_is) = match allowed.cmp(&wanted) {
            Ordering::Equal => ("what is wanted lies within", "what is wanted".to_owned()),
            Ordering::Less => (
                "the highest is less than what is wanted",
                format!("A × {max}, rounded down"),
            ),
            Ordering::Greater => (
                "the lowest is more than what is wanted",
                format!("A × {}, rounded up", min.min(max)),
            ),
        };
        vec![
            term("wanted", exact(self.resource, wanted), "A + S'"),
            term("bounds", format!("{min}..{max}"), format!("{whose}: {verdict}")),
            term(
                "A*",
                exact(self.resource, allowed),
                format!("wanted, within bounds: {allowed_is}"),
            ),
            self.target_term("A* / A, rounded down"),
        ]
    }

    /// From the target to what is published.
    fn publication(&self) -> Vec<Term> {
        let level = brake_name(self.brake).to_owned();
        let mut terms = vec![term("brake", level, "of the agent; why, its reasons tell")];
        if let Some(progress) = self.progress.filter(|_| self.sight != AgentMode::Blind) {
            terms.push(term("step", progress.stepped.to_string(), self.step(progress)));
        }
        let published_is = match self.progress {
            _ if self.sight == AgentMode::Blind => {
                "the agent asks for nothing; the webhook covers admitted pods"
            }
            Some(Progress { stepped, .. }) if stepped == self.published => "the step",
            Some(_) => "what the agent reported beside it: an older one covers what was bound then",
            None => self.standing(),
        };
        terms.push(term("published", self.published.to_string(), published_is));
        terms.push(term(
            "confidence",
            percent(self.confidence_ppm),
            "the smaller of coverage and Rw / R",
        ));
        terms
    }

    /// Where the publication is on its way to the target, and what holds it there.
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
            _ if stepped == self.target => "at the target: it falls at once and rises slowly".to_owned(),
            Brake::Stop => format!("at most {} under this brake, and it does not rise", Cents::ONE),
            Brake::Shed => format!(
                "this brake halves what is above the larger of {} and what admitted pods hold, period by period",
                Cents::ONE
            ),
            Brake::Hold => "it does not rise under this brake".to_owned(),
            Brake::Off if missing < self.timing.dead_band => {
                format!("less than {band} below the target: left alone")
            }
            Brake::Off => format!(
                "rises by at most {step} a frame when {needed} in a row want {band} more: {agreeing_frames} so far"
            ),
        }
    }

    /// The same of an older agent, which does not tell the step.
    fn standing(&self) -> &'static str {
        if self.published < self.target && self.brake != Brake::Off {
            "held below the target by the brake"
        } else if self.published < self.target {
            "rises by 0.05 a frame once three frames agree on more than the dead band"
        } else if self.published > self.target {
            "held above the target by what was bound"
        } else {
            "down at once, up slowly"
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
