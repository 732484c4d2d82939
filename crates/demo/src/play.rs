//! One run of the demo: gives pods their processes, starts and ends the load as the story asks, and shows snapshots.

use std::time::Duration;

use anyhow::{Result, bail};
use headroom_agent::local::status::Status;
use headroom_domain::resource::{PerResource, Resource};
use headroom_testbed::{
    programs::Programs,
    workload::{
        Workload,
        deployment::{DeploymentShape, deploy},
        load::Load,
    },
};
use tokio::{
    signal::unix::{SignalKind, signal},
    time::{Instant, MissedTickBehavior, interval},
};
use xtask::{
    controlplane::{self, Component},
    demo::Demo,
};

use crate::{
    cluster_state::{NodeState, Watches, World},
    snapshot::Snapshot,
    stage::{self, Stage},
    story::{self, Event, Story},
    truth::Truth,
    view::View,
};

/// How often the demo looks.
const EVERY: Duration = Duration::from_millis(250);
/// At least one line in this time.
const LINE_EVERY_MS: u64 = 1000;
/// How long the pods and their processes may take to appear.
const READY_WITHIN: Duration = Duration::from_secs(120);

/// The tracepoint whose program's runs are shown.
const SWITCH_HOOK: &str = "sched_switch";
/// Pods that ask for most of the node and use little of it.
const STEADY: &str = "steady";
/// Pods that do not fit raw.
const WAITING: &str = "waiting";
/// What a pod of the story really uses.
const SMALL: Load = Load {
    milli: 60,
    threads: 1,
    rest_percent: 0,
    memory_mib: 24,
};

/// How long the story is told; times count from Node Ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Until {
    /// This long, also when all has been seen.
    Elapsed(Duration),
    /// All has been seen, or that time is over.
    Told { within: Option<Duration> },
    /// Ctrl-C.
    Ended,
}

impl Until {
    /// What stays up afterwards need not wait for its time.
    fn from_flags(demo: &Demo) -> Self {
        match demo.lasts {
            Some(lasts) if !demo.keep => Self::Elapsed(lasts),
            within => Self::Told { within },
        }
    }

    fn is_reached(self, act: story::Act, elapsed: Duration) -> bool {
        match self {
            Self::Elapsed(lasts) => elapsed >= lasts,
            Self::Told { within } => {
                act == story::Act::Done || within.is_some_and(|within| elapsed >= within)
            }
            Self::Ended => false,
        }
    }
}

/// Runs the demo until its time, its story or the user ends it.
///
/// # Errors
/// If something could not be started, or a claim of the story did not hold.
pub(crate) async fn run(demo: &Demo) -> Result<()> {
    let Demo { lasts, json, keep } = *demo;
    let mut view = View::new(json);
    let programs = Programs::build()?;
    if keep {
        // What it says at its end takes kubectl; a story that is only watched does not wait for its build.
        controlplane::ensure(&[Component::Kubectl])?;
    }
    let workload = Workload::new(&programs.load)?;
    // From now on Ctrl-C ends what was started, however little that is.
    let mut interrupts = signal(SignalKind::interrupt())?;
    let stage = tokio::select! {
        stage = Stage::start(&mut view, programs) => stage?,
        _ = interrupts.recv() => return Ok(()),
    };
    let mut play = Play::new(view, workload, stage)?;
    tokio::select! {
        told = play.run_scenes(Until::from_flags(demo)) => told?,
        _ = interrupts.recv() => {}
    }
    let checks = play.story.checks();
    let is_whole = play.is_whole(lasts);
    if is_whole {
        play.view.conclude(&checks)?;
    }
    if keep {
        play.view.print(&play.stage.how_to_look())?;
        tokio::select! {
            told = play.run_scenes(Until::Ended) => told?,
            _ = interrupts.recv() => {}
        }
    }
    play.end();
    if is_whole && checks.iter().any(|check| check.outcome.is_err()) {
        bail!("a claim of the demo did not hold");
    }
    Ok(())
}

/// Everything that is on stage.
struct Play {
    view: View,
    workload: Workload,
    stage: Stage,
    watches: Watches,
    truth: Truth,
    story: Story,
    /// When the Node was first seen Ready.
    ready_at: Option<Instant>,
    has_waiting: bool,
    shown: Option<Snapshot>,
}

impl Play {
    fn new(view: View, workload: Workload, stage: Stage) -> Result<Self> {
        let watches = Watches::start(stage.client(), stage::NODE, stage::NAMESPACE);
        Ok(Self {
            view,
            workload,
            stage,
            watches,
            truth: Truth::start()?,
            story: Story::new(),
            ready_at: None,
            has_waiting: false,
            shown: None,
        })
    }

    /// True if the story was given the time it takes, or came to its end.
    fn is_whole(&self, lasts: Option<Duration>) -> bool {
        self.story.act() == story::Act::Done || lasts.is_some_and(|lasts| self.elapsed() >= lasts)
    }

    fn elapsed(&self) -> Duration {
        self.ready_at
            .map_or(Duration::ZERO, |ready_at| ready_at.elapsed())
    }

    /// Tells the story.
    async fn run_scenes(&mut self, until: Until) -> Result<()> {
        let mut ticks = interval(EVERY);
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
                        "the node was not Ready in {READY_WITHIN:?}"
                    );
                    continue;
                }
                self.ready_at = Some(Instant::now());
                deploy(self.stage.client(), &shape(&world.node, STEADY)).await?;
            }
            self.follow_pods(&world).await?;
            let status = self.stage.agent_status().await;
            let now = self.snapshot(&world, status.as_ref());
            for revision in &world.revisions {
                self.story.check_revision(revision);
            }
            let events = self.story.observe(&now);
            self.act_on(&events)?;
            self.show(now, &events)?;
            if until.is_reached(self.story.act(), self.elapsed()) {
                return Ok(());
            }
        }
    }

    /// Gives each running pod its process; the waiting Deployment comes when the steady one runs.
    async fn follow_pods(&mut self, world: &World) -> Result<()> {
        for pod in world.pods.values().filter(|pod| pod.is_running) {
            self.workload.start(&pod.uid, &SMALL)?;
        }
        let steady = shape(&world.node, STEADY);
        let running = world.of_role(STEADY).filter(|(_, pod)| pod.is_running).count();
        if !self.has_waiting && running == usize::try_from(steady.replicas).unwrap_or(usize::MAX) {
            self.has_waiting = true;
            deploy(self.stage.client(), &shape(&world.node, WAITING)).await?;
        }
        Ok(())
    }

    fn act_on(&mut self, events: &[Event]) -> Result<()> {
        for event in events {
            match event {
                Event::LoadStart => {
                    let threads = std::thread::available_parallelism()?.get();
                    self.workload.start_burst(&Load {
                        milli: 1000,
                        threads,
                        rest_percent: 0,
                        memory_mib: 0,
                    })?;
                }
                Event::LoadEnd => self.workload.end_burst(),
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

    /// Shows the moment if something happened or changed, and at least once a second.
    fn show(&mut self, now: Snapshot, events: &[Event]) -> Result<()> {
        let has_changed = self.shown.as_ref().is_none_or(|shown| {
            shown.resource_version != now.resource_version
                || (shown.pending, shown.brake, shown.bound_cpu) != (now.pending, now.brake, now.bound_cpu)
                || now.at_ms >= shown.at_ms + LINE_EVERY_MS
        });
        if has_changed || !events.is_empty() {
            self.view.show(&now, self.story.act(), events)?;
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
            hurt: world.hurt.clone(),
            ..Snapshot::default()
        };
        if let Some(status) = status {
            self.measured(status, &mut now);
        }
        now
    }

    /// What the agent measured, and the ground truth over the very interval of its measurement.
    fn measured(&self, status: &Status, now: &mut Snapshot) {
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

    /// Ends everything in order: the load first, the control plane last.
    fn end(self) {
        let Self {
            workload,
            stage,
            watches,
            ..
        } = self;
        drop((workload, watches, stage));
    }
}

/// Pods of the story, as parts of this machine's raw allocatable: the steady ones ask for nine tenths of it,
/// the waiting ones for a quarter more than is left.
fn shape(node: &NodeState, role: &'static str) -> DeploymentShape<'static> {
    let (replicas, percent) = if role == STEADY { (6, 15) } else { (2, 12) };
    let requests = PerResource::from_fn(|resource| node.raw.get(resource) * percent / 100);
    DeploymentShape {
        namespace: stage::NAMESPACE,
        role,
        node: stage::NODE,
        replicas,
        requests,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::story::Act;

    #[test]
    fn a_time_is_the_storys_longest_where_everything_stays_up() {
        let lasts = Duration::from_secs(90);
        let until = |keep, lasts| {
            Until::from_flags(&Demo {
                lasts,
                json: false,
                keep,
            })
        };
        let early = Duration::from_secs(70);
        assert!(!until(false, Some(lasts)).is_reached(Act::Done, early));
        assert!(until(true, Some(lasts)).is_reached(Act::Done, early));
        assert!(!until(true, Some(lasts)).is_reached(Act::Rise, early));
        for keep in [false, true] {
            assert!(until(keep, Some(lasts)).is_reached(Act::Rise, lasts));
            assert!(until(keep, None).is_reached(Act::Done, early));
            assert!(!until(keep, None).is_reached(Act::Rise, lasts));
        }
        assert!(!Until::Ended.is_reached(Act::Done, lasts));
    }
}
