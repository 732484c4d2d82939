//! [`PodReview`]: a review of a pod whose decision is kept for debug queries.

use std::time::SystemTime;

use headroom_rules::explain::Explanation;

use super::answer::StepResults;
use crate::{
    admission::{
        draft::{Draft, Fields as _},
        endpoint::{Admitted, AnyEndpoint},
        error::{AdmissionError, ReviewOutcome},
        review::Request,
    },
    store::pod_decisions::{PodDecision, ReviewedPod},
};

/// Most bytes of a name that are kept.
const LONGEST: usize = 256;

/// A review of a pod that is being decided.
pub(super) struct PodReview {
    endpoint: &'static str,
    generate_name: String,
    uid: String,
}

impl PodReview {
    /// Records the draft's writes with their reasons, if it is that of a pod.
    pub(super) fn begin(
        endpoint: &dyn AnyEndpoint,
        request: &Request,
        draft: &mut Draft<'_>,
    ) -> Option<Self> {
        let is_pod =
            request.group.is_empty() && request.resource == "pods" && request.sub_resource != "binding";
        if !is_pod {
            return None;
        }
        draft.begin_explanation();
        // A value that is not a string is not a name.
        let text = |name| {
            let text: Option<String> = draft.read(&["metadata", name]).unwrap_or_default();
            let mut text = text.unwrap_or_default();
            text.truncate(text.floor_char_boundary(LONGEST));
            text
        };
        Some(Self {
            endpoint: endpoint.label(),
            generate_name: text("generateName"),
            uid: text("uid"),
        })
    }

    pub(super) fn decision(
        self,
        request: &Request,
        verdict: &Result<StepResults, AdmissionError>,
        explanation: Explanation,
    ) -> PodDecision {
        let text = |error: &AdmissionError| error.reason().to_string();
        let (outcome, reasons) = match verdict {
            Ok(StepResults {
                admitted: Admitted { skipped, .. },
                ..
            }) => (ReviewOutcome::Allowed, skipped.iter().map(text).collect()),
            Err(AdmissionError::Denied(refusal)) => (ReviewOutcome::Denied, refusal.texts()),
            Err(error) => (error.answer().1, vec![text(error)]),
        };
        PodDecision {
            at: SystemTime::now(),
            endpoint: self.endpoint,
            operation: request.operation.name(),
            pod: ReviewedPod {
                namespace: request.namespace.clone(),
                name: request.name.clone(),
                generate_name: self.generate_name,
                uid: self.uid,
                sub_resource: request.sub_resource.clone(),
            },
            review: request.uid.clone(),
            is_dry_run: request.is_dry_run,
            caller: request.caller,
            outcome: outcome.label(),
            reasons,
            explanation,
        }
    }
}
