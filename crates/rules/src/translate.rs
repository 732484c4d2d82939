//! Converts cpu and memory of a batch or mid Pod into the resources of its band, which the scheduler assigns from
//! unused capacity.
//!
//! Cpu amounts become whole millicores; memory amounts stay. A limit in resources of the band also becomes the
//! request if there is none. Pod-level resources and ephemeral containers stay unchanged.

use headroom_domain::{
    amounts::Amounts,
    names,
    pod::Pod,
    qos::{Band, Class},
    quantity::Quantity,
    selector::Labels,
};

use crate::{
    change::{Changes, ContainerChange},
    container::{ContainerList, Containers, Resources},
};

/// Resources of a band that replace cpu and memory.
struct BandResources {
    cpu: &'static str,
    memory: &'static str,
}

/// Returns the band of a Pod: from its label or priority, or else from its QoS class.
pub fn band(pod: &Pod) -> Option<Band> {
    let Pod { metadata, spec, .. } = pod;
    stated_band(&metadata.labels, spec.priority).or_else(|| {
        let class = Class::with_default(None, pod.kubernetes_qos_name());
        Band::with_default(None, class)
    })
}

/// Returns the band from labels and priority only; `None` if it depends on the containers' requests.
pub fn stated_band(labels: &Labels, priority: Option<i32>) -> Option<Band> {
    let label = |name: &str| labels.get(name).map(String::as_str);
    let raw = Band::raw(label(names::PRIORITY_CLASS), priority);
    Band::with_default(raw, Class::raw(label(names::QOS_CLASS)))
}

/// Computes the changes of a Pod in this band with these containers; none in bands other than batch and mid. The overhead
/// stays: the API server refuses a Pod whose overhead differs from that of its RuntimeClass.
pub fn translation(band: Option<Band>, containers: &Containers) -> Changes {
    let Some(resources) = band.and_then(BandResources::of_band) else {
        return Changes::default();
    };
    let lists = ContainerList::ALL.into_iter();
    let changes = lists.flat_map(|list| {
        let containers = containers.list(list).iter().enumerate();
        containers.map(move |(index, container)| (list, index, container))
    });
    let changes = changes.filter_map(|(list, index, container)| {
        let translated = resources.translated(&container.resources);
        ContainerChange::between(list, index, &container.resources, &translated)
    });
    changes.collect()
}

impl BandResources {
    const fn of_band(band: Band) -> Option<Self> {
        match band {
            Band::Batch => Some(Self {
                cpu: names::BATCH_CPU,
                memory: names::BATCH_MEMORY,
            }),
            Band::Mid => Some(Self {
                cpu: names::MID_CPU,
                memory: names::MID_MEMORY,
            }),
            Band::Prod | Band::Free => None,
        }
    }

    fn renamed(&self, amounts: &Amounts) -> Amounts {
        let mut renamed = amounts.clone();
        if let Some(cpu) = renamed.remove(names::CPU) {
            renamed.set(self.cpu, Quantity::from_whole(cpu.whole_milli()));
        }
        if let Some(memory) = renamed.remove(names::MEMORY) {
            renamed.set(self.memory, memory);
        }
        renamed
    }

    fn translated(&self, resources: &Resources) -> Resources {
        let limits = self.renamed(&resources.limits);
        let mut requests = self.renamed(&resources.requests);
        for name in [self.cpu, self.memory] {
            if let Some(limit) = limits.get(name).filter(|_| !requests.contains(name)) {
                requests.set(name, *limit);
            }
        }
        Resources { requests, limits }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    /// Requests and limits of the first container of the list after the conversion.
    fn translated(band: Band, spec: &Value, list: ContainerList) -> Value {
        let containers: Containers = serde_json::from_value(spec.clone()).unwrap();
        let changes = translation(Some(band), &containers);
        let mut containers = spec[list.name()].clone();
        changes.apply(list, &mut containers).unwrap();
        containers[0]["resources"].clone()
    }

    #[rstest]
    #[case("500m", "500")]
    #[case("1", "1k")]
    #[case("1500m", "1500")]
    #[case("2", "2k")]
    #[case("10", "10k")]
    #[case("0", "0")]
    #[case("100u", "1")]
    fn cpu_becomes_whole_milli_cores(#[case] cpu: &str, #[case] milli: &str) {
        let amounts = json!({"cpu": cpu, "memory": "1Gi"});
        let spec = json!({"containers": [{"resources": {"requests": amounts, "limits": amounts}}]});
        let after = json!({names::BATCH_CPU: milli, names::BATCH_MEMORY: "1Gi"});
        let resources = translated(Band::Batch, &spec, ContainerList::Main);
        assert_eq!(resources, json!({"requests": after, "limits": after}));
        let after = json!({names::MID_CPU: milli, names::MID_MEMORY: "1Gi"});
        let resources = translated(Band::Mid, &spec, ContainerList::Main);
        assert_eq!(resources, json!({"requests": after, "limits": after}));
    }

    #[rstest]
    #[case::limits_are_requests(
        json!({"limits": {"cpu": 1, "memory": "4Gi"}}),
        json!({"limits": {"kubernetes.io/batch-cpu": "1k", "kubernetes.io/batch-memory": "4Gi"}, "requests": {"kubernetes.io/batch-cpu": "1k", "kubernetes.io/batch-memory": "4Gi"}})
    )]
    #[case::requests_are_no_limits(json!({"requests": {"cpu": 1}}), json!({"requests": {"kubernetes.io/batch-cpu": "1k"}}))]
    #[case::overwritten(
        json!({"requests": {"cpu": 1, "kubernetes.io/batch-cpu": 300}}),
        json!({"requests": {"kubernetes.io/batch-cpu": "1k"}})
    )]
    #[case::limit_of_the_band(
        json!({"limits": {"kubernetes.io/batch-cpu": 1000}}),
        json!({"limits": {"kubernetes.io/batch-cpu": 1000}, "requests": {"kubernetes.io/batch-cpu": "1k"}})
    )]
    #[case::others_stay(json!({"requests": {"foo/bar": 1}}), json!({"requests": {"foo/bar": 1}}))]
    fn requests_and_limits_are_translated(#[case] before: Value, #[case] after: Value) {
        let spec = json!({"containers": [{"resources": before}]});
        assert_eq!(translated(Band::Batch, &spec, ContainerList::Main), after);
    }

    #[test]
    fn init_containers_are_translated_as_well() {
        let spec = json!({
            "initContainers": [{"resources": {"requests": {"cpu": "200m"}}}],
            "containers": [{}],
        });
        assert_eq!(
            translated(Band::Batch, &spec, ContainerList::Init),
            json!({"requests": {names::BATCH_CPU: "200"}})
        );
    }

    #[test]
    fn translation_is_idempotent_and_skips_other_bands() {
        let spec = json!({"containers": [{"resources": {"limits": {"cpu": 1}}}]});
        for band in [None, Some(Band::Prod), Some(Band::Free)] {
            let containers: Containers = serde_json::from_value(spec.clone()).unwrap();
            assert_eq!(translation(band, &containers), Changes::default());
        }
        let resources = translated(Band::Batch, &spec, ContainerList::Main);
        let again = json!({"containers": [{"resources": resources}]});
        assert_eq!(translated(Band::Batch, &again, ContainerList::Main), resources);
    }

    #[rstest]
    #[case::label_beats_priority(json!({"koordinator.sh/priority-class": "koord-batch"}), json!({"priority": 9500}), Some(Band::Batch))]
    #[case::unknown_label_falls_to_qos(json!({"koordinator.sh/priority-class": "weird", "koordinator.sh/qosClass": "BE"}), json!({"priority": 9500}), Some(Band::Batch))]
    #[case::burstable(json!({}), json!({"priority": 0, "containers": [{"resources": {"requests": {"cpu": 1}}}]}), Some(Band::Prod))]
    #[case::best_effort(json!({}), json!({"priority": 0, "containers": [{"resources": {"requests": {"cpu": 0}}}]}), Some(Band::Batch))]
    #[case::priority(json!({}), json!({"priority": 7500}), Some(Band::Mid))]
    #[case::between_the_bands(json!({"koordinator.sh/qosClass": "BE"}), json!({"priority": 6500}), Some(Band::Batch))]
    fn the_band_comes_from_label_priority_or_class(
        #[case] labels: Value,
        #[case] spec: Value,
        #[case] expected: Option<Band>,
    ) {
        let pod: Pod = serde_json::from_value(json!({"metadata": {"labels": labels}, "spec": spec})).unwrap();
        assert_eq!(band(&pod), expected);
    }
}
