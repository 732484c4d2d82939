//! Extracts the labels and annotations of a pod that rules on other objects read.

use std::collections::{BTreeMap, BTreeSet};

use headroom_domain::names;
use headroom_rules::binding;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::store::lookup::PodKeys;

/// Longest value of an annotation that is kept, in bytes. The longest one that rules read is a name.
const LONGEST_VALUE: usize = 256;
/// Maximum size of the labels that are kept of a pod, and of its annotations, in bytes. Every user who may create pods
/// chooses the names of both.
const MOST_BYTES: usize = 8_192;

/// The labels and annotations of the two domains and those with a configured key. A value of an annotation is kept if
/// it is short and its key is of a domain.
pub(super) fn pod_keys(metadata: &ObjectMeta, configured: &BTreeSet<String>) -> PodKeys {
    let is_first = |key: &str| key == names::QUOTA_NAME || configured.contains(key);
    let labels = metadata.labels.iter().flatten();
    let annotations = metadata.annotations.iter().flatten().map(|(key, value)| {
        let is_kept = value.len() <= LONGEST_VALUE && binding::is_guarded(key);
        (key, if is_kept { value.as_str() } else { "" })
    });
    PodKeys {
        labels: bounded(labels.map(|(key, value)| (key, value.as_str())), is_first),
        annotations: bounded(annotations, is_first),
    }
}

/// The pairs whose key is read, within [`MOST_BYTES`]: first those that `is_first` selects, the others by name.
fn bounded<'p>(
    pairs: impl Iterator<Item = (&'p String, &'p str)>,
    is_first: impl Fn(&str) -> bool,
) -> BTreeMap<String, String> {
    let read = pairs.filter(|(key, _)| is_first(key) || binding::is_guarded(key));
    let (first, others): (Vec<_>, Vec<_>) = read.partition(|(key, _)| is_first(key));
    let mut bytes = 0_usize;
    let within = first.into_iter().chain(others).take_while(|(key, value)| {
        bytes = bytes.saturating_add(key.len()).saturating_add(value.len());
        bytes <= MOST_BYTES
    });
    within
        .map(|(key, value)| (key.clone(), value.to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use super::*;

    fn keys(labels: &Value, annotations: &Value) -> PodKeys {
        let metadata = json!({"labels": labels, "annotations": annotations});
        let metadata: ObjectMeta = serde_json::from_value(metadata).unwrap();
        pod_keys(&metadata, &["bypass".to_owned()].into())
    }

    #[test]
    fn keys_that_rules_read_are_kept_with_the_short_values_of_the_domains() {
        let long = "x".repeat(LONGEST_VALUE + 1);
        let PodKeys { labels, annotations } = keys(
            &json!({"app": "web", "bypass": "", "koordinator.sh/qosClass": "BE"}),
            &json!({
                "koordinator.sh/a": "1", "quota.scheduling.koordinator.sh/b": "2", "koordinator.sh/long": long,
                "notkoordinator.sh/c": "3", "bypass": "4", "headroom.sh/d": "5",
            }),
        );
        let pairs = |pairs: BTreeMap<String, String>| -> Vec<String> {
            let pairs = pairs.iter();
            pairs.map(|(key, value)| format!("{key}={value}")).collect()
        };
        assert_eq!(pairs(labels), ["bypass=", "koordinator.sh/qosClass=BE"]);
        let expected = [
            "bypass=",
            "headroom.sh/d=5",
            "koordinator.sh/a=1",
            "koordinator.sh/long=",
            "quota.scheduling.koordinator.sh/b=2",
        ];
        assert_eq!(pairs(annotations), expected);
    }

    #[test]
    fn sixteen_thousand_labels_leave_few_and_the_quota_of_the_pod() {
        let many = |domain: &str| -> Map<String, Value> {
            let names = (0..16_000).map(|name| (format!("{domain}a{name}"), json!("value")));
            names
                .chain([(names::QUOTA_NAME.to_owned(), json!("team"))])
                .collect()
        };
        for domain in ["", "koordinator.sh/", "a.headroom.sh/"] {
            let PodKeys { labels, annotations } = keys(&many(domain).into(), &many(domain).into());
            assert_eq!(labels[names::QUOTA_NAME], "team");
            for kept in [labels, annotations] {
                let bytes: usize = kept.iter().map(|(key, value)| key.len() + value.len()).sum();
                assert!(bytes <= MOST_BYTES, "{domain}: {bytes}");
            }
        }
    }
}
