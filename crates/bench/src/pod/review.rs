//! Builds the review of a new Pod as a controller creates it: two containers with probes, mounts and resources.

use serde_json::{Map, Value, json};

use crate::review_router::admission_review;

/// Resource names in the containers' requests and limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Amounts {
    Native,
    /// Batch resources, with the QoS class of the Pod.
    Batch,
}

/// Review of a new Pod, 4 to 6 kB long.
pub(super) fn review(amounts: Amounts) -> Vec<u8> {
    review_of(&pod(amounts))
}

/// Review of an object without members.
pub(super) fn empty() -> Vec<u8> {
    review_of(&json!({}))
}

fn review_of(object: &Value) -> Vec<u8> {
    admission_review(&json!({
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800001",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "requestKind": {"group": "", "version": "v1", "kind": "Pod"},
        "requestResource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": "reports",
        "operation": "CREATE",
        "userInfo": {
            "username": "system:serviceaccount:kube-system:replicaset-controller",
            "groups": ["system:serviceaccounts", "system:authenticated"],
        },
        "object": object,
        "oldObject": null,
        "dryRun": false,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
    }))
}

fn pod(amounts: Amounts) -> Value {
    let (labels, class, priority, scheduler) = match amounts {
        Amounts::Native => (Map::new(), Value::Null, 0, "default-scheduler"),
        Amounts::Batch => {
            let class = ("koordinator.sh/qosClass".to_owned(), Value::from("BE"));
            (
                Map::from_iter([class]),
                Value::from("koord-batch"),
                5_500,
                "koord-scheduler",
            )
        }
    };
    json!({
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": metadata(labels),
        "spec": {
            "containers": [container("report", amounts), container("upload", amounts)],
            "volumes": [
                {"name": "config", "configMap": {"name": "nightly-report", "defaultMode": 420}},
                {"name": "scratch", "emptyDir": {}},
                {"name": "kube-api-access-x7k2p", "projected": {"defaultMode": 420, "sources": [
                    {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                    {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                ]}},
            ],
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "serviceAccountName": "reports",
            "securityContext": {"runAsNonRoot": true, "runAsUser": 10_001},
            "schedulerName": scheduler,
            "priority": priority,
            "priorityClassName": class,
            "preemptionPolicy": "PreemptLowerPriority",
            "tolerations": [
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
                {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
            ],
        },
    })
}

/// Metadata with `labels` and those of the controller.
fn metadata(mut labels: Map<String, Value>) -> Value {
    for (key, value) in [
        ("app.kubernetes.io/name", "nightly-report"),
        ("app.kubernetes.io/part-of", "reports"),
        ("pod-template-hash", "7d4b9c6f58"),
    ] {
        labels.insert(key.to_owned(), value.into());
    }
    json!({
        "generateName": "nightly-report-7d4b9c6f58-",
        "namespace": "reports",
        "labels": labels,
        "annotations": {"checksum/config": "0123456789abcdef".repeat(4)},
        "ownerReferences": [{
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "nightly-report-7d4b9c6f58",
            "uid": "0c1c5e4e-8f0e-4b1c-9a53-1f6d6f0f9a01", "controller": true, "blockOwnerDeletion": true,
        }],
        "managedFields": [{
            "manager": "kube-controller-manager", "operation": "Update", "apiVersion": "v1",
            "time": "2026-11-20T10:00:00Z", "fieldsType": "FieldsV1",
            "fieldsV1": {"f:metadata": {"f:generateName": {}, "f:labels": {}}, "f:spec": {"f:containers": {}}},
        }],
    })
}

fn container(name: &str, amounts: Amounts) -> Value {
    let amounts = match amounts {
        Amounts::Native => json!({"cpu": "2500m", "memory": "4Gi"}),
        Amounts::Batch => json!({"kubernetes.io/batch-cpu": "2500", "kubernetes.io/batch-memory": "4Gi"}),
    };
    let probe = json!({
        "httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"},
        "initialDelaySeconds": 5, "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3,
    });
    json!({
        "name": name,
        "image": format!("registry.example.com/reports/{name}:v1.24.3-build.20261101"),
        "args": ["--since=24h", "--output=/scratch/report.parquet", "--format=parquet"],
        "env": [
            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}},
            {"name": "LOG_LEVEL", "value": "info"},
        ],
        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
        "resources": {"requests": amounts, "limits": amounts},
        "volumeMounts": [
            {"name": "config", "mountPath": "/etc/report", "readOnly": true},
            {"name": "scratch", "mountPath": "/scratch"},
            {"name": "kube-api-access-x7k2p", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": true},
        ],
        "livenessProbe": probe,
        "readinessProbe": probe,
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
        "securityContext": {"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true},
    })
}
