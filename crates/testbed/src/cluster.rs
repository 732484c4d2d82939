//! A real control plane on loopback for tests, benches and the demo: etcd, the API server and, on request, the
//! scheduler, controllers and nodes. Kubelet code keeps each node, or a status writer where there is no kubelet code.
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
//! All its processes and files are gone when `Cluster` is dropped, and also when its owner is killed: see
//! [`xtask::process`] and [`crate::folder`].

mod authority;
mod command;
mod node;
mod node_options;
mod options;
mod port;
mod writer;

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs,
    future::Future,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use k8s_openapi::api::core::v1::{Node as NodeObject, ServiceAccount};
use kube::{
    Api, Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use tokio::time::sleep;
use xtask::{
    setup::controlplane::{self, Component, Programs},
    process::Process,
};

use self::{authority::Authority, command::Layout, node::Node, port::Port};
pub use self::{
    node_options::{Keeper, NodeOptions},
    options::ClusterOptions,
};
use crate::folder::Folder;

/// The group that RBAC lets do everything.
pub const MASTERS: &str = "system:masters";
/// The group of nodes.
pub const NODES: &str = "system:nodes";
/// How long a component may take to get ready. It takes about 3 s on an idle machine of two cores.
pub const START_LIMIT: Duration = Duration::from_secs(120);
/// How often readiness is asked for.
const POLL: Duration = Duration::from_millis(50);

/// A running control plane.
#[derive(Debug)]
pub struct Cluster {
    // In the order in which they end.
    nodes: BTreeMap<String, Node>,
    clients_of_api: Vec<Process>,
    apiserver: Option<Process>,
    etcd: Process,
    options: ClusterOptions,
    programs: Programs,
    authority: Authority,
    port: Port,
    admin: PathBuf,
    layout: Layout,
    /// The names of the files in its folder when it was ready.
    files: Vec<OsString>,
    _folder: Folder,
}

impl Cluster {
    /// Starts it and waits until the API server is ready and, with controllers, pods can be made. Programs that are
    /// not there are built first, which takes minutes once.
    ///
    /// # Errors
    /// If a program cannot be had, or a component ends or is not ready within [`START_LIMIT`]; the message holds the
    /// end of its log.
    pub async fn start(options: ClusterOptions) -> Result<Self> {
        // Whoever came first chose the same one.
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
            clients_of_api: Vec::new(),
            apiserver: None,
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
        cluster.start_clients_of_api().await?;
        for entry in fs::read_dir(cluster.dir()).context("read the folder of the cluster")? {
            cluster.files.push(entry?.file_name());
        }
        Ok(cluster)
    }

    async fn start_clients_of_api(&mut self) -> Result<()> {
        if self.options.has_scheduler {
            let path = self.authority.kubeconfig("system:kube-scheduler", None)?;
            let program = program(&self.programs, Component::Scheduler)?;
            let process = self
                .layout
                .spawn(Component::Scheduler, &program, |_| command::scheduler(&path))?;
            self.clients_of_api.push(process);
        }
        if self.options.has_controllers {
            let path = self
                .authority
                .kubeconfig("system:kube-controller-manager", None)?;
            let program = program(&self.programs, Component::ControllerManager)?;
            let process = self
                .layout
                .spawn(Component::ControllerManager, &program, |layout| {
                    command::controllers(layout, &path)
                })?;
            self.clients_of_api.push(process);
            let accounts: Api<ServiceAccount> = Api::default_namespaced(self.client().await?);
            self.until(
                "the controllers have made the default service account",
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

    /// Kills the API server; clients see refused connections until [`Self::start_apiserver`].
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn stop_apiserver(&mut self) -> Result<()> {
        if let Some(mut apiserver) = self.apiserver.take() {
            apiserver.stop().context("stop the API server")?;
        }
        Ok(())
    }

    /// Starts the API server again, at the same address and with everything it knew.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn start_apiserver(&mut self) -> Result<()> {
        self.stop_apiserver()?;
        let program = program(&self.programs, Component::ApiServer)?;
        let port = self.port.number();
        let flags = &self.options.apiserver_flags;
        let process = self.layout.spawn(Component::ApiServer, &program, |layout| {
            command::apiserver(layout, port, flags)
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
    /// There is a node of that name; the keeper cannot be had, or ends; or the node is not Ready within [`START_LIMIT`]. The
    /// message has the end of its log.
    pub async fn start_node(&mut self, options: NodeOptions) -> Result<()> {
        let name = options.name.clone();
        if self.nodes.contains_key(&name) {
            bail!("there is a node {name}");
        }
        let user = format!("system:node:{name}");
        let kubeconfig = match &options.by_way_of {
            None => self.authority.kubeconfig(&user, Some(NODES))?,
            Some(url) => self.authority.kubeconfig_by_way_of(url, &user, Some(NODES))?,
        };
        let program = kubelet_of(options.keeper).await?;
        let node = Node::start(options, program, kubeconfig, &self.layout)?;
        self.nodes.insert(name.clone(), node);
        let objects: Api<NodeObject> = Api::all(self.client().await?);
        self.until(&format!("node {name} is Ready"), || async {
            objects
                .get_opt(&name)
                .await
                .is_ok_and(|node| node.is_some_and(|node| node::is_ready(&node)))
        })
        .await
    }

    /// Ends the node's keeper; its Node stays.
    ///
    /// # Errors
    /// If there is no node of that name or the kernel refuses.
    pub fn stop_node(&mut self, name: &str) -> Result<()> {
        self.nodes
            .remove(name)
            .with_context(|| format!("there is no node {name}"))?
            .stop()
    }

    /// Ends the keepers of all nodes; their Nodes stay.
    pub fn stop_nodes(&mut self) {
        self.nodes.clear();
    }

    /// Ends the node's keeper and starts it again, on the present async runtime. The old one is gone before the new one
    /// starts: two on one node fight over its lease.
    ///
    /// # Errors
    /// As [`Self::stop_node`], or if the new one cannot be started.
    pub fn restart_node(&mut self, name: &str) -> Result<()> {
        let node = self
            .nodes
            .get_mut(name)
            .with_context(|| format!("there is no node {name}"))?;
        node.restart(&self.layout)
    }

    /// The API server's address, `https://127.0.0.1:PORT`.
    pub fn endpoint(&self) -> String {
        self.port.url()
    }

    /// The certificate of the authority that signed the API server's certificate, in PEM.
    pub fn ca(&self) -> &str {
        self.authority.certificate()
    }

    /// The folder of the cluster's files and logs.
    pub fn dir(&self) -> &Path {
        self.layout.folder()
    }

    /// The names of the control plane's own files in its folder; all others are of whoever uses it.
    pub fn files(&self) -> &[OsString] {
        &self.files
    }

    /// The socket on which etcd takes clients, without a credential.
    pub fn etcd(&self) -> PathBuf {
        self.layout.etcd_socket()
    }

    /// The log of a component; that of a node is `NAME.log` in [`Self::dir`].
    pub fn log(&self, component: Component) -> PathBuf {
        self.layout.log(component.name())
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        &self.admin
    }

    /// A kubeconfig for any user in one group or none, by a client certificate.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn kubeconfig_for(&self, user: &str, group: Option<&str>) -> Result<PathBuf> {
        self.authority.kubeconfig(user, group)
    }

    /// A client with the administrator's rights. It belongs to the async runtime it is made on.
    ///
    /// # Errors
    /// If the kubeconfig cannot be read.
    pub async fn client(&self) -> Result<Client> {
        client_of(&self.admin).await
    }

    /// A client with the rights of a user in one group or none.
    ///
    /// # Errors
    /// If the kubeconfig cannot be written or read.
    pub async fn client_for(&self, user: &str, group: Option<&str>) -> Result<Client> {
        client_of(&self.authority.kubeconfig(user, group)?).await
    }

    /// A client with the rights of a node, which need not run.
    ///
    /// # Errors
    /// As [`Self::client_for`].
    pub async fn client_for_node(&self, name: &str) -> Result<Client> {
        self.client_for(&format!("system:node:{name}"), Some(NODES)).await
    }

    /// Fails with the end of its log if a process that should run has ended.
    ///
    /// # Errors
    /// As said.
    pub fn check(&mut self) -> Result<()> {
        self.etcd.check()?;
        for process in self.apiserver.iter_mut().chain(&mut self.clients_of_api) {
            process.check()?;
        }
        self.nodes.values_mut().try_for_each(Node::check)
    }

    async fn until<F: Future<Output = bool> + Send>(
        &mut self,
        what: &str,
        is_so: impl Fn() -> F + Send,
    ) -> Result<()> {
        let deadline = Instant::now() + START_LIMIT;
        while !is_so().await {
            self.check()?;
            if Instant::now() > deadline {
                bail!(
                    "not within {} s: {what}; see the logs in {}",
                    START_LIMIT.as_secs(),
                    self.dir().display()
                );
            }
            sleep(POLL).await;
        }
        Ok(())
    }
}

/// The program of a kubelet, built if need be; `None` for a status writer.
async fn kubelet_of(keeper: Option<Keeper>) -> Result<Option<PathBuf>> {
    let kubelet = tokio::task::spawn_blocking(move || {
        Ok(match keeper.map_or_else(Keeper::choose, Ok)? {
            Keeper::Kubelet => {
                let programs = controlplane::ensure(&[Component::Hollow])?;
                Some(program(&programs, Component::Hollow)?)
            }
            Keeper::Writer => None,
        })
    });
    kubelet.await.context("find what keeps the node")?
}

fn program(programs: &Programs, component: Component) -> Result<PathBuf> {
    let program = programs
        .get(&component)
        .with_context(|| format!("{} was not asked for", component.name()))?;
    Ok(program.path.clone())
}

async fn client_of(kubeconfig: &Path) -> Result<Client> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).context("read a kubeconfig")?;
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .context("understand a kubeconfig")?;
    // A proxy for the outer world, set in the environment, has no business on loopback.
    config.proxy_url = None;
    Client::try_from(config).context("make an API client")
}
