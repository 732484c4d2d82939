//! [`FoundObject`]: a stored object with the name of one of ours, and the decision whether it belongs to the installation.

use headroom_domain::{installation::Installation, names};
use kube::{ResourceExt, api::DynamicObject};
use serde_json::Value;

use super::inventory::OwnObject;

/// Labels and annotations by which tools mark objects that they create again after a deletion.
const TOOL_MARKS: [(&str, Option<&str>, &str); 5] = [
    ("app.kubernetes.io/managed-by", Some("Helm"), "Helm"),
    ("argocd.argoproj.io/tracking-id", None, "Argo CD"),
    ("argocd.argoproj.io/instance", None, "Argo CD"),
    ("kustomize.toolkit.fluxcd.io/name", None, "Flux"),
    ("helm.toolkit.fluxcd.io/name", None, "Flux"),
];

/// Object in the cluster whose kind, namespace and name are those of one of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundObject {
    pub object: OwnObject,
    /// A deletion with it does not affect an object that another user creates meanwhile.
    pub uid: Option<String>,
    /// True if it was deleted and waits for its finalizers.
    pub is_being_deleted: bool,
    pub standing: Standing,
    /// Tool that creates the object again.
    pub tool: Option<&'static str>,
    /// Entries of a webhook configuration that fail closed.
    pub fail_entries: Vec<String>,
}

/// Owner of an object with one of our names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    Ours,
    Foreign(&'static str),
}

/// Services that the entries of a webhook configuration call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Callee {
    /// All entries call the Service of the installation.
    OnlyOurs,
    /// Some entries call it, and others do not.
    AlsoOurs,
    /// No entry calls it, and some call another Service.
    Others,
    /// There are only URLs, or no entries.
    NoService,
}

/// True for an object with the label of the manifests.
pub fn is_labelled(object: &impl ResourceExt) -> bool {
    let label = object.labels().get(names::PART_OF_LABEL);
    label.map(String::as_str) == Some(names::PART_OF_HEADROOM)
}

/// Services that a webhook configuration calls.
pub fn callee(configuration: &Value, installation: &Installation) -> Callee {
    let entries = configuration["webhooks"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    let services = entries
        .iter()
        .filter_map(|entry| entry.pointer("/clientConfig/service"));
    let is_ours = |service: &Value| {
        service["namespace"] == installation.namespace.as_str() && service["name"] == installation.service()
    };
    let ours = services.clone().filter(|service| is_ours(service)).count();
    let named = services.filter(|service| service.is_object()).count();
    match (ours, named) {
        (0, 0) => Callee::NoService,
        (0, _) => Callee::Others,
        (ours, _) if ours == entries.len() => Callee::OnlyOurs,
        (..) => Callee::AlsoOurs,
    }
}

/// Names of the entries that fail closed, which is the API server's default.
fn fail_entries(configuration: &Value) -> Vec<String> {
    let entries = configuration["webhooks"].as_array().into_iter().flatten();
    let failing = entries.filter(|entry| entry["failurePolicy"] != "Ignore");
    failing
        .filter_map(|entry| entry["name"].as_str().map(str::to_owned))
        .collect()
}

impl FoundObject {
    /// Object of which only the metadata counts. Objects in a namespace of ours are ours, with or without the label: the
    /// webhook and overlays create some without it.
    pub fn from_metadata(object: OwnObject, found: &impl ResourceExt, is_namespace_ours: bool) -> Self {
        let standing = if is_namespace_ours || is_labelled(found) {
            Standing::Ours
        } else {
            Standing::Foreign("it has no label app.kubernetes.io/part-of: headroom")
        };
        Self {
            object,
            uid: found.uid(),
            is_being_deleted: found.meta().deletion_timestamp.is_some(),
            standing,
            tool: tool(found),
            fail_entries: Vec::new(),
        }
    }

    /// Webhook configuration. One that only calls our Service is ours without the label: without the Service it blocks
    /// writes or does nothing. One that calls another Service is not ours.
    pub fn configuration(object: OwnObject, found: &DynamicObject, callee: Callee) -> Self {
        let by_label = Self::from_metadata(object, found, false);
        let standing = match callee {
            Callee::OnlyOurs => Standing::Ours,
            Callee::AlsoOurs => Standing::Foreign(
                "it calls Service headroom-webhook and others: remove the entries that call it by hand",
            ),
            Callee::Others => Standing::Foreign("it calls another Service; see --namespace"),
            Callee::NoService => by_label.standing,
        };
        Self {
            standing,
            fail_entries: fail_entries(&found.data),
            ..by_label
        }
    }

    /// True if it is ours and not deleted yet.
    pub fn is_left(&self) -> bool {
        self.standing == Standing::Ours && !self.is_being_deleted
    }
}

/// Tool that manages the object.
fn tool(found: &impl ResourceExt) -> Option<&'static str> {
    let marks = [found.labels(), found.annotations()];
    let is_marked = |key: &str, value: Option<&str>| {
        let found = marks.iter().find_map(|marks| marks.get(key));
        found.is_some_and(|found| value.is_none_or(|value| found == value))
    };
    let mut tools = TOOL_MARKS.iter().filter(|(key, value, _)| is_marked(key, *value));
    tools.next().map(|(_, _, tool)| *tool)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::uninstall::inventory::inventory;

    fn entry(namespace: &str) -> Value {
        json!({"name": "a", "failurePolicy": "Fail",
            "clientConfig": {"service": {"namespace": namespace, "name": "headroom-webhook"}}})
    }

    fn found(labels: &Value, webhooks: &Value) -> FoundObject {
        let installation = Installation::default();
        let object = inventory(&installation).swap_remove(0);
        let value = json!({"metadata": {"name": "headroom-pods", "labels": labels}, "webhooks": webhooks});
        let stored: DynamicObject = serde_json::from_value(value.clone()).unwrap();
        FoundObject::configuration(object, &stored, callee(&value, &installation))
    }

    #[rstest]
    #[case::our_service(json!({}), json!([entry("headroom-system")]), true)]
    #[case::another_service(json!({}), json!([entry("theirs")]), false)]
    #[case::another_service_with_our_label(json!({"app.kubernetes.io/part-of": "headroom"}), json!([entry("theirs")]), false)]
    #[case::one_of_two(json!({}), json!([entry("headroom-system"), entry("theirs")]), false)]
    #[case::url(json!({}), json!([{"name": "a", "clientConfig": {"url": "https://x"}}]), false)]
    #[case::url_with_our_label(json!({"app.kubernetes.io/part-of": "headroom"}),
        json!([{"name": "a", "clientConfig": {"url": "https://x"}}]), true)]
    #[case::url_with_another_label(json!({"app.kubernetes.io/part-of": "theirs"}),
        json!([{"name": "a", "clientConfig": {"url": "https://x"}}]), false)]
    fn the_service_and_then_the_label_decide_about_configurations(
        #[case] labels: Value,
        #[case] webhooks: Value,
        #[case] is_ours: bool,
    ) {
        let found = found(&labels, &webhooks);
        assert_eq!(found.standing == Standing::Ours, is_ours);
        assert!(!found.fail_entries.is_empty());
    }

    #[test]
    fn entries_fail_closed_unless_they_ignore() {
        let mut ignoring = entry("headroom-system");
        ignoring["failurePolicy"] = "Ignore".into();
        assert_eq!(found(&json!({}), &json!([ignoring])).fail_entries, [""; 0]);
    }

    #[test]
    fn tools_that_create_objects_again_are_named() {
        let of = |metadata: Value| {
            let mut metadata = metadata;
            metadata["name"] = "a".into();
            tool(&serde_json::from_value::<DynamicObject>(json!({"metadata": metadata})).unwrap())
        };
        assert_eq!(
            of(json!({"labels": {"app.kubernetes.io/managed-by": "Helm"}})),
            Some("Helm")
        );
        assert_eq!(
            of(json!({"labels": {"app.kubernetes.io/managed-by": "kubectl"}})),
            None
        );
        assert_eq!(
            of(json!({"annotations": {"argocd.argoproj.io/tracking-id": "x"}})),
            Some("Argo CD")
        );
        assert_eq!(
            of(json!({"labels": {"kustomize.toolkit.fluxcd.io/name": "x"}})),
            Some("Flux")
        );
    }
}
