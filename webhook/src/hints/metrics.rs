//! Metrics of the hint service.

use headroom_kit::metric::{Counter, Gauge, Unit};

headroom_kit::metrics! {
    /// Reports by verdict.
    pub static REPORTS: Counter<1> = Counter::new(
        "headroom_webhook_reports_total",
        Unit::Count,
        &["verdict"],
        "Reports of agents, by verdict: accepted, stale, rejected or flooded.",
    );

    /// Directives sent.
    pub static DIRECTIVES: Counter<1> = Counter::new(
        "headroom_webhook_directives_total",
        Unit::Count,
        &["kind"],
        "Directives sent to agents, by kind: ack, pods or policy.",
    );

    /// Streams open now.
    pub static STREAMS: Gauge = Gauge::new(
        "headroom_webhook_streams",
        Unit::Count,
        &[],
        "Streams of agents open now.",
    );

    /// Streams that ended or were refused.
    pub static STREAM_ENDS: Counter<1> = Counter::new(
        "headroom_webhook_stream_ends_total",
        Unit::Count,
        &["reason"],
        "Streams of agents that ended or were refused, by reason; closed is the agent's own doing.",
    );

    /// Tokens checked.
    pub static TOKEN_REVIEWS: Counter<1> = Counter::new(
        "headroom_webhook_token_reviews_total",
        Unit::Count,
        &["result"],
        "Tokens checked, by result: good, bad or failed (no answer) by the API server's word; and without asking it: cached (known from a moment ago), unasked (ended, for another audience or no token) or too_many (of one client).",
    );

    /// Nodes whose reports were found to contradict something.
    pub static QUARANTINES: Counter<1> = Counter::new(
        "headroom_webhook_quarantines_total",
        Unit::Count,
        &["reason"],
        "Nodes that came into quarantine, by the fact that their reports contradict: capacity, memory-pressure, use or earlier-boot.",
    );

    /// Answers of metrics.k8s.io.
    pub static NODE_METRICS_POLLS: Counter<1> = Counter::new(
        "headroom_webhook_node_metrics_polls_total",
        Unit::Count,
        &["result"],
        "Polls of node metrics from metrics.k8s.io, by result: read, absent (not served, or not allowed) or failed.",
    );
}
