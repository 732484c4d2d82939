//! Command lines of the control plane's programs, and paths of their files (`Layout`). The flags are as close to a real cluster
//! as loopback allows, and minimise the CPU use of idle programs.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::Result;
use xtask::{process::Process, setup::controlplane::Component};

use super::options::ClusterOptions;

/// Enabled controllers. Deployments and ReplicaSets create pods, which need the service account and the root certificate of
/// their namespace. The others set taints of nodes, and delete objects whose owner or namespace was deleted.
const CONTROLLERS: [&str; 8] = [
    "deployment-controller",
    "replicaset-controller",
    "serviceaccount-controller",
    "root-ca-certificate-publisher-controller",
    "namespace-controller",
    "node-lifecycle-controller",
    "taint-eviction-controller",
    "garbage-collector-controller",
];
/// Further controllers for a real node: pods of a `DaemonSet`, and the endpoints of Services with their pods.
const REAL_NODE_CONTROLLERS: [&str; 5] = [
    "daemonset-controller",
    "endpointslice-controller",
    "persistentvolume-binder-controller",
    "persistentvolumeclaim-protection-controller",
    "statefulset-controller",
];
/// User of the API server's certificate for kubelets.
pub(super) const KUBELET_CLIENT: &str = "kube-apiserver-kubelet-client";
/// The API server's own Service has the first address of this range.
const SERVICES: &str = "10.0.0.0/24";
/// Client socket of etcd, in the cluster's folder.
const ETCD_CLIENTS: &str = "etcd-client:1";
/// All data is discarded, so processes are killed without SIGTERM.
const GRACE: Duration = Duration::ZERO;

/// Paths of a cluster's files.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    folder: PathBuf,
}

impl Layout {
    pub(super) fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
        }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn ca_certificate(&self) -> PathBuf {
        self.folder.join("ca.pem")
    }

    pub(super) fn server_certificate(&self) -> PathBuf {
        self.folder.join("kube-apiserver.pem")
    }

    pub(super) fn server_key(&self) -> PathBuf {
        self.folder.join("kube-apiserver.key")
    }

    pub(super) fn kubelet_client_certificate(&self) -> PathBuf {
        self.folder.join("kubelet-client.pem")
    }

    pub(super) fn kubelet_client_key(&self) -> PathBuf {
        self.folder.join("kubelet-client.key")
    }

    pub(super) fn service_account_key(&self) -> PathBuf {
        self.folder.join("service-accounts.key")
    }

    pub(super) fn service_account_public_key(&self) -> PathBuf {
        self.folder.join("service-accounts.pub")
    }

    /// Client socket of etcd, which parses its name as host and port.
    pub(super) fn etcd_socket(&self) -> PathBuf {
        self.folder.join(ETCD_CLIENTS)
    }

    pub(super) fn log(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.log"))
    }

    pub(super) fn spawn(
        &self,
        component: Component,
        program: &Path,
        arguments: impl FnOnce(&Self) -> Vec<String>,
    ) -> Result<Process> {
        self.spawn_named(component.name(), program, &arguments(self))
    }

    /// Starts a program with this name in messages and in its log's file name.
    pub(super) fn spawn_named(&self, name: &str, program: &Path, arguments: &[String]) -> Result<Process> {
        let mut command = Command::new(program);
        // One thread of Go code is enough, and needs three quarters of the idle CPU time of two.
        command
            .args(arguments)
            .current_dir(&self.folder)
            .env("GOMAXPROCS", "1");
        Process::spawn(name, &command, &self.log(name), GRACE)
    }
}

/// etcd listens on sockets in the cluster's folder, which other users cannot open. It parses the name of a socket as host and
/// port.
pub(super) fn etcd(layout: &Layout) -> Vec<String> {
    let clients = format!("unix://{ETCD_CLIENTS}");
    let peers = "unix://etcd-peer:1";
    vec![
        flag("data-dir", layout.folder.join("etcd")),
        format!("--listen-client-urls={clients}"),
        format!("--advertise-client-urls={clients}"),
        format!("--listen-peer-urls={peers}"),
        format!("--initial-advertise-peer-urls={peers}"),
        format!("--initial-cluster=default={peers}"),
        // The data need not survive the process.
        "--unsafe-no-fsync".to_owned(),
        // A single member needs no heartbeats; the default of ten a second causes all of its idle CPU use.
        "--heartbeat-interval=500".to_owned(),
        "--election-timeout=5000".to_owned(),
    ]
}

pub(super) fn apiserver(layout: &Layout, port: u16, options: &ClusterOptions) -> Vec<String> {
    let mut arguments = vec![
        format!("--etcd-servers=unix://{}", layout.etcd_socket().display()),
        "--bind-address=127.0.0.1".to_owned(),
        "--advertise-address=127.0.0.1".to_owned(),
        format!("--secure-port={port}"),
        "--permit-port-sharing=true".to_owned(),
        flag("tls-cert-file", layout.server_certificate()),
        flag("tls-private-key-file", layout.server_key()),
        flag("client-ca-file", layout.ca_certificate()),
        flag("service-account-key-file", layout.service_account_public_key()),
        flag("service-account-signing-key-file", layout.service_account_key()),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        "--authorization-mode=Node,RBAC".to_owned(),
        "--enable-admission-plugins=NodeRestriction".to_owned(),
        format!("--service-cluster-ip-range={SERVICES}"),
        // Pods would not reach the address of the API server on loopback.
        "--endpoint-reconciler-type=none".to_owned(),
        "--profiling=false".to_owned(),
    ];
    if options.has_real_node {
        arguments.extend([
            flag("kubelet-certificate-authority", layout.ca_certificate()),
            flag("kubelet-client-certificate", layout.kubelet_client_certificate()),
            flag("kubelet-client-key", layout.kubelet_client_key()),
            // The names of nodes have no addresses here.
            "--kubelet-preferred-address-types=InternalIP".to_owned(),
            // The rules of kube-proxy for Service addresses are in the node's network only.
            "--enable-aggregator-routing=true".to_owned(),
            // Pod Security decides, as on most clusters.
            "--allow-privileged=true".to_owned(),
        ]);
    }
    arguments.extend_from_slice(&options.apiserver_flags);
    arguments
}

pub(super) fn scheduler(kubeconfig: &Path) -> Vec<String> {
    let mut arguments = api_client_flags(kubeconfig);
    arguments.push("--profiling=false".to_owned());
    arguments
}

pub(super) fn controllers(layout: &Layout, kubeconfig: &Path, options: &ClusterOptions) -> Vec<String> {
    let mut arguments = api_client_flags(kubeconfig);
    let mut controllers = CONTROLLERS.to_vec();
    if options.has_real_node {
        controllers.extend(REAL_NODE_CONTROLLERS);
    }
    arguments.extend([
        format!("--controllers={}", controllers.join(",")),
        "--use-service-account-credentials=true".to_owned(),
        flag("root-ca-file", layout.ca_certificate()),
        "--profiling=false".to_owned(),
    ]);
    arguments
}

/// Flags of scheduler and controllers: no leader election, because there is one process of each, and no metrics port.
fn api_client_flags(kubeconfig: &Path) -> Vec<String> {
    vec![
        flag("kubeconfig", kubeconfig),
        "--leader-elect=false".to_owned(),
        "--secure-port=0".to_owned(),
    ]
}

fn flag(name: &str, path: impl AsRef<Path>) -> String {
    format!("--{name}={}", path.as_ref().display())
}
