//! A real control plane on loopback for tests, benches and the demo: etcd, the API server and, as options, scheduler,
//! controllers and nodes. Real kubelet code with a fake container runtime runs each node.
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! use headroom_testbed::cluster::{Cluster, NodeOptions, ClusterOptions};
//!
//! let mut cluster = Cluster::start(ClusterOptions::full()).await?;
//! cluster.start_node(NodeOptions { cpus: 4, ..NodeOptions::new("hollow-0") }).await?;
//! let client = cluster.client().await?;
//! # Ok(())
//! # }
//! ```
//!
//! All processes end and all files are removed when `Cluster` is dropped, and also when its owner is killed: see
//! [`xtask::process`] and [`crate::folder`].

mod authority;
mod client;
mod command;
mod node;
mod node_options;
mod options;
mod port;
mod second_apiserver;
mod suspension;

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs,
    future::Future,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use k8s_openapi::api::core::v1::{Node as NodeObject, ServiceAccount};
use kube::{Api, Client};
use tokio::time::sleep;
use xtask::{
    process::Process,
    setup::controlplane::{self, Component, Programs},
};

pub(crate) use self::node::is_ready;
use self::{authority::Authority, command::Layout, node::Node, port::Port};
pub use self::{client::client_of, node_options::NodeOptions, options::ClusterOptions};
use crate::folder::Folder;

pub const MASTERS: &str = "system:masters";
pub const NODES: &str = "system:nodes";
/// Time limit until a component is ready. It takes about 3 s on an idle machine with two cores.
pub const START_LIMIT: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub struct Cluster {
    // In the order in which they are dropped.
    nodes: BTreeMap<String, Node>,
    scheduler: Option<Process>,
    controllers: Option<Process>,
    apiserver: Option<Process>,
    second: Option<(Process, Port)>,
    etcd: Process,
    options: ClusterOptions,
    programs: Programs,
    authority: Authority,
    port: Port,
    admin: PathBuf,
    layout: Layout,
    files: Vec<OsString>,
    _folder: Folder,
}

impl Cluster {
    /// Starts the control plane, and waits until the API server is ready and, with controllers, pods can be created. Builds
    /// missing programs first, which takes minutes once.
    ///
    /// # Errors
    /// If a program cannot be built, or a component ends or is not ready within [`START_LIMIT`]; the message has the end of
    /// its log.
    pub async fn start(options: ClusterOptions) -> Result<Self> {
        // An earlier call in this process has installed the same provider.
        rustls::crypto::ring::default_provider().install_default().ok();
        let components = options.components();
        let programs = tokio::task::spawn_blocking(move || controlplane::ensure(&components))
            .await
            .context("find the programs of the control plane")??;
        let folder = Folder::new("headroom-cluster")?;
        let layout = Layout::new(folder.path());
        let port = Port::reserve()?;
        let authority = Authority::new(&layout, &port.url())?;
        let admin = authority.kubeconfig("admin", Some(MASTERS))?;

        let etcd = layout.spawn(
            Component::Etcd,
            &program(&programs, Component::Etcd)?,
            command::etcd,
        )?;
        let mut cluster = Self {
            nodes: BTreeMap::new(),
            scheduler: None,
            controllers: None,
            apiserver: None,
            second: None,
            etcd,
            options,
            programs,
            authority,
            port,
            admin,
            layout,
            files: Vec::new(),
            _folder: folder,
        };
        cluster.start_apiserver().await?;
        cluster.start_api_clients().await?;
        for entry in fs::read_dir(cluster.dir()).context("read the folder of the cluster")? {
            cluster.files.push(entry?.file_name());
        }
        Ok(cluster)
    }

    async fn start_api_clients(&mut self) -> Result<()> {
        if self.options.has_scheduler {
            let path = self.authority.kubeconfig("system:kube-scheduler", None)?;
            let program = program(&self.programs, Component::Scheduler)?;
            let process = self
                .layout
                .spawn(Component::Scheduler, &program, |_| command::scheduler(&path))?;
            self.scheduler = Some(process);
        }
        if self.options.has_controllers {
            let path = self
                .authority
                .kubeconfig("system:kube-controller-manager", None)?;
            let program = program(&self.programs, Component::ControllerManager)?;
            let process = self
                .layout
                .spawn(Component::ControllerManager, &program, |layout| {
                    command::controllers(layout, &path, &self.options)
                })?;
            self.controllers = Some(process);
            let accounts: Api<ServiceAccount> = Api::default_namespaced(self.client().await?);
            self.until(
                "the controllers have created the default service account",
                || async {
                    accounts
                        .get_opt("default")
                        .await
                        .is_ok_and(|account| account.is_some())
                },
            )
            .await?;
        }
        Ok(())
    }

    /// Kills the API server. Connections of clients are refused until [`Self::start_apiserver`].
    ///
    /// # Errors
    /// If the kernel refuses the signal.
    pub fn stop_apiserver(&mut self) -> Result<()> {
        if let Some(mut apiserver) = self.apiserver.take() {
            apiserver.stop().context("stop the API server")?;
        }
        Ok(())
    }

    /// Starts the API server again, at the same address and with the same objects.
    ///
    /// # Errors
    /// Errors of [`Self::start`].
    pub async fn start_apiserver(&mut self) -> Result<()> {
        self.stop_apiserver()?;
        let program = program(&self.programs, Component::ApiServer)?;
        let port = self.port.number();
        let options = &self.options;
        let process = self.layout.spawn(Component::ApiServer, &program, |layout| {
            command::apiserver(layout, port, options)
        })?;
        self.apiserver = Some(process);
        let client = self.client().await?;
        self.until("the API server is ready", || async {
            let request = http::Request::get("/readyz").body(Vec::new());
            match request {
                Ok(request) => client.request_text(request).await.is_ok(),
                Err(_) => false,
            }
        })
        .await
    }

    /// Starts a node and waits until it is Ready.
    ///
    /// # Errors
    /// If a node of that name exists, the kubelet cannot be built or ends, or the node is not Ready within [`START_LIMIT`]. The
    /// message has the end of its log.
    pub async fn start_node(&mut self, options: NodeOptions) -> Result<()> {
        let name = options.name.clone();
        if self.nodes.contains_key(&name) {
            bail!("node {name} exists already");
        }
        let user = format!("system:node:{name}");
        let kubeconfig = match &options.api_server_url {
            None => self.authority.kubeconfig(&user, Some(NODES))?,
            Some(url) => self.authority.kubeconfig_via(url, &user, Some(NODES))?,
        };
        let program = kubelet().await?;
        let node = Node::start(options, program, kubeconfig, &self.layout)?;
        self.nodes.insert(name.clone(), node);
        let objects: Api<NodeObject> = Api::all(self.client().await?);
        self.until(&format!("node {name} is Ready"), || async {
            objects
                .get_opt(&name)
                .await
                .is_ok_and(|node| node.is_some_and(|node| is_ready(&node)))
        })
        .await
    }

    /// Stops the node's kubelet. The Node object stays.
    ///
    /// # Errors
    /// If there is no node of that name, or the kernel refuses the signal.
    pub fn stop_node(&mut self, name: &str) -> Result<()> {
        self.nodes
            .remove(name)
            .with_context(|| format!("there is no node {name}"))?
            .stop()
    }

    /// Stops the kubelets of all nodes. The Node objects stay.
    pub fn stop_nodes(&mut self) {
        self.nodes.clear();
    }

    /// Restarts the node's kubelet. The old kubelet ends first: two kubelets of one node would compete for its lease.
    ///
    /// # Errors
    /// Errors of [`Self::stop_node`], and of the start of the new kubelet.
    pub fn restart_node(&mut self, name: &str) -> Result<()> {
        let node = self
            .nodes
            .get_mut(name)
            .with_context(|| format!("there is no node {name}"))?;
        node.restart(&self.layout)
    }

    /// URL of the API server, `https://127.0.0.1:PORT`.
    pub fn endpoint(&self) -> String {
        self.port.url()
    }

    /// CA certificate of the API server, in PEM.
    pub fn ca(&self) -> &str {
        self.authority.certificate()
    }

    /// Folder of the cluster's files and logs.
    pub fn dir(&self) -> &Path {
        self.layout.folder()
    }

    /// Names of the control plane's own files in its folder. The caller has created all other files.
    pub fn files(&self) -> &[OsString] {
        &self.files
    }

    /// Socket of etcd for clients, which need no credentials.
    pub fn etcd(&self) -> PathBuf {
        self.layout.etcd_socket()
    }

    /// Log of a component. The log of a node is `NAME.log` in [`Self::dir`].
    pub fn log(&self, component: Component) -> PathBuf {
        self.layout.log(component.name())
    }

    /// Path of the administrator's kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        &self.admin
    }

    /// Writes a kubeconfig with a client certificate for any user, in at most one group.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn kubeconfig_for(&self, user: &str, group: Option<&str>) -> Result<PathBuf> {
        self.authority.kubeconfig(user, group)
    }

    /// Like [`Self::kubeconfig_for`], with another URL of the API server.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn kubeconfig_via(&self, url: &str, user: &str, group: Option<&str>) -> Result<PathBuf> {
        self.authority.kubeconfig_via(url, user, group)
    }

    /// Writes certificate and key of the port of a node's kubelet, and returns their paths.
    ///
    /// # Errors
    /// If they cannot be written.
    pub(crate) fn kubelet_certificate(&self, node: &str, address: Ipv4Addr) -> Result<[PathBuf; 2]> {
        let paths = ["pem", "key"].map(|end| self.dir().join(format!("kubelet-{node}.{end}")));
        let user = format!("system:node:{node}");
        self.authority
            .server_certificate((&user, Some(NODES)), &[node], &[address], &paths)?;
        Ok(paths)
    }

    pub(crate) fn ca_file(&self) -> PathBuf {
        self.layout.ca_certificate()
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// True if the control plane was started with [`ClusterOptions::has_real_node`].
    pub(crate) fn serves_real_node(&self) -> bool {
        self.options.has_real_node
    }

    /// A client with the administrator's rights, bound to the current async runtime.
    ///
    /// # Errors
    /// If the kubeconfig cannot be read.
    pub async fn client(&self) -> Result<Client> {
        client_of(&self.admin).await
    }

    /// A client with the rights of a user, in at most one group.
    ///
    /// # Errors
    /// If the kubeconfig cannot be written or read.
    pub async fn client_for(&self, user: &str, group: Option<&str>) -> Result<Client> {
        client_of(&self.authority.kubeconfig(user, group)?).await
    }

    /// A client with the rights of a node's kubelet. The node need not exist.
    ///
    /// # Errors
    /// Errors of [`Self::client_for`].
    pub async fn client_for_node(&self, name: &str) -> Result<Client> {
        self.client_for(&format!("system:node:{name}"), Some(NODES)).await
    }

    /// Checks that all processes run.
    ///
    /// # Errors
    /// If one has ended; the message has the end of its log.
    pub fn check(&mut self) -> Result<()> {
        self.etcd.check()?;
        for process in [&mut self.apiserver, &mut self.scheduler, &mut self.controllers] {
            process.as_mut().map_or(Ok(()), Process::check)?;
        }
        self.nodes.values_mut().try_for_each(Node::check)
    }

    async fn until<F: Future<Output = bool> + Send>(
        &mut self,
        what: &str,
        is_true: impl Fn() -> F + Send,
    ) -> Result<()> {
        let deadline = Instant::now() + START_LIMIT;
        while !is_true().await {
            self.check()?;
            if Instant::now() > deadline {
                bail!(
                    "timeout after {} s: {what}; see the logs in {}",
                    START_LIMIT.as_secs(),
                    self.dir().display()
                );
            }
            sleep(POLL).await;
        }
        Ok(())
    }
}

/// Path of the kubelet program, which is built if missing.
async fn kubelet() -> Result<PathBuf> {
    let programs = tokio::task::spawn_blocking(|| controlplane::ensure(&[Component::Hollow]));
    program(
        &programs.await.context("find the kubelet program")??,
        Component::Hollow,
    )
}

fn program(programs: &Programs, component: Component) -> Result<PathBuf> {
    let program = programs
        .get(&component)
        .with_context(|| format!("{} is not in the list of programs", component.name()))?;
    Ok(program.path.clone())
}
