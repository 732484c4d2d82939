//! [`QuotaAnswers`]: what each replica answered, and all of them together.

use std::collections::HashMap;

use headroom_domain::quantity::Quantity;
use headroom_proto::v1alpha1::{QuotaResource, QuotaSight, QuotaStatus};

/// What a replica answered.
#[derive(Debug, Clone, PartialEq)]
pub struct QuotaAnswer<T> {
    /// Where it was asked.
    pub addr: String,
    /// The answer; the text says why there is none.
    pub said: Result<T, String>,
}

/// The answers of all replicas, of which one at least answered.
#[derive(Debug, Clone, PartialEq)]
pub struct QuotaAnswers<T>(pub Vec<QuotaAnswer<T>>);

/// The quotas of a replica.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SeenQuotas {
    /// What it sees.
    pub sight: QuotaSight,
    /// By namespace and name.
    pub quotas: Vec<QuotaStatus>,
}

impl<T> QuotaAnswers<T> {
    /// Those that answered.
    pub fn successes(&self) -> impl Iterator<Item = &T> {
        self.0.iter().filter_map(|answer| answer.said.as_ref().ok())
    }

    /// The first answer of a replica whose watch of quotas counts, or else the first one.
    pub fn first(&self, sight: impl Fn(&T) -> Option<&QuotaSight>) -> Option<&T> {
        let knows = |answer: &&T| sight(answer).is_some_and(|sight| sight.quotas_known);
        self.successes().find(knows).or_else(|| self.successes().next())
    }
}

impl QuotaAnswers<SeenQuotas> {
    /// The quotas as the first replica knows them that can, with what all replicas admitted and have not seen.
    pub fn together(&self) -> Vec<QuotaStatus> {
        let Some(first) = self.first(|seen| Some(&seen.sight)) else {
            return Vec::new();
        };
        let mut quotas = first.quotas.clone();
        let places: HashMap<(String, String), usize> = quotas
            .iter()
            .enumerate()
            .map(|(place, quota)| ((quota.namespace.clone(), quota.name.clone()), place))
            .collect();
        for other in self.successes().filter(|seen| !std::ptr::eq(*seen, first)) {
            for quota in &other.quotas {
                let place = places.get(&(quota.namespace.clone(), quota.name.clone()));
                if let Some(known) = place.and_then(|place| quotas.get_mut(*place)) {
                    add_claims(known, quota);
                }
            }
        }
        quotas
    }
}

/// Adds what another replica admitted.
fn add_claims(known: &mut QuotaStatus, other: &QuotaStatus) {
    known.claims = known.claims.saturating_add(other.claims);
    for resource in &mut known.resources {
        let same = other
            .resources
            .iter()
            .find(|same| same.resource == resource.resource);
        let Some(more) = same.and_then(|same| amount(same.claimed.as_ref())) else {
            continue;
        };
        let before = amount(resource.claimed.as_ref()).unwrap_or(Quantity::ZERO);
        resource.claimed = Some(before.saturating_add(&more).to_string());
        let QuotaResource { left, .. } = resource;
        if let Some(rest) = amount(left.as_ref()).and_then(|left| left.checked_sub(&more)) {
            *left = Some(rest.to_string());
        }
    }
}

fn amount(text: Option<&String>) -> Option<Quantity> {
    text?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(is_known: bool, claimed: &str, left: &str) -> QuotaAnswer<SeenQuotas> {
        let resource = QuotaResource {
            resource: "cpu".to_owned(),
            claimed: Some(claimed.to_owned()),
            left: Some(left.to_owned()),
            ..QuotaResource::default()
        };
        let quota = QuotaStatus {
            name: "lab".to_owned(),
            claims: 1,
            resources: vec![resource],
            ..QuotaStatus::default()
        };
        QuotaAnswer {
            addr: "a".to_owned(),
            said: Ok(SeenQuotas {
                sight: QuotaSight {
                    quotas_known: is_known,
                    ..QuotaSight::default()
                },
                quotas: vec![quota],
            }),
        }
    }

    #[test]
    fn what_all_replicas_admitted_is_added() {
        let gone = QuotaAnswer {
            addr: "b".to_owned(),
            said: Err("refused".to_owned()),
        };
        let answers = QuotaAnswers(vec![gone, seen(false, "9", "9"), seen(true, "1500m", "3")]);
        let together = answers.together();
        let resource = &together[0].resources[0];
        assert_eq!(together[0].claims, 2);
        assert_eq!(resource.claimed.as_deref(), Some("10500m"));
        assert_eq!(resource.left.as_deref(), Some("-6"));
    }
}
