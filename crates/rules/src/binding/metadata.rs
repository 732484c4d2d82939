//! Rule of the labels and annotations in a Binding: those of Koordinator and Headroom equal the pod's.

use std::collections::BTreeMap;

use headroom_domain::{
    field::{Error, Errors, Path},
    names,
};

use super::PodMetadata;
use crate::switch::Switch;

/// Switch: labels and annotations in a Binding are checked.
pub static CHECKS_METADATA: Switch = Switch {
    name: "BindingChecksMetadata",
    default: true,
    row: "D-31, metadata",
    koordinator: "a Binding sets every label and annotation of its pod",
    about: "labels and annotations of Koordinator and Headroom in a Binding must equal the pod's",
    why: "the API server copies them to the pod without the checks of an update",
};

/// Koordinator's domain, and the parent of further ones such as `quota.scheduling.koordinator.sh`.
const KOORDINATOR: &str = "koordinator.sh";

/// Returns true for the key of a label or annotation in a domain of Koordinator or Headroom.
pub fn is_guarded(key: &str) -> bool {
    let domain = key.split_once('/').map(|(domain, _name)| domain);
    let is_koordinators = domain
        .and_then(|domain| domain.strip_suffix(KOORDINATOR))
        .is_some_and(|parent| parent.is_empty() || parent.ends_with('.'));
    is_koordinators || key.starts_with(names::DOMAIN)
}

/// Errors for the guarded labels and annotations of a Binding that differ from the pod's. All of them differ while the
/// pod is not known. An empty annotation of the pod equals none: it stands for a value that is too long to be kept.
pub fn changed_metadata(binding: PodMetadata<'_>, pod: Option<PodMetadata<'_>>) -> Errors {
    let mut errors = Errors::default();
    let mut check = |list: &str, new: &BTreeMap<String, String>, old: Option<&BTreeMap<String, String>>| {
        for (key, value) in new.iter().filter(|(key, _)| is_guarded(key)) {
            let stored = old.and_then(|old| old.get(key));
            let is_kept = list == "labels" || !value.is_empty();
            if !is_kept || stored != Some(value) {
                let path = Path::new("metadata").child(list).key(key);
                errors.push(Error::forbidden(&path, "a Binding may not change it"));
            }
        }
    };
    check("labels", binding.labels, pod.map(|pod| pod.labels));
    check("annotations", binding.annotations, pod.map(|pod| pod.annotations));
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        let pairs = pairs.iter();
        pairs
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn keys_of_koordinator_and_headroom_are_guarded() {
        for key in [
            "koordinator.sh/a",
            "quota.scheduling.koordinator.sh/name",
            "headroom.sh/a",
            "koordinator.sh/",
        ] {
            assert!(is_guarded(key), "{key}");
        }
        for key in [
            "koordinator.sh",
            "notkoordinator.sh/a",
            "topology.kubernetes.io/zone",
            "x/koordinator.sh/a",
        ] {
            assert!(!is_guarded(key), "{key}");
        }
    }

    /// The attacker may create bindings, and moves a pod to another quota and class in the same request.
    #[test]
    fn bindings_may_repeat_the_pods_metadata_and_change_none() {
        let none = map(&[]);
        let labels = map(&[("koordinator.sh/qosClass", "LS"), ("zone", "a")]);
        let annotations = map(&[("scheduling.koordinator.sh/resource-status", "{}")]);
        let metadata = |labels, annotations| PodMetadata { labels, annotations };
        let pod = metadata(&labels, &annotations);
        let texts = |binding, pod| -> Vec<String> {
            let errors = changed_metadata(binding, pod).into_iter();
            errors.map(|error| error.to_string()).collect()
        };
        assert!(
            texts(metadata(&none, &none), None).is_empty(),
            "a scheduler's own"
        );
        assert!(texts(pod, Some(pod)).is_empty());
        let others = map(&[("zone", "b"), ("topology.kubernetes.io/zone", "b")]);
        assert!(texts(metadata(&others, &others), Some(pod)).is_empty());
        let forged = map(&[
            ("koordinator.sh/qosClass", "LSR"),
            ("quota.scheduling.koordinator.sh/name", "q"),
        ]);
        assert_eq!(
            texts(metadata(&forged, &annotations), Some(pod)),
            [
                "metadata.labels[koordinator.sh/qosClass]: Forbidden: a Binding may not change it",
                "metadata.labels[quota.scheduling.koordinator.sh/name]: Forbidden: a Binding may not change it",
            ]
        );
        let long = map(&[("scheduling.koordinator.sh/resource-status", "")]);
        let kept = metadata(&none, &long);
        assert_eq!(texts(kept, Some(kept)).len(), 1, "the pod's value was not kept");
        assert_eq!(texts(pod, None).len(), 2, "an unknown pod has none of them");
    }
}
