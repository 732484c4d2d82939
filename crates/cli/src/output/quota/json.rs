//! Renders the replicas' data about quotas as JSON, with all fields.

use headroom_proto::v1alpha1::{
    ExplainQuotaPodResponse, ExplainQuotaResponse, ExplainedQuota, QuotaName, QuotaNamespace, QuotaResource,
    QuotaSight, QuotaStatus, QuotaVerdict,
};
use serde_json::{Value, json};

use crate::{
    pod::PodName,
    quota::{
        answers::{QuotaAnswer, QuotaAnswers, SeenQuotas},
        drawing::DrawnQuota,
    },
};

/// The tree, in the order in which it is drawn.
pub(crate) fn tree_json(answers: &QuotaAnswers<SeenQuotas>, drawn: &[DrawnQuota<'_>]) -> Value {
    json!({
        "replicas": replicas(answers, |seen| sight(&seen.sight)),
        "quotas": drawn.iter().map(|drawn| status(drawn.quota)).collect::<Value>(),
    })
}

/// Answers of all replicas about a quota.
pub(crate) fn quota_json(answers: &QuotaAnswers<ExplainQuotaResponse>) -> Value {
    replicas(answers, |answer| {
        json!({
            "sight": answer.sight.as_ref().map(sight),
            "quotas": answer.quotas.iter().map(explained).collect::<Value>(),
            "nearest": answer.nearest.iter().map(full_name).collect::<Value>(),
        })
    })
}

/// Answers of all replicas about a pod's quota.
pub(crate) fn pod_json(pod: &PodName, answers: &QuotaAnswers<ExplainQuotaPodResponse>) -> Value {
    let answers = replicas(answers, |answer| {
        let requested = answer.requested.iter();
        let requested = requested.map(|of| (of.resource.clone(), Value::from(of.amount.clone())));
        json!({
            "sight": answer.sight.as_ref().map(sight),
            "is_known": answer.is_known,
            "label": answer.label,
            "quota": answer.quota,
            "rule": answer.rule,
            "requested": requested.collect::<serde_json::Map<_, _>>(),
            "verdict": answer.verdict.as_ref().map(verdict),
            "quotas": answer.quotas.iter().map(status).collect::<Value>(),
            "is_counted": answer.is_counted,
        })
    });
    json!({"pod": pod.to_string(), "replicas": answers})
}

fn replicas<T>(answers: &QuotaAnswers<T>, render: impl Fn(&T) -> Value) -> Value {
    let replica = |QuotaAnswer { addr, result: answer }: &QuotaAnswer<T>| match answer {
        Ok(answer) => json!({"address": addr, "answer": render(answer)}),
        Err(error) => json!({"address": addr, "error": error}),
    };
    answers.0.iter().map(replica).collect()
}

fn sight(sight: &QuotaSight) -> Value {
    let QuotaSight {
        replica,
        quotas_known,
        quotas_age_ms,
        pods_known,
        pods_age_ms,
        evaluation,
        quotas,
        quota_claims,
        pods,
        pod_claims,
    } = sight;
    json!({
        "replica": replica,
        "quotas_known": quotas_known,
        "quotas_age_ms": quotas_age_ms,
        "pods_known": pods_known,
        "pods_age_ms": pods_age_ms,
        "evaluation": evaluation,
        "quotas": quotas,
        "quota_claims": quota_claims,
        "pods": pods,
        "pod_claims": pod_claims,
    })
}

fn status(quota: &QuotaStatus) -> Value {
    let QuotaStatus {
        namespace,
        name,
        tree_id,
        parent,
        is_parent,
        is_going,
        is_pending,
        resources,
        pods,
        claims,
        unreadable,
    } = quota;
    json!({
        "namespace": namespace,
        "name": name,
        "tree_id": tree_id,
        "parent": parent,
        "is_parent": is_parent,
        "is_going": is_going,
        "is_pending": is_pending,
        "resources": resources.iter().map(resource).collect::<Value>(),
        "pods": pods,
        "claims": claims,
        "unreadable": unreadable,
    })
}

fn resource(of: &QuotaResource) -> Value {
    let QuotaResource {
        resource,
        min,
        max,
        guaranteed,
        limit,
        limit_from,
        used,
        claimed,
        left,
    } = of;
    json!({
        "resource": resource,
        "min": min,
        "max": max,
        "guaranteed": guaranteed,
        "limit": limit,
        "limit_from": limit_from,
        "used": used,
        "claimed": claimed,
        "left": left,
    })
}

fn explained(of: &ExplainedQuota) -> Value {
    let ExplainedQuota {
        status: of_quota,
        uid,
        children,
        above,
        way_end,
        namespaces,
        namespaces_left_out,
        of_the_name,
        verdict: of_pod,
        faults,
        noted,
    } = of;
    json!({
        "quota": of_quota.as_ref().map(status),
        "uid": uid,
        "children": children,
        "above": above,
        "way_end": way_end,
        "namespaces": namespaces.iter().map(namespace).collect::<Value>(),
        "namespaces_left_out": namespaces_left_out,
        "of_the_name": of_the_name,
        "verdict": of_pod.as_ref().map(verdict),
        "faults": faults,
        "noted": noted,
    })
}

fn namespace(of: &QuotaNamespace) -> Value {
    json!({"namespace": of.namespace, "quota": of.quota, "rule": of.rule, "counts": of.counts})
}

fn verdict(of: &QuotaVerdict) -> Value {
    json!({"result": of.result, "reasons": of.reasons})
}

fn full_name(name: &QuotaName) -> Value {
    format!("{}/{}", name.namespace, name.name).into()
}
