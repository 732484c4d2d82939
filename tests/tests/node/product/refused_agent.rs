//! Check of a wrong Pod Security profile on the agent's namespace: its pod is refused with the cause, `kubectl headroom check` leads to
//! it, and the right profile starts the agent.

use e2e::product::{Changes, Product, is_ready};
use headroom_domain::names;

/// Rules of the profile that the agent's pod breaks, as the API server names them.
const BROKEN_RULES: [&str; 3] = ["unrestricted capabilities", "hostPath", "runAsUser=0"];
/// Command in the fix of the finding.
const DESCRIBE: &str = "kubectl -n headroom-agent describe daemonset";

/// Manifests with the profile `restricted` on the agent's namespace.
pub(super) fn restricted() -> Changes {
    let patches = "  - target: {kind: Namespace, name: headroom-agent}\n    patch: |\n      \
                   - {op: replace, path: /metadata/labels/pod-security.kubernetes.io~1enforce, value: restricted}\n";
    Changes {
        patches: patches.to_owned(),
        ..Changes::default()
    }
}

/// The installation contains [`restricted`]. At the end, webhook and agent are Ready.
pub(super) async fn pod_security_names_the_cause(product: &Product) {
    let warnings = &product.warnings;
    assert!(
        BROKEN_RULES.iter().all(|rule| warnings.contains(rule)),
        "{warnings}"
    );
    product
        .until("an event names the cause", async || {
            let events = product.events(names::AGENT_NAMESPACE).await;
            events.iter().any(|(reason, message)| {
                reason == "FailedCreate"
                    && message.contains(r#"violates PodSecurity "restricted:latest""#)
                    && BROKEN_RULES.iter().all(|rule| message.contains(rule))
            })
        })
        .await;
    product
        .until("the webhook is Ready", async || {
            product.list(names::NAMESPACE).await.iter().any(is_ready)
        })
        .await;
    product.annotate(names::MODE, "auto").await;
    product
        .until("the check leads to the event", async || {
            let output = product.plugin(product.cluster.kubeconfig(), &["check"]).await;
            let text = String::from_utf8_lossy(&output.stdout);
            output.status.code() == Some(1) && text.contains("agents-silent") && text.contains(DESCRIBE)
        })
        .await;
    product.annotate(names::MODE, "off").await;
    let profile = "pod-security.kubernetes.io/enforce=privileged";
    let labelled = product.kubectl(&[
        "label",
        "--overwrite",
        "namespace",
        names::AGENT_NAMESPACE,
        profile,
    ]);
    assert!(labelled.status.success(), "{labelled:?}");
    product.await_ready().await;
}
