//! Debug queries for the last reviews of pods.

use std::time::SystemTime;

use headroom_proto::v1alpha1::{FieldWrite, ListPodDecisionsResponse, PodDecision, ProfileVerdict};

use super::PAGE_BYTES;
use crate::{
    hints::stream_context::StreamContext,
    store::{
        caller::ReviewCaller,
        pod_decisions::{self, ReviewedPod},
    },
};

/// Decisions of this replica about a pod.
pub(super) fn of_pod(shared: &StreamContext, namespace: &str, name: &str) -> ListPodDecisionsResponse {
    let StreamContext {
        replica, decisions, ..
    } = shared;
    let (kept, oldest) = decisions.kept();
    let mut answer = ListPodDecisionsResponse {
        replica: replica.clone(),
        kept: count(kept),
        oldest_ms: oldest.map(since_1970),
        ..ListPodDecisionsResponse::default()
    };
    let found = decisions.of_pod(namespace, name);
    let mut bytes = 0;
    for decision in &found {
        if bytes >= PAGE_BYTES {
            break;
        }
        let decision = shown(decision);
        bytes += decision.bytes();
        answer.decisions.push(decision);
    }
    answer.left_out = count(found.len().saturating_sub(answer.decisions.len()));
    answer
}

fn shown(decision: &pod_decisions::PodDecision) -> PodDecision {
    let pod_decisions::PodDecision {
        at,
        endpoint,
        operation,
        pod:
            ReviewedPod {
                namespace,
                name,
                generate_name,
                uid,
                sub_resource,
            },
        review,
        is_dry_run,
        caller,
        outcome,
        reasons,
        explanation,
    } = decision;
    let profiles = explanation.profiles().into_iter().map(|profile| ProfileVerdict {
        name: profile.name,
        result: profile.result.name().to_owned(),
        reason: profile.reason,
    });
    let writes = explanation.writes().into_iter().map(|write| FieldWrite {
        path: write.path,
        value: write.value,
        writer: write.writer.to_string(),
    });
    PodDecision {
        at_ms: since_1970(*at),
        endpoint: (*endpoint).to_owned(),
        operation: (*operation).to_owned(),
        namespace: namespace.clone(),
        name: name.clone(),
        generate_name: generate_name.clone(),
        uid: uid.clone(),
        sub_resource: sub_resource.clone(),
        review: review.clone(),
        dry_run: *is_dry_run,
        outcome: (*outcome).to_owned(),
        reasons: reasons.clone(),
        profiles: profiles.collect(),
        writes: writes.collect(),
        left_out: count(explanation.left_out()),
        caller_verified: *caller == ReviewCaller::Verified,
    }
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn since_1970(at: SystemTime) -> u64 {
    let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
