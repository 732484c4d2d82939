//! The command lines of the control plane's programs, and the paths of their files (`Layout`). The flags are as close
//! to a real cluster as loopback allows, and keep idle programs from using CPU.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::Result;
use xtask::{process::Process, setup::controlplane::Component};

/// The controllers that run. Deployments and ReplicaSets make pods; pods need the service account and the root
/// certificate in their namespace; nodes lose and gain taints; what has no owner any more, or whose namespace goes, goes.
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
/// The socket of etcd's clients, in the cluster's folder.
const ETCD_CLIENTS: &str = "etcd-client:1";
/// Everything here is thrown away, so nothing is given time to end in order.
const GRACE: Duration = Duration::ZERO;

/// Where the files of a cluster are.
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

    pub(super) fn service_account_key(&self) -> PathBuf {
        self.folder.join("service-accounts.key")
    }

    pub(super) fn service_account_public_key(&self) -> PathBuf {
        self.folder.join("service-accounts.pub")
    }

    /// Where etcd takes clients: to etcd a host and a port.
    pub(super) fn etcd_socket(&self) -> PathBuf {
        self.folder.join(ETCD_CLIENTS)
    }

    /// The log of the process of that name.
    pub(super) fn log(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.log"))
    }

    /// Starts a component with the arguments of its command line.
    pub(super) fn spawn(
        &self,
        component: Component,
        program: &Path,
        arguments: impl FnOnce(&Self) -> Vec<String>,
    ) -> Result<Process> {
        self.spawn_named(component.name(), program, &arguments(self))
    }

    /// Starts a program under a name of its own.
    pub(super) fn spawn_named(&self, name: &str, program: &Path, arguments: &[String]) -> Result<Process> {
        let mut command = Command::new(program);
        // One thread of Go code each is enough here, and idles at three quarters of the cost of two.
        command
            .args(arguments)
            .current_dir(&self.folder)
            .env("GOMAXPROCS", "1");
        Process::spawn(name, &command, &self.log(name), GRACE)
    }
}

/// etcd listens on sockets in the cluster's folder: no port, and nobody else gets in. To etcd the name of such a socket
/// is a host and a port.
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
        // The data lives as long as the process.
        "--unsafe-no-fsync".to_owned(),
        // A member alone has no one to tell that it leads; the default of ten times a second is its whole idle cost.
        "--heartbeat-interval=500".to_owned(),
        "--election-timeout=5000".to_owned(),
    ]
}

pub(super) fn apiserver(layout: &Layout, port: u16, more: &[String]) -> Vec<String> {
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
        "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
        // No one connects to the service `kubernetes`, so no one keeps its endpoints.
        "--endpoint-reconciler-type=none".to_owned(),
        "--profiling=false".to_owned(),
    ];
    arguments.extend_from_slice(more);
    arguments
}

pub(super) fn scheduler(kubeconfig: &Path) -> Vec<String> {
    let mut arguments = client_of_api(kubeconfig);
    arguments.push("--profiling=false".to_owned());
    arguments
}

pub(super) fn controllers(layout: &Layout, kubeconfig: &Path) -> Vec<String> {
    let mut arguments = client_of_api(kubeconfig);
    arguments.extend([
        format!("--controllers={}", CONTROLLERS.join(",")),
        "--use-service-account-credentials=true".to_owned(),
        flag("root-ca-file", layout.ca_certificate()),
        "--profiling=false".to_owned(),
    ]);
    arguments
}

/// There is one of each, so none waits to be elected, and none is asked for its metrics.
fn client_of_api(kubeconfig: &Path) -> Vec<String> {
    vec![
        flag("kubeconfig", kubeconfig),
        "--leader-elect=false".to_owned(),
        "--secure-port=0".to_owned(),
    ]
}

fn flag(name: &str, path: impl AsRef<Path>) -> String {
    format!("--{name}={}", path.as_ref().display())
}
