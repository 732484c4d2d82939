//! Store of the labels that pods must have: the rules of a ConfigMap, in its current version.
//!
//! A version with unreadable rules is logged once, and leaves the last good rules in force.

use std::{collections::BTreeMap, sync::Arc};

use arc_swap::ArcSwap;
use headroom_domain::installation::{ConfigMapName, Namespace};
use headroom_kit::log::chain;
use headroom_rules::enhanced::LabelRules;
use k8s_openapi::api::core::v1::ConfigMap;
use tracing::{info, warn};

use crate::store::{informer::Store, lookup::LabelRuleLookup, metrics::LABEL_RULE_VERSIONS};

#[derive(Debug)]
pub struct WatchedRules {
    config_map: ConfigMapName,
    state: ArcSwap<RulesState>,
}

#[derive(Debug, Default)]
struct RulesState {
    /// Content of the newest version; `None` if the ConfigMap does not exist or is unknown.
    data: Option<BTreeMap<String, String>>,
    rules: Arc<LabelRules>,
}

impl Default for WatchedRules {
    /// No rules, until Koordinator's own ConfigMap has some.
    fn default() -> Self {
        Self::new(ConfigMapName::label_rules())
    }
}

impl WatchedRules {
    /// No rules, until the ConfigMap of that name has some.
    pub fn new(config_map: ConfigMapName) -> Self {
        Self {
            config_map,
            state: ArcSwap::default(),
        }
    }

    /// The namespace of the ConfigMap.
    pub fn namespace(&self) -> &Namespace {
        &self.config_map.namespace
    }

    pub fn clear(&self) {
        self.state.store(Arc::default());
    }

    /// Applies the current ConfigMap; `None` if it does not exist.
    fn update(&self, config_map: Option<ConfigMap>) {
        let before = self.state.load();
        let (version, data) = match config_map {
            Some(ConfigMap { metadata, data, .. }) => {
                let version = metadata.resource_version.unwrap_or_default();
                (version, Some(data.unwrap_or_default()))
            }
            None => (String::new(), None),
        };
        if before.data == data {
            return;
        }
        let (rules, read) = before.rules.updated(data.as_ref());
        let config_map = self.config_map.to_string();
        let result = match &read {
            _ if data.is_none() => "absent",
            Ok(_) => "accepted",
            Err(_) => "refused",
        };
        LABEL_RULE_VERSIONS.with([result]).increment(1);
        match read {
            Ok(document) if document.unknown.is_empty() => {
                info!(config_map, version, result, "loaded the label rules for pods");
            }
            Ok(document) => {
                let unknown = document.unknown.join(", ");
                warn!(
                    config_map,
                    version, unknown, "unknown members in the label rules are ignored"
                );
            }
            Err(error) => {
                warn!(config_map, version, error = %chain(&error), "the label rules are unreadable; the last good ones stay in force");
            }
        }
        let rules = Arc::new(rules);
        self.state.store(Arc::new(RulesState { data, rules }));
    }
}

impl LabelRuleLookup for WatchedRules {
    fn label_rules(&self) -> Arc<LabelRules> {
        Arc::clone(&self.state.load().rules)
    }
}

impl Store for WatchedRules {
    type Object = ConfigMap;
    type Listing = Option<ConfigMap>;

    fn fields(&self) -> Option<String> {
        Some(format!("metadata.name={}", self.config_map.name))
    }

    fn list(listing: &mut Option<ConfigMap>, object: ConfigMap) {
        *listing = Some(object);
    }

    fn replace(&self, listing: Option<ConfigMap>) {
        self.update(listing);
    }

    fn apply(&self, object: ConfigMap) {
        self.update(Some(object));
    }

    fn delete(&self, _object: ConfigMap) {
        self.update(None);
    }

    /// The content stays: its source records whether it counts.
    fn set_known(&self, _is_known: bool) {}
}

#[cfg(test)]
mod tests {
    use headroom_domain::selector::Labels;
    use headroom_rules::{enhanced::LabelledPod, switch::Switches};
    use serde_json::json;

    use super::*;

    fn config_map(data: &serde_json::Value) -> ConfigMap {
        serde_json::from_value(json!({"metadata": {"resourceVersion": "1"}, "data": data})).unwrap()
    }

    fn is_refused(rules: &WatchedRules) -> bool {
        let pod = LabelledPod {
            namespace: "ns",
            labels: &Labels::new(),
            stored: None,
        };
        !rules
            .label_rules()
            .check(pod, &Switches::default())
            .texts
            .is_empty()
    }

    #[test]
    fn the_last_good_rules_stay_until_the_config_map_goes() {
        let store = WatchedRules::default();
        assert_eq!(
            store.fields().as_deref(),
            Some("metadata.name=pod-enhanced-validator-config")
        );
        assert!(!is_refused(&store), "nothing is known");
        let rules = r#"[{"name": "r", "requiredLabels": ["app"]}]"#;
        let mut listing = None;
        WatchedRules::list(
            &mut listing,
            config_map(&json!({"enable": "true", "rules": rules})),
        );
        store.replace(listing);
        assert!(is_refused(&store));
        store.apply(config_map(&json!({"enable": "true", "rules": "["})));
        assert!(is_refused(&store), "the last good ones");
        store.apply(config_map(&json!({"enable": "false", "rules": "["})));
        assert!(!is_refused(&store), "switched off");
        store.apply(config_map(&json!({"enable": "true", "rules": rules})));
        assert!(is_refused(&store));
        store.delete(config_map(&json!({})));
        assert!(!is_refused(&store), "gone");
        store.apply(config_map(&json!({"enable": "true", "rules": rules})));
        store.clear();
        assert!(!is_refused(&store), "not followed any more");
    }
}
