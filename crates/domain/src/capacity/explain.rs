//! Lists the rules of a decision in the order in which they apply, each with its result and its reasons. The
//! webhook's debug service calls it for `kubectl headroom explain`.

use super::{ResourceDecision, Rule, Why};
use crate::ratio::Ratio;

/// Result of a rule: an amount or a ratio.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Term {
    /// Amount in milli-cores or bytes.
    Amount(u64),
    /// A ratio, exact to 10⁻⁹.
    Ratio(Ratio),
}

/// Result and reasons of a rule for one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// The rule, by its position in the decision.
    pub rule: Rule,
    /// Result of the rule; `None` if it did not apply or is not known.
    pub term: Option<Term>,
    /// Reasons of the rule, in order.
    pub why: Vec<Why>,
}

impl ResourceDecision {
    /// Rules of the decision, first one first; rules without a result and reasons are omitted.
    pub fn rules(&self) -> Vec<Applied> {
        let Self {
            raw,
            result,
            ratio: _,
            applied,
            hinted: _,
            exclusive,
            product,
            pod_demand: held,
            places,
            cap,
            why,
        } = self;
        let term = |rule| match rule {
            Rule::Baseline => raw.map(Term::Amount),
            Rule::Ratio => applied.map(Term::Ratio),
            Rule::Exclusive => (*exclusive > 0).then_some(Term::Amount(*exclusive)),
            Rule::Product => product.map(Term::Amount),
            Rule::Admitted => held.map(|held| Term::Amount(held.admitted)),
            Rule::Fit => held.map(|held| Term::Amount(held.fit)),
            Rule::Places => (!places.is_empty()).then(|| Term::Amount(places.total())),
            Rule::Cap => cap.map(Term::Amount),
            Rule::Result => result.map(Term::Amount),
        };
        let applied = Rule::ALL.map(|rule| Applied {
            rule,
            term: term(rule),
            why: why.iter().copied().filter(|why| why.rule() == rule).collect(),
        });
        let is_relevant = |applied: &Applied| applied.term.is_some() || !applied.why.is_empty();
        applied.into_iter().filter(is_relevant).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        capacity::{PlaceSums, PodDemand},
        ratio::Cents,
    };

    #[test]
    fn every_reason_is_listed_once_under_its_rule() {
        let outcome = ResourceDecision {
            raw: Some(16_000),
            result: Some(20_800),
            applied: Some(Ratio::from_cents(Cents(130))),
            product: Some(20_800),
            pod_demand: Some(PodDemand {
                admitted: 9_300,
                fit: 9_400,
                ..PodDemand::default()
            }),
            places: PlaceSums {
                daemon_sets: 400,
                ..PlaceSums::default()
            },
            cap: Some(32_000),
            why: Why::ALL.to_vec(),
            ..ResourceDecision::default()
        };
        let rules = outcome.rules();
        let listed: Vec<Why> = rules.iter().flat_map(|applied| applied.why.clone()).collect();
        assert_eq!(listed.len(), Why::ALL.len());
        assert!(Why::ALL.iter().all(|why| listed.contains(why)));
        let terms: Vec<_> = rules.iter().map(|applied| (applied.rule, applied.term)).collect();
        assert_eq!(
            terms,
            [
                (Rule::Baseline, Some(Term::Amount(16_000))),
                (Rule::Ratio, Some(Term::Ratio(Ratio::from_cents(Cents(130))))),
                (Rule::Exclusive, None),
                (Rule::Product, Some(Term::Amount(20_800))),
                (Rule::Admitted, Some(Term::Amount(9_300))),
                (Rule::Fit, Some(Term::Amount(9_400))),
                (Rule::Places, Some(Term::Amount(400))),
                (Rule::Cap, Some(Term::Amount(32_000))),
                (Rule::Result, Some(Term::Amount(20_800))),
            ]
        );
    }

    #[test]
    fn exclusive_cpus_are_listed_if_there_are_any() {
        let outcome = ResourceDecision {
            exclusive: 2000,
            ..ResourceDecision::default()
        };
        let terms: Vec<_> = outcome
            .rules()
            .iter()
            .map(|applied| (applied.rule, applied.term))
            .collect();
        assert_eq!(terms, [(Rule::Exclusive, Some(Term::Amount(2000)))]);
    }

    #[test]
    fn an_unmanaged_node_has_one_rule() {
        let outcome = ResourceDecision {
            why: vec![Why::Unmanaged],
            ..ResourceDecision::default()
        };
        let rules = outcome.rules();
        assert_eq!(rules.len(), 1);
        assert_eq!((rules[0].rule, rules[0].term), (Rule::Baseline, None));
    }

    #[test]
    fn names_and_codes_round_trip() {
        assert!(
            Rule::ALL
                .iter()
                .all(|rule| Rule::from_name(rule.name()) == Some(*rule))
        );
        assert!(
            Why::ALL
                .iter()
                .all(|why| Why::from_code(why.code()) == Some(*why))
        );
        assert_eq!((Rule::from_name("x"), Why::from_code("x")), (None, None));
    }
}
