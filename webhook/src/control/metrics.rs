//! Metrics of the control loops.

use headroom_kit::metric::{Counter, Gauge, Histogram, Unit};

headroom_kit::metrics! {
    pub static NUDGES: Counter<2> = Counter::new(
        "headroom_webhook_nudges_total",
        Unit::Count,
        &["direction", "result"],
        "PATCHes of nodes/status that trigger admission, by direction (lower, rise, note) and result: \
         applied, unapplied, overtaken (the Node changed first, or must be lowered) or failed.",
    );

    /// Time from the change that demanded a nudge to the API server's answer.
    pub static NUDGE_SECONDS: Histogram<1> = Histogram::new(
        "headroom_webhook_nudge_duration_seconds",
        Unit::Seconds,
        &["direction"],
        "Time from the moment a nudge is due to the API server's answer.",
        &[
            0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
        ],
    );

    /// PATCHes of Nodes whose allocatable was not up to date.
    pub static SWEEPS: Counter<2> = Counter::new(
        "headroom_webhook_sweeps_total",
        Unit::Count,
        &["direction", "result"],
        "Nodes that the leader patched because their allocatable was not up to date, by direction \
         (lower, repair, rise, or overdue: a lowering that the primary has not written within 5 s) \
         and result: touched, nudged or failed.",
    );

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
        "Nodes that several entries of one key in Koordinator's ConfigMap select, by key; the first \
         entry applies.",
    );

    pub static EVENTS: Counter<2> = Counter::new(
        "headroom_webhook_events_total",
        Unit::Count,
        &["reason", "result"],
        "Kubernetes Events that this replica wrote as leader, by reason and result: created, present \
         (it existed already) or failed (retried).",
    );

    pub static QUOTAS_ABOVE_LIMIT: Gauge<0> = Gauge::new(
        "headroom_webhook_quotas_above_limit",
        Unit::Count,
        &[],
        "ElasticQuotas whose stored pods request more than the limit in two checks in a row, five \
         seconds apart; 0 while pods are not compared with quotas, or while the watches do not count.",
    );

    /// Quotas found above their limit.
    pub static QUOTA_OVERSHOOTS: Counter<0> = Counter::new(
        "headroom_webhook_quota_overshoots_total",
        Unit::Count,
        &[],
        "ElasticQuotas that this replica newly found above their limit. Every replica counts all of \
         them. A limit that is lowered below use counts as well.",
    );

    /// Versions of the ConfigMap's gates and switches.
    pub static FEATURE_VERSIONS: Counter<1> = Counter::new(
        "headroom_webhook_feature_versions_total",
        Unit::Count,
        &["result"],
        "Values of feature-gates in Koordinator's ConfigMap, by result: accepted, or refused (the \
         last good value stays in force).",
    );

    /// Projected ratio under mode `auto`.
    pub static WOULD_RATIO: Gauge<2> = Gauge::new(
        "headroom_webhook_would_ratio",
        Unit::Ratio,
        &["pool", "resource"],
        "Projected allocatable under mode auto, divided by raw, by pool (the value of the label that \
         --pool-label names; none without it, other beyond --most-pools, all without the flag) and \
         resource (cpu, memory). Covers nodes in off and static whose agent is connected to this \
         replica; NaN while a pool has none.",
    );

    /// Expiry of the first CA in the bundle.
    pub static AUTHORITY_EXPIRY: Gauge<0> = Gauge::new(
        "headroom_webhook_ca_expiry_timestamp_seconds",
        Unit::Seconds,
        &[],
        "Expiry of the CA that issued the oldest trusted certificate, in seconds since 1970; 0 with --certificates=files.",
    );

    /// State of the CA's rotation.
    pub static ROTATION_STATE: Gauge<1> = Gauge::new(
        "headroom_webhook_ca_rotation_state",
        Unit::Count,
        &["state"],
        "1 for the current state of the CA's rotation: stable, next-published, new-leaf or old-retired. All 0 if another program writes the Secret.",
    );

    /// True while the newest Secret cannot be used.
    pub static CERTIFICATE_PROBLEM: Gauge<0> = Gauge::new(
        "headroom_webhook_certificates_problem",
        Unit::Count,
        &[],
        "1 while the newest content of the Secret with certificates cannot be read, used or written; the certificate before it stays in use. /readyz?verbose has the reason.",
    );

    /// True if the API server reaches a replica.
    pub static REACHABLE: Gauge<0> = Gauge::new(
        "headroom_webhook_reachable",
        Unit::Count,
        &[],
        "1 if a replica has answered this replica's last probes through the API server, else 0: writes may pass unchecked then. 0 until the first answer.",
    );

    /// Generated rights that the account lacks.
    pub static MISSING_RIGHTS: Gauge<0> = Gauge::new(
        "headroom_webhook_missing_rights",
        Unit::Count,
        &[],
        "Rights in the generated roles that the API server denies to this replica's account.",
    );

    /// True while the API server's configuration calls this webhook as generated.
    pub static REGISTERED: Gauge<1> = Gauge::new(
        "headroom_webhook_registered",
        Unit::Count,
        &["endpoint"],
        "1 while the API server's webhook configurations contain the endpoint as generated, with a CA \
         bundle that verifies our certificate, or while the endpoint has been switched off; else 0: \
         writes pass unchecked then.",
    );
}
