//! [`Controller`]: the controller of a pod, its version, and whether a successor is bound to the same node.
//!
//! Every user who may create pods may write owner references and labels. A forged controller gains a place on the
//! nodes of the forged pod within the limits for its kind, and nothing in another namespace.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use headroom_domain::{capacity::places::PlaceKind, workload::Workload};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use sha2::{Digest as _, Sha256};

use super::template::{PodTemplate, first_word};

/// Labels that repeat the suffix by which a controller names the ReplicaSet of a revision.
const REVISIONS: [&str; 2] = ["pod-template-hash", "rollouts-pod-template-hash"];

/// The controller of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Controller {
    /// Hashes of the controller and of what the pod runs.
    pub workload: Workload,
    /// Ability of a successor to run on another node.
    pub kind: PlaceKind,
    /// In words, such as `DaemonSet kube-system/cni`.
    pub owner: String,
}

impl Controller {
    /// The controller of a pod; `None` for a bare pod.
    pub(super) fn from_pod(metadata: &ObjectMeta, spec: &PodTemplate) -> Option<Self> {
        let owners = metadata.owner_references.iter().flatten();
        let owner = owners.clone().find(|owner| owner.controller == Some(true))?;
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        let group = owner.api_version.rsplit_once('/').map_or("", |(group, _)| group);
        let name = base_name(owner, metadata);
        let key = [namespace, group, &owner.kind, name].join("\0");
        let is_tied = owner.kind == "Node"
            || (owner.kind == "StatefulSet" && spec.has_claim())
            || spec.selects_one_node();
        Some(Self {
            workload: Workload {
                controller: first_word(Sha256::new_with_prefix(key)),
                version: spec.version(),
            },
            kind: match owner.kind.as_str() {
                "DaemonSet" => PlaceKind::DaemonSet,
                _ if is_tied => PlaceKind::Tied,
                _ => PlaceKind::Other,
            },
            owner: format!("{} {namespace}/{name}", owner.kind),
        })
    }
}

/// Hash of a pod's namespace, for this replica alone.
pub(super) fn namespace_hash(metadata: &ObjectMeta) -> u32 {
    let mut hasher = DefaultHasher::new();
    metadata.namespace.hash(&mut hasher);
    (hasher.finish() >> 32) as u32
}

/// Name of the controller without its revision: that of the Deployment for a ReplicaSet, that of the CronJob for a
/// Job.
fn base_name<'o>(owner: &'o OwnerReference, metadata: &ObjectMeta) -> &'o str {
    let name = owner.name.as_str();
    let base = match owner.kind.as_str() {
        "ReplicaSet" => {
            let labels = metadata.labels.as_ref();
            let revisions = REVISIONS.into_iter().filter_map(|key| labels?.get(key));
            let mut bases = revisions
                .filter(|revision| !revision.is_empty())
                .filter_map(|revision| name.strip_suffix(revision.as_str())?.strip_suffix('-'));
            bases.next()
        }
        "Job" => name
            .rsplit_once('-')
            .filter(|(_, time)| {
                (8..=10).contains(&time.len()) && time.bytes().all(|byte| byte.is_ascii_digit())
            })
            .map(|(base, _)| base),
        _ => None,
    };
    base.filter(|base| !base.is_empty()).unwrap_or(name)
}
