//! [`QuotaAnswers`]: answers of all replicas about quotas, and their combination.

use std::collections::HashMap;

use headroom_domain::quantity::Quantity;
use headroom_proto::v1alpha1::{QuotaResource, QuotaSight, QuotaStatus};

#[derive(Debug, Clone, PartialEq)]
pub struct QuotaAnswer<T> {
    pub addr: String,
    /// The answer; the error text if there is none.
    pub result: Result<T, String>,
}

/// Answers of all replicas, at least one of which succeeded.
#[derive(Debug, Clone, PartialEq)]
pub struct QuotaAnswers<T>(pub Vec<QuotaAnswer<T>>);

#[derive(Debug, Clone, Default, PartialEq)]
pub struct SeenQuotas {
    /// State of the replica's watches.
    pub sight: QuotaSight,
    /// Sorted by namespace and name.
    pub quotas: Vec<QuotaStatus>,
}

impl<T> QuotaAnswers<T> {
    /// Answers of the replicas that succeeded.
    pub fn successes(&self) -> impl Iterator<Item = &T> {
        self.0.iter().filter_map(|answer| answer.result.as_ref().ok())
    }

    /// First answer of a replica whose watch of quotas has synced, or else the first answer.
    pub fn first(&self, sight: impl Fn(&T) -> Option<&QuotaSight>) -> Option<&T> {
        let knows = |answer: &&T| sight(answer).is_some_and(|sight| sight.quotas_known);
        self.successes().find(knows).or_else(|| self.successes().next())
    }
}

impl QuotaAnswers<SeenQuotas> {
    /// Quotas of the first synced replica, plus the pods that the other replicas admitted and have not yet observed.
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

/// Adds the pending admissions of another replica.
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
            result: Ok(SeenQuotas {
                sight: QuotaSight {
                    quotas_known: is_known,
                    ..QuotaSight::default()
                },
                quotas: vec![quota],
            }),
        }
    }

    #[test]
    fn pending_admissions_of_all_replicas_are_added() {
        let gone = QuotaAnswer {
            addr: "b".to_owned(),
            result: Err("refused".to_owned()),
        };
        let answers = QuotaAnswers(vec![gone, seen(false, "9", "9"), seen(true, "1500m", "3")]);
        let together = answers.together();
        let resource = &together[0].resources[0];
        assert_eq!(together[0].claims, 2);
        assert_eq!(resource.claimed.as_deref(), Some("10500m"));
        assert_eq!(resource.left.as_deref(), Some("-6"));
    }
}
