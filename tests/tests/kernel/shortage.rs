//! Tests of the memory brakes: which of them fire, and how soon, on a machine that really runs short of memory, and on
//! one whose pods only reach their own limits.
//!
//! A real shortage harms everything else on a machine, so a small one is booted for these tests alone:
//! `cargo xtask test --vm`. Elsewhere they are listed as ignored.
#![expect(clippy::unwrap_used, reason = "tests panic: a returned error has no stack")]

use std::{
    fs,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use e2e::{
    agent::{AgentNode, Running},
    kernel::LOOK_EVERY,
    pace::happens_within,
    pod_tree::{PodTree, Tenant},
};
use headroom_agent::{
    local::status::ResourceStatus,
    sample::{
        memory::{Meminfo, Vmstat},
        procfs::Procfs,
    },
};
use headroom_domain::{estimate::Profile, hint::Brake, resource::Resource::Memory};

const UID: &str = "0b1c7a52-3f4e-4d6b-9a1e-2c3d4e5f6a7b";
/// Time for which pods crash at their limit.
const CRASH_FOR: Duration = Duration::from_secs(180);
/// Maximum time until a kill and a stall brake.
const KILL_BRAKES_WITHIN: Duration = Duration::from_secs(2);
const STALL_BRAKES_WITHIN: Duration = Duration::from_millis(12_500);
/// The machine is to have no more, in bytes: filling it must not take long.
const LARGEST: u64 = 4 << 30;

/// An agent with production timing, and the cgroups that it reads.
struct Scene {
    tree: PodTree,
    node: AgentNode,
    agent: Running,
}

impl Scene {
    /// With a pod that has a container, and nothing in it.
    async fn start(name: &str) -> Self {
        let meminfo = Procfs::default().meminfo().unwrap();
        assert!(meminfo.total <= LARGEST, "not on this machine: {meminfo:?}");
        let tree = PodTree::create(name);
        tree.add(&container());
        let node = AgentNode::start().await;
        let mut agent = node
            .agent_with(|options| {
                options.timing = Profile::Production;
                "ebpf".clone_into(&mut options.source);
                options.flags = vec![format!("--cgroup-root={}", tree.mount().display())];
            })
            .await;
        agent
            .status_until("a second was measured", |status| status.measured.is_some())
            .await;
        Self { tree, node, agent }
    }

    async fn memory(&mut self) -> ResourceStatus {
        self.agent.process.check().unwrap();
        let status = self.agent.status().await.unwrap();
        status.resource(Memory).unwrap().clone()
    }

    /// A process outside pods that fills the page cache with files that are not read again: kswapd works for it.
    fn scanner(&self, name: &str) -> Tenant {
        self.tree.add("system");
        let folder = self.node.folder.path().join(name);
        fs::create_dir(&folder).unwrap();
        // Files of holes: their pages are the cache's like all others, and nothing waits for a disk.
        let script = format!(
            "cd {}; i=0; while :; do truncate -s 64M $i; cat $i > /dev/null; i=$((i+1)); done",
            folder.display()
        );
        let mut scanner = self.tree.script("system", &script);
        scanner.begin();
        scanner
    }
}

fn container() -> String {
    format!("kubepods/burstable/pod{UID}/container")
}

fn vmstat() -> Vmstat {
    Procfs::default().vmstat().unwrap()
}

fn available() -> Meminfo {
    Procfs::default().meminfo().unwrap()
}

fn mib(bytes: u64) -> usize {
    usize::try_from(bytes >> 20).unwrap()
}

/// Lets kswapd run only on an idle CPU: tasks that need memory then reclaim it themselves.
fn hamper_kswapd() {
    let mut processes = fs::read_dir("/proc").unwrap().map(Result::unwrap);
    let kswapd = processes
        .find(|process| {
            let name = fs::read_to_string(process.path().join("comm"));
            name.is_ok_and(|name| name.trim() == "kswapd0")
        })
        .unwrap();
    let status = Command::new("chrt")
        .args(["--idle", "--pid", "0"])
        .arg(kswapd.file_name())
        .status();
    assert!(status.unwrap().success(), "{kswapd:?}");
}

/// Allocates memory until this much is left.
fn fill(tree: &PodTree, cgroup: &str, left: u64) -> Tenant {
    let mut hog = tree.hog(cgroup, mib(available().available.saturating_sub(left)));
    hog.begin();
    hog
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a small machine of its own: cargo xtask test --vm"]
async fn pod_that_crash_loops_at_its_limit_for_three_minutes_fires_no_brake() {
    let mut scene = Scene::start("crash").await;
    scene.tree.limit_memory(&container(), 24);
    let scanning = scene.scanner("cache");
    let deadline = Instant::now() + happens_within();
    let before = vmstat();
    while vmstat().scanned == before.scanned {
        assert!(Instant::now() < deadline, "kswapd is idle: {:?}", available());
        thread::sleep(LOOK_EVERY);
    }
    let began = Instant::now();
    let (mut kills, mut highest) = (0, 0);
    while began.elapsed() < CRASH_FOR {
        let mut hog = scene.tree.hog(&container(), 96);
        hog.begin();
        hog.await_kill();
        kills += 1;
        let memory = scene.memory().await;
        // The brake that a kill requires; the reader of files may require a lower one.
        highest = highest.max(memory.brake);
        assert!(
            highest < Brake::Stop.level(),
            "{memory:?} after {kills} kills: {:?}; {}",
            scene.agent.status().await,
            scene.agent.log()
        );
    }
    drop(scanning);
    let after = vmstat();
    println!(
        "{kills} kills at a pod's limit and {} pages scanned for the machine: at most L{highest}",
        after.scanned - before.scanned
    );
    assert!(
        kills >= 10 && after.scanned > before.scanned,
        "{kills} kills, {after:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a small machine of its own: cargo xtask test --vm"]
async fn oom_kill_of_the_machine_stops_the_node_within_two_seconds() {
    let mut scene = Scene::start("kill").await;
    let killed = vmstat().oom_kills;
    // More than the machine has: the kernel kills the largest process.
    let mut hog = scene.tree.hog(&container(), mib(available().total));
    hog.begin();
    let deadline = Instant::now() + happens_within();
    while vmstat().oom_kills == killed {
        assert!(
            Instant::now() < deadline,
            "no process is killed: {:?}",
            available()
        );
        thread::sleep(LOOK_EVERY);
    }
    let began = Instant::now();
    loop {
        let memory = scene.memory().await;
        let took = began.elapsed();
        if memory.brake == Brake::Stop.level() {
            println!("L3 {took:?} after the kill was counted");
            return;
        }
        assert!(took < KILL_BRAKES_WITHIN, "no brake: {memory:?}");
        thread::sleep(LOOK_EVERY);
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a small machine of its own: cargo xtask test --vm"]
async fn tasks_that_must_reclaim_for_the_machine_themselves_brake_within_a_period() {
    let mut scene = Scene::start("stall").await;
    let stalls = vmstat().stalls;
    let holding = fill(&scene.tree, &container(), 256 << 20);
    hamper_kswapd();
    // One for each CPU, so that nothing is left to kswapd.
    let scanning = ["cache", "more-cache"].map(|name| scene.scanner(name));
    let deadline = Instant::now() + happens_within();
    while vmstat().stalls == stalls {
        assert!(
            Instant::now() < deadline,
            "no memory is reclaimed: {:?}",
            available()
        );
        thread::sleep(LOOK_EVERY);
    }
    let began = Instant::now();
    loop {
        let memory = scene.memory().await;
        let took = began.elapsed();
        if memory.brake > 0 {
            println!(
                "L{} {took:?} after the first stall: {:?}",
                memory.brake, memory.reasons
            );
            break;
        }
        assert!(took < STALL_BRAKES_WITHIN, "no brake: {memory:?}");
        thread::sleep(LOOK_EVERY);
    }
    drop((scanning, holding));
}
