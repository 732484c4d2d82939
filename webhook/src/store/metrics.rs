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

    /// Objects that do not have the type of their resource.
    pub static INFORMER_UNREADABLE: Counter<1> = Counter::new(
        "headroom_webhook_informer_unreadable_total",
        Unit::Count,
        &["resource"],
        "Objects received from the API server that could not be read. The last readable state of an object \
         counts; without one the node of a pod, or its quota, is unknown. The log names the object.",
    );

    /// Time since the API server last gave a sign of life.
    pub static INFORMER_AGE: Gauge<1> = Gauge::new(
        "headroom_webhook_informer_age_seconds",
        Unit::Seconds,
        &["resource"],
        "Seconds since the last watch event, bookmark, relist or regular end of a watch of this resource.",
    );

    /// Gauge per resource: 1 while its store counts.
    pub static INFORMER_KNOWN: Gauge<1> = Gauge::new(
        "headroom_webhook_informer_known",
        Unit::Count,
        &["resource"],
        "1 while the store of this resource counts, else 0: not listed yet, or no watch event for 90 \
         seconds. The replica then lowers no node below the stored value.",
    );

    /// Places that pods left, by kind.
    pub static PLACES_OPENED: Counter<1> = Counter::new(
        "headroom_webhook_places_opened_total",
        Unit::Count,
        &["kind"],
        "Pods of controllers that left a node, so that their capacity is kept for successors for up to \
         10 minutes, by kind: daemonset, tied (can run on that node only) or other. Every replica \
         counts all of them.",
    );

    /// Colocation profiles, by whether they can be read.
    pub static PROFILES: Gauge<1> = Gauge::new(
        "headroom_webhook_profiles",
        Unit::Count,
        &["state"],
        "ClusterColocationProfiles by state: valid, or invalid, which are applied to no pod; the log \
         contains the reason.",
    );

    /// ElasticQuotas that this replica knows.
    pub static QUOTAS: Gauge<0> = Gauge::new(
        "headroom_webhook_quotas",
        Unit::Count,
        &[],
        "ElasticQuotas in this replica's store, including admitted ones that its watch has not delivered yet.",
    );

    /// Admitted and not seen yet.
    pub static QUOTA_CLAIMS: Gauge<0> = Gauge::new(
        "headroom_webhook_quota_claims",
        Unit::Count,
        &[],
        "Creations, changes and removals of ElasticQuotas that this replica admitted and its watch \
         has not delivered yet; each counts for at most 30 seconds.",
    );

    /// Quotas whose list of namespaces counts in part.
    pub static QUOTA_LISTS_CUT: Counter<0> = Counter::new(
        "headroom_webhook_quota_lists_cut_total",
        Unit::Count,
        &[],
        "Versions of ElasticQuotas whose list of namespaces counts only in part: the quotas of one namespace list \
         more than 8,192 namespaces, or all together more than 65,536. The log names the quota.",
    );

    /// Versions of the ConfigMap with rules for labels.
    pub static LABEL_RULE_VERSIONS: Counter<1> = Counter::new(
        "headroom_webhook_label_rule_versions_total",
        Unit::Count,
        &["result"],
        "Versions of the ConfigMap with the label rules for pods: accepted, refused (the last good \
         rules stay in force) or absent (there are no rules).",
    );

    /// Versions of Fluid's ConfigMap with the plugins.
    pub static FLUID_PLUGIN_VERSIONS: Counter<1> = Counter::new(
        "headroom_webhook_fluid_plugin_versions_total",
        Unit::Count,
        &["result"],
        "Versions of Fluid's ConfigMap with the plugins for pods: accepted, refused (the last good plugins \
         stay in force) or absent (Fluid's default plugins are in force).",
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
        "Size of the copy of Koordinator's ConfigMap that this replica keeps for debug queries, in \
         bytes, at most 1 MiB.",
    );

    /// Gauge per policy: 1 while the API server stores it as generated.
    pub static POLICY_IN_FORCE: Gauge<1> = Gauge::new(
        "headroom_webhook_policy_in_force",
        Unit::Count,
        &["policy"],
        "1 while the API server has the policy of that name and its binding as generated, else 0. \
         Without headroom-floor an outage of the webhook lets nodes fall to raw.",
    );

    /// Nodes whose reports were found to contradict something.
    pub static QUARANTINES: Counter<1> = Counter::new(
        "headroom_webhook_quarantines_total",
        Unit::Count,
        &["reason"],
        "Nodes that entered quarantine, by the contradicted fact: capacity, memory-pressure, use or \
         earlier-boot.",
    );

    /// Polls of metrics.k8s.io, by result.
    pub static NODE_METRICS_POLLS: Counter<1> = Counter::new(
        "headroom_webhook_node_metrics_polls_total",
        Unit::Count,
        &["result"],
        "Polls of node metrics from metrics.k8s.io, by result: read, absent (not served, or not allowed) or failed.",
    );
}
