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
    quiet_day::{self, EARLIER, NodeHistory},
    readiness::{amounts, amplified, is_calm, is_settled, is_shed},
};
use crate::revisions::{Revision, Revisions};

/// Time limit of each step.
const LIMIT: Duration = Duration::from_secs(60);
/// Time after which an agent has evaluated its first period.
const FIRST_EVALUATED: Duration = Duration::from_secs(11);
/// Periods to wait for a calm one.
const PERIODS: u32 = 6;
const POLL_EVERY: Duration = Duration::from_millis(100);
/// Memory limit of all pods together, and allocation of the process that is OOM-killed.
const LIMIT_MIB: usize = 256;
const HOG_MIB: usize = 2 * LIMIT_MIB;
/// UID of the agent's own pod, and its CPU request.
const AGENT_POD: &str = "8c7a5d0e-0000-4000-8000-00000000a9e7";
const AGENT_MILLI: u64 = 20;

/// Group that the webhook's account joins to prepare a node.
const ADMINS: &str = "system:masters";

/// Parts shared by all runs; fields are in the order of their shutdown.
pub(super) struct BrakeTestbed {
    /// The API server calls the first until another is registered.
    pub(super) webhooks: Vec<Webhook>,
    revisions: Revisions,
    pub(super) testbed: Testbed,
}

/// The node of one run with its agent; fields are in the order of their shutdown.
pub(super) struct Subject {
    pub(super) agent: Agent,
    /// Start time of the agent.
    began: Instant,
    cgroups: IsolatedCgroups,
    history: NodeHistory,
}

/// One point in time on two clocks.
#[derive(Clone, Copy)]
pub(super) struct Moment {
    pub(super) at: Instant,
    boottime_ns: u64,
}

/// Time from the load's start until free capacity was halved; `publish` is the part after the agent's report.
pub(super) struct Reaction {
    pub(super) all: Duration,
    pub(super) publish: Duration,
}

impl BrakeTestbed {
    /// Starts all parts except nodes, with one webhook replica per name; the first is registered.
    pub(super) async fn start(programs: Programs, replicas: &[&str]) -> Result<Self> {
        let testbed = Testbed::builder(programs).floor().start().await?;
        let mut webhooks = Vec::new();
        for name in replicas {
            let options = testbed.webhook_options(name)?.config(quiet_day::CONFIG);
            webhooks.push(Webhook::start(&options).await?);
        }
        testbed
            .register(webhooks.first().context("there is no replica to register")?)
            .await?;
        Ok(Self {
            webhooks,
            revisions: Revisions::watch(testbed.client.clone()),
            testbed,
        })
    }

    /// One run whose load starts at `phase` of the agent's period; `None` if the CPUs were contended before. `name`
    /// must be new.
    pub(super) async fn run(&mut self, name: &str, phase: Duration) -> Result<Option<Run>> {
        let mut subject = self.start_subject(name).await?;
        let run = if self.until_amplified(&mut subject).await? && self.is_calm_until(&subject, phase).await? {
            let saturation = self.saturate(&subject).await?;
            let oom = self.oom_kill(&subject).await?;
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

    pub(super) async fn start_subject(&mut self, name: &str) -> Result<Subject> {
        let history = self.start_node(name).await?;
        self.start_agent(history).await
    }

    pub(super) async fn end(&mut self, mut subject: Subject) -> Result<()> {
        self.check(&mut subject)?;
        let name = subject.history.node.clone();
        drop(subject);
        self.remove_node(&name).await
    }

    /// Starts a node with a pod that requests all of it.
    async fn start_node(&mut self, name: &str) -> Result<NodeHistory> {
        let machine = NodeOptions::this_machine(name)?;
        self.testbed
            .cluster
            .start_node(machine.with_system_reserved())
            .await?;
        let node = self.testbed.nodes().get(name).await;
        let node = node.context("cannot read the node")?;
        let status = node.status.clone().context("the node has no status")?;
        let raw = amounts(
            status
                .allocatable
                .as_ref()
                .context("the node has no allocatable")?,
        )?;
        let pod = self.bind(name, raw).await?;
        Ok(NodeHistory {
            node: name.to_owned(),
            uid: node.uid().context("the node has no UID")?,
            pod,
            capacity: amounts(status.capacity.as_ref().context("the node has no capacity")?)?,
            raw,
        })
    }

    /// Creates a pod on a node and returns its UID once it runs.
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
            .context("cannot create a pod")?;
        let deadline = Instant::now() + LIMIT;
        loop {
            let pod = pods.get(node).await.context("cannot read the pod")?;
            let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
            match phase {
                Some("Running") => return pod.uid().context("the pod has no UID"),
                Some("Failed") => bail!("the kubelet rejected the pod: {:?}", pod.status),
                Some(_) | None => {}
            }
            ensure!(
                Instant::now() < deadline,
                "the pod did not start within {LIMIT:?}: {:?}",
                pod.status
            );
            sleep(POLL_EVERY).await;
        }
    }

    /// Starts the node's agent from the quiet day, and writes the applied ratios to the Node.
    async fn start_agent(&self, history: NodeHistory) -> Result<Subject> {
        let Testbed {
            cluster, programs, ..
        } = &self.testbed;
        let node = &history.node;
        let cgroups = IsolatedCgroups::new(node, &programs.load, history.raw.cpu)?;
        cgroups.limit_memory(u64::try_from(LIMIT_MIB << 20)?)?;
        cgroups.add_pod(&history.pod, history.raw.cpu)?;
        cgroups.add_pod(AGENT_POD, AGENT_MILLI)?;
        let memory = cluster.dir().join(format!("{node}.day"));
        history.save(&memory)?;
        let note = history.note()?;
        self.annotate_as_webhook(node, &note).await?;
        let replicas: Vec<&Webhook> = self.webhooks.iter().collect();
        let options = self.testbed.agent_options(node, &replicas).await?;
        let flags = [
            format!("--cgroup-root={}", cgroups.mount().display()),
            format!("--checkpoint={}", memory.display()),
        ];
        let options = options.timing(Profile::Production).source("ebpf").flags(flags);
        let earlier = EARLIER.as_secs().to_string();
        let began = Instant::now();
        let agent = Agent::spawn_under(&["unshare", "--time", "--boottime", &earlier], &options)?;
        cgroups.join(AGENT_POD, agent.process.pid())?;
        Ok(Subject {
            agent,
            began,
            cgroups,
            history,
        })
    }

    /// Sets the hint annotation, which only the webhook may write.
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
            .with_context(|| format!("cannot annotate {node}"))?;
        Ok(())
    }

    /// Waits until the agent has restored the quiet day, the webhook has accepted its report, and etcd has the
    /// ratios; false if a brake came first.
    pub(super) async fn until_amplified(&mut self, subject: &mut Subject) -> Result<bool> {
        let NodeHistory { node, raw, .. } = subject.history.clone();
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
                bail!(
                    "{node} has allocatable {stored:?}, expected {expected:?}; status of its agent: {status:?}; log: {log}"
                );
            }
            sleep(POLL_EVERY).await;
        }
    }

    /// Waits for `phase` of a period after the first until the period before it was calm; false if none of
    /// [`PERIODS`] is calm, or a brake has halved free capacity.
    pub(super) async fn is_calm_until(&self, subject: &Subject, phase: Duration) -> Result<bool> {
        let mut start = subject.began + phase;
        while start < Instant::now().max(subject.began + FIRST_EVALUATED) {
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
        let reaction = self.until_halved(subject, onset, Resource::Cpu).await?;
        drop(load);
        Ok(reaction)
    }

    /// Starts to saturate the CPUs; returns the start time and the load.
    pub(super) fn start_saturation(subject: &Subject) -> Result<(Moment, Process)> {
        let cpus = usize::try_from(subject.history.capacity.cpu / 1000)?;
        let spinners = Load {
            milli: 1000,
            threads: SPINNERS * cpus,
            rest_percent: 0,
            memory_mib: 0,
        };
        let onset = Moment::now();
        let load = subject.cgroups.spawn(&subject.history.pod, &spinners)?;
        Ok((onset, load))
    }

    /// Starts a process that is OOM-killed at the limit of all pods, and waits until free memory is halved.
    async fn oom_kill(&self, subject: &Subject) -> Result<Reaction> {
        let hog = Load {
            milli: 1,
            threads: 1,
            rest_percent: 0,
            memory_mib: HOG_MIB,
        };
        let onset = Moment::now();
        let mut load = subject.cgroups.spawn(&subject.history.pod, &hog)?;
        let reaction = self.until_halved(subject, onset, Resource::Memory).await?;
        ensure!(
            load.is_killed()?,
            "memory was braked although no process was OOM-killed"
        );
        Ok(reaction)
    }

    /// Waits for the revision whose free capacity is at most half of the amplified node's.
    pub(super) async fn until_halved(
        &self,
        subject: &Subject,
        onset: Moment,
        resource: Resource,
    ) -> Result<Reaction> {
        let NodeHistory { node, raw, .. } = &subject.history;
        let free =
            |allocatable: &PerResource<u64>| allocatable.get(resource).saturating_sub(*raw.get(resource));
        let half = free(&amplified(raw)) / 2;
        let is_halved = |revision: &Revision| free(&revision.allocatable()) <= half;
        let revision = self.revisions.first(node, onset.at, LIMIT, is_halved).await?;
        let all = revision.observed.saturating_duration_since(onset.at);
        // Reports are numbered by milliseconds of the agent's boot time.
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
            .context("cannot delete the pod")?;
        self.testbed.cluster.stop_node(name)?;
        self.testbed
            .nodes()
            .delete(name, &DeleteParams::default())
            .await
            .context("cannot delete the node")?;
        Ok(())
    }

    /// Fails if a process has ended, or the watch of nodes may have missed a revision.
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
