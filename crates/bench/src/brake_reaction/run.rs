//! One run of the bench: starts a node with its agent, applies both loads and measures the reactions. All runs share
//! one testbed and webhook.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use headroom_agent::sample::clock::Clocks;
use headroom_domain::{
    estimate::Profile,
    names,
    resource::{PerResource, Resource},
};
use headroom_testbed::{
    Testbed, accounts,
    agent::Agent,
    cluster::NodeOptions,
    programs::Programs,
    webhook::Webhook,
    workload::{Process, isolated_cgroups::IsolatedCgroups, load::Load},
};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::time::sleep;

use super::{
    Run, SPINNERS, period,
    quiet_day::{self, EARLIER, Remembered},
    readiness::{amounts, amplified, is_calm, is_settled, is_shed},
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
/// The limit of all pods together, and what the process takes that is killed at it.
const LIMIT_MIB: usize = 256;
const TAKEN_MIB: usize = 2 * LIMIT_MIB;
/// The agent's own pod, and the CPU that it requests as it is deployed.
const AGENT_POD: &str = "8c7a5d0e-0000-4000-8000-00000000a9e7";
const AGENT_MILLI: u64 = 20;

/// The group of those who may do all, which the webhook's account is made one of to prepare a node.
const ADMINS: &str = "system:masters";

/// What all runs share, in the order in which it ends.
pub(super) struct BrakeTestbed {
    /// The replicas; the first is called by the API server until another is registered.
    pub(super) webhooks: Vec<Webhook>,
    revisions: Revisions,
    pub(super) testbed: Testbed,
}

/// The node of one run and what is on it, in the order in which it ends.
pub(super) struct Subject {
    pub(super) agent: Agent,
    /// When the agent was started.
    began: Instant,
    apart: IsolatedCgroups,
    remembered: Remembered,
}

/// A moment on two clocks.
#[derive(Clone, Copy)]
pub(super) struct Moment {
    pub(super) at: Instant,
    boottime_ns: u64,
}

/// How long after a moment free capacity was halved, and of that, how long after the agent's report.
pub(super) struct Reaction {
    pub(super) all: Duration,
    pub(super) publish: Duration,
}

impl BrakeTestbed {
    /// Starts everything but nodes, with replicas of the webhook of these names, of which the first is registered.
    pub(super) async fn start(programs: Programs, replicas: &[&str]) -> Result<Self> {
        let testbed = Testbed::builder(programs).floor().start().await?;
        let mut webhooks = Vec::new();
        for name in replicas {
            let options = testbed.webhook_options(name)?.config(quiet_day::CONFIG);
            webhooks.push(Webhook::start(&options).await?);
        }
        testbed
            .register(webhooks.first().context("no replica to register")?)
            .await?;
        Ok(Self {
            webhooks,
            revisions: Revisions::watch(testbed.client.clone()),
            testbed,
        })
    }

    /// One run, with the load at that time of the agent's periods; `None` if the CPUs were contended before it came. Names
    /// differ.
    pub(super) async fn run(&mut self, name: &str, phase: Duration) -> Result<Option<Run>> {
        let mut subject = self.start_subject(name).await?;
        let run = if self.until_amplified(&mut subject).await? && self.is_calm_until(&subject, phase).await? {
            let saturation = self.saturate(&subject).await?;
            let oom = self.kill(&subject).await?;
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
        self.end(subject).await?;
        Ok(run)
    }

    /// Starts a node with its pod and its agent.
    pub(super) async fn start_subject(&mut self, name: &str) -> Result<Subject> {
        let remembered = self.start_node(name).await?;
        self.start_agent(remembered).await
    }

    /// Ends a run.
    pub(super) async fn end(&mut self, mut subject: Subject) -> Result<()> {
        self.check(&mut subject)?;
        let name = subject.remembered.node.clone();
        drop(subject);
        self.remove_node(&name).await
    }

    /// Starts a node with a pod that requests all of it.
    async fn start_node(&mut self, name: &str) -> Result<Remembered> {
        let machine = NodeOptions::this_machine(name)?;
        self.testbed
            .cluster
            .start_node(machine.with_system_reserved())
            .await?;
        let node = self.testbed.nodes().get(name).await;
        let node = node.context("read the node")?;
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
    async fn start_agent(&self, remembered: Remembered) -> Result<Subject> {
        let Testbed {
            cluster, programs, ..
        } = &self.testbed;
        let node = &remembered.node;
        let apart = IsolatedCgroups::new(node, &programs.load, remembered.raw.cpu)?;
        apart.limit_memory(u64::try_from(LIMIT_MIB << 20)?)?;
        apart.add_pod(&remembered.pod, remembered.raw.cpu)?;
        apart.add_pod(AGENT_POD, AGENT_MILLI)?;
        let memory = cluster.dir().join(format!("{node}.day"));
        remembered.save(&memory)?;
        let note = remembered.note()?;
        self.annotate_as_webhook(node, &note).await?;
        let replicas: Vec<&Webhook> = self.webhooks.iter().collect();
        let options = self.testbed.agent_options(node, &replicas).await?;
        let flags = [
            format!("--cgroup-root={}", apart.mount().display()),
            format!("--checkpoint={}", memory.display()),
        ];
        let options = options.timing(Profile::Production).source("ebpf").flags(flags);
        let earlier = EARLIER.as_secs().to_string();
        let began = Instant::now();
        let agent = Agent::spawn_under(&["unshare", "--time", "--boottime", &earlier], &options)?;
        apart.join(AGENT_POD, agent.process.pid())?;
        Ok(Subject {
            agent,
            began,
            apart,
            remembered,
        })
    }

    /// Sets the hint annotation, which nobody but the webhook may write.
    async fn annotate_as_webhook(&self, node: &str, note: &str) -> Result<()> {
        let webhook = self
            .testbed
            .cluster
            .client_for(&accounts::webhook(), Some(ADMINS))
            .await?;
        let patch = json!({"metadata": {"annotations": {names::HINT: note}}});
        Api::<Node>::all(webhook)
            .patch(node, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .with_context(|| format!("annotate {node}"))?;
        Ok(())
    }

    /// Waits until the agent says what it remembers, the webhook has taken that, and etcd has it; false if a brake came
    /// first.
    pub(super) async fn until_amplified(&mut self, subject: &mut Subject) -> Result<bool> {
        let Remembered { node, raw, .. } = subject.remembered.clone();
        let expected = amplified(&raw);
        let deadline = Instant::now() + LIMIT;
        loop {
            self.check(subject)?;
            let status = subject.agent.status().await;
            let latest = self.revisions.latest();
            let stored = latest.get(&node).map(Revision::allocatable);
            if status.as_ref().is_ok_and(is_settled) && stored == Some(expected) {
                return Ok(true);
            }
            if status.as_ref().is_ok_and(is_shed) {
                return Ok(false);
            }
            if Instant::now() > deadline {
                let log = xtask::process::tail(subject.agent.process.log(), 20);
                bail!("{node} has {stored:?} and not {expected:?}; its agent says {status:?}; {log}");
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// Waits for that time of a period after the agent's first, until others hardly contended for the CPUs in the period
    /// before; false if they always do, or have free capacity halved.
    pub(super) async fn is_calm_until(&self, subject: &Subject, phase: Duration) -> Result<bool> {
        let mut start = subject.began + phase;
        while start < Instant::now().max(subject.began + FIRST_JUDGED) {
            start += period();
        }
        for _ in 0..PERIODS {
            sleep(start.saturating_duration_since(Instant::now())).await;
            let status = subject.agent.status().await?;
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
    async fn saturate(&self, subject: &Subject) -> Result<Reaction> {
        let (onset, load) = Self::start_saturation(subject)?;
        let reaction = self.halved(subject, onset, Resource::Cpu).await?;
        drop(load);
        Ok(reaction)
    }

    /// Begins to saturate the CPUs; when, and the load.
    pub(super) fn start_saturation(subject: &Subject) -> Result<(Moment, Process)> {
        let cpus = usize::try_from(subject.remembered.capacity.cpu / 1000)?;
        let spinners = Load {
            milli: 1000,
            threads: SPINNERS * cpus,
            rest_percent: 0,
            memory_mib: 0,
        };
        let onset = Moment::now();
        let load = subject.apart.spawn(&subject.remembered.pod, &spinners)?;
        Ok((onset, load))
    }

    /// Has a process killed at the limit of all pods, and waits until free memory is halved.
    async fn kill(&self, subject: &Subject) -> Result<Reaction> {
        let hog = Load {
            milli: 1,
            threads: 1,
            rest_percent: 0,
            memory_mib: TAKEN_MIB,
        };
        let onset = Moment::now();
        let mut load = subject.apart.spawn(&subject.remembered.pod, &hog)?;
        let reaction = self.halved(subject, onset, Resource::Memory).await?;
        ensure!(load.is_killed()?, "memory was braked and nobody was killed");
        Ok(reaction)
    }

    /// Waits for the revision in which free capacity is half of what the node was amplified by, or less.
    pub(super) async fn halved(
        &self,
        subject: &Subject,
        onset: Moment,
        resource: Resource,
    ) -> Result<Reaction> {
        let Remembered { node, raw, .. } = &subject.remembered;
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
        self.testbed.cluster.stop_node(name)?;
        self.testbed
            .nodes()
            .delete(name, &DeleteParams::default())
            .await
            .context("delete the node")?;
        Ok(())
    }

    /// Fails if a part has ended, or the watch of nodes may have missed something.
    fn check(&mut self, subject: &mut Subject) -> Result<()> {
        let webhooks = self.webhooks.iter_mut().map(|webhook| &mut webhook.process);
        self.testbed.check(webhooks.chain([&mut subject.agent.process]))?;
        self.revisions.ensure_gapless()
    }

    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.testbed.client.clone(), names::AGENT_NAMESPACE)
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
