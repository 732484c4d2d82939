//! [`Source`]: a resource that a store follows in the API server, and the list of all sources. One declaration gives
//! the informer, the role's rule, the line of readiness, the labels of metrics and the documentation.

pub mod fluid;

use std::{fmt, sync::Arc};

use futures::future::BoxFuture;
use headroom_domain::names;
use kube::{Api, Client};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{
    access::{Access, AccessNamespace},
    arrivals::Arrivals,
    colocation::{
        label_rules::WatchedRules, limit_ranges::LimitRanges, pod_fan::PodFan, pods::PodsByName,
        profile_sources::ProfileSources, profiles,
    },
    fluid::FluidSources,
    informer::{self, LastActivity, Presence, Store, Subject},
    nodes::Nodes,
    pods::Pods,
    policies::Policies,
    quota::{
        index::QuotaIndex,
        object,
        tree_nodes::{self, TreeNodes},
    },
    quota_pods::{QuotaPods, counting::QuotaCounting},
};

/// Objects of the API server that a store of this replica follows.
#[derive(Debug)]
pub struct Source {
    /// Names it in readiness, logs, metrics and documentation.
    pub name: &'static str,
    /// Kept part of the resource, as text for users.
    pub about: &'static str,
    /// The right that following it needs.
    pub access: Access,
    /// Presence of the resource in the API server.
    pub presence: Presence,
    /// The source whose watch brings its objects, if it has none of its own.
    pub shares: Option<&'static Source>,
    pub open: fn(&Opening) -> Opened,
    /// Drops its content once no gate needs it; `None` if it is followed for the whole life of the process.
    pub close: Option<fn(&SourceStores)>,
}

/// Inputs for opening a source.
#[derive(Clone)]
pub struct Opening {
    /// The way to the API server.
    pub client: Client,
    /// The namespace of Koordinator's ConfigMap.
    pub config_namespace: String,
    pub stores: SourceStores,
    pub stop: CancellationToken,
}

/// The stores that sources fill.
#[derive(Debug, Clone)]
pub struct SourceStores {
    pub nodes: Arc<Nodes>,
    /// The pods, by node and by name.
    pub pods: Arc<PodFan>,
    /// The policies of Koordinator's ConfigMap.
    pub policies: Arc<Policies>,
    /// Colocation profiles, and the objects needed to apply them.
    pub profiles: ProfileSources,
    /// The labels that pods must have.
    pub label_rules: Arc<WatchedRules>,
    /// The defaults of containers, for warnings.
    pub limit_ranges: Arc<LimitRanges>,
    pub quotas: Arc<QuotaIndex>,
    /// The nodes of quota trees.
    pub quota_trees: Arc<TreeNodes>,
    /// Requests of all pods, by quota.
    pub quota_pods: Arc<QuotaPods>,
    pub fluid: FluidSources,
}

/// A source that is followed.
pub struct Opened {
    /// Receiver that is true while all objects of the source are known.
    pub is_known: watch::Receiver<bool>,
    /// Time of the API server's last activity for the source; `None` if another source records it.
    pub last_activity: Option<LastActivity>,
    /// Task that follows it until `stop` is cancelled; `None` if another source's task does.
    pub task: Option<BoxFuture<'static, ()>>,
}

pub static ALL: [&Source; 22] = [
    &NODES,
    &PODS,
    &PODS_BY_NAME,
    &SLO_CONFIG,
    &COLOCATION_PROFILES,
    &NAMESPACES,
    &PRIORITY_CLASSES,
    &LABEL_RULES,
    &LIMIT_RANGES,
    &QUOTAS,
    &QUOTA_TREES,
    &QUOTA_PODS,
    &fluid::CLAIMS,
    &fluid::DATASETS,
    &fluid::ALLUXIO,
    &fluid::JINDO,
    &fluid::JUICE_FS,
    &fluid::THIN,
    &fluid::EFC,
    &fluid::VINEYARD,
    &fluid::CACHE,
    &fluid::PLUGINS,
];

pub static NODES: Source = Source {
    name: "nodes",
    about: "Amounts, labels, annotations and conditions of each Node.",
    access: Access::watch("", "nodes"),
    presence: Presence::Always,
    shares: None,
    open: |opening| {
        let api = Api::all(opening.client.clone());
        opening.follow(&NODES, api, &opening.stores.nodes)
    },
    close: None,
};

pub static PODS: Source = Source {
    name: "pods",
    about: "Requests of bound pods, and their kubelet's reservations for them, by node.",
    access: Access::watch("", "pods"),
    presence: Presence::Always,
    shares: None,
    open: |opening| {
        let api = Api::all(opening.client.clone());
        opening.follow(&PODS, api, &opening.stores.pods)
    },
    close: None,
};

/// All pods, by namespace and name.
pub static PODS_BY_NAME: Source = Source {
    name: "pods-by-name",
    about: "Labels and annotations of all pods with keys of Koordinator's domain, of ours or of the configuration, by namespace and name.",
    access: PODS.access,
    presence: PODS.presence,
    shares: Some(&PODS),
    open: |opening| Opened {
        is_known: opening.stores.pods.by_name.want(),
        last_activity: None,
        task: None,
    },
    close: Some(|stores| stores.pods.by_name.close()),
};

pub static SLO_CONFIG: Source = Source {
    name: "configmaps",
    about: "Koordinator's ConfigMap, with the policies in it.",
    access: Access::watch_named("", "configmaps", &[names::SLO_CONFIG]),
    presence: Presence::Always,
    shares: None,
    open: |opening| {
        let api = Api::namespaced(opening.client.clone(), &opening.config_namespace);
        opening.follow(&SLO_CONFIG, api, &opening.stores.policies)
    },
    close: None,
};

pub static COLOCATION_PROFILES: Source = Source {
    name: profiles::PLURAL,
    about: "Koordinator's colocation profiles, compiled.",
    access: Access::watch(profiles::GROUP, profiles::PLURAL),
    presence: Presence::Custom {
        group: profiles::GROUP,
        version: profiles::VERSION,
    },
    shares: None,
    open: |opening| {
        let api = Api::all(opening.client.clone());
        opening.follow(&COLOCATION_PROFILES, api, &opening.stores.profiles.profiles)
    },
    close: Some(|stores| stores.profiles.profiles.clear()),
};

pub static NAMESPACES: Source = Source {
    name: "namespaces",
    about: "Labels of all namespaces.",
    access: Access::watch("", "namespaces"),
    presence: Presence::Always,
    shares: None,
    open: |opening| {
        let api = Api::all(opening.client.clone());
        opening.follow(&NAMESPACES, api, &opening.stores.profiles.namespaces)
    },
    close: Some(|stores| stores.profiles.namespaces.clear()),
};

pub static PRIORITY_CLASSES: Source = Source {
    name: "priorityclasses",
    about: "Value and preemption policy of each PriorityClass.",
    access: Access::watch("scheduling.k8s.io", "priorityclasses"),
    presence: Presence::Always,
    shares: None,
    open: |opening| {
        let api = Api::all(opening.client.clone());
        opening.follow(&PRIORITY_CLASSES, api, &opening.stores.profiles.classes)
    },
    close: Some(|stores| stores.profiles.classes.clear()),
};

/// The ConfigMap with the labels that pods must have.
pub static LABEL_RULES: Source = Source {
    name: "label-rules",
    about: "The ConfigMap with the label rules for pods.",
    access: Access::watch_named("", "configmaps", &[names::LABEL_RULES])
        .in_namespace(AccessNamespace::Named(names::SLO_CONFIG_NAMESPACE)),
    presence: Presence::Always,
    shares: None,
    open: |opening| {
        let namespace = opening.stores.label_rules.namespace();
        let api = Api::namespaced(opening.client.clone(), namespace.as_str());
        opening.follow(&LABEL_RULES, api, &opening.stores.label_rules)
    },
    close: Some(|stores| stores.label_rules.clear()),
};

/// LimitRanges of all namespaces. Without them only a warning is missing.
pub static LIMIT_RANGES: Source = Source {
    name: "limitranges",
    about: "Names of up to 16,384 LimitRanges that give cpu or memory to containers without them, by namespace.",
    access: Access::watch("", "limitranges"),
    presence: Presence::Always,
    shares: None,
    open: |opening| {
        let api = Api::all(opening.client.clone());
        opening.follow(&LIMIT_RANGES, api, &opening.stores.limit_ranges)
    },
    close: Some(|stores| stores.limit_ranges.clear()),
};

pub static QUOTAS: Source = Source {
    name: object::PLURAL,
    about: "Place in its tree, namespaces, min, max and guarantee of each ElasticQuota.",
    access: Access::watch(object::GROUP, object::PLURAL),
    presence: Presence::Custom {
        group: object::GROUP,
        version: object::VERSION,
    },
    shares: None,
    open: |opening| {
        let api = Api::all(opening.client.clone());
        opening.follow(&QUOTAS, api, &opening.stores.quotas)
    },
    close: Some(|stores| stores.quotas.clear()),
};

pub static QUOTA_TREES: Source = Source {
    name: tree_nodes::PLURAL,
    about: "The nodes of each quota tree.",
    access: Access::watch(tree_nodes::GROUP, tree_nodes::PLURAL),
    presence: Presence::Custom {
        group: tree_nodes::GROUP,
        version: tree_nodes::VERSION,
    },
    shares: None,
    open: |opening| {
        let api = Api::all(opening.client.clone());
        opening.follow(&QUOTA_TREES, api, &opening.stores.quota_trees)
    },
    close: Some(|stores| stores.quota_trees.clear()),
};

/// Requests of all pods, for all resources.
pub static QUOTA_PODS: Source = Source {
    name: "quota-pods",
    about: "Requests of each pod, by the quota that it names and by namespace.",
    access: PODS.access,
    presence: PODS.presence,
    shares: None,
    open: |opening| {
        let api = Api::all(opening.client.clone());
        opening.follow(&QUOTA_PODS, api, &opening.stores.quota_pods)
    },
    close: Some(|stores| stores.quota_pods.clear()),
};

impl SourceStores {
    /// Stores of nodes, and the further stores, which are empty. New objects are announced to `arrivals`.
    pub fn new(nodes: Arc<Nodes>, pods: Arc<Pods>, policies: Arc<Policies>, arrivals: &Arrivals) -> Self {
        let fan = PodFan {
            by_node: pods,
            by_name: Arc::new(PodsByName::new(arrivals.clone())),
        };
        Self {
            nodes,
            pods: Arc::new(fan),
            policies,
            profiles: ProfileSources::new(arrivals),
            label_rules: Arc::new(WatchedRules::default()),
            limit_ranges: Arc::default(),
            quotas: QuotaIndex::new(arrivals.clone()),
            quota_trees: Arc::default(),
            quota_pods: QuotaPods::new(QuotaCounting::default(), arrivals.clone()),
            fluid: FluidSources::new(arrivals),
        }
    }
}

impl Opening {
    /// Follows a source of its own watch.
    fn follow<S: Store + 'static>(&self, source: &Source, api: Api<S::Object>, store: &Arc<S>) -> Opened {
        let (is_known_tx, is_known) = watch::channel(false);
        let subject = Subject {
            name: source.name,
            presence: source.presence,
        };
        let (store, stop) = (Arc::clone(store), self.stop.clone());
        let last_activity = LastActivity::default();
        let signs = (is_known_tx, last_activity.clone());
        Opened {
            is_known,
            last_activity: Some(last_activity),
            task: Some(Box::pin(informer::follow(subject, api, store, signs, stop))),
        }
    }
}

impl fmt::Debug for Opening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opening")
            .field("config_namespace", &self.config_namespace)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened")
            .field("is_known", &*self.is_known.borrow())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_source_has_a_name_of_its_own_and_may_watch() {
        let names: BTreeSet<_> = ALL.iter().map(|source| source.name).collect();
        assert_eq!(names.len(), ALL.len());
        for source in ALL {
            assert_eq!(source.access.verbs, ["get", "list", "watch"], "{}", source.name);
            if let Presence::Custom { group, .. } = source.presence {
                assert_eq!(source.access.group, group, "{}", source.name);
            }
        }
    }
}
