//! Store of the policies in force: those of Koordinator's ConfigMap, in its current version, over those of the
//! configuration file.
//!
//! An unreadable version of the ConfigMap changes nothing: the last good one stays in force. While there is none,
//! because the API server has not answered yet or because every version so far was unreadable, and while the watch is
//! unhealthy, the policy of every node is unknown, and nodes keep the last decision.

use std::{
    borrow::Borrow,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use arc_swap::{ArcSwap, ArcSwapOption};
use headroom_domain::{
    names,
    policy::{InForce, Policy, Source},
};
use headroom_rules::slo::{
    Data,
    amplification::{self, PolicyDocument},
    strategies::Strategies,
    version,
};
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::sync::watch;
use tracing::{info, warn};

use super::metrics::{CONFIG_BYTES, CONFIG_VERSIONS};
use crate::store::{
    changes::{Changes, Urgency},
    configuration::Amplification,
    informer::Store,
    node::Labels,
};

#[derive(Debug)]
pub struct Policies {
    changes: Arc<Changes>,
    file: Amplification,
    config_map: String,
    state: ArcSwap<PoliciesState>,
    /// True while the watch of the ConfigMap is unhealthy.
    is_lost: AtomicBool,
    strategies: watch::Sender<Arc<Strategies>>,
    /// Value of the key of gates, empty if it is missing; `None` while it is unknown.
    feature_gates: watch::Sender<Option<String>>,
    /// All values, for debug queries.
    stored: ArcSwapOption<StoredVersion>,
    is_too_long: AtomicBool,
}

/// A version of the ConfigMap as the API server has it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct StoredVersion {
    pub version: String,
    pub data: Data,
}

/// A version of the ConfigMap that is not in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Its resource version when it was first seen.
    pub version: String,
    /// Reason why it is unusable, with the place.
    pub reason: String,
}

#[derive(Debug, Default)]
struct PoliciesState {
    /// Value of our key, empty if it is missing; `None` while it is unknown.
    text: Option<String>,
    good: Option<Arc<PolicyDocument>>,
    refused: Option<Refused>,
}

impl Policies {
    /// Policies from the file, and later from the ConfigMap of that name. Changes are announced to the followers of
    /// nodes.
    pub fn new(file: Amplification, config_map: String, changes: Arc<Changes>) -> Self {
        Self {
            changes,
            file,
            config_map,
            state: ArcSwap::default(),
            is_lost: AtomicBool::new(false),
            strategies: watch::Sender::default(),
            feature_gates: watch::Sender::default(),
            stored: ArcSwapOption::default(),
            is_too_long: AtomicBool::new(false),
        }
    }

    /// True while the ConfigMap's content, or its absence, is known.
    pub fn has_synced(&self) -> bool {
        !self.is_lost.load(Ordering::Relaxed) && self.state.load().text.is_some()
    }

    /// Policy for a node with these labels, which are read only if an entry depends on them; the Node's own
    /// annotation takes precedence. `None` while it is unknown.
    pub fn for_labels<L: Borrow<Labels>>(&self, labels: impl FnOnce() -> L) -> Option<InForce> {
        let state = self.state.load();
        let document = state.good.as_ref().filter(|_| self.has_synced())?;
        let entry = document.entry(labels);
        let layers = [
            (Source::File, Some(&self.file)),
            (Source::ConfigMap, Some(&document.cluster)),
            (Source::Entry, entry.map(|entry| &entry.own)),
        ];
        let mut in_force = InForce {
            policy: Policy::default(),
            mode_from: Source::Default,
            entry: entry.map(|entry| entry.name.clone()),
        };
        for (source, layer) in layers {
            let Some(layer) = layer else { continue };
            in_force.policy = layer.over(in_force.policy);
            if layer.has_mode() {
                in_force.mode_from = source;
            }
        }
        Some(in_force)
    }

    /// The newest version of the ConfigMap, if that is not in force.
    pub fn refused(&self) -> Option<Refused> {
        self.state.load().refused.clone()
    }

    /// The entries of Koordinator's other keys, now and as they change.
    pub fn strategies(&self) -> watch::Receiver<Arc<Strategies>> {
        self.strategies.subscribe()
    }

    /// Receiver of the value that changes gates and switches; `None` while it is unknown.
    pub fn feature_gates(&self) -> watch::Receiver<Option<String>> {
        self.feature_gates.subscribe()
    }

    /// Stored version, or its absence; `None` while it is unknown.
    pub fn stored(&self) -> Option<Option<Arc<StoredVersion>>> {
        let is_known = self.has_synced() && !self.is_too_long.load(Ordering::Relaxed);
        is_known.then(|| self.stored.load_full())
    }

    /// Keeps the texts. The API server takes none that are too long together; such would be nothing to keep.
    fn keep(&self, stored: Option<StoredVersion>) {
        let is_too_long = stored
            .as_ref()
            .is_some_and(|stored| version::too_long(&stored.data).is_some());
        let kept = stored.filter(|_| !is_too_long);
        let texts = kept.iter().flat_map(|stored| &stored.data);
        let bytes: usize = texts.map(|(key, text)| key.len() + text.len()).sum();
        self.stored.store(kept.map(Arc::new));
        self.is_too_long.store(is_too_long, Ordering::Relaxed);
        CONFIG_BYTES
            .with([])
            .set(f64::from(u32::try_from(bytes).unwrap_or(u32::MAX)));
    }

    /// Applies the current ConfigMap; `None` if it does not exist.
    fn update(&self, config_map: Option<ConfigMap>) {
        let is_there = config_map.is_some();
        let ConfigMap { metadata, data, .. } = config_map.unwrap_or_default();
        let data = data.unwrap_or_default();
        let version = metadata.resource_version.unwrap_or_default();
        let text_under = |key: &str| data.get(key).cloned().unwrap_or_default();
        let strategies = Strategies::read(&data);
        self.strategies.send_if_modified(|before| {
            let has_changed = **before != strategies;
            if has_changed {
                *before = Arc::new(strategies);
            }
            has_changed
        });
        let gates = text_under(names::FEATURE_GATES);
        self.feature_gates.send_if_modified(|before| {
            let has_changed = before.as_ref() != Some(&gates);
            *before = Some(gates);
            has_changed
        });
        let text = text_under(names::AMPLIFICATION_CONFIG);
        self.keep(is_there.then(|| StoredVersion {
            version: version.clone(),
            data,
        }));
        let before = self.state.load();
        if before.text.as_ref() == Some(&text) {
            return;
        }
        let (good, refused) = match amplification::read(&text) {
            Ok(document) => {
                let result = if text.is_empty() { "absent" } else { "accepted" };
                CONFIG_VERSIONS.with([result]).increment(1);
                info!(version, result, "loaded the ConfigMap's policies");
                (Some(Arc::new(document)), None)
            }
            Err(refusal) => {
                CONFIG_VERSIONS.with(["refused"]).increment(1);
                let has_last_good = before.good.is_some();
                warn!(version, error = %refusal, has_last_good, "refused the ConfigMap's policies as a whole");
                let reason = refusal.to_string();
                (before.good.clone(), Some(Refused { version, reason }))
            }
        };
        self.state.store(Arc::new(PoliciesState {
            text: Some(text),
            good,
            refused,
        }));
        self.changes.ring_all(Urgency::Usual);
    }
}

impl Store for Policies {
    type Object = ConfigMap;
    type Listing = Option<ConfigMap>;

    fn fields(&self) -> Option<String> {
        Some(format!("metadata.name={}", self.config_map))
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

    fn set_known(&self, is_known: bool) {
        self.is_lost.store(!is_known, Ordering::Relaxed);
        self.changes.ring_all(Urgency::Usual);
    }
}

#[cfg(test)]
mod tests;
