//! Fuzz target: one text, parsed as the configuration file and as the keys of Koordinator's ConfigMap. Administrators write
//! both.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use headroom_domain::{
    names,
    policy::{Bounds, Policy},
    ratio::Cents,
    resource::{PerResource, Resource},
};
use headroom_kit::config;
use headroom_webhook::store::{
    changes::Changes, configuration::Amplification, informer::Store as _, node::Labels, policies::Policies,
};
use k8s_openapi::api::core::v1::ConfigMap;

const KEYS: [&str; 6] = [
    names::AMPLIFICATION_CONFIG,
    names::COLOCATION_CONFIG,
    names::RESOURCE_THRESHOLD_CONFIG,
    names::RESOURCE_QOS_CONFIG,
    names::SYSTEM_CONFIG,
    names::CPU_BURST_CONFIG,
];

/// The input is the text.
pub fn check(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let file = config::parse::<Amplification>(text, Path::new("h.yaml"));
    let by_file = match &file {
        Ok(amplification) => Some(amplification.over(Policy::default())),
        Err(error) => {
            assert!(error.to_string().contains("h.yaml"), "{error}");
            None
        }
    };
    let policies = Policies::new(
        Amplification::default(),
        names::SLO_CONFIG.to_owned(),
        Arc::new(Changes::default()),
    );
    policies.replace(Some(config_map(text)));
    let in_force = policies.for_labels(labels);
    assert_eq!(in_force.is_some(), policies.refused().is_none());
    if let Some(refused) = policies.refused() {
        assert!(!refused.reason.is_empty(), "a refusal without a reason");
    }
    let by_config_map = in_force.map(|in_force| in_force.policy);
    for policy in by_file.iter().chain(&by_config_map) {
        is_within_limits(policy);
    }
    // JSON is YAML: a text that both parsers accept has the same meaning.
    if let (Some(by_file), Some(by_config_map), false) = (by_file, by_config_map, text.is_empty()) {
        assert_eq!(by_file, by_config_map);
    }
    // An invalid version keeps the last valid one, and deletion restores the file.
    let good = r#"{"mode":"guard"}"#;
    policies.apply(config_map(good));
    let before = policies.for_labels(labels);
    policies.apply(config_map(text));
    if policies.refused().is_some() {
        assert_eq!(policies.for_labels(labels), before);
    }
    policies.delete(config_map(text));
    let default = policies.for_labels(labels).map(|in_force| in_force.policy);
    assert_eq!(default, Some(Policy::default()));
}

fn config_map(text: &str) -> ConfigMap {
    let data: BTreeMap<String, String> = KEYS.map(|key| (key.to_owned(), text.to_owned())).into();
    ConfigMap {
        data: Some(data),
        ..ConfigMap::default()
    }
}

fn labels() -> Labels {
    [("a", "b"), ("pool", "batch")]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into()
}

fn is_within_limits(policy: &Policy) {
    let Policy {
        bounds,
        static_max,
        target_ppm,
        ..
    } = policy;
    for resource in Resource::ALL {
        let Bounds { min, max } = *bounds.get(resource);
        assert!((Cents(50)..=Cents(100)).contains(&min), "{min}");
        let most = [max, *static_max.get(resource)];
        assert!(
            most.iter().all(|most| (Cents(100)..=Cents(1000)).contains(most)),
            "{most:?}"
        );
    }
    let PerResource { cpu, memory } = target_ppm;
    for target in [cpu, memory] {
        assert!((100_000..=1_000_000).contains(target), "{target}");
    }
}
