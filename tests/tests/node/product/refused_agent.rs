//! Check of a wrong Pod Security profile on the agent's namespace: its pod is refused with the cause, `kubectl headroom check` leads to
//! it, and the right profile starts the agent.

use e2e::product::Product;
use headroom_domain::names;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt as _, api::DeleteParams};

use super::workload::Workload;

pub(super) async fn pod_security_names_the_cause(product: &Product, workload: &Workload) {
    let containers = workload.containers().await;
    let warning = label(product, "restricted");
    let agent = product.agent().await.name_any();
    assert!(
        warning.contains(&agent) && warning.contains("unrestricted capabilities"),
        "{warning}"
    );
    let pods: Api<Pod> = Api::namespaced(product.client.clone(), names::AGENT_NAMESPACE);
    pods.delete(&agent, &DeleteParams::default())
        .await
        .expect("delete the agent");
    product
        .until("an event names the cause", async || {
            let events = product.events(names::AGENT_NAMESPACE).await;
            events.iter().any(|(reason, message)| {
                let rules = ["unrestricted capabilities", "hostPath", "runAsUser=0"];
                reason == "FailedCreate"
                    && message.contains(r#"violates PodSecurity "restricted:latest""#)
                    && rules.iter().all(|rule| message.contains(rule))
            })
        })
        .await;
    product
        .until("the check reports the missing agent", async || {
            let output = product.plugin(product.cluster.kubeconfig(), &["check"]).await;
            let text = String::from_utf8_lossy(&output.stdout);
            output.status.code() == Some(1)
                && text.contains("agents-silent")
                && text.contains("describe daemonset")
        })
        .await;
    assert_eq!(workload.containers().await, containers);

    label(product, "privileged");
    product.await_ready().await;
}

/// Sets the enforced profile of the agent's namespace. Returns kubectl's warnings.
fn label(product: &Product, profile: &str) -> String {
    let label = format!("pod-security.kubernetes.io/enforce={profile}");
    let output = product.kubectl(&[
        "label",
        "--overwrite",
        "namespace",
        names::AGENT_NAMESPACE,
        &label,
    ]);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stderr).expect("text")
}
