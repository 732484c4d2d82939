//! Metrics of the stores: objects that informers receive, time since the last sign of life, versions of the
//! configuration.

use headroom_kit::metric::{Counter, Gauge, Unit};

headroom_kit::metrics! {
    /// Objects received from the API server.
    pub static INFORMER_EVENTS: Counter<2> = Counter::new(
        "headroom_webhook_informer_events_total",
        Unit::Count,
        &["resource", "event"],
        "Objects received from the API server: listed, applied or deleted.",
    );

    /// Failures to follow a resource.
    pub static INFORMER_ERRORS: Counter<1> = Counter::new(
        "headroom_webhook_informer_errors_total",
        Unit::Count,
        &["resource"],
        "Failures to list or watch a resource; each is tried again.",
    );

    /// Time since the API server last gave a sign of life.
    pub static INFORMER_AGE: Gauge<1> = Gauge::new(
        "headroom_webhook_informer_age_seconds",
        Unit::Seconds,
        &["resource"],
        "Seconds since the API server last sent an object, a bookmark or a whole list of the resource, or ended a watch of it when it was asked to: how old what this replica knows may be.",
    );

    /// Whether what is known of a resource counts.
    pub static INFORMER_KNOWN: Gauge<1> = Gauge::new(
        "headroom_webhook_informer_known",
        Unit::Count,
        &["resource"],
        "1 while what this replica knows of the resource counts, else 0: not listed yet, or no sign of life for 90 seconds. Then it lowers no node below what is stored.",
    );

    /// Colocation profiles, by whether they can be read.
    pub static PROFILES: Gauge<1> = Gauge::new(
        "headroom_webhook_profiles",
        Unit::Count,
        &["state"],
        "ClusterColocationProfiles that this replica knows: valid, or invalid, which means that they are applied to no pod; the log says why.",
    );

    /// ElasticQuotas that this replica knows.
    pub static QUOTAS: Gauge<0> = Gauge::new(
        "headroom_webhook_quotas",
        Unit::Count,
        &[],
        "ElasticQuotas that this replica knows, those included that it admitted and has not seen on its watch yet.",
    );

    /// Admitted and not seen yet.
    pub static QUOTA_CLAIMS: Gauge<0> = Gauge::new(
        "headroom_webhook_quota_claims",
        Unit::Count,
        &[],
        "Creations, changes and removals of ElasticQuotas that this replica admitted and has not seen on its watch yet; each counts for 30 seconds at most.",
    );

    /// Versions of the ConfigMap with rules for labels.
    pub static LABEL_RULE_VERSIONS: Counter<1> = Counter::new(
        "headroom_webhook_label_rule_versions_total",
        Unit::Count,
        &["result"],
        "Versions of the ConfigMap with the labels that pods must have: accepted, refused (the last good rules stay in force) or absent (there are no rules).",
    );

    /// Versions of the ConfigMap with another text for us than the one before.
    pub static CONFIG_VERSIONS: Counter<1> = Counter::new(
        "headroom_webhook_config_versions_total",
        Unit::Count,
        &["result"],
        "Versions of the ConfigMap whose policies differ from the last: accepted, refused (the last good one stays in force) or absent (the configuration file's are in force).",
    );

    /// Memory for the texts of the ConfigMap.
    pub static CONFIG_BYTES: Gauge<0> = Gauge::new(
        "headroom_webhook_config_bytes",
        Unit::Bytes,
        &[],
        "Bytes of all keys and texts of Koordinator's ConfigMap that this replica keeps to show them, 1 MiB at most.",
    );
}
