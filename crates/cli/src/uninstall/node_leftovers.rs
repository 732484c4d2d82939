//! [`NodeLeftovers`]: Headroom's annotations and conditions on a node, and the patches that remove them.

use headroom_domain::names;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use serde_json::{Map, Value, json};

/// Conditions that only the webhook writes.
const CONDITIONS: [&str; 3] = [names::BRAKED, names::CLAMPED, names::RATIO_OWNER_CONFLICT];
/// Annotations that show that a webhook of Headroom managed the node.
const EVIDENCE: [&str; 3] = [names::MARKER, names::HINT, names::STATIC_RATIO];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeLeftovers {
    pub node: String,
    /// New values of annotations; `null` for those to remove.
    pub annotations: Map<String, Value>,
    pub conditions: Vec<&'static str>,
}

impl NodeLeftovers {
    /// `None` if nothing is left. The mode is kept while replicas may still answer, so that none amplifies the node again.
    pub fn find(node: &Node, is_mode_kept: bool) -> Option<Self> {
        let stored = node.annotations();
        let is_managed = EVIDENCE.iter().any(|key| stored.contains_key(*key));
        let is_ours = |key: &str| match key {
            names::MODE => !is_mode_kept,
            // Koordinator's webhook writes this annotation too.
            names::RAW_ALLOCATABLE => is_managed,
            key => key.starts_with(names::DOMAIN),
        };
        let ours = stored.keys().filter(|key| is_ours(key));
        let mut annotations: Map<String, Value> = ours.map(|key| (key.clone(), Value::Null)).collect();
        if let Some(own) = stored.get(names::STATIC_RATIO) {
            // Mode `auto` replaced the user's ratio, which is empty if there was none.
            let own = (!own.is_empty()).then(|| own.clone());
            annotations.insert(names::RATIO.to_owned(), own.into());
        }
        let status = node.status.as_ref();
        let present = status.and_then(|status| status.conditions.as_ref());
        let is_present = |kind: &&str| {
            present
                .iter()
                .any(|all| all.iter().any(|one| one.type_ == **kind))
        };
        let leftovers = Self {
            node: node.name_any(),
            annotations,
            conditions: CONDITIONS.into_iter().filter(is_present).collect(),
        };
        (!leftovers.annotations.is_empty() || !leftovers.conditions.is_empty()).then_some(leftovers)
    }

    /// Merge patch of the Node; `None` if no annotation is left.
    pub fn annotation_patch(&self) -> Option<Value> {
        (!self.annotations.is_empty()).then(|| json!({"metadata": {"annotations": self.annotations}}))
    }

    /// Strategic merge patch of the Node's status; `None` if no condition is left.
    pub fn status_patch(&self) -> Option<Value> {
        let removed = self
            .conditions
            .iter()
            .map(|kind| json!({"type": kind, "$patch": "delete"}));
        let removed: Vec<Value> = removed.collect();
        (!removed.is_empty()).then(|| json!({"status": {"conditions": removed}}))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(annotations: &Value, conditions: &Value) -> Node {
        let object = json!({
            "metadata": {"name": "n1", "annotations": annotations}, "status": {"conditions": conditions},
        });
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn all_annotations_and_conditions_of_ours_are_removed_and_no_other() {
        let annotations = json!({
            names::MARKER: "{}", names::RAW_ALLOCATABLE: "{}", names::HINT: "x", names::MODE: "off", names::KUBELET_RAW: "{}",
            "headroom.sh/mdoe": "typo", names::RATIO: r#"{"cpu":1.5}"#, "example.com/a": "b",
        });
        let conditions =
            json!([{"type": "Ready", "status": "True"}, {"type": names::BRAKED, "status": "False"}]);
        let node = node(&annotations, &conditions);
        let left = NodeLeftovers::find(&node, false).unwrap();
        let keys: Vec<&str> = left.annotations.keys().map(String::as_str).collect();
        let mut expected = [
            names::MARKER,
            names::HINT,
            names::KUBELET_RAW,
            "headroom.sh/mdoe",
            names::MODE,
            names::RAW_ALLOCATABLE,
        ];
        expected.sort_unstable();
        assert_eq!(keys, expected);
        assert_eq!(left.conditions, [names::BRAKED]);
        let removed = json!({"status": {"conditions": [{"type": names::BRAKED, "$patch": "delete"}]}});
        assert_eq!(left.status_patch(), Some(removed));
        let kept = NodeLeftovers::find(&node, true).unwrap();
        assert!(!kept.annotations.contains_key(names::MODE));
    }

    #[test]
    fn the_users_ratio_returns_from_auto() {
        let ratio = |own: &str| {
            let annotations = json!({names::STATIC_RATIO: own, names::RATIO: r#"{"cpu":1.9}"#});
            let mut left = NodeLeftovers::find(&node(&annotations, &json!([])), false).unwrap();
            left.annotations.remove(names::RATIO)
        };
        assert_eq!(ratio(r#"{"cpu":1.5}"#), Some(r#"{"cpu":1.5}"#.into()));
        assert_eq!(ratio(""), Some(Value::Null));
    }

    #[test]
    fn koordinators_raw_annotation_is_kept() {
        let theirs = json!({names::RATIO: "{}", names::RAW_ALLOCATABLE: "{}"});
        assert_eq!(NodeLeftovers::find(&node(&theirs, &json!([])), false), None);
    }
}
