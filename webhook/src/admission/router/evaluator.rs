//! [`Evaluator`]: answers a review that is in memory: decodes it, runs the steps of its endpoint, encodes the verdict.

use std::sync::Arc;

use arc_swap::ArcSwap;
use headroom_rules::explain::Explanation;
use jiff::Timestamp;
use json_patch::Patch;
use tokio::sync::watch;

use super::{
    answer::{HttpAnswer, StepResults},
    pod_review::PodReview,
    wait::WaitLimit,
};
use crate::{
    admission::{
        draft::{Draft, Fields as _, Notes},
        endpoint::{AnyEndpoint, BrokenStep, Deadline, Kind, StepContext, Stores},
        error::AdmissionError,
        features::Features,
        patch,
        review::{self, Review, ReviewVerdict, shortened},
    },
    store::caller::ReviewCaller,
};

pub(super) struct Evaluator {
    features: Arc<ArcSwap<Features>>,
    stores: Stores,
    time_of_day: fn() -> Timestamp,
}

/// A call of an endpoint, for each attempt to answer it.
#[derive(Clone, Copy)]
pub(super) struct ReviewCall<'e> {
    pub(super) endpoint: &'e dyn AnyEndpoint,
    pub(super) caller: ReviewCaller,
    pub(super) deadline: Deadline,
}

/// Result of an attempt to answer.
pub(super) enum Attempt {
    Answered(Box<HttpAnswer>),
    /// The object names something that is not known yet.
    Missing,
}

/// Result of the steps, the other parts of the answer in any case, and the changes of the object with their reasons.
type Verdict = (Result<StepResults, AdmissionError>, Notes, Option<Explanation>);

impl Evaluator {
    /// Answers with these features and stores, and asks that function for the time of day.
    pub(super) const fn new(
        features: Arc<ArcSwap<Features>>,
        stores: Stores,
        time_of_day: fn() -> Timestamp,
    ) -> Self {
        Self {
            features,
            stores,
            time_of_day,
        }
    }

    /// Changes with each later object.
    pub(super) fn arrivals(&self) -> watch::Receiver<u64> {
        self.stores.known.arrivals()
    }

    /// Inputs of the steps with these features.
    fn context<'c>(&'c self, features: &'c Features) -> StepContext<'c> {
        StepContext {
            stores: &self.stores,
            gates: &features.gates,
            switches: &features.switches,
            shadow: &features.shadow,
            now: (self.time_of_day)(),
        }
    }

    /// Answers with the current state of the stores.
    pub(super) fn answer(&self, call: ReviewCall<'_>, body: &[u8]) -> HttpAnswer {
        match self.attempt(call, body, WaitLimit::Reached) {
            Attempt::Answered(answer) => *answer,
            // Without patience nothing is missing.
            Attempt::Missing => call.deadline.error().into(),
        }
    }

    /// Answers, unless the review may wait and has something to wait for.
    pub(super) fn attempt(&self, call: ReviewCall<'_>, body: &[u8], wait_limit: WaitLimit) -> Attempt {
        let ReviewCall {
            endpoint,
            caller,
            deadline,
        } = call;
        let answered = |answer| Attempt::Answered(Box::new(answer));
        let review = match review::decode(body) {
            Ok(review) => review,
            Err(error) => return answered(error.into()),
        };
        let Review {
            version,
            mut request,
            object,
            old_object,
        } = review;
        request.caller = caller;
        // On DELETE the stored object is the only one; on CONNECT there may be none.
        let (object, old) = if object.is_some() {
            (object, old_object)
        } else {
            (old_object, None)
        };
        let draft = object
            .filter(|_| endpoint.declaration().serves(&request))
            .map(|object| Draft::new(object, old));
        let is_passed = draft.as_ref().is_some_and(|draft| {
            let mut passes = endpoint.declaration().passes.iter();
            passes.any(|pass| pass.applies(&request, draft))
        });
        if let Some(draft) = &draft
            && !is_passed
            && wait_limit == WaitLimit::NotReached
            && endpoint.is_awaiting(&self.context(&self.features.load()), &request, draft)
        {
            return Attempt::Missing;
        }
        let (verdict, notes) = match draft {
            None => (Ok(StepResults::default()), Notes::default()),
            Some(mut draft) if is_passed => self.record_pass(endpoint, &request, &mut draft),
            Some(draft) => self.evaluate_and_record(endpoint, &request, draft, deadline),
        };
        let encoded = match &verdict {
            Ok(StepResults { patch, .. }) => {
                review::encode(version, &request, &ReviewVerdict::Allowed(patch), &notes)
            }
            Err(AdmissionError::Denied(refusal)) => {
                review::encode(version, &request, &ReviewVerdict::Denied(refusal), &notes)
            }
            Err(_) => Ok(Vec::new()),
        };
        answered(match (verdict, encoded) {
            (Ok(results), Ok(body)) => HttpAnswer::allowed(request, results, body),
            (Err(error), Ok(body)) => HttpAnswer::refused(error, Some(request), body),
            (_, Err(error)) => HttpAnswer::refused(error, Some(request), Vec::new()),
        })
    }

    /// Allows a request without a review, and keeps that decision about a Pod.
    fn record_pass(
        &self,
        endpoint: &dyn AnyEndpoint,
        request: &review::Request,
        draft: &mut Draft<'_>,
    ) -> (Result<StepResults, AdmissionError>, Notes) {
        let pod_review = PodReview::begin(endpoint, request, draft);
        let verdict = Ok(StepResults::default());
        if let (Some(review), Some(explanation)) = (pod_review, draft.take_explanation()) {
            self.stores
                .decisions
                .record(review.decision(request, &verdict, explanation));
        }
        (verdict, Notes::default())
    }

    /// Evaluates, and keeps the changes of a Pod with their reasons.
    fn evaluate_and_record(
        &self,
        endpoint: &dyn AnyEndpoint,
        request: &review::Request,
        mut draft: Draft<'_>,
        deadline: Deadline,
    ) -> (Result<StepResults, AdmissionError>, Notes) {
        let pod_review = PodReview::begin(endpoint, request, &mut draft);
        let (verdict, notes, explanation) = self.evaluate(endpoint, request, draft, deadline);
        if let (Some(review), Some(explanation)) = (pod_review, explanation) {
            let decision = review.decision(request, &verdict, explanation);
            self.stores.decisions.record(decision);
        }
        (verdict, notes)
    }

    fn evaluate(
        &self,
        endpoint: &dyn AnyEndpoint,
        request: &review::Request,
        mut draft: Draft<'_>,
        deadline: Deadline,
    ) -> Verdict {
        let declaration = endpoint.declaration();
        // A heartbeat is never lost because of the kind in its object.
        if declaration.broken_step == BrokenStep::FailsTheCall
            && let Err(error) = check_kind(request, &draft)
        {
            return (Err(error), Notes::default(), draft.take_explanation());
        }
        let features = self.features.load();
        let context = self.context(&features);
        let admitted = match endpoint.admit(&context, request, &mut draft, deadline) {
            Ok(admitted) => admitted,
            Err(error) => return (Err(error), draft.notes().clone(), draft.take_explanation()),
        };
        let explanation = draft.take_explanation();
        let is_renewal = draft.is_renewal();
        let (patch, notes) = match declaration.kind {
            Kind::Mutating(_) => patch::into_operations(draft),
            Kind::Validating => (Patch(Vec::new()), draft.notes().clone()),
        };
        let results = StepResults {
            patch,
            admitted,
            is_renewal,
        };
        (Ok(results), notes, explanation)
    }
}

/// The object must be of the review's kind, if both contain a kind.
fn check_kind(request: &review::Request, draft: &Draft<'_>) -> Result<(), AdmissionError> {
    let found: Option<String> = draft.read(&["kind"]).map_err(|source| AdmissionError::Field {
        field: "request.object.kind".to_owned(),
        source,
    })?;
    match found {
        Some(found) if !request.kind.is_empty() && found != request.kind => Err(AdmissionError::WrongKind {
            field: "request.object.kind",
            found: shortened(&found),
            expected: shortened(&request.kind),
        }),
        Some(_) | None => Ok(()),
    }
}
