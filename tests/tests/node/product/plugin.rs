//! Check of `kubectl headroom`: the API server and the kubelet forward its connections to the webhook's pod.

use std::path::Path;

use e2e::{
    console,
    product::{NODE, Product},
};

/// User and group of the page about roles.
const USER: &str = "ann";
const GROUP: &str = "on-call";

pub(super) async fn commands_work_through_the_kubelet(product: &Product) {
    let bind = console::page_commands("docs/roles.md", "kubectl ");
    assert_eq!(bind.len(), 2);
    for command in bind {
        let arguments: Vec<&str> = command.split_whitespace().skip(1).collect();
        let output = product.kubectl(&arguments);
        assert!(output.status.success(), "{command}: {output:?}");
    }
    let viewer = product
        .cluster
        .kubeconfig_for(USER, Some(GROUP))
        .expect("a kubeconfig");
    for kubeconfig in [product.cluster.kubeconfig().to_owned(), viewer] {
        let ask = async |arguments: &[&str]| printed(product, &kubeconfig, arguments).await;
        let table = ask(&["top", "--once"]).await;
        assert!(table.starts_with("NODE ") && table.contains(NODE), "{table}");
        let page = ask(&["explain", NODE]).await;
        assert!(page.contains(NODE) && page.contains("auto"), "{page}");
        let hints = ask(&["hints"]).await;
        assert!(hints.contains(NODE), "{hints}");
        let check = ask(&["check"]).await;
        assert!(check.starts_with("No problem found by "), "{check}");
        let versions = ask(&["version"]).await;
        assert!(versions.contains("headroom-webhook-"), "{versions}");
    }
}

async fn printed(product: &Product, kubeconfig: &Path, arguments: &[&str]) -> String {
    let output = product.plugin(kubeconfig, arguments).await;
    let complaint = String::from_utf8_lossy(&output.stderr);
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(
        output.status.success() && complaint.is_empty(),
        "{arguments:?}: {text}{complaint}"
    );
    text
}
