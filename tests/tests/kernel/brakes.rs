//! Tests of the brakes of a real agent with production timing on this kernel: which loads fire them, how soon, and
//! which loads do not.
//!
//! Other load and the hypervisor take CPU time, too. Where they call for a brake, or make the result uncertain, the
//! test tries again with another agent, as a brake stays for minutes.
#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "tests panic: a returned error has no stack"
)]

use std::{fs, path::Path, thread, time::Duration};

use e2e::{
    agent::{AgentNode, Running},
    cgroup::Limited,
    cpu_load::{SpinningThreads, spinners},
    cpu_shares::CpuShares,
    pace::as_long,
    pod_tree::PodTree,
};
use headroom_agent::{
    local::status::{Measured, ResourceStatus},
    sample::procfs::Procfs,
};
use headroom_domain::{
    estimate::Profile,
    hint::Brake,
    resource::Resource::{self, Cpu, Memory},
};
use headroom_testbed::thread::last_cpu;
use rustix::fs::{Mode, OFlags, mkfifoat, openat};
use tokio::{
    sync::Mutex,
    time::{Instant, sleep},
};

const UID: &str = "0b1c7a52-3f4e-4d6b-9a1e-2c3d4e5f6a7b";
/// Time in which one period begins and ends, and another one ends.
const TWO_PERIODS: Duration = Duration::from_millis(20_500);
/// Maximum time until saturation fires L2 and L3.
const SHED_WITHIN: Duration = Duration::from_secs(20);
const STOP_WITHIN: Duration = Duration::from_secs(40);
/// Maximum time until pressure on all pods fires a brake: after any start within a period, the next period is full of
/// it.
const PRESSED_WITHIN: Duration = Duration::from_millis(20_500);
/// Poll interval.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Maximum time for an attempt that other load may disturb.
const UNDISTURBED_WITHIN: Duration = Duration::from_secs(400);
/// Maximum share of the machine's time that other load may use in a valid attempt, in percent.
const MOST_TAKEN: u64 = 10;
/// Poll interval for an agent with little CPU: an answer costs it more than a sample.
const SPARING_LOOK_EVERY: Duration = Duration::from_secs(1);
/// Limit of a pod or of all pods, and the memory that its process needs.
const LIMIT_MIB: usize = 24;
const WANTED_MIB: usize = 96;

/// Held by one test at a time: they load the same machine.
static MACHINE: Mutex<()> = Mutex::const_new(());

/// An agent as it is installed, except for the cgroups that it reads.
pub(super) struct Braking {
    agent: Running,
    node: AgentNode,
}

/// State of an agent over an interval.
#[derive(Debug, Default)]
pub(super) struct ObservedBrakes {
    seconds: Vec<Measured>,
    pub(super) brake: u8,
}

impl Braking {
    /// Starts it and waits until it has measured a second.
    pub(super) async fn start(cgroup_root: &Path) -> Self {
        let node = AgentNode::start().await;
        let mut agent = node
            .agent_with(|options| {
                options.timing = Profile::Production;
                "ebpf".clone_into(&mut options.source);
                options.flags = vec![format!("--cgroup-root={}", cgroup_root.display())];
            })
            .await;
        agent
            .status_until("a second was measured", |status| status.measured.is_some())
            .await;
        Self { agent, node }
    }

    /// The last second and the status of a resource.
    async fn read(&mut self, resource: Resource) -> Option<(Measured, ResourceStatus)> {
        self.agent.process.check().expect("the agent runs");
        let status = self.agent.status().await.ok()?;
        let part = status.resource(resource)?.clone();
        Some((status.measured?, part))
    }

    /// State until a whole period has begun and ended, or until a brake reaches this level.
    pub(super) async fn observe(&mut self, resource: Resource, until: Brake) -> ObservedBrakes {
        let mut seen = ObservedBrakes::default();
        let end = Instant::now() + TWO_PERIODS;
        while Instant::now() < end && seen.brake < until.level() {
            if let Some((measured, part)) = self.read(resource).await {
                seen.brake = seen.brake.max(part.brake);
                let last = seen.seconds.last().map_or(0, |last| last.until_ns);
                seen.seconds
                    .extend(Some(measured).filter(|now| now.until_ns > last));
            }
            sleep(LOOK_EVERY).await;
        }
        seen
    }

    /// Time after `began` until each of these levels is in force; `None` for a level that is late.
    async fn reach(&mut self, began: Instant, levels: [(Brake, Duration); 2]) -> [Option<Duration>; 2] {
        let mut reached = [None; 2];
        while reached.contains(&None) && began.elapsed() < levels[1].1 {
            if let Some((_, part)) = self.read(Cpu).await {
                for (reached, (level, within)) in reached.iter_mut().zip(levels) {
                    let is_in_force = part.brake >= level.level() && began.elapsed() <= within;
                    *reached = reached.or(is_in_force.then(|| began.elapsed()));
                }
            }
            sleep(SPARING_LOOK_EVERY).await;
        }
        reached
    }
}

impl ObservedBrakes {
    pub(super) fn most(&self, of: impl Fn(&Measured) -> u64) -> u64 {
        self.seconds.iter().map(of).max().unwrap_or(0)
    }
}

pub(super) fn cpus() -> usize {
    thread::available_parallelism().unwrap().get()
}

/// CPU request in the agent's manifest, in milli-cores.
fn own_request_milli() -> u64 {
    let manifest = include_str!("../../../deploy/kustomize/base/agent.yaml");
    let mut asked = manifest
        .lines()
        .filter_map(|line| line.trim().strip_prefix("cpu: "));
    let milli = asked
        .next()
        .and_then(|asked| asked.strip_suffix('m'))
        .expect("a request in milli-cores");
    assert_eq!(asked.next(), None, "one container asks, and has no limit");
    milli.parse().expect("a number")
}

/// A tree with a container of a pod, and nothing in it.
pub(super) fn tree(name: &str) -> (PodTree, String) {
    let tree = PodTree::create(name);
    let pod = format!("kubepods/burstable/pod{UID}");
    tree.add(&format!("{pod}/container"));
    (tree, pod)
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_at_their_quota_do_not_make_the_node_shed() {
    let _machine = MACHINE.lock().await;
    let (tree, _pod) = tree("quota");
    let mut quotas = vec![20, 100, (cpus() as u64 - 1) * 100];
    quotas.dedup();
    for percent in quotas {
        let deadline = Instant::now() + as_long(UNDISTURBED_WITHIN);
        loop {
            assert!(Instant::now() < deadline, "others load the machine all the time");
            let mut braking = Braking::start(tree.mount()).await;
            let quota = Limited::cpu("headroom-brakes", percent);
            let crowd = spinners(4 * cpus(), Some(&quota.procs()), braking.node.folder.path());
            let seen = braking.observe(Cpu, Brake::Shed).await;
            drop(crowd);
            let busy = seen.most(|second| second.cpu_busy_milli);
            let pressure = seen.most(|second| second.psi_cpu_some_ppm.into());
            println!(
                "quota of {percent} %: L{}, at most {busy} milli-cores, CPU pressure {pressure} ppm",
                seen.brake
            );
            if seen.brake < Brake::Shed.level() {
                assert!(pressure > 500_000, "the load caused no CPU pressure: {seen:#?}");
                break;
            }
            // Others took a fifth of the machine and more.
            assert!(busy > percent * 10 + cpus() as u64 * 200, "{seen:#?}");
        }
    }
}

/// Has a load make a node shed and then stop, in time; returns a summary. An attempt in which other load used much
/// time is repeated.
pub(super) async fn sheds_and_stops(
    what: &str,
    mount: &Path,
    load: impl Fn(&Braking) -> SpinningThreads,
) -> String {
    let levels = [
        (Brake::Shed, as_long(SHED_WITHIN)),
        (Brake::Stop, as_long(STOP_WITHIN)),
    ];
    let deadline = Instant::now() + as_long(UNDISTURBED_WITHIN);
    loop {
        assert!(Instant::now() < deadline, "others take much time all the time");
        let mut braking = Braking::start(mount).await;
        let began = Instant::now();
        let crowd = load(&braking);
        let shares = CpuShares::start(&[braking.agent.process.pid(), crowd.pid()]);
        let reached = braking.reach(began, levels).await;
        let (used_milli, others_milli) = shares.milli();
        let last = braking.read(Cpu).await.map(|(last, _)| last);
        drop(crowd);
        let how = format!(
            "{what}: L2 and L3 after {reached:?}, to be within {levels:?}; agent and crowd used {used_milli:?} milli-cores, \
             others {others_milli}; at last {last:?}"
        );
        if !reached.contains(&None) {
            return how;
        }
        assert!(others_milli * 100 > MOST_TAKEN * cpus() as u64 * 1000, "{how}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sustained_crowd_makes_the_node_shed_then_stop_at_any_queue_length() {
    let _machine = MACHINE.lock().await;
    let (tree, _pod) = tree("crowd");
    // The crowd runs with the same priority as the agent, not before it.
    let group = Limited::cpu("headroom-crowd", 100 * 1000 * cpus() as u64);
    for for_each_cpu in [16, 100, 300, 1000] {
        let crowd = |_: &Braking| SpinningThreads::start(for_each_cpu * cpus(), &[group.procs()]);
        let what = format!("{for_each_cpu} tasks for each CPU");
        println!("{}", sheds_and_stops(&what, tree.mount(), crowd).await);
    }
}

/// An agent that was compiled without optimization needs several times the CPU time of the one that is installed.
const WITHOUT_OPTIMIZATION: u64 = if cfg!(debug_assertions) { 3 } else { 1 };

#[tokio::test(flavor = "multi_thread")]
async fn agent_with_only_its_requested_weight_stops_a_fully_requested_node() {
    let _machine = MACHINE.lock().await;
    let (tree, _pod) = tree("weight");
    let own = Limited::requesting("headroom-own-request", WITHOUT_OPTIMIZATION * own_request_milli());
    // Twice the machine's capacity: the maximum that a node may publish.
    let pods = Limited::requesting("headroom-requests", 2 * 1000 * cpus() as u64);
    let crowd = |braking: &Braking| {
        let pid = braking.agent.process.pid();
        fs::write(own.procs(), pid.to_string()).expect("put the agent into its cgroup");
        SpinningThreads::start(100 * cpus(), &[pods.procs()])
    };
    println!(
        "{}",
        sheds_and_stops("an agent with its own weight", tree.mount(), crowd).await
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn hung_read_of_pod_usage_does_not_delay_the_stop_brake() {
    let _machine = MACHINE.lock().await;
    let mount = tempfile::tempdir().unwrap();
    let pod = mount.path().join(format!("kubepods/pod{UID}"));
    fs::create_dir_all(&pod).unwrap();
    fs::write(mount.path().join("cgroup.controllers"), "cpu memory\n").unwrap();
    // Opening a pipe for reading blocks until a writer opens it, like a read that waits for the kernel.
    let pipe = pod.join("cpu.stat");
    mkfifoat(rustix::fs::CWD, &pipe, Mode::from_raw_mode(0o600)).unwrap();
    let group = Limited::cpu("headroom-stuck", 100 * 1000 * cpus() as u64);
    let crowd = |_: &Braking| SpinningThreads::start(16 * cpus(), &[group.procs()]);
    println!("{}", sheds_and_stops("a stuck read", mount.path(), crowd).await);
    // It can be opened in this mode only while a reader waits.
    let flags = OFlags::WRONLY | OFlags::NONBLOCK;
    let mut braking = Braking::start(mount.path()).await;
    assert!(braking.read(Cpu).await.is_some());
    openat(rustix::fs::CWD, &pipe, flags, Mode::empty()).expect("a thread of the agent is stuck in its read");
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_that_fill_their_allowed_cpus_stop_a_node_with_spare_cpus() {
    let _machine = MACHINE.lock().await;
    let (mut tree, pod) = tree("cpuset");
    let own = last_cpu().expect("a CPU").to_string();
    let confined = tree.confine(&format!("{pod}/container"), &own);
    let group = Limited::cpu("headroom-cpuset", 100 * 1000);
    let crowd = |_: &Braking| SpinningThreads::start(16, &[group.procs(), confined.clone()]);
    println!(
        "{}",
        sheds_and_stops("one CPU for all pods", tree.mount(), crowd).await
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_at_its_own_limit_does_not_brake_the_node_and_all_pods_at_theirs_do() {
    let _machine = MACHINE.lock().await;
    let scanned = || Procfs::default().vmstat().expect("vmstat").scanned;
    let deadline = Instant::now() + as_long(UNDISTURBED_WITHIN);
    loop {
        assert!(
            Instant::now() < deadline,
            "the machine is short of memory or of time all the time"
        );
        let (tree, pod) = tree("memory");
        let container = format!("{pod}/container");
        tree.limit_memory(&pod, LIMIT_MIB);
        let mut braking = Braking::start(tree.mount()).await;
        let file = braking.node.folder.path().join("file");
        let before = scanned();
        // Writes a file larger than the limit, so that its pages are charged to the pod, and reads it all the time; a
        // process next to it is OOM-killed.
        let reader = || {
            let (file, bytes) = (file.display(), WANTED_MIB << 20);
            let script =
                format!("head -c {bytes} /dev/zero > {file}; while :; do cat {file} > /dev/null; done");
            let mut reader = tree.script(&container, &script);
            reader.begin();
            reader
        };
        let reading = reader();
        let mut hog = tree.hog(&container, WANTED_MIB);
        hog.begin();
        hog.await_kill();
        let seen = braking.observe(Memory, Brake::Hold).await;
        drop(reading);
        let pressure = seen.most(|second| second.psi_mem_some_ppm.into());
        let refaults = seen.most(|second| second.refault_mb_s);
        println!(
            "a pod at its limit: L{}, memory pressure {pressure} ppm, {refaults} MB/s refaulted",
            seen.brake
        );
        if seen.brake > 0 {
            assert!(scanned() > before, "{seen:#?}");
            continue;
        }
        if pressure < 10_000 && refaults < 50 {
            // Others left it too little time to read.
            continue;
        }

        tree.limit_memory("kubepods", LIMIT_MIB);
        tree.limit_memory(&pod, 1024);
        let _reading = reader();
        let began = Instant::now();
        loop {
            let now = braking.read(Memory).await;
            if let Some((_, part)) = now.as_ref().filter(|(_, part)| part.brake > 0) {
                println!(
                    "all pods at their limit: L{} after {:?}",
                    part.brake,
                    began.elapsed()
                );
                return;
            }
            assert!(began.elapsed() < as_long(PRESSED_WITHIN), "no brake: {now:#?}");
            sleep(LOOK_EVERY).await;
        }
    }
}
