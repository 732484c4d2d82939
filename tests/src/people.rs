//! [`People`] contains users with the roles of the manifests, and pods of the webhook whose ports the API server
//! forwards to them.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Output,
};

use headroom_domain::names;
use headroom_testbed::{accounts, webhook::Webhook};
use k8s_openapi::api::{
    core::v1::{Node, Pod, Service, ServiceAccount},
    rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::process::Command;
use xtask::workspace;

use crate::{
    kubelet_double::KubeletDouble,
    stand::{AUTO, Stand},
};

/// Node of the webhook's pods.
pub const NODE: &str = "n1";

/// Users who reach a webhook only through the API server.
pub struct People {
    pub stand: Stand,
    /// The webhook of pod `webhook-0`.
    pub webhook: Webhook,
    /// The kubelet of all pods.
    pub kubelet: KubeletDouble,
}

impl People {
    /// A registered webhook in a ready pod, and the roles without bindings.
    pub async fn start() -> Self {
        let stand = Stand::start().await;
        let webhook = stand.webhook("webhook-0", AUTO).await;
        stand.register(&webhook).await;
        let kubelet = KubeletDouble::start(stand.cluster.dir()).await;
        stand.create_node(NODE, "4", "8Gi").await;
        let status = json!({"status": {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet.address.port()}},
        }});
        let nodes: Api<Node> = stand.nodes();
        nodes
            .patch_status(NODE, &PatchParams::default(), &Patch::Merge(status))
            .await
            .expect("say where the kubelet is");
        install_roles(&stand.client).await;
        let people = Self {
            stand,
            webhook,
            kubelet,
        };
        people
            .create::<Service>(manifest("services.yaml", "headroom-hints"))
            .await;
        people.create_pod("webhook-0", Some(&people.webhook)).await;
        people
    }

    /// Creates a ready pod of the webhook whose port leads to this process.
    pub async fn create_pod(&self, name: &str, webhook: Option<&Webhook>) {
        let container = json!({
            "name": "webhook", "image": "headroom-webhook",
            "ports": [{"name": "hints", "containerPort": names::HINTS_PORT}],
        });
        let pod = json!({
            "metadata": {"name": name, "labels": {"app.kubernetes.io/name": "headroom-webhook"}},
            "spec": {"nodeName": NODE, "serviceAccountName": names::WEBHOOK_SERVICE_ACCOUNT, "containers": [container]},
        });
        self.create::<Pod>(pod).await;
        self.set_ready(name, true).await;
        let listener = webhook.map(|webhook| webhook.hints);
        self.kubelet.set_pod(names::NAMESPACE, name, listener);
    }

    /// Sets the Ready condition of a pod of the webhook.
    pub async fn set_ready(&self, name: &str, is_ready: bool) {
        let status = if is_ready { "True" } else { "False" };
        let status =
            json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": status}]}});
        let pods: Api<Pod> = Api::namespaced(self.stand.client.clone(), names::NAMESPACE);
        pods.patch_status(name, &PatchParams::default(), &Patch::Merge(status))
            .await
            .expect("say whether the pod is ready");
    }

    /// Binds the ClusterRole and the Role of this name to a user.
    pub async fn grant(&self, user: &str, role: &str) {
        let subjects = json!([{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user}]);
        let binding = |kind: &str| {
            json!({
                "metadata": {"name": user},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
                "subjects": subjects,
            })
        };
        let whole: Api<ClusterRoleBinding> = Api::all(self.stand.client.clone());
        let object = serde_json::from_value(binding("ClusterRole")).expect("a binding");
        whole
            .create(&PostParams::default(), &object)
            .await
            .expect("bind the ClusterRole");
        self.create::<RoleBinding>(binding("Role")).await;
    }

    /// The kubeconfig of a user, with a client certificate and without a token.
    pub fn kubeconfig(&self, user: &str) -> PathBuf {
        self.stand
            .cluster
            .kubeconfig_for(user, None)
            .expect("a kubeconfig")
    }

    /// Runs `kubectl-headroom` with only this kubeconfig in its environment.
    pub async fn run(&self, kubeconfig: &Path, arguments: &[&str]) -> Output {
        let mut command = Command::new(&self.stand.programs.cli);
        command.arg("--kubeconfig").arg(kubeconfig).args(arguments);
        command.kill_on_drop(true).output().await.expect("run it")
    }

    /// Standard output of a successful command.
    pub async fn ask(&self, kubeconfig: &Path, arguments: &[&str]) -> String {
        let Output {
            status,
            stdout,
            stderr,
        } = self.run(kubeconfig, arguments).await;
        let complaint = String::from_utf8_lossy(&stderr);
        assert!(
            status.success() && complaint.is_empty(),
            "{arguments:?}: {status}: {complaint}"
        );
        String::from_utf8(stdout).expect("text")
    }

    /// The one-line error of a command that fails with exit code 1 and an empty standard output.
    pub async fn fail(&self, kubeconfig: &Path, arguments: &[&str]) -> String {
        let Output {
            status,
            stdout,
            stderr,
        } = self.run(kubeconfig, arguments).await;
        assert!(status.code() == Some(1), "{arguments:?}: {status}: {stdout:?}");
        let complaint = String::from_utf8(stderr).expect("text");
        assert_eq!(complaint.lines().count(), 1, "{complaint}");
        complaint
    }

    async fn create<K>(&self, object: Value)
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + serde::Serialize
            + DeserializeOwned
            + Send
            + Sync,
    {
        let object: K = serde_json::from_value(object).expect("an object");
        let objects: Api<K> = Api::namespaced(self.stand.client.clone(), names::NAMESPACE);
        objects
            .create(&PostParams::default(), &object)
            .await
            .expect("create it");
    }
}

/// The first object of this name in a file of the base.
fn manifest(file: &str, name: &str) -> Value {
    let mut objects = manifests(file);
    objects.retain(|object| object["metadata"]["name"] == name);
    objects.swap_remove(0)
}

fn manifests(file: &str) -> Vec<Value> {
    let file = workspace::root().join("deploy/kustomize/base").join(file);
    let text = fs::read_to_string(file).expect("a manifest");
    serde_saphyr::from_multiple(&text).expect("YAML")
}

async fn install_roles(client: &Client) {
    let people = [names::VIEWER, names::OPERATOR, names::DEBUG_ROLE];
    for object in manifests("rbac.yaml")
        .into_iter()
        .chain(manifests("accounts.yaml"))
    {
        let name = object["metadata"]["name"].as_str().expect("a name").to_owned();
        if !people.contains(&name.as_str()) {
            continue;
        }
        match object["kind"].as_str() {
            Some("ClusterRole") => apply::<ClusterRole>(Api::all(client.clone()), &name, object).await,
            Some("ClusterRoleBinding") => {
                apply::<ClusterRoleBinding>(Api::all(client.clone()), &name, object).await;
            }
            Some("Role") => {
                apply::<Role>(Api::namespaced(client.clone(), names::NAMESPACE), &name, object).await;
            }
            Some("ServiceAccount") => {
                let accounts = Api::namespaced(client.clone(), names::NAMESPACE);
                apply::<ServiceAccount>(accounts, &name, object).await;
            }
            kind => panic!("{kind:?} {name} is not known here"),
        }
    }
}

async fn apply<K>(api: Api<K>, name: &str, object: Value)
where
    K: Clone + std::fmt::Debug + DeserializeOwned + serde::Serialize + Send + Sync,
{
    let object: K = serde_json::from_value(object).expect("an object");
    accounts::apply(&api, name, &object).await.expect("apply it");
}
