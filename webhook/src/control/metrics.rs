//! Metrics of the control loops.

use headroom_kit::metric::{Counter, Gauge, Histogram, Unit};

headroom_kit::metrics! {
    /// Nudges sent.
    pub static NUDGES: Counter<2> = Counter::new(
        "headroom_webhook_nudges_total",
        Unit::Count,
        &["direction", "result"],
        "Writes that ask for a node's allocatable to be decided anew, by direction (lower, rise, note) and by what came of them: applied, unapplied, overtaken (the Node changed first, or is to be lowered) or failed.",
    );

    /// Time from the change that demanded a nudge to the API server's answer.
    pub static NUDGE_SECONDS: Histogram<1> = Histogram::new(
        "headroom_webhook_nudge_duration_seconds",
        Unit::Seconds,
        &["direction"],
        "Time from the moment a nudge was due to the API server's answer.",
        &[
            0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
        ],
    );

    /// Touches of Nodes that were not as the rules say.
    pub static SWEEPS: Counter<2> = Counter::new(
        "headroom_webhook_sweeps_total",
        Unit::Count,
        &["direction", "result"],
        "Nodes that the leader had decided anew because their allocatable was not what the rules say, by direction (lower, repair, rise, or overdue: lowering that its primary has not written within 5 s) and by what came of it: touched, nudged or failed.",
    );

    /// Whether this replica leads.
    pub static IS_LEADER: Gauge = Gauge::new(
        "headroom_webhook_leader",
        Unit::Count,
        &[],
        "1 while this replica holds the lease and sweeps, else 0.",
    );

    /// Nodes that several entries of one of Koordinator's keys select.
    pub static CONFLICTING_NODES: Gauge<1> = Gauge::new(
        "headroom_webhook_conflicting_nodes",
        Unit::Count,
        &["config"],
        "Nodes that more than one entry of a key in Koordinator's ConfigMap selects, by key; the first entry counts.",
    );

    /// Whether the API server has the policies that were generated for it.
    pub static POLICY_IN_FORCE: Gauge<1> = Gauge::new(
        "headroom_webhook_policy_in_force",
        Unit::Count,
        &["policy"],
        "1 while the API server has the policy of that name and its binding, else 0. Without headroom-floor an outage of the webhook lets nodes fall to raw.",
    );

    /// Events published.
    pub static EVENTS: Counter<2> = Counter::new(
        "headroom_webhook_events_total",
        Unit::Count,
        &["reason", "result"],
        "Events of Kubernetes that this replica wrote while it led, by reason and by result: created, present (it was there already) or failed (it is tried again).",
    );

    /// Quotas above their limit.
    pub static QUOTAS_ABOVE_LIMIT: Gauge<0> = Gauge::new(
        "headroom_webhook_quotas_above_limit",
        Unit::Count,
        &[],
        "ElasticQuotas whose stored pods ask for more than the limit, as this replica's watches have shown twice in a row, five seconds apart; 0 while pods are not compared with quotas, or the watches do not count.",
    );

    /// Quotas found above their limit.
    pub static QUOTA_OVERSHOOTS: Counter<0> = Counter::new(
        "headroom_webhook_quota_overshoots_total",
        Unit::Count,
        &[],
        "Times that this replica found an ElasticQuota above its limit that was not above it before. Every replica counts all of them. A limit lowered below use counts as well.",
    );

    /// Versions of the ConfigMap's gates and switches.
    pub static FEATURE_VERSIONS: Counter<1> = Counter::new(
        "headroom_webhook_feature_versions_total",
        Unit::Count,
        &["result"],
        "Texts under feature-gates in Koordinator's ConfigMap, by result: accepted, or refused (the last good one stays in force).",
    );

    /// What mode auto would give.
    pub static WOULD_RATIO: Gauge<2> = Gauge::new(
        "headroom_webhook_would_ratio",
        Unit::Ratio,
        &["pool", "resource"],
        "Allocatable at which mode auto would come to rest, over raw, by pool (the value of the label that --pool-label names; none without it, other beyond --most-pools, all without the flag) and resource (cpu, memory). Of nodes in off and static whose agent reports to this replica; NaN while a pool has none.",
    );

    /// Whether the API server is told to call us.
    pub static REGISTERED: Gauge<1> = Gauge::new(
        "headroom_webhook_registered",
        Unit::Count,
        &["endpoint"],
        "1 while the API server's webhook configurations have the endpoint as declared, with an authority for our certificate, or while it is switched off after it was on; else 0: then writes pass without us.",
    );
}
