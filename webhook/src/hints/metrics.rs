//! Metrics of the hint service.

use headroom_kit::metric::{Counter, Gauge, Unit};

headroom_kit::metrics! {
    pub static REPORTS: Counter<1> = Counter::new(
        "headroom_webhook_reports_total",
        Unit::Count,
        &["verdict"],
        "Reports of agents, by verdict: accepted, stale, rejected or flooded.",
    );

    pub static DIRECTIVES: Counter<1> = Counter::new(
        "headroom_webhook_directives_total",
        Unit::Count,
        &["kind"],
        "Directives sent to agents, by kind: ack, pods, policy or workloads.",
    );

    pub static STREAMS: Gauge = Gauge::new(
        "headroom_webhook_streams",
        Unit::Count,
        &[],
        "Open streams of agents.",
    );

    /// Streams that ended or were refused.
    pub static STREAM_ENDS: Counter<1> = Counter::new(
        "headroom_webhook_stream_ends_total",
        Unit::Count,
        &["reason"],
        "Agents' streams that ended or were refused, by reason; closed means that the agent ended it.",
    );

    pub static TOKEN_REVIEWS: Counter<1> = Counter::new(
        "headroom_webhook_token_reviews_total",
        Unit::Count,
        &["result"],
        "Tokens checked, by result: good, bad or failed (no answer) from the API server; and without \
         a request: cached, unasked (expired, for another audience or not a token) or too_many (of \
         one client).",
    );
}
