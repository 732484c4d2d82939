//! Metrics of the policies.

use headroom_kit::metric::{Counter, Metric, Unit};

/// Versions of the ConfigMap with another text for us than the one before.
pub static CONFIG_VERSIONS: Counter<1> = Counter::new(
    "headroom_webhook_config_versions_total",
    Unit::Count,
    &["result"],
    "Versions of the ConfigMap whose policies differ from the last: accepted, refused (the last good one stays in force) or absent (the configuration file's are in force).",
);

/// Every metric of this room.
pub static METRICS: &[&Metric] = &[CONFIG_VERSIONS.metric()];
