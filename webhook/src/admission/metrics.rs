//! Metrics of admission.

use headroom_kit::metric::{Counter, Gauge, Histogram, Unit};

headroom_kit::metrics! {
    pub static REVIEWS: Counter<3> = Counter::new(
        "headroom_webhook_reviews_total",
        Unit::Count,
        &["endpoint", "operation", "result"],
        "Admission requests answered, by result: allowed, denied, failed or rejected.",
    );

    pub static CALLERS: Counter<1> = Counter::new(
        "headroom_webhook_callers_total",
        Unit::Count,
        &["caller"],
        "Requests to the admission port by caller: verified (an API server, by its client certificate), \
         unverified, or refused by --callers. The replica's own calls of its port are included.",
    );

    /// Time from the request line to the answer.
    pub static REVIEW_SECONDS: Histogram<2> = Histogram::new(
        "headroom_webhook_review_duration_seconds",
        Unit::Seconds,
        &["endpoint", "result"],
        "Time from the head of a request to its answer, body included.",
        &[
            0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
        ],
    );

    /// Time that a step took.
    pub static STEP_SECONDS: Histogram<3> = Histogram::new(
        "headroom_webhook_step_duration_seconds",
        Unit::Seconds,
        &["endpoint", "step", "result"],
        "Duration of one step of an endpoint, by result: unchanged, acted, denied, shadowed or failed.",
        &[
            0.000_001, 0.000_005, 0.000_01, 0.000_025, 0.000_05, 0.0001, 0.000_25, 0.0005, 0.001, 0.005, 0.025,
            0.1, 1.0,
        ],
    );

    pub static DECISION_REASONS: Counter<2> = Counter::new(
        "headroom_webhook_decision_reasons_total",
        Unit::Count,
        &["resource", "reason"],
        "Reasons that applied to decisions about a node's allocatable, one count per decision and reason.",
    );

    /// Status writes by the kubelets of amplified nodes.
    pub static HEARTBEATS: Counter<1> = Counter::new(
        "headroom_webhook_heartbeats_total",
        Unit::Count,
        &["result"],
        "Status writes by the kubelets of amplified nodes: quieted (dropped), changed (more than \
         heartbeats differs) or due (the stored heartbeat has reached the interval).",
    );

    /// Colocation profiles that select a pod, by result.
    pub static PROFILES: Counter<1> = Counter::new(
        "headroom_webhook_profile_results_total",
        Unit::Count,
        &["result"],
        "Colocation profiles that selected a new pod, by result: applied, chance (its probability \
         excluded this pod) or failed (skipped with a warning to the client).",
    );

    /// Bindings of pods, by decision.
    pub static BINDINGS: Counter<1> = Counter::new(
        "headroom_webhook_binding_decisions_total",
        Unit::Count,
        &["decision"],
        "Bindings of pods, by the first reason that applied: allowed_username, excluded_ns, \
         out_of_scope, unknown_pod (allowed), bypass_label, bypass_annotation, dry_run or denied.",
    );

    pub static IN_FLIGHT: Gauge = Gauge::new(
        "headroom_webhook_reviews_in_flight",
        Unit::Count,
        &[],
        "Admission requests in progress.",
    );
}
