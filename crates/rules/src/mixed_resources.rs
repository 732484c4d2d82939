//! Finds containers with cpu or memory in a pod that requests the resources of its band instead.
//!
//! Another webhook may add a container after this one, and the LimitRange of a namespace may add default amounts to
//! containers without cpu and memory. The scheduler then reserves both, and the kubelet sets cgroups of both.

use headroom_domain::names;

use crate::{
    container::{Container, ContainerList, Containers},
    pod_types::shown,
};

/// Maximum number of names in a warning.
const MOST_NAMES: usize = 8;

/// Resources of bands that replace cpu and memory.
const OF_BANDS: [&str; 4] = [
    names::BATCH_CPU,
    names::BATCH_MEMORY,
    names::MID_CPU,
    names::MID_MEMORY,
];

/// Resources that a LimitRange gives to containers without them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DefaultResources {
    /// It gives cpu.
    pub cpu: bool,
    /// It gives memory.
    pub memory: bool,
}

impl DefaultResources {
    /// Returns true if it gives neither.
    pub const fn is_empty(self) -> bool {
        !self.cpu && !self.memory
    }
}

/// Returns a warning if a pod has containers with cpu or memory and requests resources of a band; `limit_ranges` are the
/// names of the LimitRanges of its namespace, with the resources that they give.
pub fn warning(containers: &Containers, limit_ranges: &[(String, DefaultResources)]) -> Option<String> {
    let all = || {
        let lists = ContainerList::ALL.into_iter();
        lists.flat_map(|list| containers.list(list))
    };
    let is_of_band = all().any(|container| OF_BANDS.iter().any(|name| has(container, name)));
    let native: Vec<&Container> = all().filter(|container| has_native(container)).collect();
    if !is_of_band || native.is_empty() {
        return None;
    }
    let gives = |given: &DefaultResources| {
        let has = |name| native.iter().any(|container| has(container, name));
        (given.cpu && has(names::CPU)) || (given.memory && has(names::MEMORY))
    };
    let causes = limit_ranges.iter().filter(|(_, given)| gives(given));
    let causes: Vec<&str> = causes.map(|(name, _)| name.as_str()).collect();
    let cause = if causes.is_empty() {
        "a webhook after Headroom may have added them".to_owned()
    } else {
        format!(
            "LimitRange {} of the namespace adds them to containers without",
            listed(&causes)
        )
    };
    let names: Vec<&str> = native.iter().map(|container| container.name.as_str()).collect();
    Some(format!(
        "containers {} have cpu or memory in a pod with resources of its band, and the node reserves both: {cause}",
        listed(&names)
    ))
}

fn has(container: &Container, name: &str) -> bool {
    container.resources.requests.contains(name) || container.resources.limits.contains(name)
}

fn has_native(container: &Container) -> bool {
    has(container, names::CPU) || has(container, names::MEMORY)
}

/// Names in one text, bounded in number.
fn listed(names: &[&str]) -> String {
    let shown: Vec<String> = names.iter().take(MOST_NAMES).map(|name| shown(name)).collect();
    let rest = names.len().saturating_sub(MOST_NAMES);
    let more = if rest > 0 {
        format!(" and {rest} more")
    } else {
        String::new()
    };
    format!("{}{more}", shown.join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn warned(spec: &Value, limit_ranges: &[(&str, bool, bool)]) -> Option<String> {
        let containers: Containers = serde_json::from_value(spec.clone()).unwrap();
        let limit_ranges: Vec<_> = limit_ranges
            .iter()
            .map(|(name, cpu, memory)| {
                (
                    (*name).to_owned(),
                    DefaultResources {
                        cpu: *cpu,
                        memory: *memory,
                    },
                )
            })
            .collect();
        warning(&containers, &limit_ranges)
    }

    fn mixed() -> Value {
        json!({
            "initContainers": [{"name": "proxy", "restartPolicy": "Always", "resources": {"limits": {"memory": "64Mi"}}}],
            "containers": [
                {"name": "main", "resources": {"requests": {"kubernetes.io/batch-cpu": 1}}},
                {"name": "side", "resources": {"requests": {"cpu": 1}}},
            ],
        })
    }

    #[test]
    fn containers_with_native_amounts_in_a_batch_pod_are_named() {
        let warning = warned(&mixed(), &[]).unwrap();
        assert!(
            warning.starts_with("containers proxy, side have cpu or memory"),
            "{warning}"
        );
        assert!(
            warning.ends_with("a webhook after Headroom may have added them"),
            "{warning}"
        );
    }

    #[test]
    fn the_limit_range_that_adds_them_is_named() {
        let warning = warned(&mixed(), &[("of-disk", false, false), ("of-cpu", true, false)]).unwrap();
        assert!(
            warning.contains(": LimitRange of-cpu of the namespace adds them"),
            "{warning}"
        );
        let mut cpu = mixed();
        cpu["initContainers"] = Value::Null;
        let warning = warned(&cpu, &[("of-memory", false, true)]).unwrap();
        assert!(!warning.contains("LimitRange"), "{warning}");
    }

    #[test]
    fn a_pod_of_one_kind_of_resources_has_no_warning() {
        let mut batch = mixed();
        batch["initContainers"] = Value::Null;
        batch["containers"][1]["resources"] = Value::Null;
        let native = json!({"containers": [{"name": "a", "resources": {"requests": {"cpu": 1}}}]});
        for spec in [batch, native] {
            assert_eq!(warned(&spec, &[("l", true, true)]), None);
        }
    }

    #[test]
    fn many_containers_are_counted() {
        let container = |at: usize| json!({"name": format!("c{at}"), "resources": {"limits": {"cpu": 1, "kubernetes.io/batch-cpu": 1}}});
        let spec = json!({"containers": (0..100).map(container).collect::<Vec<_>>()});
        let warning = warned(&spec, &[]).unwrap();
        assert!(
            warning.contains("c7 and 92 more") && warning.len() < 300,
            "{warning}"
        );
    }
}
