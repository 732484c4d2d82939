//! Extracts the labels and annotations of a pod that rules on other objects read.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::store::lookup::PodKeys;

/// The domain of Koordinator's keys, and the parent of further ones such as `quota.scheduling.koordinator.sh`.
const DOMAIN: &str = "koordinator.sh";
/// Longest value of an annotation that is kept, in bytes. The longest one that rules read is a name.
const LONGEST_VALUE: usize = 256;

/// All labels, all keys of annotations, and their short values where the key is one of Koordinator's.
pub(super) fn pod_keys(metadata: &ObjectMeta) -> PodKeys {
    let annotations = metadata.annotations.iter().flatten();
    PodKeys {
        labels: metadata.labels.clone().unwrap_or_default(),
        annotations: annotations
            .map(|(key, value)| {
                let is_kept = value.len() <= LONGEST_VALUE && is_koordinators(key);
                let kept = if is_kept { value.clone() } else { String::new() };
                (key.clone(), kept)
            })
            .collect(),
    }
}

/// True for a key of Koordinator's domain or of one below it.
fn is_koordinators(key: &str) -> bool {
    let domain = key.split_once('/').map(|(domain, _name)| domain);
    domain
        .and_then(|domain| domain.strip_suffix(DOMAIN))
        .is_some_and(|parent| parent.is_empty() || parent.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_key_is_kept_and_the_short_values_of_koordinators() {
        let long = "x".repeat(LONGEST_VALUE + 1);
        let metadata: ObjectMeta = serde_json::from_value(json!({
            "labels": {"app": "web"},
            "annotations": {
                "koordinator.sh/a": "1", "quota.scheduling.koordinator.sh/b": "2", "koordinator.sh/long": long,
                "notkoordinator.sh/c": "3", "bypass": "4",
            },
        }))
        .unwrap();
        let PodKeys { labels, annotations } = pod_keys(&metadata);
        assert_eq!(labels.get("app").map(String::as_str), Some("web"));
        let annotations: Vec<_> = annotations
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
            .collect();
        assert_eq!(
            annotations,
            [
                ("bypass", ""),
                ("koordinator.sh/a", "1"),
                ("koordinator.sh/long", ""),
                ("notkoordinator.sh/c", ""),
                ("quota.scheduling.koordinator.sh/b", "2"),
            ]
        );
    }
}
