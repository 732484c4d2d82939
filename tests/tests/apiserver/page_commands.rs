//! Tests that run the commands for kubectl that pages show, as they are printed, on a real API server.
#![expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]

use std::{path::Path, process::Output};

use e2e::{
    console,
    rendered_manifests::{self, Installation},
    shell::Shell,
};
use headroom_domain::names;
use headroom_testbed::cluster::{Cluster, ClusterOptions};
use k8s_openapi::api::{
    admissionregistration::v1::MutatingWebhookConfiguration,
    core::v1::{Namespace, Node},
    rbac::v1::{ClusterRoleBinding, RoleBinding},
};
use kube::{Api, Client, ResourceExt as _, api::PostParams};
use serde_json::json;
use tempfile::TempDir;
use xtask::workspace;

/// The node of the pages.
const NODE: &str = "worker-1";

/// A folder that is like a checkout, a cluster with a node, and kubectl with our plugin.
struct PageReader {
    cluster: Cluster,
    client: Client,
    shell: Shell,
    _folder: TempDir,
}

impl PageReader {
    async fn start() -> Self {
        // Controllers, so that namespaces go when they are deleted.
        let cluster = Cluster::start(ClusterOptions::full()).await.expect("cluster");
        let client = cluster.client().await.expect("client");
        let folder = tempfile::tempdir().expect("a folder");
        let manifests = Path::new("deploy/kustomize");
        rendered_manifests::copy(&workspace::root().join(manifests), &folder.path().join(manifests));
        let shell = Shell::with_plugin(folder.path(), cluster.kubeconfig()).await;
        let node = serde_json::from_value(json!({"metadata": {"name": NODE}})).expect("a Node");
        let nodes: Api<Node> = Api::all(client.clone());
        nodes.create(&PostParams::default(), &node).await.expect("create");
        Self {
            cluster,
            client,
            shell,
            _folder: folder,
        }
    }

    /// Output of commands that one shell runs one after the other; all must succeed.
    async fn printed(&self, commands: &[String]) -> String {
        self.shell.printed(&commands.join("\n")).await
    }

    /// The page's commands for kubectl and openssl.
    fn commands(page: &str) -> Vec<String> {
        let mut commands = console::page_commands(page, "");
        commands.retain(|command| {
            console::INSTALLER_COMMANDS
                .iter()
                .any(|start| command.starts_with(start))
        });
        commands
    }

    async fn annotations(&self) -> Vec<String> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let node = nodes.get(NODE).await.expect("the node");
        node.annotations().keys().cloned().collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn installation_page_works_as_written() {
    let reader = PageReader::start().await;
    let commands = PageReader::commands("deploy/kustomize/README.md");
    let uninstall = commands
        .iter()
        .position(|command| command.starts_with("kubectl headroom uninstall"))
        .expect("how to uninstall");
    let (install, uninstall) = commands.split_at(uninstall);
    assert!(install.len() > 6 && uninstall.len() == 6, "{commands:#?}");
    let (by_plugin, by_hand) = uninstall.split_at(2);
    reader.printed(install).await;
    let configurations: Api<MutatingWebhookConfiguration> = Api::all(reader.client.clone());
    let configuration = configurations
        .get(names::WEBHOOK_SERVICE)
        .await
        .expect("it is there");
    let mut clients = configuration.webhooks.into_iter().flatten();
    assert!(clients.all(|webhook| webhook.client_config.ca_bundle.is_some()));
    let whole: Api<ClusterRoleBinding> = Api::all(reader.client.clone());
    whole.get("headroom-viewers").await.expect("a binding");
    let own: Api<RoleBinding> = Api::namespaced(reader.client.clone(), names::NAMESPACE);
    own.get("headroom-viewers").await.expect("a binding");

    // A new shell, in the same folder.
    let folder = commands.iter().find(|command| command.starts_with("cd "));
    let in_folder =
        |commands: &[String]| -> Vec<String> { folder.into_iter().chain(commands).cloned().collect() };
    reader.printed(&in_folder(by_hand)).await;
    is_uninstalled(&reader).await;

    // Objects that the reader created stay.
    let mut again = install.to_vec();
    again.retain(|command| !command.contains(" create "));
    reader.printed(&again).await;
    let ran = reader.printed(&in_folder(by_plugin)).await;
    assert!(
        ran.contains("\nplanned: ") && ran.contains("\nremoved: "),
        "{ran}"
    );
    is_uninstalled(&reader).await;
}

/// Waits until nothing of the installation is left.
async fn is_uninstalled(reader: &PageReader) {
    let namespaces: Api<Namespace> = Api::all(reader.client.clone());
    for name in [names::NAMESPACE, names::AGENT_NAMESPACE] {
        e2e::stand::until("the namespace is deleted", async || {
            namespaces.get_opt(name).await.expect("an answer").is_none()
        })
        .await;
    }
    assert_eq!(reader.annotations().await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_of_other_pages_work_as_documented() {
    let reader = PageReader::start().await;
    let mut installation = Installation::render();
    installation.add_component("koordinator");
    let kubeconfig = format!("--kubeconfig={}", reader.cluster.kubeconfig().display());
    installation.kubectl(&["create", "namespace", "koordinator-system", &kubeconfig]);
    installation.apply(reader.cluster.kubeconfig());

    let annotate = console::page_commands("README.md", "kubectl annotate ");
    assert_eq!(annotate.len(), 1);
    reader.printed(&annotate).await;
    assert_eq!(reader.annotations().await, [names::MODE]);

    let roles = PageReader::commands("docs/roles.md");
    assert_eq!(roles.len(), 2);
    reader.printed(&roles).await;

    let floor: Vec<String> = PageReader::commands("docs/floor.md")
        .into_iter()
        .map(|command| command.replace("NAME", NODE))
        .collect();
    let (asking, letting_go): (Vec<String>, Vec<String>) = floor
        .into_iter()
        .partition(|command| command.contains("--dry-run"));
    assert_eq!((asking.len(), letting_go.len()), (1, 1));
    reader.printed(&letting_go).await;
    // The policy reaches admission by a watch; then nothing is left for grep to find.
    e2e::stand::until("headroom-annotations is in force", async || {
        let Output { status, stdout, .. } = reader.shell.run(&asking.join("\n")).await;
        status.code() == Some(1) && stdout.is_empty()
    })
    .await;

    let patterns = PageReader::commands("docs/patterns.md");
    let (pods, emergencies) = patterns.split_at(1);
    assert_eq!(emergencies.len(), 10, "{emergencies:#?}");
    let configurations: Api<MutatingWebhookConfiguration> = Api::all(reader.client.clone());
    assert!(
        configurations
            .get_opt("headroom-pods")
            .await
            .expect("an answer")
            .is_some()
    );
    reader.printed(pods).await;
    assert!(
        configurations
            .get_opt("headroom-pods")
            .await
            .expect("an answer")
            .is_none()
    );
    assert!(
        configurations
            .get_opt(names::WEBHOOK_SERVICE)
            .await
            .expect("an answer")
            .is_some()
    );
    run_emergencies(&reader, emergencies).await;
    // Each deletes its objects if they exist.
    let moves = console::page_commands("docs/koordinator.md", "kubectl delete ");
    assert_eq!(moves.len(), 2, "{moves:#?}");
    reader.printed(&moves).await;
}

/// Runs the commands for emergencies; no replica runs here. They remove all entries and policies.
async fn run_emergencies(reader: &PageReader, commands: &[String]) {
    reader.printed(commands).await;
    let list = "kubectl get --output=name mutatingwebhookconfigurations,validatingwebhookconfigurations,\
                mutatingadmissionpolicybindings,validatingadmissionpolicybindings";
    assert_eq!(reader.printed(&[list.to_owned()]).await, "");
    let nodes: Api<Node> = Api::all(reader.client.clone());
    let node = nodes.get(NODE).await.expect("the node");
    assert_eq!(
        node.annotations().get(names::MODE).map(String::as_str),
        Some("off")
    );
}
