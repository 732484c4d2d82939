//! Conversion of an applied rule of a decision, [`Applied`] → [`wire::Rule`], for `kubectl headroom explain`.

use headroom_domain::capacity::{Applied, Term, Why};

use crate::v1alpha1::{self as wire, rule};

impl From<Applied> for wire::Rule {
    fn from(applied: Applied) -> Self {
        let Applied { rule, term, why } = applied;
        Self {
            name: rule.name().to_owned(),
            term: term.map(|term| match term {
                Term::Amount(amount) => rule::Term::Amount(amount),
                Term::Ratio(ratio) => rule::Term::RatioNano(ratio.nano()),
            }),
            why: why.into_iter().map(Why::code).map(str::to_owned).collect(),
        }
    }
}
