//! Checks of rights: security contexts of the running processes, and Pod Security in the webhook's namespace.

use e2e::product::{ContainerProcess, Product};
use headroom_domain::names;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, api::PostParams};
use serde_json::json;

/// Bits of `CAP_PERFMON` and `CAP_BPF`.
const PERFMON: u64 = 1 << 38;
const BPF: u64 = 1 << 39;
/// User of the webhook.
const NON_ROOT: &str = "65532";
/// Value of `Seccomp` with a filter.
const FILTERED: &str = "2";

/// The kernel applies the security contexts of the manifests.
pub(super) async fn pods_have_only_their_declared_rights(product: &Product) {
    check(&product.process(&product.webhook().await), NON_ROOT, 0);
    let agent = product.process(&product.agent().await);
    check(&agent, "0", BPF | PERFMON);
    let cgroups = agent
        .mounts()
        .into_iter()
        .filter(|(point, _)| point == "/host/cgroup");
    let options: Vec<_> = cgroups.map(|(_, options)| options).collect();
    assert!(
        !options.is_empty() && options.iter().all(|options| options.contains(&"ro".to_owned())),
        "{options:?}"
    );
}

fn check(process: &ContainerProcess<'_>, user: &str, capabilities: u64) {
    let status = process.status();
    let field = |name: &str| status[name].as_str();
    for ids in ["Uid", "Gid"] {
        assert!(field(ids).split_whitespace().all(|id| id == user), "{status:#?}");
    }
    let bits = |set: &str| u64::from_str_radix(field(set), 16).expect("bits");
    assert_eq!(bits("CapBnd"), capabilities, "{status:#?}");
    for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        // The agent drops its capabilities once its programs are attached. Before Linux 5.19 it needs one of them to count.
        assert_eq!(bits(set) & !(capabilities & BPF), 0, "{set} of {status:#?}");
    }
    assert_eq!(
        (field("NoNewPrivs"), field("Seccomp")),
        ("1", FILTERED),
        "{status:#?}"
    );
    let (_, root) = process
        .mounts()
        .into_iter()
        .find(|(point, _)| point == "/")
        .expect("a root");
    assert!(root.contains(&"ro".to_owned()), "{root:?}");
}

/// Only pods that comply with the profile `restricted` run in the namespace of the webhook.
pub(super) async fn restricted_namespace_refuses_privileged_pods(product: &Product) {
    let forged = json!({
        "metadata": {"name": "forged", "labels": {"app.kubernetes.io/name": "headroom-webhook"}},
        "spec": {
            "serviceAccountName": names::WEBHOOK_SERVICE_ACCOUNT,
            "containers": [{"name": "webhook", "image": "headroom-webhook:0.1.0", "securityContext": {"privileged": true}}],
        },
    });
    let forged: Pod = serde_json::from_value(forged).expect("a Pod");
    let pods: Api<Pod> = Api::namespaced(product.client.clone(), names::NAMESPACE);
    let created = pods.create(&PostParams::default(), &forged).await;
    let refusal = created.expect_err("a refusal").to_string();
    assert!(
        refusal.contains(r#"violates PodSecurity "restricted:latest": privileged"#),
        "{refusal}"
    );
}
