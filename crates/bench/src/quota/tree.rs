//! [`Tree`]: quotas with ten children per parent, their pods, and the stores of a replica that follows them.

use std::sync::Arc;

use anyhow::Result;
use headroom_domain::names;
use headroom_webhook::store::{
    arrivals::Arrivals,
    colocation::pods::PodsByName,
    informer::Store as _,
    quota::{
        index::{QuotaIndex, QuotaListing},
        with_pods::QuotasWithPods,
    },
    quota_pods::{QuotaPods, counting::QuotaCounting, ledger::Ledger, object::WatchedQuotaPod},
};
use serde_json::{Map, Value, json};

const CHILDREN: usize = 10;
/// Pods of each quota without children.
const PODS: usize = 3;
/// Namespaces over which the quotas are spread.
const NAMESPACES: usize = 16;

/// `max` of every quota, in CPUs and GiB.
const MAX: usize = 100_000;

#[derive(Debug, Clone)]
pub(super) struct QuotaObject {
    pub(super) name: String,
    pub(super) namespace: String,
    parent: Option<String>,
    is_parent: bool,
    /// `min` in CPUs and GiB.
    min: usize,
    /// `max` in CPUs and GiB.
    pub(super) max: usize,
    /// Number of status writes by the scheduler.
    round: u32,
}

/// Number of quotas in one tree. The parent of quota `i` is quota `(i - 1) / 10`, so the last parent has nine
/// children in trees of 10, 1,000 and 20,000.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tree {
    pub(super) quotas: usize,
}

impl QuotaObject {
    /// The object as a client writes it.
    pub(super) fn written(&self) -> Value {
        self.object(
            &json!({"name": self.name, "namespace": self.namespace, "labels": self.labels()}),
            &Value::Null,
        )
    }

    pub(super) fn stored(&self) -> Value {
        let asked = json!({"cpu": self.round.to_string(), "memory": format!("{}Gi", self.round)});
        let metadata = json!({
            "name": self.name,
            "namespace": self.namespace,
            "uid": format!("uid-{}", self.name),
            "resourceVersion": format!("{}", 1_000 * self.round),
            "labels": self.labels(),
            "annotations": {names::QUOTA_CHILD_REQUEST: asked.to_string()},
        });
        self.object(&metadata, &json!({"used": asked}))
    }

    fn labels(&self) -> Value {
        let mut labels = Map::new();
        labels.insert(
            names::QUOTA_IS_PARENT.to_owned(),
            self.is_parent.to_string().into(),
        );
        if let Some(parent) = &self.parent {
            labels.insert(names::QUOTA_PARENT.to_owned(), parent.as_str().into());
        }
        labels.into()
    }

    fn object(&self, metadata: &Value, status: &Value) -> Value {
        let amounts = |count: usize| json!({"cpu": count, "memory": format!("{count}Gi")});
        json!({
            "kind": "ElasticQuota",
            "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
            "metadata": metadata,
            "spec": {"min": amounts(self.min), "max": amounts(self.max)},
            "status": status,
        })
    }
}

impl Tree {
    /// Stores of a replica that has listed all quotas and pods.
    pub(super) fn stores(self) -> Result<(QuotasWithPods, Arc<QuotaPods>)> {
        let index = QuotaIndex::new(Arrivals::default());
        let mut listing = QuotaListing::default();
        for text in self.watched(1) {
            QuotaIndex::list(&mut listing, serde_json::from_str(&text)?);
        }
        index.replace(listing);
        let pods = QuotaPods::new(QuotaCounting::default(), Arrivals::default());
        let mut ledger = Ledger::default();
        for quota in self.leaves() {
            for number in 0..PODS {
                let pod: WatchedQuotaPod = serde_json::from_value(stored_pod(quota, number))?;
                QuotaPods::list(&mut ledger, pod);
            }
        }
        pods.replace(ledger);
        pods.set_known(true);
        let quotas = QuotasWithPods {
            index,
            pods: Arc::new(PodsByName::new(Arrivals::default())),
        };
        Ok((quotas, pods))
    }

    /// Each quota as the watch delivers it after the scheduler's write number `round`.
    pub(super) fn watched(self, round: u32) -> impl Iterator<Item = String> {
        (0..self.quotas).map(move |quota| {
            let object = QuotaObject {
                round,
                ..self.quota(quota)
            };
            object.stored().to_string()
        })
    }

    pub(super) fn quota(self, quota: usize) -> QuotaObject {
        QuotaObject {
            name: name(quota),
            namespace: namespace(quota),
            parent: parent(quota).map(name),
            is_parent: self.is_parent(quota),
            min: self.min(quota),
            max: MAX,
            round: 1,
        }
    }

    /// A new quota with the same parent as the last one.
    pub(super) fn new_child(self) -> QuotaObject {
        QuotaObject {
            name: "new".to_owned(),
            ..self.quota(self.last())
        }
    }

    /// The last quota, which has no children.
    pub(super) const fn last(self) -> usize {
        self.quotas - 1
    }

    fn leaves(self) -> impl Iterator<Item = usize> {
        (0..self.quotas).filter(move |&quota| !self.is_parent(quota))
    }

    const fn is_parent(self, quota: usize) -> bool {
        CHILDREN * quota + 1 < self.quotas
    }

    /// `min` of all children together, plus one CPU.
    fn min(self, quota: usize) -> usize {
        let children = CHILDREN * quota + 1..(CHILDREN * quota + 1 + CHILDREN).min(self.quotas);
        1 + children.map(|child| self.min(child)).sum::<usize>()
    }
}

/// Namespace of a quota and of its pods.
pub(super) fn namespace(quota: usize) -> String {
    format!("team-{:02}", quota % NAMESPACES)
}

pub(super) fn name(quota: usize) -> String {
    format!("quota-{quota:05}")
}

const fn parent(quota: usize) -> Option<usize> {
    match quota {
        0 => None,
        quota => Some((quota - 1) / CHILDREN),
    }
}

fn stored_pod(quota: usize, number: usize) -> Value {
    let asked = json!({"cpu": "500m", "memory": "1Gi"});
    json!({
        "metadata": {
            "name": format!("pod-{quota}-{number}"),
            "namespace": namespace(quota),
            "uid": format!("pod-uid-{quota}-{number}"),
            "resourceVersion": "1",
            "labels": {names::QUOTA_NAME: name(quota)},
        },
        "spec": {"containers": [{"name": "main", "resources": {"requests": asked}}]},
        "status": {"phase": "Running"},
    })
}
