//! Control plane and webhook of the bench, and one run on them: a node, its agent, and the loads.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use headroom_agent::sample::clock::Clocks;
use headroom_domain::{
    estimate::Profile,
    names,
    resource::{PerResource, Resource},
};
use headroom_testbed::{
    accounts,
    agent::{self, Agent},
    cluster::{Cluster, NodeOptions, Options},
    policies,
    programs::Programs,
    webhook::{self, Webhook},
    workload::{apart::Apart, load::Load},
};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::time::sleep;

use super::{
    Run, SPINNERS,
    past::{self, EARLIER, Remembered},
    period,
    said::{amounts, amplified, is_calm, is_settled, is_shed},
};
use crate::revisions::{Revision, Revisions};

/// How long anything may take that ends by itself.
const LIMIT: Duration = Duration::from_secs(60);
/// By then an agent has judged its first period.
const FIRST_JUDGED: Duration = Duration::from_secs(11);
/// How many periods an agent may wait for a calm one.
const PERIODS: u32 = 6;
/// How often one looks, before it counts.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// What a node holds back for the system: CPU in percent of the machine's, and memory.
const RESERVED_CPU_PERCENT: u32 = 5;
const RESERVED_MEMORY: u64 = 512 << 20;
/// The limit of all pods together, and what the process takes that is killed at it.
const LIMIT_MIB: usize = 256;
const TAKEN_MIB: usize = 2 * LIMIT_MIB;
/// The agent's own pod, and the CPU that it requests as it is deployed.
const AGENT_POD: &str = "8c7a5d0e-0000-4000-8000-00000000a9e7";
const AGENT_MILLI: u64 = 20;

/// What all runs share, in the order in which it ends.
pub(super) struct Field {
    webhook: Webhook,
    revisions: Revisions,
    cluster: Cluster,
    client: Client,
    programs: Programs,
}

/// A node that is amplified, in the order in which it ends.
struct Stand {
    agent: Agent,
    /// When the agent was started.
    began: Instant,
    apart: Apart,
    remembered: Remembered,
}

/// A moment on two clocks.
#[derive(Clone, Copy)]
struct Moment {
    at: Instant,
    boottime_ns: u64,
}

/// How long after a moment free capacity was halved, and of that, how long after the agent's report.
struct Reaction {
    all: Duration,
    publish: Duration,
}

impl Field {
    /// Starts everything but nodes.
    pub(super) async fn start(programs: Programs) -> Result<Self> {
        let cluster = Cluster::start(Options::default()).await?;
        let client = cluster.client().await?;
        accounts::create(&client).await?;
        policies::install(&client).await?;
        let webhook = Webhook::start(&webhook::Options {
            program: programs.webhook.clone(),
            name: "webhook".to_owned(),
            folder: cluster.dir().to_owned(),
            kubeconfig: cluster.kubeconfig_for(&accounts::webhook(), None)?,
            config: past::CONFIG.to_owned(),
            gates: webhook::GATES.to_owned(),
            accepts_no_floor: false,
            flags: Vec::new(),
        })
        .await?;
        webhook::register(&client, &webhook.url(), &webhook.ca).await?;
        Ok(Self {
            webhook,
            revisions: Revisions::watch(client.clone()),
            cluster,
            client,
            programs,
        })
    }

    /// One run, with the load at that time of the agent's periods; `None` if the CPUs were contended before it came. Names
    /// differ.
    pub(super) async fn run(&mut self, name: &str, phase: Duration) -> Result<Option<Run>> {
        let remembered = self.start_node(name).await?;
        let mut stand = self.start_agent(remembered).await?;
        let run = if self.until_amplified(&mut stand).await? && self.is_calm_until(&stand, phase).await? {
            let saturation = self.saturate(&stand).await?;
            let oom = self.kill(&stand).await?;
            Some(Run {
                phase_s: phase.as_secs_f64(),
                saturation_s: saturation.all.as_secs_f64(),
                saturation_publish_s: saturation.publish.as_secs_f64(),
                oom_s: oom.all.as_secs_f64(),
                oom_publish_s: oom.publish.as_secs_f64(),
            })
        } else {
            None
        };
        self.check(&mut stand)?;
        drop(stand);
        self.remove_node(name).await?;
        Ok(run)
    }

    /// Starts a node with a pod that requests all of it.
    async fn start_node(&mut self, name: &str) -> Result<Remembered> {
        let machine = NodeOptions::this_machine(name)?;
        self.cluster
            .start_node(NodeOptions {
                reserved_cpu_milli: machine.cpus * 10 * RESERVED_CPU_PERCENT,
                reserved_memory_bytes: RESERVED_MEMORY,
                ..machine
            })
            .await?;
        let node = self.nodes().get(name).await.context("read the node")?;
        let status = node.status.clone().context("a node without a status")?;
        let raw = amounts(status.allocatable.as_ref().context("nothing is allocatable")?)?;
        let pod = self.bind(name, raw).await?;
        Ok(Remembered {
            node: name.to_owned(),
            uid: node.uid().context("a node without a UID")?,
            pod,
            capacity: amounts(status.capacity.as_ref().context("a node without capacity")?)?,
            raw,
        })
    }

    /// Has a pod run on a node; its UID.
    async fn bind(&self, node: &str, requests: PerResource<u64>) -> Result<String> {
        let requests = json!({"cpu": format!("{}m", requests.cpu), "memory": requests.memory.to_string()});
        let pod = json!({
            "metadata": {"name": node},
            "spec": {
                "serviceAccountName": names::AGENT_SERVICE_ACCOUNT,
                "automountServiceAccountToken": false,
                "nodeName": node,
                "containers": [{"name": "load", "image": "example.invalid/load", "resources": {"requests": requests}}],
            },
        });
        let pods = self.pods();
        let pod: Pod = serde_json::from_value(pod)?;
        pods.create(&PostParams::default(), &pod)
            .await
            .context("create a pod")?;
        let deadline = Instant::now() + LIMIT;
        loop {
            let pod = pods.get(node).await.context("read the pod")?;
            let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
            match phase {
                Some("Running") => return pod.uid().context("a pod without a UID"),
                Some("Failed") => bail!("the pod was turned away: {:?}", pod.status),
                Some(_) | None => {}
            }
            ensure!(
                Instant::now() < deadline,
                "the pod does not run: {:?}",
                pod.status
            );
            sleep(LOOK_EVERY).await;
        }
    }

    /// Starts the node's agent, which remembers the quiet day, and has the Node say what was applied on it.
    async fn start_agent(&self, remembered: Remembered) -> Result<Stand> {
        let nodes = self.nodes();
        let node = nodes.get(&remembered.node).await.context("read the node")?;
        let apart = Apart::new(&remembered.node, &self.programs.load, remembered.raw.cpu)?;
        apart.limit_memory(u64::try_from(LIMIT_MIB << 20)?)?;
        apart.add_pod(&remembered.pod, remembered.raw.cpu)?;
        apart.add_pod(AGENT_POD, AGENT_MILLI)?;
        let memory: PathBuf = self.cluster.dir().join(format!("{}.day", remembered.node));
        remembered.save(&memory)?;
        let note = json!({"metadata": {"annotations": {names::HINT: remembered.note()?}}});
        nodes
            .patch(&remembered.node, &PatchParams::default(), &Patch::Merge(note))
            .await
            .context("annotate the node")?;
        let earlier = EARLIER.as_secs().to_string();
        let began = Instant::now();
        let agent = Agent::spawn_under(
            &["unshare", "--time", "--boottime", &earlier],
            &agent::Options {
                program: self.programs.agent.clone(),
                folder: self.cluster.dir().to_owned(),
                node: remembered.node.clone(),
                token: accounts::agent_token(&self.client, &node).await?,
                servers: vec![self.webhook.hints],
                ca: self.webhook.ca.clone(),
                timing: Profile::Production,
                source: "ebpf".to_owned(),
                flags: vec![
                    format!("--cgroup-root={}", apart.mount().display()),
                    format!("--checkpoint={}", memory.display()),
                ],
            },
        )?;
        apart.join(AGENT_POD, agent.process.pid())?;
        Ok(Stand {
            agent,
            began,
            apart,
            remembered,
        })
    }

    /// Waits until the agent says what it remembers, the webhook has taken that, and etcd has it; false if a brake came
    /// first.
    async fn until_amplified(&mut self, stand: &mut Stand) -> Result<bool> {
        let Remembered { node, raw, .. } = stand.remembered.clone();
        let expected = amplified(&raw);
        let deadline = Instant::now() + LIMIT;
        loop {
            self.check(stand)?;
            let status = stand.agent.status().await;
            let latest = self.revisions.latest();
            let stored = latest.get(&node).map(Revision::allocatable);
            if status.as_ref().is_ok_and(is_settled) && stored == Some(expected) {
                return Ok(true);
            }
            if status.as_ref().is_ok_and(is_shed) {
                return Ok(false);
            }
            if Instant::now() > deadline {
                let log = xtask::process::tail(stand.agent.process.log(), 20);
                bail!("{node} has {stored:?} and not {expected:?}; its agent says {status:?}; {log}");
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// Waits for that time of a period after the agent's first, until others hardly contended for the CPUs in the period
    /// before; false if they always do, or have free capacity halved.
    async fn is_calm_until(&self, stand: &Stand, phase: Duration) -> Result<bool> {
        let mut start = stand.began + phase;
        while start < Instant::now().max(stand.began + FIRST_JUDGED) {
            start += period();
        }
        for _ in 0..PERIODS {
            sleep(start.saturating_duration_since(Instant::now())).await;
            let status = stand.agent.status().await?;
            if is_shed(&status) {
                return Ok(false);
            }
            if is_settled(&status) && is_calm(&status) {
                return Ok(true);
            }
            start += period();
        }
        Ok(false)
    }

    /// Saturates the CPUs until free CPU is halved.
    async fn saturate(&self, stand: &Stand) -> Result<Reaction> {
        let cpus = usize::try_from(stand.remembered.capacity.cpu / 1000)?;
        let spinners = Load {
            milli: 1000,
            threads: SPINNERS * cpus,
            rest_percent: 0,
            memory_mib: 0,
        };
        let onset = Moment::now();
        let load = stand.apart.spawn(&stand.remembered.pod, &spinners)?;
        let reaction = self.halved(stand, onset, Resource::Cpu).await?;
        drop(load);
        Ok(reaction)
    }

    /// Has a process killed at the limit of all pods, and waits until free memory is halved.
    async fn kill(&self, stand: &Stand) -> Result<Reaction> {
        let hog = Load {
            milli: 1,
            threads: 1,
            rest_percent: 0,
            memory_mib: TAKEN_MIB,
        };
        let onset = Moment::now();
        let mut load = stand.apart.spawn(&stand.remembered.pod, &hog)?;
        let reaction = self.halved(stand, onset, Resource::Memory).await?;
        ensure!(load.is_killed()?, "memory was braked and nobody was killed");
        Ok(reaction)
    }

    /// Waits for the revision in which free capacity is half of what the node was amplified by, or less.
    async fn halved(&self, stand: &Stand, onset: Moment, resource: Resource) -> Result<Reaction> {
        let Remembered { node, raw, .. } = &stand.remembered;
        let free =
            |allocatable: &PerResource<u64>| allocatable.get(resource).saturating_sub(*raw.get(resource));
        let half = free(&amplified(raw)) / 2;
        let is_halved = |revision: &Revision| free(&revision.allocatable()) <= half;
        let revision = self.revisions.first(node, onset.at, LIMIT, is_halved).await?;
        let all = revision.told.saturating_duration_since(onset.at);
        // Reports are numbered by the milliseconds of the agent's boot time.
        let reported = revision.seq.map(Duration::from_millis).unwrap_or_default();
        let decided = reported
            .saturating_sub(EARLIER)
            .saturating_sub(Duration::from_nanos(onset.boottime_ns));
        Ok(Reaction {
            all,
            publish: all.saturating_sub(decided),
        })
    }

    async fn remove_node(&mut self, name: &str) -> Result<()> {
        let at_once = DeleteParams::default().grace_period(0);
        self.pods()
            .delete(name, &at_once)
            .await
            .context("delete the pod")?;
        self.cluster.stop_node(name)?;
        self.nodes()
            .delete(name, &DeleteParams::default())
            .await
            .context("delete the node")?;
        Ok(())
    }

    /// Fails if a part has ended, or the watch of nodes may have missed something.
    fn check(&mut self, stand: &mut Stand) -> Result<()> {
        stand.agent.process.check()?;
        self.webhook.process.check()?;
        self.revisions.ensure_gapless()?;
        self.cluster.check()
    }

    fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), names::AGENT_NAMESPACE)
    }
}

impl Moment {
    fn now() -> Self {
        Self {
            at: Instant::now(),
            boottime_ns: Clocks::read().boottime_ns,
        }
    }
}
