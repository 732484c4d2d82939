//! A real node for a [`Cluster`]: kubelet, kube-proxy and containerd run pods on this machine, as root.
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! use headroom_testbed::{cluster::{Cluster, ClusterOptions}, real_node::{RealNode, RealNodeOptions}};
//!
//! let cluster = Cluster::start(ClusterOptions::for_real_node()).await?;
//! let node = RealNode::start(&cluster, RealNodeOptions::new("real-0")).await?;
//! # Ok(())
//! # }
//! ```
//!
//! The node has its own namespaces and cgroups, like a node in a container: its `/run`, `/var/lib` and `/var/log` are in a
//! temporary folder, and its cgroups below `headroom-real-…`. The machine's own container runtime and settings are not used or
//! changed. Everything ends when `RealNode` is dropped, and also when its owner is killed.
//!
//! Pods reach the API server at the Service `kubernetes`, and resolve names of Services. The API server reaches kubelet and pods.
//! No network policy is enforced, and pods do not reach other networks.

mod containerd;
mod control_plane;
mod daemon;
mod dns;
mod gateway;
mod kubelet;
mod network;
mod options;
pub mod pods;
mod proxy;
mod sandbox;
mod state;

use std::{
    env,
    future::Future,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client};
use tokio::{task::spawn_blocking, time::sleep};
use xtask::{
    images::{self, Image, Linkage},
    process::tail,
    setup::{
        container_runtime,
        controlplane::{self, Component},
    },
};

pub use self::{containerd::PAUSE, options::RealNodeOptions};
use self::{
    containerd::{Containerd, ctr},
    control_plane::{is_healthy, publish_address, write_credentials, write_proxy_kubeconfig},
    daemon::Daemon,
    gateway::Gateway,
    kubelet::Kubelet,
    network::Network,
    proxy::Proxy,
    sandbox::Sandbox,
    state::State,
};
use crate::{
    cluster::{Cluster, START_LIMIT, is_ready},
    programs::get,
};

const POLL: Duration = Duration::from_millis(100);

/// Reason why this machine cannot run a real node, if there is one.
pub fn obstacle() -> Option<String> {
    container_runtime::obstacle().or_else(images::obstacle)
}

/// A running node; ended when dropped.
pub struct RealNode {
    // In the order in which they are dropped.
    kubelet: Option<Daemon>,
    proxy: Option<Daemon>,
    containerd: Option<Daemon>,
    kubelet_files: Kubelet,
    containerd_files: Containerd,
    proxy_files: Proxy,
    options: RealNodeOptions,
    client: Client,
    network: Network,
    gateway: Option<Gateway>,
    sandbox: Option<Sandbox>,
    state: State,
}

impl RealNode {
    /// Starts a node of the cluster, which has [`crate::cluster::ClusterOptions::has_real_node`], and waits until it is Ready. Builds
    /// missing programs and images first, which takes minutes once.
    ///
    /// # Errors
    /// If this machine cannot run it, an image cannot be imported, or a daemon ends or is not ready within [`START_LIMIT`]; the
    /// message has the end of its log.
    pub async fn start(cluster: &Cluster, options: RealNodeOptions) -> Result<Self> {
        if let Some(why) = obstacle() {
            bail!("this machine cannot run a real node: {why}");
        }
        ensure!(
            cluster.serves_real_node(),
            "the control plane was started without ClusterOptions::has_real_node"
        );
        let (archives, programs) = spawn_blocking(prepare).await.context("prepare a real node")??;
        let state = State::create(&options.folder.clone().unwrap_or_else(env::temp_dir))?;
        let programs: Vec<&Path> = programs.iter().map(PathBuf::as_path).collect();
        let sandbox = Sandbox::start(&state, &options.name, &programs)?;
        let network = Network::connect(&sandbox)?;
        let gateway = Gateway::start(
            sandbox.init(),
            network.node(),
            cluster.address(),
            cluster.kubeconfig(),
        )?;
        let containerd_files = Containerd::configure(&state, &sandbox, network)?;
        let kubelet_files = Kubelet::configure(
            &state,
            &sandbox,
            network,
            &write_credentials(cluster, &options.name, network)?,
            &options,
        )?;
        let proxy = write_proxy_kubeconfig(cluster, network)?;
        let proxy_files = Proxy::configure(&state, &sandbox, network, &options.name, &proxy)?;

        let client = cluster.client().await?;
        publish_address(&client, network.node()).await?;
        let mut node = Self {
            kubelet: None,
            proxy: None,
            containerd: None,
            kubelet_files,
            containerd_files,
            proxy_files,
            options,
            client,
            network,
            gateway: Some(gateway),
            sandbox: Some(sandbox),
            state,
        };
        node.start_containerd().await?;
        let more = node.options.images.clone();
        for archive in archives.iter().chain(&more) {
            node.import_image(archive)?;
        }
        node.start_kubelet().await?;
        node.start_proxy().await?;
        Ok(node)
    }

    /// Imports an image archive of docker or OCI.
    ///
    /// # Errors
    /// If containerd refuses it, or it has no image for this architecture.
    pub fn import_image(&self, archive: &Path) -> Result<()> {
        Containerd::import(self.sandbox()?, archive)
    }

    /// Kills the kubelet. Pods continue to run.
    ///
    /// # Errors
    /// If the kernel refuses the signal.
    pub fn stop_kubelet(&mut self) -> Result<()> {
        self.kubelet.take().map_or(Ok(()), |mut kubelet| kubelet.stop())
    }

    /// Starts the kubelet if it does not run, and waits until the node is Ready.
    ///
    /// # Errors
    /// Errors of [`Self::start`].
    pub async fn start_kubelet(&mut self) -> Result<()> {
        if self.kubelet.is_none() {
            self.kubelet = Some(self.kubelet_files.start(self.sandbox()?)?);
        }
        let (client, name) = (self.client.clone(), self.options.name.clone());
        let nodes: Api<Node> = Api::all(client.clone());
        self.until("the node is Ready", || async {
            let node = nodes.get_opt(&name).await;
            // The Node stays Ready for a while after the end of its kubelet.
            node.is_ok_and(|node| node.is_some_and(|node| is_ready(&node)))
                && is_healthy(&client, &name).await
        })
        .await
    }

    /// Kills the kubelet and starts it again. The Node stays Ready meanwhile.
    ///
    /// # Errors
    /// Errors of [`Self::stop_kubelet`] and [`Self::start_kubelet`].
    pub async fn restart_kubelet(&mut self) -> Result<()> {
        self.stop_kubelet()?;
        self.start_kubelet().await
    }

    /// Kills containerd and starts it again. Containers continue to run. A running kubelet connects again within about 10 s, and the
    /// Node may not be Ready until then.
    ///
    /// # Errors
    /// Errors of [`Self::start`].
    pub async fn restart_containerd(&mut self) -> Result<()> {
        if let Some(mut containerd) = self.containerd.take() {
            containerd.stop()?;
        }
        self.start_containerd().await
    }

    async fn start_containerd(&mut self) -> Result<()> {
        self.containerd = Some(self.containerd_files.start(self.sandbox()?)?);
        let deadline = Instant::now() + START_LIMIT;
        while !Containerd::is_ready(self.sandbox()?)? {
            self.check()?;
            ensure!(
                Instant::now() < deadline,
                "containerd is not ready after {START_LIMIT:?}; {}",
                tail(&self.containerd_files.log, 20)
            );
            sleep(POLL).await;
        }
        Ok(())
    }

    /// Starts kube-proxy, and waits until it serves the addresses of Services. Without a Node, it would wait for up to 16 s between
    /// two attempts.
    async fn start_proxy(&mut self) -> Result<()> {
        self.proxy = Some(self.proxy_files.start(self.sandbox()?)?);
        let health = self.proxy_files.health;
        self.until("kube-proxy has written its rules", || async {
            let response = get(health, "/healthz").await;
            response.is_ok_and(|(status, _)| status.is_success())
        })
        .await
    }

    /// Checks that all processes run that have been started.
    ///
    /// # Errors
    /// If one has ended; the message has the end of its log.
    pub fn check(&mut self) -> Result<()> {
        if let Some(sandbox) = &mut self.sandbox {
            sandbox.check()?;
        }
        let daemons = self.containerd.iter_mut().chain(&mut self.kubelet);
        for daemon in daemons.chain(&mut self.proxy) {
            daemon.check()?;
        }
        Ok(())
    }

    pub fn name(&self) -> &str {
        &self.options.name
    }

    /// Address of the node.
    pub fn address(&self) -> Ipv4Addr {
        self.network.node()
    }

    /// Folder of configurations and logs; `kubelet.log`, `containerd.log` and `kube-proxy.log` are in it.
    pub fn folder(&self) -> &Path {
        self.state.folder()
    }

    /// Name of the node's cgroup, in each hierarchy of this machine. In it are `kubepods` and `system`.
    pub fn cgroup(&self) -> &str {
        self.state.name()
    }

    /// Name of the interface on this machine that leads to the node.
    pub fn interface(&self) -> String {
        self.network.interface()
    }

    /// Process id of the kubelet on this machine, if it runs.
    pub fn kubelet_pid(&self) -> Option<u32> {
        self.kubelet.as_ref()?.pid()
    }

    /// Process id of containerd on this machine, if it runs.
    pub fn containerd_pid(&self) -> Option<u32> {
        self.containerd.as_ref()?.pid()
    }

    /// Value of the agent's flag `--cgroup-root` for an agent outside the node.
    ///
    /// # Errors
    /// If the links to the node's cgroups cannot be made.
    pub fn cgroup_root(&self) -> Result<PathBuf> {
        self.state.cgroup_root()
    }

    /// A command that runs a program in the node, with its processes, mounts and network.
    ///
    /// # Errors
    /// If the node has been stopped.
    pub fn enter(&self, program: &str) -> Result<Command> {
        Ok(self.sandbox()?.enter(program))
    }

    /// A command of containerd's client for images and containers of pods.
    ///
    /// # Errors
    /// If the node has been stopped.
    pub fn ctr(&self, arguments: &[&str]) -> Result<Command> {
        Ok(ctr(self.sandbox()?, arguments))
    }

    /// Stops the node: kills all daemons and containers, and removes mounts, network, cgroups and files. The Node object stays.
    ///
    /// # Errors
    /// If something remains.
    pub fn stop(mut self) -> Result<()> {
        self.stop_kubelet()?;
        // Its sockets keep the node's network.
        drop(self.gateway.take());
        drop(self.sandbox.take());
        self.network.await_removal()?;
        for hierarchy in state::hierarchies()? {
            let cgroup = hierarchy.join(self.cgroup());
            ensure!(!cgroup.exists(), "the cgroup {} remains", cgroup.display());
        }
        let folder = self.folder().to_owned();
        drop(self);
        ensure!(!folder.exists(), "the state folder {} remains", folder.display());
        Ok(())
    }

    fn sandbox(&self) -> Result<&Sandbox> {
        self.sandbox.as_ref().context("the node has been stopped")
    }

    async fn until<F: Future<Output = bool> + Send>(
        &mut self,
        what: &str,
        is_true: impl Fn() -> F + Send,
    ) -> Result<()> {
        let deadline = Instant::now() + START_LIMIT;
        while !is_true().await {
            self.check()?;
            ensure!(
                Instant::now() < deadline,
                "timeout after {START_LIMIT:?}: {what}; {}",
                tail(&self.kubelet_files.log, 20)
            );
            sleep(POLL).await;
        }
        Ok(())
    }
}

/// Archives of the images for any node, and paths of the node's programs.
fn prepare() -> Result<(Vec<PathBuf>, Vec<PathBuf>)> {
    let archives = images::ensure(Linkage::Relinked, &[Image::Pause, Image::Busybox])?;
    let programs = controlplane::ensure(&Component::NODE)?;
    Ok((
        archives.into_values().map(|archive| archive.path).collect(),
        programs.into_values().map(|program| program.path).collect(),
    ))
}
