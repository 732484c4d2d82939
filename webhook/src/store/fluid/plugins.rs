//! Store of the plugins of Fluid's webhook: the profile of Fluid's ConfigMap, in its current version.
//!
//! A version that cannot be read is logged once, and leaves the last good profile in force. Without the ConfigMap,
//! Fluid's default profile is in force.

use std::{path::Path, sync::Arc};

use arc_swap::ArcSwap;
use headroom_domain::{
    installation::{ConfigMapName, Namespace},
    names::FLUID_PLUGINS_PROFILE,
};
use headroom_kit::{
    config::{self, ConfigError},
    log::chain,
};
use headroom_rules::fluid::plugins::{
    LONGEST_PROFILE, Localities, PluginProfile, PluginProfileError, ProfileDocument,
};
use k8s_openapi::api::core::v1::ConfigMap;
use tracing::{info, warn};

use crate::store::{informer::Store, metrics::FLUID_PLUGIN_VERSIONS};

#[derive(Debug)]
pub struct WatchedPlugins {
    config_map: ConfigMapName,
    state: ArcSwap<PluginState>,
}

#[derive(Debug, Default)]
struct PluginState {
    /// Text of the newest version; `None` if the ConfigMap does not exist or is unknown.
    text: Option<String>,
    profile: Arc<PluginProfile>,
}

/// Reasons why a version is refused.
#[derive(Debug, thiserror::Error)]
enum PluginsError {
    #[error("key {FLUID_PLUGINS_PROFILE} is longer than {LONGEST_PROFILE} bytes")]
    TooLong,
    #[error(transparent)]
    Yaml(#[from] ConfigError),
    #[error("invalid profile")]
    Profile(#[from] PluginProfileError),
}

impl Default for WatchedPlugins {
    /// Fluid's default profile, until its own ConfigMap has another.
    fn default() -> Self {
        Self::new(ConfigMapName::fluid_plugins())
    }
}

impl WatchedPlugins {
    /// Fluid's default profile, until the ConfigMap of that name has another.
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

    /// PluginProfile in force.
    pub fn profile(&self) -> Arc<PluginProfile> {
        Arc::clone(&self.state.load().profile)
    }

    pub fn clear(&self) {
        self.state.store(Arc::default());
    }

    /// Applies the current ConfigMap; `None` if it does not exist.
    fn update(&self, config_map: Option<ConfigMap>) {
        let before = self.state.load();
        let text = config_map.map(|config_map| {
            let mut data = config_map.data.unwrap_or_default();
            data.remove(FLUID_PLUGINS_PROFILE).unwrap_or_default()
        });
        if before.text == text {
            return;
        }
        let name = self.config_map.to_string();
        let (result, profile) = match text.as_deref().map(read) {
            None => ("absent", Arc::default()),
            Some(Ok(profile)) => {
                info!(config_map = name, "loaded the plugins of Fluid for pods");
                ("accepted", Arc::new(profile))
            }
            Some(Err(error)) => {
                warn!(config_map = name, error = %chain(&error), "the plugins of Fluid are unreadable; the last good ones stay in force");
                ("refused", Arc::clone(&before.profile))
            }
        };
        FLUID_PLUGIN_VERSIONS.with([result]).increment(1);
        self.state.store(Arc::new(PluginState { text, profile }));
    }
}

fn read(text: &str) -> Result<PluginProfile, PluginsError> {
    if text.len() > LONGEST_PROFILE {
        return Err(PluginsError::TooLong);
    }
    let document: ProfileDocument = config::parse(text, Path::new(FLUID_PLUGINS_PROFILE))?;
    let localities = match document.localities() {
        Some(arguments) if !arguments.trim().is_empty() => {
            config::parse(arguments, Path::new("NodeAffinityWithCache"))?
        }
        Some(_) | None => Localities::default(),
    };
    Ok(document.profile(localities)?)
}

impl Store for WatchedPlugins {
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

    /// The content stays: pods are placed by the last good profile while the API server cannot be followed.
    fn set_known(&self, _is_known: bool) {}
}

#[cfg(test)]
mod tests {
    use headroom_rules::fluid::plugins::Plugin;
    use serde_json::json;

    use super::*;

    const PROFILE: &str = "\
plugins:
  serverful:
    withDataset:
    - NodeAffinityWithCache
    - FilePrefetcher
    withoutDataset: []
  serverless:
    withDataset:
    - FuseSidecar
pluginConfig:
- name: NodeAffinityWithCache
  args: |
    preferred:
    # The nearest first.
    - name: fluid.io/fuse
      weight: 7
    required:
    - topology.kubernetes.io/rack
";

    fn config_map(text: &str) -> ConfigMap {
        serde_json::from_value(json!({"metadata": {}, "data": {FLUID_PLUGINS_PROFILE: text}})).unwrap()
    }

    #[test]
    fn the_last_good_profile_stays_until_the_config_map_goes() {
        let store = WatchedPlugins::default();
        assert_eq!(store.fields().as_deref(), Some("metadata.name=webhook-plugins"));
        assert_eq!(*store.profile(), PluginProfile::default(), "nothing is known");
        let mut listing = None;
        WatchedPlugins::list(&mut listing, config_map(PROFILE));
        store.replace(listing);
        let profile = store.profile();
        assert!(profile.with_dataset.have(Plugin::NodeAffinityWithCache));
        assert!(!profile.with_dataset.have(Plugin::RequireNodeWithFuse));
        assert_eq!(profile.localities.weight("fluid.io/fuse"), Some(7));
        assert!(profile.localities.is_required("topology.kubernetes.io/rack"));
        for refused in [
            "[",
            "plugins: 1",
            &PROFILE.replace("FuseSidecar", "Unknown"),
            &PROFILE.replace("weight: 7", "weight: 0"),
            &format!("{PROFILE}# {}", "x".repeat(LONGEST_PROFILE)),
            "a: &a [x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nplugins: *b\n",
        ] {
            store.apply(config_map(refused));
            assert_eq!(store.profile(), profile, "{refused}");
        }
        store.delete(config_map(""));
        assert_eq!(*store.profile(), PluginProfile::default(), "gone");
        store.apply(config_map(PROFILE));
        store.clear();
        assert_eq!(
            *store.profile(),
            PluginProfile::default(),
            "not followed any more"
        );
    }
}
