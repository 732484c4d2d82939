//! [`PluginProfile`]: the plugins of Fluid's webhook for each class of pods, as its ConfigMap lists them.

use std::collections::BTreeSet;

use headroom_domain::{names::FLUID_NODE_LOCALITY, selector::key_faults};
use serde::Deserialize;

/// Longest text of the ConfigMap's key, and of the arguments of a plugin, in bytes.
pub const LONGEST_PROFILE: usize = 64 << 10;
/// Most entries of a list in the profile.
const MOST: usize = 64;

/// Plugin of Fluid's webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Plugin {
    /// Restricts a Pod to nodes on which the clients of its Datasets may run.
    RequireNodeWithFuse,
    /// Prefers or requires nodes near the data.
    NodeAffinityWithCache,
    /// Keeps pods without Datasets away from the nodes with data.
    PreferNodesWithoutCache,
    /// Lets containers see a volume that is mounted again.
    MountPropagationInjector,
    /// Records the names of the Datasets.
    DatasetUsageInjector,
    /// Sidecars; they stay with Fluid.
    FuseSidecar,
    /// Prefetching containers; they stay with Fluid.
    FilePrefetcher,
}

/// Plugins of one class of pods: those with Datasets, or those without.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plugins(BTreeSet<Plugin>);

/// Localities by which a Pod is placed near its data.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub struct Localities {
    /// Localities with weights.
    pub preferred: Vec<PreferredLocality>,
    /// Localities that a Pod with a required Dataset must have, as alternatives.
    pub required: Vec<String>,
}

/// A locality with its weight.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub struct PreferredLocality {
    /// Label of nodes, or one of Fluid's own two names.
    pub name: String,
    /// Weight in the scheduler's sum, 1 to 100.
    pub weight: i64,
}

/// Configuration of the plugins that this webhook serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginProfile {
    /// Plugins for pods with Datasets.
    pub with_dataset: Plugins,
    /// Plugins for pods without Datasets.
    pub without_dataset: Plugins,
    /// Arguments of [`Plugin::NodeAffinityWithCache`].
    pub localities: Localities,
}

/// Text of the ConfigMap, read as YAML.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ProfileDocument {
    plugins: PluginLists,
    plugin_config: Vec<PluginArguments>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct PluginLists {
    serverful: ClassLists,
    serverless: ClassLists,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ClassLists {
    with_dataset: Option<Vec<String>>,
    without_dataset: Option<Vec<String>>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct PluginArguments {
    name: String,
    args: String,
}

/// Reasons why a profile is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PluginProfileError {
    /// No plugin has this name.
    #[error("unknown plugin name [{0}]")]
    UnknownPlugin(String),
    /// A list is too long.
    #[error("{list} has more than {MOST} entries")]
    TooMany {
        /// Name of the list.
        list: &'static str,
    },
    /// The API server would refuse every Pod.
    #[error("preferred locality {name:?} has the weight {weight}, which is not in 1 to 100")]
    Weight {
        /// Name of the locality.
        name: String,
        /// Weight of the locality.
        weight: i64,
    },
    /// The name is no label.
    #[error("locality {name:?} is no label: {fault}")]
    Locality {
        /// Name of the locality.
        name: String,
        /// Rule that it breaks.
        fault: String,
    },
}

impl Plugin {
    const ALL: [(Self, &'static str); 7] = [
        (Self::RequireNodeWithFuse, "RequireNodeWithFuse"),
        (Self::NodeAffinityWithCache, "NodeAffinityWithCache"),
        (Self::PreferNodesWithoutCache, "PreferNodesWithoutCache"),
        (Self::MountPropagationInjector, "MountPropagationInjector"),
        (Self::DatasetUsageInjector, "DatasetUsageInjector"),
        (Self::FuseSidecar, "FuseSidecar"),
        (Self::FilePrefetcher, "FilePrefetcher"),
    ];

    fn named(name: &str) -> Result<Self, PluginProfileError> {
        let found = Self::ALL.into_iter().find(|(_, known)| *known == name);
        found
            .map(|(plugin, _)| plugin)
            .ok_or_else(|| PluginProfileError::UnknownPlugin(shortened(name)))
    }
}

impl Plugins {
    /// True if the plugin is listed.
    pub fn have(&self, plugin: Plugin) -> bool {
        self.0.contains(&plugin)
    }

    fn read(list: &'static str, names: &[String]) -> Result<Self, PluginProfileError> {
        if names.len() > MOST {
            return Err(PluginProfileError::TooMany { list });
        }
        names
            .iter()
            .map(|name| Plugin::named(name))
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

impl Localities {
    /// True if a label is a configured locality.
    pub fn have(&self, key: &str) -> bool {
        self.is_required(key) || self.preferred.iter().any(|locality| locality.name == key)
    }

    /// True if a locality is required.
    pub fn is_required(&self, key: &str) -> bool {
        self.required.iter().any(|name| name == key)
    }

    /// Weight of a preferred locality. As in Fluid, the last entry with the name counts.
    pub fn weight(&self, key: &str) -> Option<i64> {
        let mut entries = self.preferred.iter().rev();
        entries
            .find(|locality| locality.name == key)
            .map(|locality| locality.weight)
    }

    fn checked(self) -> Result<Self, PluginProfileError> {
        if self.preferred.len() > MOST {
            return Err(PluginProfileError::TooMany { list: "preferred" });
        }
        if self.required.len() > MOST {
            return Err(PluginProfileError::TooMany { list: "required" });
        }
        for PreferredLocality { name, weight } in &self.preferred {
            if !(1..=100).contains(weight) {
                return Err(PluginProfileError::Weight {
                    name: shortened(name),
                    weight: *weight,
                });
            }
        }
        let preferred = self.preferred.iter().map(|locality| &locality.name);
        for name in preferred.chain(&self.required) {
            if let Some(fault) = key_faults(name) {
                return Err(PluginProfileError::Locality {
                    name: shortened(name),
                    fault,
                });
            }
        }
        Ok(self)
    }
}

impl Default for PluginProfile {
    /// PluginProfile of Fluid's chart.
    fn default() -> Self {
        let preferred = |name: &str, weight| PreferredLocality {
            name: name.to_owned(),
            weight,
        };
        Self {
            with_dataset: Plugins(BTreeSet::from([
                Plugin::FilePrefetcher,
                Plugin::RequireNodeWithFuse,
                Plugin::NodeAffinityWithCache,
                Plugin::MountPropagationInjector,
                Plugin::DatasetUsageInjector,
            ])),
            without_dataset: Plugins(BTreeSet::from([Plugin::PreferNodesWithoutCache])),
            localities: Localities {
                preferred: vec![
                    preferred(FLUID_NODE_LOCALITY, 100),
                    preferred("topology.kubernetes.io/zone", 50),
                    preferred("topology.kubernetes.io/region", 20),
                ],
                required: vec![FLUID_NODE_LOCALITY.to_owned()],
            },
        }
    }
}

impl ProfileDocument {
    /// Arguments of the plugin that places pods near their data, as YAML; the last entry counts.
    pub fn localities(&self) -> Option<&str> {
        let mut entries = self.plugin_config.iter().rev();
        entries
            .find(|entry| entry.name == "NodeAffinityWithCache")
            .map(|entry| entry.args.as_str())
    }

    /// PluginProfile with these arguments. A plugin that is not listed does not run.
    ///
    /// # Errors
    /// A list, a plugin, a name or a weight is invalid.
    pub fn profile(&self, localities: Localities) -> Result<PluginProfile, PluginProfileError> {
        let ClassLists {
            with_dataset,
            without_dataset,
        } = &self.plugins.serverful;
        let read =
            |list, names: &Option<Vec<String>>| Plugins::read(list, names.as_deref().unwrap_or_default());
        let serverless = &self.plugins.serverless;
        read("serverless.withDataset", &serverless.with_dataset)?;
        read("serverless.withoutDataset", &serverless.without_dataset)?;
        Ok(PluginProfile {
            with_dataset: read("serverful.withDataset", with_dataset)?,
            without_dataset: read("serverful.withoutDataset", without_dataset)?,
            localities: localities.checked()?,
        })
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(80).collect()
}
