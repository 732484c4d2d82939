//! [`FakeCluster`]: an API server in this process that stores objects, with a webhook, policies and kubelets.

use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    sync::{Arc, Mutex, MutexGuard},
};

use headroom_domain::{installation::Installation, names};
use http::{Method, Request, Response};
use kube::{Client, client::Body};
use serde_json::{Value, json};

use crate::uninstall::{inventory::inventory, object_kind as kinds};

/// State of the cluster. Paths are those of the API server.
#[derive(Debug, Default)]
pub(super) struct ClusterState {
    pub(super) objects: BTreeMap<String, Value>,
    /// Changes in their order.
    pub(super) changes: Vec<String>,
    /// Denied permissions, as `verb resource`.
    pub(super) denied: BTreeSet<String>,
    /// True while a replica answers.
    pub(super) has_webhook: bool,
    /// True if kubelets write their status.
    pub(super) has_kubelets: bool,
}

#[derive(Debug, Clone, Default)]
pub(super) struct FakeCluster(Arc<Mutex<ClusterState>>);

/// Parts of a path below the version.
struct ObjectPath<'p> {
    /// Path of the whole cluster's collection.
    collection: String,
    namespace: Option<&'p str>,
    name: Option<&'p str>,
}

/// Group that only OpenShift serves.
const UNSERVED: &str = "/apis/security.openshift.io/";
pub(super) const NODE: &str = "/api/v1/nodes/n1";
const FLOOR_BINDING: &str =
    "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings/headroom-floor";
const CHECKS_BINDING: &str =
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/headroom-checks";

impl FakeCluster {
    /// All objects of an installation, and a node n1 amplified from 4 to 6 CPUs.
    pub(super) fn installed() -> Self {
        let cluster = Self::default();
        let installation = Installation::default();
        for object in inventory(&installation) {
            let group = match object.kind.group {
                "" => "/api/v1".to_owned(),
                group => format!("/apis/{group}/v1"),
            };
            let namespace = object
                .namespace
                .as_ref()
                .map(|namespace| format!("/namespaces/{namespace}"));
            let namespace = namespace.unwrap_or_default();
            if group.starts_with(UNSERVED.trim_end_matches('/')) {
                continue;
            }
            let path = format!("{group}{namespace}/{}/{}", object.kind.plural, object.name);
            let mut stored = json!({
                "apiVersion": object.kind.api_version(), "kind": object.kind.kind,
                "metadata": {
                    "name": object.name, "namespace": object.namespace, "uid": path,
                    "labels": {names::PART_OF_LABEL: names::PART_OF_HEADROOM},
                },
            });
            if [&kinds::MUTATING_CONFIGURATION, &kinds::VALIDATING_CONFIGURATION].contains(&object.kind) {
                let policy = if object.name == names::WEBHOOK_CONFIGURATION {
                    "Ignore"
                } else {
                    "Fail"
                };
                stored["webhooks"] = json!([entry(policy, names::NAMESPACE)]);
            }
            cluster.put(&path, stored);
        }
        cluster.put(
            NODE,
            node(
                "6",
                &json!({names::MARKER: marker(), names::HINT: "h",
            names::RAW_ALLOCATABLE: r#"{"cpu":"4","memory":"8Gi"}"#}),
            ),
        );
        let mut state = cluster.state();
        state.has_webhook = true;
        state.has_kubelets = true;
        drop(state);
        cluster
    }

    pub(super) fn state(&self) -> MutexGuard<'_, ClusterState> {
        self.0.lock().unwrap()
    }

    pub(super) fn put(&self, path: &str, object: Value) {
        self.state().objects.insert(path.to_owned(), object);
    }

    pub(super) fn client(&self) -> Client {
        let cluster = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let cluster = cluster.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect_bytes().await.unwrap();
                let body: Value = serde_json::from_slice(&body).unwrap_or_default();
                let query = parts.uri.query().unwrap_or_default();
                let (code, answer) = cluster
                    .state()
                    .answer(&parts.method, parts.uri.path(), query, &body);
                let body = Body::from(answer.to_string().into_bytes());
                Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap())
            }
        });
        Client::new(service, "default")
    }
}

impl ClusterState {
    fn answer(&mut self, method: &Method, path: &str, query: &str, body: &Value) -> (u16, Value) {
        if path.ends_with("/selfsubjectaccessreviews") {
            let asked = &body["spec"]["resourceAttributes"];
            let text = |key: &str| asked[key].as_str().unwrap_or_default().to_owned();
            let asked = format!("{} {}", text("verb"), text("resource"));
            return (
                201,
                json!({"spec": {}, "status": {"allowed": !self.denied.contains(&asked)}}),
            );
        }
        let path = path.trim_end_matches("/status");
        if path.starts_with(UNSERVED) {
            return (404, "404 page not found".into());
        }
        let parsed = ObjectPath::parse(path);
        match *method {
            Method::DELETE => self.delete(path),
            Method::PATCH => self.patch(path, query, body),
            _ if parsed.name.is_none() => {
                self.kubelets_write();
                (200, self.list(&parsed))
            }
            _ => match self.objects.get(path) {
                Some(object) => (200, object.clone()),
                None => absent(),
            },
        }
    }

    fn list(&self, wanted: &ObjectPath<'_>) -> Value {
        let is_listed = |path: &str| {
            let found = ObjectPath::parse(path);
            found.collection == wanted.collection
                && wanted
                    .namespace
                    .is_none_or(|namespace| found.namespace == Some(namespace))
        };
        let listed = self.objects.iter().filter(|(path, _)| is_listed(path));
        let items: Vec<&Value> = listed.map(|(_, object)| object).collect();
        json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items})
    }

    fn delete(&mut self, path: &str) -> (u16, Value) {
        let Some(object) = self.objects.remove(path) else {
            return absent();
        };
        let name = object["metadata"]["name"].as_str().unwrap();
        self.changes
            .push(format!("delete {} {name}", object["kind"].as_str().unwrap()));
        (
            200,
            json!({"kind": "Status", "apiVersion": "v1", "status": "Success", "metadata": {}}),
        )
    }

    fn patch(&mut self, path: &str, query: &str, body: &Value) -> (u16, Value) {
        let has_checks = self.objects.contains_key(CHECKS_BINDING);
        let Some(stored) = self.objects.get_mut(path) else {
            return absent();
        };
        let patch = &body["metadata"]["annotations"];
        if has_checks && patch.get(names::RAW_ALLOCATABLE).is_some_and(Value::is_null) {
            let status = json!({"kind": "Status", "status": "Failure", "message": "denied", "reason": "Invalid",
                "code": 422});
            return (422, status);
        }
        let mut written = stored.clone();
        let annotations = written["metadata"]["annotations"].as_object_mut().unwrap();
        for (key, value) in patch.as_object().into_iter().flatten() {
            annotations.remove(key);
            if !value.is_null() {
                annotations.insert(key.clone(), value.clone());
            }
        }
        if query.contains("dryRun") {
            if self.has_webhook {
                let answer = json!({"mode": "off", "marked": false, "allocatable": {"cpu": 4000, "memory": 8_u64 << 30}}).to_string();
                annotations.insert(names::KUBELET_RAW.to_owned(), answer.into());
            }
            return (200, written);
        }
        let is_off = annotations.get(names::MODE).is_some_and(|mode| mode == "off");
        if is_off && self.has_webhook {
            annotations.retain(|key, _| key == names::MODE);
            written["status"]["allocatable"]["cpu"] = "4".into();
        }
        let keys: Vec<&str> = patch
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, _)| key.as_str())
            .collect();
        self.changes.push(format!("patch n1 {}", keys.join(" ")));
        *stored = written.clone();
        (200, written)
    }

    /// Without the floor a kubelet's values are stored.
    fn kubelets_write(&mut self) {
        let is_held = self.objects.contains_key(FLOOR_BINDING);
        if self.has_kubelets
            && !is_held
            && let Some(node) = self.objects.get_mut(NODE)
        {
            node["status"]["allocatable"]["cpu"] = "4".into();
        }
    }
}

impl<'p> ObjectPath<'p> {
    fn parse(path: &'p str) -> Self {
        let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        let version = if parts[0] == "api" { 2 } else { 3 };
        let (root, rest) = parts.split_at(version);
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (Some(*namespace), rest),
            rest => (None, rest),
        };
        Self {
            collection: format!("{}/{}", root.join("/"), rest[0]),
            namespace,
            name: rest.get(1).copied(),
        }
    }
}

fn absent() -> (u16, Value) {
    let status = json!({"kind": "Status", "status": "Failure", "message": "not found", "reason": "NotFound", "code": 404});
    (404, status)
}

/// Entry of a webhook configuration that calls the Service of that namespace.
pub(super) fn entry(policy: &str, namespace: &str) -> Value {
    json!({"name": "entry", "failurePolicy": policy,
        "clientConfig": {"service": {"namespace": namespace, "name": "headroom-webhook"}}})
}

fn marker() -> String {
    json!({"cpu": "6", "uid": "u", "from": {"cpu": {"raw": "4"}}}).to_string()
}

/// Node n1 with 4 raw CPUs.
pub(super) fn node(cpu: &str, annotations: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "uid": "u", "annotations": annotations},
        "status": {"allocatable": {"cpu": cpu, "memory": "8Gi"}, "capacity": {"cpu": "4", "memory": "8Gi"}},
    })
}
