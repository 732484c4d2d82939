//! [`PodTemplate`]: the spec of a watched Pod, with the fields in which two versions of a workload differ.

use headroom_domain::{
    pod::{Container, CpuAndMemory, PodSpec, ResourceRequirements},
    resource::PerResource,
};
use k8s_openapi::api::core::v1::NodeSelectorTerm;
use serde::{Deserialize, de::IgnoredAny};
use sha2::{Digest as _, Sha256};

use super::hashed::Hashed;

/// Label of a node's host name, which usually selects one node.
const HOSTNAME: &str = "kubernetes.io/hostname";
/// The one field by which a node affinity can select.
const NODE_NAME: &str = "metadata.name";

/// The spec of a Pod, with hashes of what its containers run.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct PodTemplate {
    node_name: Option<String>,
    priority: Option<i32>,
    containers: Option<Vec<ContainerTemplate>>,
    init_containers: Option<Vec<ContainerTemplate>>,
    overhead: Option<CpuAndMemory>,
    resources: Option<ResourceRequirements<CpuAndMemory, IgnoredAny>>,
    node_selector: Option<SelectedLabels>,
    affinity: Option<Affinity>,
    volumes: Option<Vec<Volume>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ContainerTemplate {
    name: Option<String>,
    image: Option<Hashed>,
    command: Option<Hashed>,
    args: Option<Hashed>,
    env: Option<Hashed>,
    env_from: Option<Hashed>,
    resources: Option<ResourceRequirements<CpuAndMemory, IgnoredAny>>,
    restart_policy: Option<String>,
}

/// Labels of a node selector that are read.
#[derive(Default, Deserialize)]
#[serde(default)]
struct SelectedLabels {
    /// Value of [`HOSTNAME`].
    #[serde(rename = "kubernetes.io/hostname")]
    hostname: Option<IgnoredAny>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Affinity {
    node_affinity: Option<NodeAffinity>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct NodeAffinity {
    required_during_scheduling_ignored_during_execution: Option<NodeSelector>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct NodeSelector {
    node_selector_terms: Option<Vec<NodeSelectorTerm>>,
}

/// Sources of a volume that are read.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Volume {
    config_map: Option<NamedObject>,
    secret: Option<NamedSecret>,
    projected: Option<Projected>,
    persistent_volume_claim: Option<IgnoredAny>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Projected {
    sources: Option<Vec<ProjectedSource>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ProjectedSource {
    config_map: Option<NamedObject>,
    secret: Option<NamedObject>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NamedObject {
    name: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct NamedSecret {
    secret_name: Option<String>,
}

impl PodTemplate {
    /// Hash of what the pod runs and requests. It does not depend on the pod's own name, node and volumes.
    pub(super) fn version(&self) -> u64 {
        let mut hash = Sha256::new();
        for (kind, containers) in [("app", &self.containers), ("init", &self.init_containers)] {
            for container in containers.iter().flatten() {
                hash.update(kind);
                container.add_to(&mut hash);
            }
        }
        if let Some(resources) = &self.resources {
            hash.update("pod");
            add_requests(&mut hash, &resources.requests);
        }
        for volume in self.volumes.iter().flatten() {
            volume.add_to(&mut hash);
        }
        first_word(hash)
    }

    /// True if the pod can run on one node only, by its own selectors.
    pub(super) fn selects_one_node(&self) -> bool {
        let selected = self.node_selector.as_ref();
        if selected.is_some_and(|labels| labels.hostname.is_some()) {
            return true;
        }
        let affinity = self
            .affinity
            .as_ref()
            .and_then(|affinity| affinity.node_affinity.as_ref());
        let required = affinity.and_then(|affinity| {
            affinity
                .required_during_scheduling_ignored_during_execution
                .as_ref()
        });
        let terms = required.and_then(|selector| selector.node_selector_terms.as_deref());
        matches!(terms, Some([term]) if names_one_node(term))
    }

    /// True if the pod mounts a PersistentVolumeClaim.
    pub(super) fn has_claim(&self) -> bool {
        let mut volumes = self.volumes.iter().flatten();
        volumes.any(|volume| volume.persistent_volume_claim.is_some())
    }

    /// The spec without what only the hash needs.
    pub(super) fn into_spec(self) -> PodSpec<CpuAndMemory, IgnoredAny> {
        let containers = |containers: Option<Vec<ContainerTemplate>>| {
            let containers = containers.unwrap_or_default().into_iter();
            containers.map(ContainerTemplate::into_container).collect()
        };
        PodSpec {
            node_name: self.node_name,
            priority: self.priority,
            containers: containers(self.containers),
            init_containers: containers(self.init_containers),
            overhead: self.overhead.unwrap_or_default(),
            resources: self.resources,
        }
    }
}

impl ContainerTemplate {
    fn add_to(&self, hash: &mut Sha256) {
        hash.update(self.name.as_deref().unwrap_or_default());
        let parts = [&self.image, &self.command, &self.args, &self.env, &self.env_from];
        for part in parts {
            hash.update(part.as_ref().map_or([0; 32], |part| part.0));
        }
        if let Some(resources) = &self.resources {
            add_requests(hash, &resources.requests);
        }
    }

    fn into_container(self) -> Container<CpuAndMemory, IgnoredAny> {
        Container {
            name: self.name.unwrap_or_default(),
            resources: self.resources.unwrap_or_default(),
            restart_policy: self.restart_policy,
        }
    }
}

impl Volume {
    fn add_to(&self, hash: &mut Sha256) {
        let secret = self
            .secret
            .as_ref()
            .and_then(|secret| secret.secret_name.as_deref());
        add_name(hash, "secret", secret);
        let name = |named: &'_ Option<NamedObject>| named.as_ref().and_then(|named| named.name.clone());
        add_name(hash, "map", name(&self.config_map).as_deref());
        let sources = self
            .projected
            .as_ref()
            .and_then(|projected| projected.sources.as_ref());
        for source in sources.into_iter().flatten() {
            add_name(hash, "secret", name(&source.secret).as_deref());
            add_name(hash, "map", name(&source.config_map).as_deref());
        }
    }
}

fn add_requests(hash: &mut Sha256, requests: &CpuAndMemory) {
    let PerResource { cpu, memory } = requests.amounts();
    hash.update(cpu.to_be_bytes());
    hash.update(memory.to_be_bytes());
}

fn add_name(hash: &mut Sha256, kind: &str, name: Option<&str>) {
    if let Some(name) = name {
        hash.update(format!("{kind} {name}\n"));
    }
}

/// True for a term with a requirement that one node's name fulfils.
fn names_one_node(term: &NodeSelectorTerm) -> bool {
    let fields = term.match_fields.iter().flatten();
    let labels = term.match_expressions.iter().flatten();
    let mut requirements = fields
        .filter(|requirement| requirement.key == NODE_NAME)
        .chain(labels.filter(|requirement| requirement.key == HOSTNAME));
    requirements.any(|requirement| {
        let values = requirement.values.as_deref().unwrap_or_default();
        requirement.operator == "In" && values.len() == 1
    })
}

/// The first 64 bits of a hash: a user cannot find another text with the same ones.
pub(super) fn first_word(hash: Sha256) -> u64 {
    let digest = hash.finalize();
    digest
        .iter()
        .take(8)
        .fold(0, |word, byte| word << 8 | u64::from(*byte))
}
