//! The ElasticQuotas that are known in a case, in short, as their watch brought them.

use std::{collections::BTreeMap, sync::Arc};

use serde::Deserialize;
use serde_json::{Value, json};

use super::world::PodNotes;
use crate::store::{
    arrivals::Arrivals,
    colocation::{pod_fan::PodFan, pods::PodsByName},
    informer::Store as _,
    pods::Pods,
    quota::{index::QuotaIndex, object::WatchedQuota, tree_nodes::TreeNodes, with_pods::QuotasWithPods},
    quota_pods::{QuotaPods, counting::QuotaCounting},
};

/// A quota. Keys of labels and annotations are without their domain.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct QuotaNotes {
    name: String,
    namespace: Option<String>,
    /// The year in which it was created.
    created: Option<u16>,
    /// True if it waits for finalizers.
    is_going: bool,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    min: Option<Value>,
    max: Option<Value>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TreeNotes {
    name: String,
    tree: String,
    #[serde(default)]
    nodes: Value,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum QuotaEvent {
    Applied(QuotaNotes),
    Deleted(QuotaNotes),
    Listed(Vec<QuotaNotes>),
}

impl QuotaNotes {
    fn object(&self) -> WatchedQuota {
        let keys = |keys: &BTreeMap<String, String>| -> BTreeMap<String, String> {
            let long = |(key, value): (&String, &String)| {
                (format!("quota.scheduling.koordinator.sh/{key}"), value.clone())
            };
            keys.iter().map(long).collect()
        };
        let namespace = self.namespace.as_deref().unwrap_or("kube-system");
        let mut metadata = json!({
            "name": self.name, "namespace": namespace, "uid": format!("{namespace}/{}", self.name),
            "creationTimestamp": format!("{}-01-01T00:00:00Z", self.created.unwrap_or(2026)),
            "resourceVersion": "7", "labels": keys(&self.labels), "annotations": keys(&self.annotations),
        });
        if self.is_going {
            metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        }
        let object = json!({"metadata": metadata, "spec": {"min": self.min, "max": self.max}});
        serde_json::from_str(&object.to_string()).expect("a quota")
    }
}

fn list(index: &QuotaIndex, quotas: &[QuotaNotes]) {
    let mut listing = index.listing();
    for quota in quotas {
        QuotaIndex::list(&mut listing, quota.object());
    }
    index.replace(listing);
}

/// The nodes of the trees that these profiles name.
pub(super) fn tree_nodes(profiles: &[TreeNotes]) -> Arc<TreeNodes> {
    let trees = Arc::new(TreeNodes::default());
    for TreeNotes { name, tree, nodes } in profiles {
        let labels = json!({"quota.scheduling.koordinator.sh/tree-id": tree});
        let object = json!({
            "metadata": {"namespace": "kube-system", "name": name, "labels": labels}, "spec": {"nodeSelector": nodes},
        });
        trees.apply(serde_json::from_str(&object.to_string()).expect("a profile"));
    }
    trees
}

/// Requests of the pods, by NAMESPACE/NAME.
pub(super) fn quota_pods(pods: &BTreeMap<String, PodNotes>) -> Arc<QuotaPods> {
    let store = QuotaPods::new(QuotaCounting::default(), Arrivals::default());
    let mut listing = store.listing();
    for (key, notes) in pods {
        let PodNotes {
            labels,
            phase,
            requests,
            ..
        } = notes;
        let (namespace, name) = key.split_once('/').expect("NAMESPACE/NAME");
        let object = json!({
            "metadata": {"name": name, "namespace": namespace, "uid": key, "labels": labels, "resourceVersion": "1"},
            "spec": {"containers": [{"name": "c", "resources": {"requests": requests}}]},
            "status": {"phase": phase},
        });
        QuotaPods::list(&mut listing, serde_json::from_value(object).expect("a pod"));
    }
    store.replace(listing);
    store.set_known(true);
    store
}

/// The quotas, and the pods by NAMESPACE/NAME.
pub(super) fn known_quotas(
    quotas: &[QuotaNotes],
    events: &[QuotaEvent],
    pods: &BTreeMap<String, PodNotes>,
) -> QuotasWithPods {
    let index = QuotaIndex::new(Arrivals::default());
    list(&index, quotas);
    for event in events {
        match event {
            QuotaEvent::Applied(quota) => index.apply(quota.object()),
            QuotaEvent::Deleted(quota) => index.delete(quota.object()),
            QuotaEvent::Listed(quotas) => list(&index, quotas),
        }
    }
    let fan = PodFan {
        by_node: Arc::new(Pods::new(Arc::default(), Arc::default())),
        by_name: Arc::new(PodsByName::new(Arrivals::default())),
    };
    let _is_known = fan.by_name.want();
    let mut listing = fan.listing();
    for (key, PodNotes { labels, phase, .. }) in pods {
        let (namespace, name) = key.split_once('/').expect("NAMESPACE/NAME");
        let metadata = json!({"name": name, "namespace": namespace, "uid": key, "labels": labels});
        let pod = json!({"metadata": metadata, "status": {"phase": phase}});
        PodFan::list(&mut listing, serde_json::from_value(pod).expect("a pod"));
    }
    fan.replace(listing);
    QuotasWithPods {
        index,
        pods: Arc::clone(&fan.by_name),
    }
}
