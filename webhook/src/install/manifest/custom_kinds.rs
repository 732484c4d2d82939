//! Generates the definitions of Koordinator's kinds that admission reads: colocation profiles, reservations and elastic quotas.
//!
//! For clusters without Koordinator's own. Their schemas report early the faults that a webhook would report late; a
//! stored object that breaks a rule stays writable while the field is unchanged.

mod profile;
mod quota;
mod reservation;
mod schema;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

struct CustomKind {
    group: &'static str,
    kind: &'static str,
    singular: &'static str,
    plural: &'static str,
    short: &'static [&'static str],
    is_namespaced: bool,
    has_status: bool,
    columns: &'static [Column],
    /// The schema of its objects, without kind and metadata.
    schema: fn() -> Value,
}

/// A column that `kubectl get` prints.
struct Column {
    name: &'static str,
    /// `string`, `integer`, `boolean` or `date`.
    kind: &'static str,
    path: &'static str,
    /// Columns above 0 are printed by `-o wide` alone.
    priority: u8,
}

impl Column {
    /// A text that `kubectl get` always prints.
    const fn text(name: &'static str, path: &'static str) -> Self {
        Self {
            name,
            kind: "string",
            path,
            priority: 0,
        }
    }
}

/// Printer column with the age of an object.
const AGE: Column = Column {
    name: "Age",
    kind: "date",
    path: ".metadata.creationTimestamp",
    priority: 0,
};

static KINDS: [&CustomKind; 4] = [
    &profile::KIND,
    &reservation::KIND,
    &quota::QUOTA,
    &quota::QUOTA_PROFILE,
];

const VERSION: &str = "v1alpha1";

/// The definitions of all kinds.
///
/// # Errors
/// A schema is not one.
pub fn definitions() -> Result<Vec<CustomResourceDefinition>, serde_json::Error> {
    let definitions = KINDS.into_iter().map(CustomKind::definition);
    definitions.map(serde_json::from_value).collect()
}

impl CustomKind {
    fn definition(&self) -> Value {
        let Self {
            group,
            kind,
            singular,
            plural,
            short,
            is_namespaced,
            has_status,
            columns,
            schema,
        } = self;
        let columns = columns.iter().map(|column| {
            json!({"name": column.name, "type": column.kind, "jsonPath": column.path, "priority": column.priority})
        });
        let columns: Value = columns.collect();
        let mut definition = json!({
            "metadata": {"name": format!("{plural}.{group}")},
            "spec": {
                "group": group,
                "scope": if *is_namespaced { "Namespaced" } else { "Cluster" },
                "names": {
                    "kind": kind, "listKind": format!("{kind}List"), "singular": singular, "plural": plural,
                    "shortNames": short,
                },
                "versions": [{
                    "name": VERSION, "served": true, "storage": true,
                    "additionalPrinterColumns": columns,
                    "schema": {"openAPIV3Schema": schema()},
                    "subresources": has_status.then(|| json!({"status": {}})),
                }],
            },
        });
        if group.ends_with(".k8s.io") {
            // The API server accepts no kind of a Kubernetes group without an approval annotation.
            let approval = json!({"api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/scheduler-plugins/pull/52"});
            if let Some(metadata) = definition.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.insert("annotations".to_owned(), approval);
            }
        }
        definition
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_defined_and_loses_nothing() {
        let definitions = definitions().unwrap();
        assert_eq!(definitions.len(), KINDS.len());
        for (definition, kind) in definitions.iter().zip(KINDS) {
            let text = serde_json::to_value(definition).unwrap();
            let written = kind.definition();
            let schema = "/spec/versions/0/schema/openAPIV3Schema";
            assert_eq!(text.pointer(schema), written.pointer(schema), "{}", kind.kind);
            assert!(
                text.pointer(schema)
                    .unwrap()
                    .pointer("/properties/spec")
                    .is_some()
            );
        }
    }
}
