//! The annotation that lists the batch resources of a Pod's containers for the agent on the node.
//!
//! The container runtime does not know these resources, so the node's agent reads them from the annotation
//! [`names::EXTENDED_RESOURCE_SPEC`] and sets the cgroups. A value written by a client is replaced.

use std::collections::BTreeMap;

use headroom_domain::{amounts::Amounts, names};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    change::AnnotationChange,
    container::{Container, ContainerList, Containers, Resources},
    switch::{Switch, Switches},
};

/// Switch: the annotation includes sidecars.
pub static SIDECARS: Switch = Switch {
    name: "ExtendedResourceSidecars",
    default: true,
    row: "D-15",
    koordinator: "the extended-resource-spec annotation omits sidecars, and the node's agent limits the pod to less than its containers",
    about: "the extended-resource-spec annotation lists sidecars by name, and no init containers that end before the pod runs",
    why: "the node's agent adds up all entries, and one entry without limits removes the limits of the pod",
};

/// Switch: a stale annotation is removed if the pod has no batch resources.
pub static REMOVES_STALE: Switch = Switch {
    name: "ExtendedResourceRemovesStale",
    default: true,
    row: "D-17",
    koordinator: "a stale extended-resource-spec annotation becomes `{}`",
    about: "a stale extended-resource-spec annotation is removed",
    why: "a pod without batch resources needs no annotation",
};

/// Resources listed in the annotation.
const RESOURCES: [&str; 2] = [names::BATCH_CPU, names::BATCH_MEMORY];

/// Maximum length of the annotation that is parsed, in bytes: Kubernetes refuses objects with longer annotations.
/// Parsing can need many times the memory of the text.
const LONGEST: usize = 256 << 10;

/// Maximum length of a container name, in bytes: Kubernetes refuses pods with longer names, but only after this
/// webhook has seen them. In an annotation inside a patch, a name can need many times the memory of its text.
const LONGEST_NAME: usize = 63;

/// Content of the annotation. The order of the members is their order in the text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
struct Spec {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    containers: BTreeMap<String, ContainerSpec>,
}

/// Batch resources of one container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
struct ContainerSpec {
    #[serde(skip_serializing_if = "Amounts::is_empty")]
    limits: Amounts,
    #[serde(skip_serializing_if = "Amounts::is_empty")]
    requests: Amounts,
}

/// Computes the change of the annotation for a Pod with these containers; `current` is its value.
///
/// An unreadable value is replaced. A value with the same meaning as the new one stays, in any spelling.
pub fn annotation(containers: &Containers, current: Option<&str>, switches: &Switches) -> AnnotationChange {
    let spec = Spec::of_containers(containers, switches.is_on(&SIDECARS));
    let has_nothing = spec.containers.is_empty();
    let is_same = match current {
        None => has_nothing,
        Some(text) => Spec::parse(text).is_some_and(|current| current == spec),
    };
    if is_same {
        AnnotationChange::Keep
    } else if has_nothing && switches.is_on(&REMOVES_STALE) {
        AnnotationChange::Remove
    } else {
        // Maps of strings are always valid JSON.
        serde_json::to_string(&spec).map_or(AnnotationChange::Keep, AnnotationChange::Set)
    }
}

impl Spec {
    /// Init containers have ended when the containers run, so their amounts do not count.
    fn of_containers(containers: &Containers, has_sidecars: bool) -> Self {
        let sidecars = containers.list(ContainerList::Init).iter();
        let sidecars = sidecars.filter(|container| has_sidecars && container.is_sidecar(ContainerList::Init));
        let specs = sidecars
            .chain(containers.list(ContainerList::Main))
            .filter(|container| container.name.len() <= LONGEST_NAME)
            .filter_map(|container| Some((container.name.clone(), ContainerSpec::of_container(container)?)));
        Self {
            containers: specs.collect(),
        }
    }

    /// Parses a value; `None` if it cannot be read or is too long. Unknown members are ignored.
    fn parse(text: &str) -> Option<Self> {
        if text.len() > LONGEST {
            return None;
        }
        let mut members = object(serde_json::from_str(text).ok()?)?;
        let containers = object(members.remove("containers").unwrap_or_default())?;
        let specs = containers
            .into_iter()
            .map(|(name, spec)| Some((name, ContainerSpec::parse(spec)?)));
        Some(Self {
            containers: specs.collect::<Option<_>>()?,
        })
    }
}

impl ContainerSpec {
    /// Batch resources of a container; `None` if it has none.
    fn of_container(container: &Container) -> Option<Self> {
        let Resources { requests, limits } = &container.resources;
        let spec = Self {
            limits: limits.only(&RESOURCES),
            requests: requests.only(&RESOURCES),
        };
        (!spec.limits.is_empty() || !spec.requests.is_empty()).then_some(spec)
    }

    fn parse(spec: Value) -> Option<Self> {
        let mut members = object(spec)?;
        let mut amounts = |name: &str| Amounts::deserialize(members.remove(name).unwrap_or_default()).ok();
        Some(Self {
            limits: amounts("limits")?,
            requests: amounts("requests")?,
        })
    }
}

/// Members of an object; `null` has none.
fn object(value: Value) -> Option<Map<String, Value>> {
    match value {
        Value::Object(members) => Some(members),
        Value::Null => Some(Map::new()),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => None,
    }
}

#[cfg(test)]
mod tests;
