//! Minimal versions of Koordinator's custom kinds: installed, written and removed on a real API server.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api,
    api::{ApiResource, DeleteParams, DynamicObject, PostParams},
};
use serde_json::{Value, json};

use crate::stand::{Stand, until};

/// A kind of a CustomResourceDefinition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CustomKind {
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
    /// True if its objects are in namespaces.
    pub is_namespaced: bool,
}

pub const PROFILES: CustomKind = CustomKind {
    group: "config.koordinator.sh",
    version: "v1alpha1",
    kind: "ClusterColocationProfile",
    plural: "clustercolocationprofiles",
    is_namespaced: false,
};
pub const QUOTAS: CustomKind = CustomKind {
    group: "scheduling.sigs.k8s.io",
    version: "v1alpha1",
    kind: "ElasticQuota",
    plural: "elasticquotas",
    is_namespaced: true,
};

impl CustomKind {
    /// The objects in a namespace, or all objects of a cluster-scoped kind.
    pub fn api(&self, stand: &Stand, namespace: &str) -> Api<DynamicObject> {
        let resource = self.resource();
        if self.is_namespaced {
            Api::namespaced_with(stand.client.clone(), namespace, &resource)
        } else {
            Api::all_with(stand.client.clone(), &resource)
        }
    }

    /// Description of the kind for the client library.
    pub fn resource(&self) -> ApiResource {
        let Self {
            group,
            version,
            kind,
            plural,
            ..
        } = self;
        ApiResource {
            group: (*group).to_owned(),
            version: (*version).to_owned(),
            api_version: format!("{group}/{version}"),
            kind: (*kind).to_owned(),
            plural: (*plural).to_owned(),
        }
    }

    /// Installs the kind; waits for an earlier definition to be deleted.
    pub async fn install(&self, stand: &Stand) {
        let definitions: Api<CustomResourceDefinition> = Api::all(stand.client.clone());
        until("the kind is installed", async || {
            let created = definitions
                .create(&PostParams::default(), &self.definition())
                .await;
            created.is_ok()
        })
        .await;
    }

    /// Removes the kind with all of its objects.
    pub async fn uninstall(&self, stand: &Stand) {
        let definitions: Api<CustomResourceDefinition> = Api::all(stand.client.clone());
        let name = format!("{}.{}", self.plural, self.group);
        let deleted = definitions.delete(&name, &DeleteParams::default()).await;
        deleted.expect("delete the kind");
    }

    /// Creates an object as soon as the API server serves the kind.
    pub async fn create(&self, stand: &Stand, namespace: &str, name: &str, spec: &Value) {
        let objects = self.api(stand, namespace);
        let object = DynamicObject::new(name, &self.resource()).data(json!({"spec": spec}));
        until("the kind is served", async || {
            let created = objects.create(&PostParams::default(), &object).await;
            created.is_ok()
        })
        .await;
    }

    /// Its definition: any specification, with a status subresource.
    fn definition(&self) -> CustomResourceDefinition {
        let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let schema =
            json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": any, "status": any}}});
        serde_json::from_value(json!({
            "metadata": {
                "name": format!("{}.{}", self.plural, self.group),
                // The API server requires this annotation for groups of Kubernetes.
                "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"},
            },
            "spec": {
                "group": self.group,
                "scope": if self.is_namespaced { "Namespaced" } else { "Cluster" },
                "names": {"kind": self.kind, "plural": self.plural},
                "versions": [{
                    "name": self.version,
                    "served": true,
                    "storage": true,
                    "schema": schema,
                    "subresources": {"status": {}},
                }],
            },
        }))
        .expect("a definition")
    }
}
