//! One run of the demo: starts a process for each pod, starts and ends the load on events, and shows snapshots.

use std::time::Duration;

use anyhow::{Result, bail};
use headroom_agent::local::status::Status;
use headroom_domain::resource::{PerResource, Resource};
use headroom_testbed::{
    programs::Programs,
    workload::deployment::{DeploymentShape, deploy},
};
use tokio::{
    signal::unix::{SignalKind, signal},
    time::{Instant, MissedTickBehavior, interval},
};
use xtask::{
    demo::{Demo, NodeKind},
    setup::controlplane::{self, Component},
};

use crate::{
    cluster_state::{NodeState, Watches, World},
    other_use::OtherUse,
    pod_loads::{PodLoads, SMALL_SCRIPT},
    snapshot::Snapshot,
    stage::{self, Stage},
    story::{self, Event, Story, checks::Check},
    truth::Truth,
    view::View,
};

const SNAPSHOT_INTERVAL: Duration = Duration::from_millis(250);
/// Longest time between two printed lines.
const LINE_EVERY_MS: u64 = 1000;
/// Time limit for Node Ready.
const READY_WITHIN: Duration = Duration::from_secs(120);
/// Time limit of the story without `--for`: twice the time of an undisturbed run. A busy machine may never complete it.
const STORY_WITHIN: Duration = Duration::from_secs(180);

/// Tracepoint of the program whose run count is shown.
const SWITCH_HOOK: &str = "sched_switch";
/// Role of pods that request most of the node and use little of it.
const STEADY: &str = "steady";
/// Role of pods that do not fit into raw allocatable.
const WAITING: &str = "waiting";

/// End of the run; times count from Node Ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Until {
    /// After this time, even if all events were observed earlier.
    Elapsed(Duration),
    /// After all events, or at this time.
    Complete {
        within: Duration,
    },
    Interrupted,
}

impl Until {
    /// With `--keep` the time is a limit: everything keeps running anyway.
    fn from_flags(demo: &Demo) -> Self {
        match demo.duration {
            Some(duration) if !demo.keep => Self::Elapsed(duration),
            within => Self::Complete {
                within: within.unwrap_or(STORY_WITHIN),
            },
        }
    }

    fn is_reached(self, phase: story::Phase, elapsed: Duration) -> bool {
        match self {
            Self::Elapsed(duration) => elapsed >= duration,
            Self::Complete { within } => phase == story::Phase::Done || elapsed >= within,
            Self::Interrupted => false,
        }
    }
}

/// Runs the demo until its time is over, all events were observed, or Ctrl-C.
///
/// # Errors
/// If a part could not be started, or a check failed.
pub(crate) async fn run(demo: &Demo) -> Result<()> {
    let Demo {
        duration: _,
        json,
        node,
        keep,
    } = *demo;
    let mut view = View::new(json);
    let programs = Programs::build()?;
    if keep {
        // The commands printed at the end need kubectl. Without `--keep`, the demo does not wait for its build.
        controlplane::ensure(&[Component::Kubectl])?;
    }
    let loads = match node {
        NodeKind::Hollow => PodLoads::processes(&programs)?,
        NodeKind::Real => PodLoads::Containers(None),
    };
    // From now on Ctrl-C ends all processes that have been started.
    let mut interrupts = signal(SignalKind::interrupt())?;
    let mut others = OtherUse::new()?;
    let stage = tokio::select! {
        stage = async {
            others.wait_for_idle_cpu(&mut view).await?;
            Stage::start(&mut view, programs, node).await
        } => stage?,
        _ = interrupts.recv() => return Ok(()),
    };
    let mut run = DemoRun::new(view, loads, stage, others)?;
    let is_complete = tokio::select! {
        result = run.run_until(Until::from_flags(demo)) => {
            result?;
            true
        }
        _ = interrupts.recv() => false,
    };
    let checks = run.story.checks();
    if is_complete {
        run.view.conclude(&checks)?;
    }
    if keep {
        run.view.print(&run.stage.inspection_commands())?;
        tokio::select! {
            result = run.run_until(Until::Interrupted) => result?,
            _ = interrupts.recv() => {}
        }
    }
    run.end();
    if is_complete && checks.iter().any(Check::has_failed) {
        bail!("a check of the demo failed");
    }
    Ok(())
}

/// All parts of a running demo.
struct DemoRun {
    view: View,
    loads: PodLoads,
    /// UID of the pod that gets the load.
    loaded: Option<String>,
    stage: Stage,
    watches: Watches,
    truth: Truth,
    others: OtherUse,
    story: Story,
    /// Time at which the Node was first observed Ready.
    ready_at: Option<Instant>,
    has_waiting: bool,
    shown: Option<Snapshot>,
}

impl DemoRun {
    fn new(view: View, loads: PodLoads, stage: Stage, others: OtherUse) -> Result<Self> {
        let watches = Watches::start(stage.client(), stage::NODE, stage::NAMESPACE);
        Ok(Self {
            view,
            loads,
            loaded: None,
            stage,
            watches,
            truth: Truth::start()?,
            others,
            story: Story::new(),
            ready_at: None,
            has_waiting: false,
            shown: None,
        })
    }

    fn elapsed(&self) -> Duration {
        self.ready_at
            .map_or(Duration::ZERO, |ready_at| ready_at.elapsed())
    }

    /// Takes, checks and shows snapshots until the end of the run.
    async fn run_until(&mut self, until: Until) -> Result<()> {
        let mut ticks = interval(SNAPSHOT_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let began = Instant::now();
        loop {
            ticks.tick().await;
            self.stage.check_alive()?;
            let world = self.watches.now();
            if self.ready_at.is_none() {
                if !world.node.is_ready {
                    anyhow::ensure!(
                        began.elapsed() < READY_WITHIN,
                        "the node was not Ready within {READY_WITHIN:?}"
                    );
                    continue;
                }
                self.ready_at = Some(Instant::now());
                deploy(self.stage.client(), &self.shape(&world.node, STEADY)).await?;
            }
            self.follow_pods(&world).await?;
            let status = self.stage.agent_status().await;
            let mut now = self.snapshot(&world, status.as_ref());
            (now.cpu_others, now.cpu_count) = (self.others.milli()?, self.others.cpus());
            for revision in &world.revisions {
                self.story.check_revision(revision);
            }
            let events = self.story.observe(&now);
            self.act_on(&events)?;
            self.show(now, &events)?;
            if until.is_reached(self.story.phase(), self.elapsed()) {
                return Ok(());
            }
        }
    }

    /// Starts a process for each running pod. Creates the second Deployment once all pods of the first one run.
    async fn follow_pods(&mut self, world: &World) -> Result<()> {
        for pod in world.pods.values().filter(|pod| pod.is_running) {
            self.loads.start(&pod.uid)?;
            self.loaded.get_or_insert_with(|| pod.uid.clone());
        }
        let steady = self.shape(&world.node, STEADY);
        let running = world.of_role(STEADY).filter(|(_, pod)| pod.is_running).count();
        if !self.has_waiting && running == usize::try_from(steady.replicas).unwrap_or(usize::MAX) {
            self.has_waiting = true;
            deploy(self.stage.client(), &self.shape(&world.node, WAITING)).await?;
        }
        Ok(())
    }

    fn shape(&self, node: &NodeState, role: &'static str) -> DeploymentShape<'static> {
        DeploymentShape {
            script: self.stage.real_node().map(|_| SMALL_SCRIPT),
            ..shape(node, role)
        }
    }

    fn act_on(&mut self, events: &[Event]) -> Result<()> {
        let uid = self.loaded.as_deref().unwrap_or_default();
        for event in events {
            match event {
                Event::LoadStart => self.loads.start_burst(self.stage.real_node(), uid)?,
                Event::LoadEnd => self.loads.end_burst(self.stage.real_node(), uid)?,
                Event::NodeReady
                | Event::Refused
                | Event::Risen
                | Event::Admitted
                | Event::Saturated
                | Event::Taken
                | Event::Recovered => {}
            }
        }
        Ok(())
    }

    /// Shows the snapshot if it has events or changes, and at least once a second.
    fn show(&mut self, now: Snapshot, events: &[Event]) -> Result<()> {
        let has_changed = self.shown.as_ref().is_none_or(|shown| {
            shown.resource_version != now.resource_version
                || (shown.pending, shown.brake, shown.bound_cpu) != (now.pending, now.brake, now.bound_cpu)
                || now.at_ms >= shown.at_ms + LINE_EVERY_MS
        });
        if has_changed || !events.is_empty() {
            self.view.show(&now, self.story.phase(), events)?;
            self.shown = Some(now);
        }
        Ok(())
    }

    fn snapshot(&self, world: &World, status: Option<&Status>) -> Snapshot {
        let NodeState {
            is_ready: _,
            allocatable,
            raw,
            ratio,
            resource_version,
        } = &world.node;
        let bound = world.pods.values().filter(|pod| pod.is_bound);
        let mut now = Snapshot {
            at_ms: u64::try_from(self.elapsed().as_millis()).unwrap_or(u64::MAX),
            node: stage::NODE.to_owned(),
            mode: stage::MODE.to_owned(),
            ratio: *ratio,
            raw: *raw,
            allocatable: *allocatable,
            bound_cpu: bound.clone().map(|pod| pod.cpu_milli).sum(),
            pending: world.pods.values().filter(|pod| !pod.is_bound).count(),
            running: bound.filter(|pod| pod.is_running).count(),
            resource_version: resource_version.clone(),
            was_refused: world
                .of_role(WAITING)
                .any(|(name, _)| world.refused.contains(name)),
            admitted: world.of_role(WAITING).filter(|(_, pod)| pod.is_bound).count(),
            pod_failure: world.pod_failure.clone(),
            ..Snapshot::default()
        };
        if let Some(status) = status {
            self.add_measurements(status, &mut now);
        }
        now
    }

    /// Adds the agent's measurements, and ground truth over the same interval.
    fn add_measurements(&self, status: &Status, now: &mut Snapshot) {
        now.source.clone_from(&status.source);
        let switches = status
            .programs
            .iter()
            .filter(|program| program.hook == SWITCH_HOOK);
        now.prog_runs = switches.map(|program| program.runs).sum();
        if let Some(last) = &status.measured {
            now.cpu_used = last.cpu_used_milli;
            now.cpu_busy = last.cpu_busy_milli;
            now.memory_used = last.mem_used_bytes;
            now.cpu_truth = self
                .truth
                .mean_milli(last.from_ns, last.until_ns)
                .unwrap_or_default();
        }
        if let Some(cpu) = status.resource(Resource::Cpu) {
            now.cpu_capacity = cpu.capacity;
            now.cpu_safe = cpu.safe;
            now.cpu_peak = cpu.peak;
            now.cpu_predicted = cpu.predicted_peak;
            now.cpu_warm = cpu.warm_requests;
            now.brake = cpu.brake;
            now.reason = cpu.reasons.join(",");
        }
    }

    /// Ends all parts in order: the load first, the control plane last.
    fn end(self) {
        let Self {
            loads,
            stage,
            watches,
            ..
        } = self;
        drop((loads, watches, stage));
    }
}

/// Deployments of the demo, sized by this machine's raw allocatable: the steady pods request 90 % of it, the waiting ones
/// 24 %.
fn shape(node: &NodeState, role: &'static str) -> DeploymentShape<'static> {
    let (replicas, percent) = if role == STEADY { (6, 15) } else { (2, 12) };
    let requests = PerResource::from_fn(|resource| node.raw.get(resource) * percent / 100);
    DeploymentShape {
        namespace: stage::NAMESPACE,
        role,
        node: stage::NODE,
        replicas,
        requests,
        script: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::story::Phase;

    #[test]
    fn with_keep_the_duration_is_only_a_limit() {
        let duration = Duration::from_secs(90);
        let until = |keep, duration| {
            Until::from_flags(&Demo {
                duration,
                json: false,
                node: NodeKind::Hollow,
                keep,
            })
        };
        let early = Duration::from_secs(70);
        assert!(!until(false, Some(duration)).is_reached(Phase::Done, early));
        assert!(until(true, Some(duration)).is_reached(Phase::Done, early));
        assert!(!until(true, Some(duration)).is_reached(Phase::Rise, early));
        for keep in [false, true] {
            assert!(until(keep, Some(duration)).is_reached(Phase::Rise, duration));
            assert!(until(keep, None).is_reached(Phase::Done, early));
            assert!(!until(keep, None).is_reached(Phase::Rise, duration));
            assert!(until(keep, None).is_reached(Phase::Rise, STORY_WITHIN));
        }
        assert!(!Until::Interrupted.is_reached(Phase::Done, duration));
    }
}
