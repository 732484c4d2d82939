//! [`CaseWorld`]: the state of a case, in the stores that steps read.

use std::{collections::BTreeMap, sync::Arc};

use headroom_domain::{installation::ConfigMapName, selector::Labels};
use headroom_rules::{
    binding::{Lists, Settings},
    slo,
};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::{
    fluid::FluidNotes,
    quotas::{QuotaEvent, QuotaNotes, TreeNotes, known_quotas, quota_pods, tree_nodes},
};
use crate::{
    admission::endpoint::{Colocation, PodQuotas, SloConfiguration, Stores},
    store::{
        arrivals::Arrivals,
        by_name::{ByName, Keep, Listing},
        colocation::{label_rules::WatchedRules, limit_ranges::LimitRanges, profile_sources::ProfileSources},
        informer::Store as _,
        known::KnownSources,
        lookup::{PodKeys, PodLookup},
        sources,
    },
};

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct CaseWorld {
    pods: BTreeMap<String, PodNotes>,
    binding: BindingFlags,
    profiles: BTreeMap<String, ProfileParts>,
    /// The labels of namespaces, by name.
    namespaces: BTreeMap<String, Value>,
    /// Members of PriorityClasses, by name.
    priority_classes: BTreeMap<String, Value>,
    /// Versions of the ConfigMap with the labels that pods must have, one after the other.
    label_rules: Vec<BTreeMap<String, String>>,
    /// Specifications of LimitRanges of the namespace `ns`, by name.
    limit_ranges: BTreeMap<String, Value>,
    /// Labels of nodes by their names.
    nodes: BTreeMap<String, Labels>,
    quotas: Vec<QuotaNotes>,
    /// Later events of the watch of ElasticQuotas.
    quota_events: Vec<QuotaEvent>,
    quota_trees: Vec<TreeNotes>,
    /// True if entries of Koordinator's ConfigMap need names.
    needs_names: bool,
    /// Objects of Fluid.
    fluid: FluidNotes,
}

/// Fields of a colocation profile.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ProfileParts {
    spec: Value,
    annotations: BTreeMap<String, String>,
}

/// Labels and annotations of a stored pod.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct PodNotes {
    pub(super) labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    /// Phase, which only quotas read.
    pub(super) phase: Option<String>,
    /// Its requests, which quotas count.
    pub(super) requests: BTreeMap<String, String>,
}

/// Users that may bind pods, as flags.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct BindingFlags {
    users: String,
    namespaces: String,
    excluded_namespaces: String,
    bypass_labels: String,
    bypass_annotations: String,
    is_dry_run: bool,
}

impl Default for BindingFlags {
    fn default() -> Self {
        let Lists {
            users,
            namespaces,
            excluded_namespaces,
            bypass_labels,
            bypass_annotations,
        } = Lists::default();
        Self {
            users: users.to_owned(),
            namespaces: namespaces.to_owned(),
            excluded_namespaces: excluded_namespaces.to_owned(),
            bypass_labels: bypass_labels.to_owned(),
            bypass_annotations: bypass_annotations.to_owned(),
            is_dry_run: false,
        }
    }
}

impl Default for CaseWorld {
    fn default() -> Self {
        Self {
            pods: BTreeMap::new(),
            binding: BindingFlags::default(),
            profiles: BTreeMap::new(),
            namespaces: BTreeMap::from([("ns".to_owned(), json!({"env": "dev"}))]),
            priority_classes: BTreeMap::new(),
            label_rules: Vec::new(),
            limit_ranges: BTreeMap::new(),
            nodes: BTreeMap::new(),
            quotas: Vec::new(),
            quota_events: Vec::new(),
            quota_trees: Vec::new(),
            needs_names: false,
            fluid: FluidNotes::default(),
        }
    }
}

impl CaseWorld {
    /// Stores as the steps read them.
    pub(super) fn stores(mut self) -> Stores {
        let nodes = LabelledNodes(std::mem::take(&mut self.nodes));
        let needs_names = self.needs_names;
        let fluid = Arc::new(std::mem::take(&mut self.fluid).objects());
        let quotas = Arc::new(known_quotas(&self.quotas, &self.quota_events, &self.pods));
        let of_pods = PodQuotas {
            tree: Arc::clone(&quotas) as _,
            nodes: tree_nodes(&self.quota_trees),
            pod_usage: quota_pods(&self.pods),
            known: known(),
        };
        Stores {
            quotas,
            colocation: self.colocation(of_pods),
            slo: SloConfiguration {
                config_map: ConfigMapName::default(),
                settings: slo::Settings { needs_names },
                nodes: Arc::new(nodes),
            },
            fluid,
            known: known(),
            ..Stores::default()
        }
    }

    fn colocation(self, quotas: PodQuotas) -> Colocation {
        let Self {
            pods,
            binding,
            profiles,
            namespaces,
            priority_classes,
            label_rules,
            limit_ranges,
            ..
        } = self;
        let sources = ProfileSources::new(&Arrivals::default());
        fill(
            &sources.profiles,
            profiles.into_iter().map(|(name, ProfileParts { spec, annotations })| {
                json!({"metadata": {"name": name, "annotations": annotations}, "spec": spec})
            }),
        );
        fill(
            &sources.namespaces,
            namespaces
                .into_iter()
                .map(|(name, labels)| json!({"metadata": {"name": name, "labels": labels}})),
        );
        fill(
            &sources.classes,
            priority_classes.into_iter().map(|(name, mut class)| {
                class["metadata"] = json!({"name": name});
                class
            }),
        );
        let watched_rules = WatchedRules::default();
        for data in label_rules {
            watched_rules.apply(serde_json::from_value(json!({"data": data})).unwrap());
        }
        let lists = Lists {
            users: &binding.users,
            namespaces: &binding.namespaces,
            excluded_namespaces: &binding.excluded_namespaces,
            bypass_labels: &binding.bypass_labels,
            bypass_annotations: &binding.bypass_annotations,
        };
        let pods = pods.into_iter().map(
            |(
                name,
                PodNotes {
                    labels, annotations, ..
                },
            )| {
                let keys = PodKeys { labels, annotations };
                (name, Arc::new(keys))
            },
        );
        Colocation {
            pods: Arc::new(StoredPods(pods.collect())),
            profiles: Arc::new(sources),
            label_rules: Arc::new(watched_rules),
            limit_ranges: Arc::new(stored_limits(limit_ranges)),
            quotas,
            binding: Settings::parse(&lists, binding.is_dry_run),
        }
    }
}

/// LimitRanges of namespace `ns`.
fn stored_limits(limit_ranges: BTreeMap<String, Value>) -> LimitRanges {
    let limits = LimitRanges::default();
    for (name, spec) in limit_ranges {
        let object = json!({"metadata": {"namespace": "ns", "name": name}, "spec": spec});
        limits.apply(serde_json::from_str(&object.to_string()).unwrap());
    }
    limits
}

/// Labels of nodes by their names.
struct LabelledNodes(BTreeMap<String, Labels>);

impl slo::Nodes for LabelledNodes {
    fn visit(&self, visitor: &mut dyn FnMut(&str, &Labels)) {
        // The last come first: the reported one must not depend on the order.
        let nodes = self.0.iter().rev();
        nodes.for_each(|(name, labels)| visitor(name, labels));
    }
}

/// Lists objects as their source would.
pub(super) fn fill<K: Keep>(store: &ByName<K>, objects: impl Iterator<Item = Value>) {
    let mut listing = Listing::default();
    for object in objects {
        let object = serde_json::from_str(&object.to_string()).expect("an object of its kind");
        ByName::<K>::list(&mut listing, object);
    }
    store.replace(listing);
}

pub(super) fn known() -> KnownSources {
    let known = KnownSources::default();
    for source in sources::ALL {
        known.record(source, watch::channel(true).1);
    }
    known
}

struct StoredPods(BTreeMap<String, Arc<PodKeys>>);

impl PodLookup for StoredPods {
    fn pod(&self, namespace: &str, name: &str) -> Option<Arc<PodKeys>> {
        self.0.get(&format!("{namespace}/{name}")).map(Arc::clone)
    }
}
