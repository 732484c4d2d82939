//! One quota as a list shows it: its resources, the use by its pods and the unused part.

use std::{collections::BTreeSet, time::Duration};

use headroom_domain::{amounts::Amounts, quantity::Quantity};
use headroom_proto::v1alpha1::{QuotaResource, QuotaSight, QuotaStatus};
use headroom_rules::{
    pod_quota::{Limits, QuotaCheckError, Usage, used},
    quota::Quota,
};

use crate::{
    hints::stream_context::StreamContext,
    store::{
        lookup::QuotaLookup as _,
        quota_view::{QuotaBehaviour, QuotaView, SourceAge},
    },
};

pub(super) fn sight(shared: &StreamContext, behaviour: &QuotaBehaviour) -> QuotaSight {
    let StreamContext {
        replica,
        quotas: view,
        ..
    } = shared;
    let [quotas, pods_source] = view.sources();
    let (pods, pod_claims) = view.pod_usage.counts();
    QuotaSight {
        replica: replica.clone(),
        quotas_known: quotas.is_known,
        quotas_age_ms: age_ms(quotas),
        pods_known: pods_source.is_known,
        pods_age_ms: age_ms(pods_source),
        evaluation: behaviour.evaluation.name().to_owned(),
        quotas: count(view.quotas.index.len()),
        quota_claims: count(view.quotas.index.pending()),
        pods: count(pods),
        pod_claims: count(pod_claims),
    }
}

fn age_ms(source: SourceAge) -> Option<u64> {
    let ms = |age: Duration| u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
    source.age.map(ms)
}

pub(super) fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// A quota as it is now.
pub(super) fn quota_status(view: &QuotaView, quota: &Quota, behaviour: &QuotaBehaviour) -> QuotaStatus {
    let sums = view.usage(quota, behaviour);
    let limits = Limits::read(quota, &behaviour.switches);
    let usage = sums.as_ref().map(|sums| &sums.usage);
    let seen = usage.map(|usage| {
        let seen = Usage {
            pending: Amounts::default(),
            ..usage.clone()
        };
        used(quota, &seen, &behaviour.switches)
    });
    let seen_error = seen.as_ref().and_then(|seen| seen.as_ref().err());
    let unreadable = limits
        .as_ref()
        .err()
        .or(seen_error)
        .map(QuotaCheckError::sentence);
    let mut is_leaving = false;
    view.quotas
        .visit_tree(&mut |tree| is_leaving = tree.is_leaving(quota));
    QuotaStatus {
        namespace: quota.namespace.to_string(),
        name: quota.name.to_string(),
        tree_id: quota.tree_id.to_string(),
        parent: quota.parent.to_string(),
        is_parent: quota.is_parent,
        is_going: is_leaving,
        is_pending: quota.before.is_some() || view.quotas.index.uid(&quota.key()).is_none(),
        resources: resources(
            quota,
            limits.as_ref().ok(),
            seen.as_ref().and_then(|seen| seen.as_ref().ok()),
            usage.map(|usage| &usage.pending),
        ),
        pods: sums.as_ref().map(|sums| count(sums.pods)),
        claims: sums.as_ref().map_or(0, |sums| count(sums.pending)),
        unreadable: unreadable.unwrap_or_default(),
    }
}

/// Each resource that is named anywhere, by name. The use of an unnamed resource is zero.
fn resources(
    quota: &Quota,
    limits: Option<&Limits>,
    used: Option<&Amounts>,
    claimed: Option<&Amounts>,
) -> Vec<QuotaResource> {
    let lists = [&quota.min, &quota.max, &quota.guaranteed];
    let lists = lists.into_iter().chain(used).chain(claimed);
    let names: BTreeSet<&str> = lists.flat_map(Amounts::iter).map(|(name, _)| name).collect();
    let text = |amounts: &Amounts, name: &str| amounts.get(name).map(ToString::to_string);
    let or_zero = |amounts: &Amounts, name: &str| amounts.get(name).unwrap_or(&Quantity::ZERO).to_string();
    let both = used.zip(claimed).map(|(used, claimed)| used.plus(claimed));
    let resource = |name: &str| {
        let limit = limits.and_then(|limits| text(&limits.amounts, name));
        let from = limits
            .filter(|_| limit.is_some())
            .map(|limits| limits.source(name).name());
        QuotaResource {
            resource: name.to_owned(),
            min: text(&quota.min, name),
            max: text(&quota.max, name),
            guaranteed: text(&quota.guaranteed, name),
            limit_from: from.unwrap_or_default().to_owned(),
            limit,
            used: used.map(|used| or_zero(used, name)),
            claimed: claimed.map(|claimed| or_zero(claimed, name)),
            left: limits
                .zip(both.as_ref())
                .and_then(|(limits, both)| limits.left(name, both))
                .map(|left| left.to_string()),
        }
    };
    names.into_iter().map(resource).collect()
}
