//! [`Foreign`] is another party's mutating webhook, with a closure as its rule. The name of its configuration
//! determines whether it runs before or after the Headroom webhook.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use headroom_domain::{names, ratio::parse_annotation};
use headroom_kit::serve::RequestBody;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use k8s_openapi::{ByteString, api::admissionregistration::v1::MutatingWebhookConfiguration};
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::tls_server::{TlsServer, json_answer};

/// A configuration name that sorts before ours: the API server calls such a webhook first.
pub const BEFORE: &str = "a.example.org";
/// A configuration name that sorts after ours.
pub const AFTER: &str = "z.example.org";

/// A call of the webhook, except the object that it may change.
#[derive(Debug)]
pub struct AdmissionCall<'a> {
    pub user: &'a str,
    /// The stored object; `null` for a new one.
    pub old: &'a Value,
}

/// Rule of the webhook's registration.
#[derive(Debug, Clone, Copy)]
pub struct CalledFor {
    pub operation: &'static str,
    /// Resource of the core API, in plural, with its subresource.
    pub resource: &'static str,
    /// `Never`, or `IfNeeded` for a second call after changes by other webhooks.
    pub reinvocation: &'static str,
}

/// Every write of a node's status, without reinvocation.
const NODE_STATUS: CalledFor = CalledFor {
    operation: "UPDATE",
    resource: "nodes/status",
    reinvocation: "Never",
};

/// A webhook that applies its rule; ended on drop.
#[derive(Debug)]
pub struct Foreign {
    server: TlsServer,
    calls: Arc<AtomicU64>,
}

impl AdmissionCall<'_> {
    /// True if the write comes from the node's own kubelet.
    pub fn is_kubelet(&self) -> bool {
        names::node_of_user(self.user).is_some()
    }
}

impl Foreign {
    /// Starts the webhook; its certificate is written to the folder.
    pub async fn start(
        folder: &Path,
        rule: impl Fn(&AdmissionCall<'_>, &mut Value) + Send + Sync + 'static,
    ) -> Self {
        let calls = Arc::<AtomicU64>::default();
        let (rule, counted) = (Arc::new(rule), Arc::clone(&calls));
        let hosts = ["127.0.0.1".to_owned()];
        let server = TlsServer::start(folder, "foreign", &hosts, move |request| {
            counted.fetch_add(1, Ordering::Relaxed);
            let rule = Arc::clone(&rule);
            async move { answer(request, &*rule).await }
        });
        Self {
            server: server.await,
            calls,
        }
    }

    /// Number of calls so far.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Registers the webhook for writes of `nodes/status`, with failurePolicy `Fail`.
    pub async fn register(&self, client: &Client, name: &str) {
        self.register_for(client, name, NODE_STATUS).await;
    }

    /// Registers the webhook for a rule, with failurePolicy `Fail`.
    pub async fn register_for(&self, client: &Client, name: &str, called_for: CalledFor) {
        let CalledFor {
            operation,
            resource,
            reinvocation,
        } = called_for;
        let configuration = json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": name},
            "webhooks": [{
                "name": name,
                "clientConfig": {"url": format!("https://{}/", self.server.address), "caBundle": ByteString(self.server.ca.clone())},
                "rules": [{
                    "operations": [operation], "apiGroups": [""], "apiVersions": ["v1"], "resources": [resource],
                }],
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "reinvocationPolicy": reinvocation,
                "failurePolicy": "Fail",
            }],
        });
        configurations(client)
            .patch(
                name,
                &PatchParams::apply("e2e").force(),
                &Patch::Apply(configuration),
            )
            .await
            .expect("register a webhook");
    }
}

/// Removes the configuration; the API server may call the webhook a moment longer.
pub async fn unregister(client: &Client, name: &str) {
    configurations(client)
        .delete(name, &DeleteParams::default())
        .await
        .expect("unregister a webhook");
}

/// Sets reinvocationPolicy `IfNeeded` for all webhooks of a configuration.
pub async fn reinvoke(client: &Client, name: &str) {
    let mut configuration = configurations(client).get(name).await.expect("the configuration");
    for webhook in configuration.webhooks.iter_mut().flatten() {
        webhook.reinvocation_policy = Some("IfNeeded".to_owned());
    }
    configurations(client)
        .replace(name, &kube::api::PostParams::default(), &configuration)
        .await
        .expect("change the configuration");
}

/// The naive rule: allocatable in a kubelet's write counts as raw, and so does any allocatable while no raw value is
/// recorded.
pub fn naive(asked: &AdmissionCall<'_>, node: &mut Value) {
    let ratio = node["metadata"]["annotations"][names::RATIO].as_str();
    let ratio = ratio.and_then(|text| parse_annotation(text).ok()?.cpu);
    let Some(ratio) = ratio else { return };
    let milli = |value: &Value| -> Option<u64> {
        let quantity: headroom_domain::quantity::Quantity = value.as_str()?.parse().ok()?;
        quantity.milli()
    };
    let shown = milli(&node["status"]["allocatable"]["cpu"]);
    let recorded = node["metadata"]["annotations"][names::RAW_ALLOCATABLE].as_str();
    let recorded = recorded.and_then(|text| milli(&serde_json::from_str::<Value>(text).ok()?["cpu"]));
    let raw = if asked.is_kubelet() {
        shown
    } else {
        recorded.or(shown)
    };
    let Some(raw) = raw else { return };
    let Some(result) = ratio.apply(raw) else { return };
    node["metadata"]["annotations"][names::RAW_ALLOCATABLE] =
        json!({"cpu": format!("{raw}m")}).to_string().into();
    node["status"]["allocatable"]["cpu"] = format!("{result}m").into();
}

fn configurations(client: &Client) -> Api<MutatingWebhookConfiguration> {
    Api::all(client.clone())
}

async fn answer<R: Fn(&AdmissionCall<'_>, &mut Value) + Sync>(
    request: Request<RequestBody>,
    rule: &R,
) -> Response<Full<Bytes>> {
    let body = request.into_body().collect().await.expect("a body").to_bytes();
    let review: Value = serde_json::from_slice(&body).expect("a review");
    let request = &review["request"];
    let asked = AdmissionCall {
        user: request["userInfo"]["username"].as_str().expect("a user"),
        old: &request["oldObject"],
    };
    let mut object = request["object"].clone();
    rule(&asked, &mut object);
    let patch = json_patch::diff(&request["object"], &object);
    let patch = serde_json::to_vec(&patch).expect("JSON");
    let answer = json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": request["uid"], "allowed": true, "patchType": "JSONPatch", "patch": ByteString(patch)},
    });
    json_answer(Some(&answer))
}
