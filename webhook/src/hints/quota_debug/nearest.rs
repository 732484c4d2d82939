//! Similar names of existing quotas for a name without a quota.

use headroom_proto::v1alpha1::QuotaName;
use headroom_rules::{
    quota::{Quota, QuotaKey},
    slo::nearest::nearest,
};

use super::READ_AT_ONCE;
use crate::{control::time_slices::Slices, store::quota_view::QuotaView};

/// Maximum number of quotas in an answer.
const MOST: usize = 3;
/// Number of similar names among which the nearest are searched.
const CONSIDERED: usize = 64;

/// The quotas whose names are nearest, the nearest first.
pub(super) async fn quotas(view: &QuotaView, name: &str) -> Vec<QuotaName> {
    let mut near: Vec<QuotaKey> = Vec::new();
    let mut key = QuotaKey::default();
    let mut slices = Slices::begin();
    while near.len() < CONSIDERED {
        let quotas = view.quotas.index.after(&key, READ_AT_ONCE);
        let Some(last) = quotas.last() else { break };
        key = last.key();
        for quota in &quotas {
            if nearest(name, [&*quota.name]).is_some() {
                near.push(Quota::key(quota));
            }
            slices.rest().await;
        }
    }
    let mut found = Vec::new();
    while found.len() < MOST {
        let names = near.iter().map(|(_, name)| &**name);
        let Some(best) = nearest(name, names) else { break };
        let Some(place) = near.iter().position(|(_, name)| **name == *best) else {
            break;
        };
        let (namespace, name) = near.remove(place);
        found.push(QuotaName {
            namespace: namespace.into(),
            name: name.into(),
        });
    }
    found
}
