//! Quota of one pod, the rule that assigns it, and the verdict on the pod if it were created now.

use std::sync::Arc;

use headroom_domain::{amounts::Amounts, names, selector::Labels};
use headroom_proto::v1alpha1::{ExplainQuotaPodResponse, PodAmount};
use headroom_rules::pod_quota::Membership;

use super::{
    MOST_EXPLAINED, status,
    verdict::{NewPod, evaluate},
};
use crate::{
    hints::stream_context::StreamContext,
    store::{
        lookup::{PodLookup as _, QuotaLookup as _},
        quota_request::{CountedPod, PodGroup, PodName},
    },
};

/// A pod that is stored, or one without a label that would be.
pub(super) fn explain(shared: &StreamContext, namespace: &str, name: &str) -> ExplainQuotaPodResponse {
    let view = &shared.quotas;
    let behaviour = (view.behaviour)();
    let pod = PodName {
        namespace: namespace.into(),
        name: name.into(),
    };
    let counted = view.pod_usage.counted(&pod, behaviour.transformation);
    let by_name = view.quotas.pods.pod(namespace, name);
    let is_known = counted.is_some() || by_name.is_some();
    let labels = match (&by_name, &counted) {
        (Some(keys), _) => keys.labels.clone(),
        (None, Some(counted)) => label_of(counted),
        (None, None) => Labels::new(),
    };
    let membership = Membership {
        labels: &labels,
        namespace,
        has_default: behaviour.has_default,
    };
    let (mut quota, mut rule) = (String::new(), "");
    view.of_pods().visit_tree(&mut |tree| {
        let (name, by) = membership.resolve(tree);
        (quota, rule) = (name.into_owned(), by.name());
    });
    let is_counted = counted.is_some() && view.sources().iter().all(|source| source.is_known);
    let new_pod = NewPod {
        pod,
        membership,
        requested: counted.map(|counted| counted.requested).unwrap_or_default(),
    };
    let quotas = view.quotas.index.named(&quota);
    let quotas = quotas.iter().take(MOST_EXPLAINED).map(Arc::as_ref);
    ExplainQuotaPodResponse {
        sight: Some(status::sight(shared, &behaviour)),
        is_known,
        label: membership.label().unwrap_or_default().to_owned(),
        rule: rule.to_owned(),
        requested: amounts(&new_pod.requested),
        verdict: Some(evaluate(view, &behaviour, &new_pod)),
        quotas: quotas
            .map(|quota| status::quota_status(view, quota, &behaviour))
            .collect(),
        quota,
        is_counted,
    }
}

/// Labels of a pod that decide its quota.
fn label_of(counted: &CountedPod) -> Labels {
    match &counted.group {
        PodGroup::Labelled(quota) => Labels::from([(names::QUOTA_NAME.to_owned(), quota.to_string())]),
        PodGroup::Unlabelled(_) => Labels::new(),
    }
}

fn amounts(amounts: &Amounts) -> Vec<PodAmount> {
    let amounts = amounts.iter().map(|(resource, amount)| PodAmount {
        resource: resource.to_owned(),
        amount: amount.to_string(),
    });
    amounts.collect()
}
