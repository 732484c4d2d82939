//! Checks of pods on a real API server: one answer contains all faults of a pod, a resize is checked as an update,
//! rules for labels follow their ConfigMap, and users that must work without the webhook do not wait for it.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests panic: a returned error has no stack"
)]

use e2e::{
    namespaces,
    stand::{Stand, count, until},
};
use headroom_domain::{installation::ConfigMapName, names};
use headroom_testbed::{
    cluster::ClusterOptions,
    webhook::{GATES, Webhook},
};
use headroom_webhook::admission::endpoint::Family;
use k8s_openapi::api::{
    admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
    core::v1::{ConfigMap, Pod, ServiceAccount},
};
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
    core::Status,
};
use serde_json::{Value, json};

use crate::slo_config::Kubectl;

/// The namespace of the pods.
const TEAM: &str = "team";
/// Text before the webhook's own.
const DENIED: &str = "admission webhook \"vpod.koordinator.sh\" denied the request: ";

/// A stand with a replica that checks the pods of a namespace.
struct CheckedPods {
    stand: Stand,
    webhook: Webhook,
    pods: Api<Pod>,
}

impl CheckedPods {
    async fn start() -> Self {
        let stand = Stand::start_with(ClusterOptions::default()).await;
        let pods = namespaces::create(&stand, TEAM).await;
        let families = [Family::Nodes, Family::Koordinator];
        let gates = format!("{GATES},ValidatePodDeviceResource=true,EnablePodEnhancedValidator=true");
        let webhook = stand.serving("webhook-0", "{}", &families, &gates).await;
        let checked = Self { stand, webhook, pods };
        let reserved = json!({"annotations": {names::RESERVE_POD: ""}});
        until("pods reach the webhook, which knows the rules", async || {
            let answer = checked.dry(&pod("probe", &reserved, &json!({}))).await;
            answer.is_err_and(|status| status.message.starts_with(DENIED))
        })
        .await;
        checked
    }

    async fn create(&self, pod: &Pod) -> Result<Pod, Box<Status>> {
        answered(self.pods.create(&PostParams::default(), pod).await)
    }

    async fn dry(&self, pod: &Pod) -> Result<Pod, Box<Status>> {
        let dry = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        answered(self.pods.create(&dry, pod).await)
    }

    async fn patch(&self, name: &str, patch: &Value) -> Result<Pod, Box<Status>> {
        let params = PatchParams::default();
        answered(self.pods.patch(name, &params, &Patch::Strategic(patch)).await)
    }

    async fn patch_subresource(
        &self,
        subresource: &str,
        name: &str,
        spec: &Value,
    ) -> Result<Pod, Box<Status>> {
        let (params, patch) = (PatchParams::default(), Patch::Strategic(json!({"spec": spec})));
        let patched = self
            .pods
            .patch_subresource(subresource, name, &params, &patch)
            .await;
        answered(patched)
    }

    async fn resize(&self, name: &str, cpu: &str) -> Result<Pod, Box<Status>> {
        let container = json!({"name": "c", "resources": {"requests": {"cpu": cpu}}});
        self.patch_subresource("resize", name, &json!({"containers": [container]}))
            .await
    }

    fn rules(&self) -> Api<ConfigMap> {
        Api::namespaced(self.stand.client.clone(), names::SLO_CONFIG_NAMESPACE)
    }

    /// Writes a version of the ConfigMap with rules.
    async fn write_rules(&self, enable: &str, rules: &str) {
        let name = ConfigMapName::label_rules().name;
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name.as_str()},
            "data": {"enable": enable, "rules": rules},
        });
        let params = PatchParams::apply("test");
        let written = self
            .rules()
            .patch(name.as_str(), &params, &Patch::Apply(object))
            .await;
        written.expect("write the rules");
    }

    async fn versions(&self, result: &str) -> u64 {
        let series = format!("headroom_webhook_label_rule_versions_total{{result=\"{result}\"");
        count(&self.webhook, &series).await
    }
}

/// An answer of the API server, or the status that it refuses with.
fn answered<T>(result: kube::Result<T>) -> Result<T, Box<Status>> {
    result.map_err(|error| {
        if let kube::Error::Api(status) = error {
            status
        } else {
            panic!("no answer: {error}")
        }
    })
}

/// Refusal of a request.
fn refusal<T: std::fmt::Debug>(answer: Result<T, Box<Status>>) -> String {
    let status = answer.expect_err("it is refused");
    let text = status.message.strip_prefix(DENIED);
    text.unwrap_or_else(|| panic!("refused by another: {status:?}"))
        .to_owned()
}

fn pod(name: &str, metadata: &Value, requests: &Value) -> Pod {
    let mut metadata = metadata.clone();
    metadata["name"] = name.into();
    let mut limits = requests.clone();
    // Of devices a limit must equal its request.
    limits.as_object_mut().expect("an object").remove("cpu");
    let resources = json!({"requests": requests, "limits": limits});
    let container = json!({"name": "c", "image": "i", "resources": resources});
    serde_json::from_value(json!({"metadata": metadata, "spec": {"containers": [container]}})).expect("a pod")
}

/// Labels of a pod with CPUs of its own.
fn exclusive() -> Value {
    json!({"labels": {names::QOS_CLASS: "LSR", names::PRIORITY_CLASS: "koord-prod"}})
}

#[tokio::test(flavor = "multi_thread")]
async fn pod_with_three_faults_is_refused_with_all_three_and_dry_run_leaves_no_trace() {
    let checked = CheckedPods::start().await;
    let metadata = json!({
        "annotations": {names::RESERVE_POD: ""}, "labels": {names::QOS_CLASS: "BE"},
    });
    let faulty = pod("faulty", &metadata, &json!({names::GPU_SHARED: "2"}));
    let text = "[annotations.scheduling.koordinator.sh/reserve-pod: Forbidden: cannot set in annotations, \
                Pod: Forbidden: koordinator.sh/qosClass=BE and priorityClass= cannot be used in combination, \
                pod.spec.containers[*].resources.requests: Forbidden: GPU memory and GPU memory ratio all is zero]";
    let status = checked.create(&faulty).await.expect_err("it is refused");
    assert_eq!(status.code, 400);
    let details = status.details.as_ref().expect("details");
    assert_eq!(details.causes.len(), 3, "{details:?}");
    assert_eq!(refusal(Err::<Pod, _>(status)), text);
    assert_eq!(refusal(checked.dry(&faulty).await), text);
    let mut manifest = serde_json::to_value(&faulty).expect("JSON");
    (manifest["apiVersion"], manifest["kind"]) = ("v1".into(), "Pod".into());
    let kubectl = Kubectl::new(&checked.stand);
    let output = kubectl.run(
        &["create", "--namespace", TEAM, "--filename=-"],
        &manifest.to_string(),
    );
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && printed.contains(&format!("{DENIED}{text}")),
        "{printed}"
    );

    let right = pod("right", &exclusive(), &json!({"cpu": "2"}));
    checked.dry(&right).await.expect("a dry run");
    let stored = checked.pods.list(&ListParams::default()).await.expect("a list");
    assert!(stored.items.is_empty(), "{:?}", stored.items);
    checked.create(&right).await.expect("the same pod as before");
}

/// The attacker claims a deletion in a create by server-side apply (kubernetes#133388), or keeps a deleted pod running
/// with a finalizer.
#[tokio::test(flavor = "multi_thread")]
async fn pods_that_claim_to_be_deleted_keep_all_checks() {
    let checked = CheckedPods::start().await;
    let claim = json!({
        "annotations": {names::RESERVE_POD: ""}, "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a/b"],
    });
    let apply = async |name: &str, metadata: &Value| {
        let mut object = serde_json::to_value(pod(name, metadata, &json!({"cpu": "1"}))).expect("JSON");
        object["apiVersion"] = "v1".into();
        object["kind"] = "Pod".into();
        let params = PatchParams::apply("attacker");
        answered(checked.pods.patch(name, &params, &Patch::Apply(object)).await)
    };
    let refused = refusal(apply("claim", &claim).await);
    assert!(refused.contains("cannot set in annotations"), "{refused}");

    let mut held = exclusive();
    held["finalizers"] = json!(["a/b"]);
    apply("held", &held).await.expect("create it");
    let graceful = DeleteParams::default().grace_period(3600);
    checked.pods.delete("held", &graceful).await.expect("delete it");
    let label = json!({"metadata": {"labels": {names::QOS_CLASS: "BE"}}});
    let refused = refusal(checked.patch("held", &label).await);
    assert!(refused.contains(names::QOS_CLASS), "{refused}");
    let refused = refusal(checked.resize("held", "1500m").await);
    assert!(
        refused.contains("the requested CPUs of LSR Pod must be integer"),
        "{refused}"
    );
    let released = json!({"metadata": {"finalizers": null}});
    checked
        .patch("held", &released)
        .await
        .expect("finalizers can be removed");
}

#[tokio::test(flavor = "multi_thread")]
async fn exclusive_cpus_are_reserved_at_pod_creation_and_at_resize() {
    let checked = CheckedPods::start().await;
    let fraction = |value: &str| {
        format!(
            "pod.spec.containers[*].resources.requests: Invalid value: \"{value}\": the requested CPUs of LSR Pod must be integer"
        )
    };
    let part = pod("part", &exclusive(), &json!({"cpu": "1500m"}));
    assert_eq!(refusal(checked.create(&part).await), fraction("1500m"));
    let whole = pod("whole", &exclusive(), &json!({"cpu": "1"}));
    checked.create(&whole).await.expect("whole CPUs");
    assert_eq!(refusal(checked.resize("whole", "1500m").await), fraction("1500m"));
    checked.resize("whole", "2").await.expect("whole CPUs again");

    let other = json!({"metadata": {"labels": {names::QOS_CLASS: "LS"}}});
    assert_eq!(
        refusal(checked.patch("whole", &other).await),
        "labels.koordinator.sh/qosClass: Invalid value: \"LS\": field is immutable"
    );
    let note = json!({"metadata": {"annotations": {"a": "b"}}});
    checked.patch("whole", &note).await.expect("an annotation");

    // The webhook is not called for this subresource, because none of the checked fields can change there.
    let debugger = json!({"name": "d", "image": "i", "resources": {"requests": {"cpu": "500m"}}});
    let patched = checked
        .patch_subresource(
            "ephemeralcontainers",
            "whole",
            &json!({"ephemeralContainers": [debugger]}),
        )
        .await;
    let status = patched.expect_err("ephemeral containers have no resources");
    assert!(status.message.contains("resources"), "{status:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_for_labels_follow_their_config_map_and_a_broken_version_keeps_the_last_good_one() {
    let checked = CheckedPods::start().await;
    let nothing = json!({});
    checked
        .create(&pod("before", &nothing, &nothing))
        .await
        .expect("there are no rules");
    let is_refused = async || checked.dry(&pod("probe", &nothing, &nothing)).await.is_err();
    assert!(!is_refused().await);

    checked
        .write_rules("true", r#"[{"name": "owners", "requiredLabels": ["owner"]}]"#)
        .await;
    until("the rules are in force", is_refused).await;
    assert_eq!(
        refusal(checked.create(&pod("bare", &nothing, &nothing)).await),
        "validation rule 'owners' failed: required label 'owner' is missing"
    );
    let owned = json!({"labels": {"owner": "me"}});
    checked
        .create(&pod("owned", &owned, &nothing))
        .await
        .expect("it has the label");
    // A pod from before the rule may change, and a pod that obeys it must keep its label.
    let note = json!({"metadata": {"labels": {"a": "b"}}});
    checked
        .patch("before", &note)
        .await
        .expect("it lacked the label before");
    let without = json!({"metadata": {"labels": {"owner": null}}});
    refusal(checked.patch("owned", &without).await);

    checked.write_rules("true", "[").await;
    until("the broken version is seen", async || {
        checked.versions("refused").await == 1
    })
    .await;
    assert!(is_refused().await, "the last good rules");
    checked.write_rules("false", "[").await;
    until("they are switched off", async || !is_refused().await).await;
    checked.write_rules("true", "[").await;
    until("they are switched on", is_refused).await;
    let name = ConfigMapName::label_rules().name;
    let deleted = checked
        .rules()
        .delete(name.as_str(), &DeleteParams::default())
        .await;
    deleted.expect("delete the rules");
    until("there are no rules", async || !is_refused().await).await;
    assert_eq!(checked.versions("absent").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn system_pods_and_headroom_start_without_any_replica() {
    let mut checked = CheckedPods::start().await;
    checked.webhook.process.stop().expect("stop the webhook");
    let nothing = json!({});
    let status = checked
        .create(&pod("p", &nothing, &nothing))
        .await
        .expect_err("no webhook answers");
    assert_eq!(status.code, 500, "{status:?}");
    for namespace in [names::KUBE_SYSTEM, names::NAMESPACE, names::AGENT_NAMESPACE] {
        let accounts: Api<ServiceAccount> = Api::namespaced(checked.stand.client.clone(), namespace);
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
        let applied = accounts
            .patch("default", &PatchParams::apply("test"), &Patch::Apply(account))
            .await;
        applied.expect("an account");
        let pods: Api<Pod> = Api::namespaced(checked.stand.client.clone(), namespace);
        let created = pods
            .create(&PostParams::default(), &pod("p", &nothing, &nothing))
            .await;
        created.unwrap_or_else(|error| panic!("a pod in {namespace}: {error}"));
        let patch = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
        let patched = pods.patch("p", &PatchParams::default(), &patch).await;
        patched.expect("label the pod");
    }
    // Recovery for all other users.
    let (name, params) = (names::PODS_CONFIGURATION, DeleteParams::default());
    let mutating: Api<MutatingWebhookConfiguration> = Api::all(checked.stand.client.clone());
    mutating
        .delete(name, &params)
        .await
        .expect("delete what changes pods");
    let validating: Api<ValidatingWebhookConfiguration> = Api::all(checked.stand.client.clone());
    validating
        .delete(name, &params)
        .await
        .expect("delete what checks them");
    until("pods are created again", async || {
        checked.create(&pod("p", &nothing, &nothing)).await.is_ok()
    })
    .await;
}
