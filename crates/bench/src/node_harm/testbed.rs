//! Testbed of the bench: starts the node and everything around it, runs the turns and collects their figures.

use std::{collections::BTreeSet, path::Path, time::Duration};

use anyhow::{Context as _, Result, bail};
use headroom_agent::sample::procfs::Procfs;
use headroom_domain::{estimate::Profile, names, policy::Mode};
use headroom_testbed::{
    Testbed,
    agent::Agent,
    cluster::ClusterOptions,
    folder::Folder,
    programs::Programs,
    webhook::{self, Webhook},
    workload::{KUBEPODS, Workload, cpu_use::CpuUse},
};
use k8s_openapi::jiff::Timestamp;
use tokio::time::{Instant, sleep};

use super::{
    ModeRun,
    nodes::{self, NODE},
    pods::{self, NAMESPACE, PodRecord, PodState, Role, Size},
    probe::{self, Probe},
};
use crate::{
    audit::{Audit, WriteKind},
    revisions::Revisions,
    statistics::{as_float, ascending},
};

/// This program, which is also the probe, even if its file was deleted.
const SELF: &str = "/proc/self/exe";
/// Time limit of each step.
const LIMIT: Duration = Duration::from_secs(60);
/// A node is settled when nothing has changed for this long, or after the limit: a ratio in mode `auto` may keep
/// changing.
const QUIET: Duration = Duration::from_secs(2);
const SETTLES_WITHIN: Duration = Duration::from_secs(12);
const POLL_EVERY: Duration = Duration::from_millis(250);

/// Fields are in the order of their shutdown.
pub(super) struct HarmTestbed {
    workload: Workload,
    agent: Agent,
    webhook: Webhook,
    revisions: Revisions,
    testbed: Testbed,
    /// The node's CPU as its kubelet reports it, in milli-cores.
    pub(super) raw_milli: u64,
    /// Ratio of `static`, in cents.
    guess: u64,
    size: Size,
    /// UIDs of pods that were rejected in earlier turns.
    rejected: BTreeSet<String>,
    audit: Audit,
    _folder: Folder,
}

impl HarmTestbed {
    /// Starts all parts, with the resident pods.
    pub(super) async fn start(used: u8, guess: u64) -> Result<Self> {
        let programs = tokio::task::spawn_blocking(Programs::build).await??;
        let workload = Workload::new(&programs.load)?;
        let folder = Folder::new("headroom-harm")?;
        let audit = Audit::new(folder.path())?;
        let options = ClusterOptions {
            apiserver_flags: audit.flags(),
            ..ClusterOptions::full()
        };
        let mut testbed = Testbed::builder(programs)
            .control_plane(options)
            .namespace(NAMESPACE)
            .namespace(names::SLO_CONFIG_NAMESPACE)
            .floor()
            .start()
            .await?;
        nodes::configure(&testbed.client, Mode::Auto).await?;
        let options = testbed.webhook_options("webhook")?;
        let options = options.flags([webhook::DEMO_TIMING]);
        let webhook = testbed.start_webhook(&options).await?;
        let revisions = Revisions::watch(testbed.client.clone());
        nodes::start(&mut testbed, guess).await?;
        let latest = revisions.latest();
        let raw_milli = latest
            .get(NODE)
            .context("the watch has not delivered the node")?
            .cpu_milli;
        // With demo timing the agent knows the node after 20 s.
        let agent = Agent::spawn(&testbed.agent_options(NODE, &[&webhook]).await?)?;
        let mut harm = Self {
            workload,
            agent,
            webhook,
            revisions,
            testbed,
            raw_milli,
            guess,
            size: Size::new(raw_milli, used)?,
            rejected: BTreeSet::new(),
            audit,
            _folder: folder,
        };
        harm.start_residents().await?;
        Ok(harm)
    }

    async fn start_residents(&mut self) -> Result<()> {
        let stay = [Role::Probe, Role::Resident];
        for role in stay {
            self.offer(role, role.offered()).await?;
        }
        let expected: u32 = stay.into_iter().map(Role::offered).sum();
        self.until("the resident pods run", |pods| {
            let running = pods.iter().filter(|pod| pod.state == PodState::Running).count();
            u32::try_from(running).is_ok_and(|running| running == expected)
        })
        .await?;
        self.check()
    }

    /// One turn of a mode, from the first offered pod until the last one is deleted.
    pub(super) async fn turn(&mut self, mode: Mode, measured: Duration) -> Result<ModeRun> {
        nodes::configure(&self.testbed.client, mode).await?;
        self.until_applied(mode).await?;
        let (from, killed_before) = (Timestamp::now(), oom_kills()?);
        self.offer(Role::Arriving, Role::Arriving.offered()).await?;
        self.settle().await?;
        self.restart_kubelet().await?;
        let mut turn = self.measure(measured).await?;
        turn.oom_kills = oom_kills()?.saturating_sub(killed_before);
        self.offer(Role::Arriving, 0).await?;
        self.until("the arriving pods are deleted", |pods| {
            pods.iter()
                .all(|pod| pod.role != Role::Arriving || pod.state == PodState::Rejected)
        })
        .await?;
        let until = Timestamp::now();
        turn.seconds = until.duration_since(from).as_secs_f64();
        turn.renewals = self.audit.renewals(from, until, Some(NODE))?;
        turn.not_ready = self.revisions.not_ready(from, until);
        self.check()?;
        Ok(turn)
    }

    /// Waits until the node's allocatable is that of the mode.
    async fn until_applied(&self, mode: Mode) -> Result<()> {
        let cpu_milli = match mode {
            Mode::Off => self.raw_milli,
            Mode::Static => self.raw_milli * self.guess / 100,
            // The agent first forgets the node's history in other modes, as if the node had always been in this mode.
            Mode::Guard | Mode::Auto => {
                let timing = Profile::Demo.timing();
                sleep(timing.frame() * (timing.ring_frames + timing.up_after)).await;
                return Ok(());
            }
        };
        let what = format!("allocatable CPU of the node is {cpu_milli}m in mode {mode}");
        self.revisions
            .until(&what, LIMIT, |latest| {
                latest.get(NODE).is_some_and(|node| node.cpu_milli == cpu_milli)
            })
            .await
    }

    /// Waits until scheduler and kubelet are idle.
    async fn settle(&mut self) -> Result<()> {
        let began = Instant::now();
        let mut last = (began, None);
        while last.0.elapsed() < QUIET && began.elapsed() < SETTLES_WITHIN {
            let pods = self.list_pods().await?;
            let now = Some((pods, self.cpu_milli()?));
            if last.1 != now {
                last = (Instant::now(), now);
            }
            sleep(POLL_EVERY).await;
        }
        Ok(())
    }

    /// Restarts the node's kubelet, which admits every pod again, and waits for its first lease renewal.
    async fn restart_kubelet(&mut self) -> Result<()> {
        let from = Timestamp::now();
        self.testbed.cluster.restart_node(NODE)?;
        let deadline = Instant::now() + LIMIT;
        loop {
            let entries = self.audit.between(from, Timestamp::now())?;
            if entries
                .iter()
                .any(|entry| entry.node == NODE && entry.kind == WriteKind::Lease)
            {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!(
                    "the restarted kubelet renewed no lease within {} s",
                    LIMIT.as_secs()
                );
            }
            sleep(POLL_EVERY).await;
        }
    }

    /// Runs the probe while pods start and end.
    async fn measure(&mut self, length: Duration) -> Result<ModeRun> {
        let pods = self.list_pods().await?;
        let probe = pods
            .iter()
            .find(|pod| pod.role == Role::Probe && pod.is_on_node());
        let probe = probe.context("the probe's pod is not on the node")?;
        let (by_pods, by_all) = (CpuUse::open(KUBEPODS)?, CpuUse::open("")?);
        let used = |by: &CpuUse| by.nanoseconds().context("a cgroup no longer exists");
        let (began, pods_before, all_before) = (Instant::now(), used(&by_pods)?, used(&by_all)?);
        let process = self
            .workload
            .spawn(&probe.uid, Path::new(SELF), &Probe::arguments(length))?;
        let output = tokio::task::spawn_blocking(|| process.output());
        while began.elapsed() < length {
            self.list_pods().await?;
            sleep(POLL_EVERY).await;
        }
        let late = ascending(probe::read(&output.await??)?);
        let elapsed = began.elapsed().as_nanos().max(1);
        let milli = |nanoseconds: u64| u64::try_from(u128::from(nanoseconds) * 1000 / elapsed);
        let by_pods = milli(used(&by_pods)?.saturating_sub(pods_before))?;
        let by_all = milli(used(&by_all)?.saturating_sub(all_before))?;
        let pods = self.list_pods().await?;
        let placed = pods.iter().filter(|pod| pod.is_on_node()).count();
        Ok(ModeRun {
            late,
            rejected: self.newly_rejected(&pods),
            placed,
            allocatable_pct: self.pct_of_raw(self.cpu_milli()?)?,
            requested_pct: self.pct_of_raw(self.size.request_milli)? * as_float(placed),
            used_pct: self.pct_of_raw(by_pods)?,
            machine_pct: self.pct_of_raw(by_all)?,
            ..ModeRun::default()
        })
    }

    /// Number of pods that were rejected since the last call.
    fn newly_rejected(&mut self, pods: &[PodRecord]) -> usize {
        let before = self.rejected.len();
        let rejected = pods.iter().filter(|pod| pod.state == PodState::Rejected);
        self.rejected.extend(rejected.map(|pod| pod.uid.clone()));
        self.rejected.len() - before
    }

    fn cpu_milli(&self) -> Result<u64> {
        let latest = self.revisions.latest();
        Ok(latest.get(NODE).context("the node no longer exists")?.cpu_milli)
    }

    fn pct_of_raw(&self, milli: u64) -> Result<f64> {
        let (part, whole) = (u32::try_from(milli)?, u32::try_from(self.raw_milli)?);
        Ok(f64::from(part) * 100.0 / f64::from(whole))
    }

    async fn offer(&self, role: Role, replicas: u32) -> Result<()> {
        let client = &self.testbed.client;
        self.size.deploy(client, NODE, role, replicas).await
    }

    async fn until(&mut self, what: &str, is_so: impl Fn(&[PodRecord]) -> bool) -> Result<()> {
        let deadline = Instant::now() + LIMIT;
        loop {
            let pods = self.list_pods().await?;
            if is_so(&pods) {
                return Ok(());
            }
            self.check()?;
            if Instant::now() > deadline {
                bail!("not within {} s: {what}: {pods:?}", LIMIT.as_secs());
            }
            sleep(POLL_EVERY).await;
        }
    }

    /// Current pods; starts a process for each that runs and ends all other processes.
    async fn list_pods(&mut self) -> Result<Vec<PodRecord>> {
        let pods = pods::list(&self.testbed.client).await?;
        let on_node: BTreeSet<String> = pods
            .iter()
            .filter(|pod| pod.is_on_node())
            .map(|pod| pod.uid.clone())
            .collect();
        self.workload.keep(&on_node);
        for pod in &pods {
            if pod.state == PodState::Running && pod.role != Role::Probe {
                self.workload.start(&pod.uid, &self.size.load)?;
            }
        }
        Ok(pods)
    }

    /// Fails if a process has ended, or the watch of nodes may have missed a revision.
    pub(super) fn check(&mut self) -> Result<()> {
        self.testbed
            .check([&mut self.agent.process, &mut self.webhook.process])?;
        self.revisions.ensure_gapless()
    }
}

/// OOM kills of the whole machine since boot.
fn oom_kills() -> Result<usize> {
    Ok(usize::try_from(Procfs::default().vmstat()?.oom_kills)?)
}
