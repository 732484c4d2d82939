//! The Job that `helm uninstall` runs first: it takes Headroom out of force, and restores raw values on all nodes.

use anyhow::{Context as _, Result};
use headroom_domain::{installation::Installation, names};
use kubectl_headroom::uninstall::permissions;
use serde_json::{Value, json};

use super::{
    emit,
    tree::{ACTION, Object, Tree, Variant, When},
};

/// Name of the Job and of its account and role.
const NAME: &str = "headroom-uninstall";
const TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Template of the Job, with its account and its rights.
pub(super) fn template() -> Result<String> {
    let mut text = String::new();
    for (weight, value) in [(0, account()), (0, role()?), (0, binding()), (1, job())] {
        let mut tree = Tree::from(&value);
        let annotations = tree.at(&["metadata", "annotations"]).context("metadata")?;
        for (key, value) in [
            ("helm.sh/hook", "pre-delete".to_owned()),
            ("helm.sh/hook-weight", weight.to_string()),
            // A failed Job stays, with its log, until the next attempt.
            (
                "helm.sh/hook-delete-policy",
                "before-hook-creation,hook-succeeded".to_owned(),
            ),
        ] {
            annotations.set(key, Tree::Scalar(json!(value)));
        }
        let labels = tree.at(&["metadata", "labels"]).context("metadata")?;
        labels.set(
            &format!("{ACTION} labels"),
            Tree::Block("include \"headroom.labels\" $".to_owned()),
        );
        if weight == 1 {
            bind(&mut tree)?;
        }
        let when = When::all(["$.Values.uninstall.enabled".to_owned()]);
        text.push_str(&emit::document(&Object { when, tree }));
    }
    Ok(text)
}

fn account() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": NAME, "namespace": names::NAMESPACE},
        "automountServiceAccountToken": false,
    })
}

fn role() -> Result<Value> {
    let rules = permissions::rules_without_objects(&Installation::default());
    Ok(json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": NAME},
        "rules": serde_json::to_value(rules)?,
    }))
}

fn binding() -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": NAME},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": NAME},
        "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": names::NAMESPACE}],
    })
}

fn job() -> Value {
    let container = json!({
        "name": "uninstall",
        "args": ["uninstall", "--yes", "--keep-objects"],
        "resources": {"requests": {"cpu": "50m", "memory": "32Mi"}, "limits": {"memory": "128Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "token", "mountPath": TOKEN, "readOnly": true}],
    });
    let token = json!({"projected": {"defaultMode": 288, "sources": [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
    ]}, "name": "token"});
    let pod = json!({
        "serviceAccountName": NAME,
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        "restartPolicy": "Never",
        "nodeSelector": {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"},
        "securityContext": {
            "runAsNonRoot": true,
            "runAsUser": 65532,
            "runAsGroup": 65532,
            "fsGroup": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": [token],
    });
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": NAME, "namespace": names::NAMESPACE},
        "spec": {"backoffLimit": 0, "template": {"spec": pod}},
    })
}

/// Binds the Job to the values.
fn bind(job: &mut Tree) -> Result<()> {
    let spec = job.at(&["spec"]).context("a specification")?;
    // A minute for scheduling, the image, and the steps after the wait.
    spec.set(
        "activeDeadlineSeconds",
        Tree::Inline("add $.Values.uninstall.waitSeconds 60".to_owned()),
    );
    let pod = spec
        .at(&["template", "spec"])
        .context("a specification of pods")?;
    pod.set_if(
        "imagePullSecrets",
        When::all(["$.Values.image.pullSecrets".to_owned()]),
        Tree::Block("toYaml $.Values.image.pullSecrets".to_owned()),
    );
    pod.set_if(
        "tolerations",
        When::all(["$.Values.webhook.tolerations".to_owned()]),
        Tree::Block("toYaml $.Values.webhook.tolerations".to_owned()),
    );
    let container = pod.at(&["containers", "0"]).context("a container")?;
    container.set(
        "image",
        Tree::Inline("include \"headroom.image\" (list $ $.Values.uninstall.image)".to_owned()),
    );
    container.set(
        "imagePullPolicy",
        Tree::Inline("$.Values.image.pullPolicy".to_owned()),
    );
    let arguments = container.at(&["args"]).context("arguments")?;
    arguments.push(Variant::always(Tree::Elements(vec![
        "- --wait-seconds={{ $.Values.uninstall.waitSeconds }}".to_owned(),
    ])));
    arguments.push(Variant {
        when: When::all(["$.Values.uninstall.force".to_owned()]),
        tree: Tree::Scalar(json!("--force")),
    });
    Ok(())
}
