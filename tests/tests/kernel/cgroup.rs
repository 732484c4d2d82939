//! Tests of the agent's readers of pods on the real cgroup hierarchies of this machine: version 1 or 2, whichever has
//! the controllers.
#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "tests panic: a returned error has no stack"
)]

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use e2e::{
    kernel::LOOK_EVERY,
    pace::happens_within,
    pod_tree::{PodTree, Tenant},
};
use headroom_agent::sample::{
    cgroup::{Kubepods, Pod},
    memory::{KillCounts, KillJudge, Kills, MemoryCounters, Vmstat},
    procfs::Procfs,
};

const UID: &str = "0b1c7a52-3f4e-4d6b-9a1e-2c3d4e5f6a7b";
const OTHER: &str = "5d2f0c14-8a77-4f0e-b1c3-9e8d7c6b5a40";
const MIB: u64 = 1 << 20;

fn kubepods(tree: &PodTree) -> Kubepods {
    Kubepods::find(tree.mount()).expect("kubepods of this test")
}

fn pod(kubepods: &Kubepods, uid: &str) -> Pod {
    let mut pods = kubepods.scan().unwrap().pods.into_iter();
    pods.find(|pod| pod.uid == uid).expect("pod of this test")
}

fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + happens_within();
    while !is_so() {
        assert!(Instant::now() < deadline, "not in {:?}: {what}", happens_within());
        thread::sleep(LOOK_EVERY);
    }
}

#[test]
fn cpu_time_of_a_pod_equals_the_kernels_account() {
    let tree = PodTree::create("cpu");
    let container = format!("kubepods/burstable/pod{UID}/container");
    tree.add(&container);
    tree.add(&format!("kubepods/pod{OTHER}/container"));
    let mut spinner = tree.script(&container, "while :; do :; done");
    let kubepods = kubepods(&tree);
    let (busy, idle) = (pod(&kubepods, UID), pod(&kubepods, OTHER));
    spinner.begin();
    // The count between two readings of the pod is at least the kernel's time between its inner readings and at most
    // that between its outer ones.
    let read = |spinner: &Tenant| {
        let before = spinner.cpu_ns();
        let counted = kubepods.cpu_ns(&busy).unwrap().expect("a pod");
        (before, counted, spinner.cpu_ns())
    };
    let start = read(&spinner);
    eventually("300 ms of CPU", || {
        spinner.cpu_ns() - start.2 >= Duration::from_millis(300).as_nanos().try_into().unwrap()
    });
    let end = read(&spinner);
    let (inner, counted, outer) = (end.0 - start.2, end.1 - start.1, end.2 - start.0);
    // Version 2 cuts off at microseconds.
    assert!(
        counted + 1_000 >= inner && counted <= outer + 1_000,
        "the loop {inner}..={outer} ns, its pod {counted} ns"
    );
    assert_eq!(kubepods.cpu_ns(&idle).unwrap(), Some(0));
    assert!(kubepods.total_cpu_ns().unwrap() >= Some(end.1));
    assert!(kubepods.is_populated(&busy).unwrap() && !kubepods.is_populated(&idle).unwrap());
}

#[test]
fn pods_memory_counts_anonymous_pages_fully_and_file_pages_at_most_half() {
    const ANONYMOUS: u64 = 48 * MIB;
    const FILE: u64 = 32 * MIB;
    // Page tables, stacks, memory that each CPU has charged in advance, and counts that the kernel updates later.
    const SLACK: u64 = 8 * MIB;
    let tree = PodTree::create("memory");
    let container = format!("kubepods/besteffort/pod{UID}/container");
    tree.add(&container);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    let script = format!(
        "head -c {FILE} /dev/zero > {0} && cat {0} {0} > /dev/null",
        file.display()
    );
    let mut reader = tree.script(&container, &script);
    let mut hog = tree.hog(&container, usize::try_from(ANONYMOUS / MIB).unwrap());
    let kubepods = kubepods(&tree);
    let pod = pod(&kubepods, UID);
    let memory = || kubepods.memory(&pod).unwrap().expect("a pod");

    let empty = memory();
    hog.begin();
    eventually("anonymous memory", || memory().low >= empty.low + ANONYMOUS);
    let held = memory();
    assert!(
        held.low <= empty.low + ANONYMOUS + SLACK && held.high >= held.low,
        "{empty:?} {held:?}"
    );
    reader.begin();
    reader.await_end();
    eventually("as much anonymous memory, and half of the file's pages", || {
        let cached = memory();
        cached.low.abs_diff(held.low) <= SLACK && cached.high <= held.high + FILE / 2 + SLACK
    });
    // The kernel adds up the parent and the pod at different moments.
    eventually("the pod's memory as a part of all pods'", || {
        let cached = memory();
        kubepods.working_set().unwrap() >= Some(cached.high)
    });
    drop(hog);
    eventually("its end", || memory().low <= SLACK);
    // The file stays in the page cache: charged to the pod, but not freed with it.
    eventually("half of the file's pages", || memory().high <= FILE / 2 + SLACK);
}

#[test]
fn ended_pod_is_absent_without_an_error() {
    let tree = PodTree::create("ended");
    let cgroup = format!("kubepods/pod{UID}");
    tree.add(&cgroup);
    let kubepods = kubepods(&tree);
    let pod = pod(&kubepods, UID);
    assert!(kubepods.memory(&pod).unwrap().is_some());
    tree.remove(&cgroup);
    assert_eq!(kubepods.cpu_ns(&pod).unwrap(), None);
    assert_eq!(kubepods.memory(&pod).unwrap(), None);
    assert!(!kubepods.is_populated(&pod).unwrap());
    assert!(kubepods.scan().unwrap().pods.is_empty());
    tree.remove("kubepods");
    assert_eq!(kubepods.total_cpu_ns().unwrap(), None);
    assert_eq!(kubepods.working_set().unwrap(), None);
    assert_eq!(kubepods.limit_events().unwrap(), None);
    assert_eq!(Kubepods::find(tree.mount()), None);
}

#[test]
fn pods_created_and_removed_during_a_read_are_no_error() {
    let tree = PodTree::create("churn");
    tree.add("kubepods/burstable");
    let kubepods = kubepods(&tree);
    let is_over = AtomicBool::new(false);
    let (mut there, mut gone) = (0, 0);
    thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0_u32.. {
                let cgroup = format!("kubepods/burstable/pod{:08}/container", round % 8);
                tree.add(&cgroup);
                tree.remove(cgroup.strip_suffix("/container").unwrap());
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
            }
        });
        let deadline = Instant::now() + happens_within();
        while (there < 100 || gone < 20) && Instant::now() < deadline {
            for pod in kubepods.scan().unwrap().pods {
                let is_there =
                    kubepods.cpu_ns(&pod).unwrap().is_some() && kubepods.memory(&pod).unwrap().is_some();
                kubepods.is_populated(&pod).unwrap();
                *if is_there { &mut there } else { &mut gone } += 1;
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert!(
        there >= 100 && gone >= 20,
        "{there} read, {gone} deleted meanwhile"
    );
}

/// Difference of the counters around an event: times that kubepods met its own limit, and the kills by owner. For the
/// classification the whole machine was short of memory meanwhile.
fn judged(kubepods: &Kubepods, what: impl FnOnce()) -> (u64, Kills) {
    let (mut judge, mut at_ns) = (KillJudge::default(), 0);
    let mut read = || {
        at_ns += 250_000_000;
        let limit = kubepods.limit_events().unwrap();
        let vm = Vmstat {
            stalls: at_ns,
            ..Procfs::default().vmstat().unwrap()
        };
        let counted = KillCounts {
            at_ns,
            vm,
            victims: 0,
            limit,
        };
        let (kills, read) = judge.attribute(counted, || kubepods.pod_ooms());
        read.unwrap();
        MemoryCounters {
            vm: Some(vm),
            limit,
            kills,
            ..MemoryCounters::default()
        }
    };
    let before = read();
    what();
    let after = read();
    (
        after.since(&before, Duration::from_secs(1)).limit_hits,
        after.kills,
    )
}

#[test]
fn oom_kills_of_pods_kubepods_and_the_machine_are_distinguished() {
    let tree = PodTree::create("limit");
    let pods_limit = format!("kubepods/burstable/pod{UID}");
    let container = format!("{pods_limit}/container");
    tree.add(&container);
    tree.add("system");
    let kubepods = kubepods(&tree);
    let kill_in = |cgroup: &str| {
        let mut hog = tree.hog(cgroup, 96);
        hog.begin();
        hog.await_kill();
    };
    let kill = || kill_in(&container);
    for limited in [&pods_limit, &container] {
        tree.limit_memory(limited, 24);
        let not_charged = (0, Kills::default());
        assert_eq!(judged(&kubepods, kill), not_charged, "the limit of {limited}");
        tree.limit_memory(limited, 1_024);
    }
    tree.limit_memory("system", 24);
    let (hits, kills) = judged(&kubepods, || {
        kill_in("system");
        tree.limit_memory(&container, 24);
        kill();
    });
    tree.limit_memory(&container, 1_024);
    let expected = (0, Kills { node: 1, limit: 0 });
    assert_eq!((hits, kills), expected, "the system's, not hidden by the pod's");
    tree.limit_memory("kubepods", 24);
    let (hits, kills) = judged(&kubepods, kill);
    assert!(
        hits > 0 && kills.limit > 0 && kills.node == 0,
        "{hits} hits, {kills:?}"
    );
}

#[test]
fn refaults_grow_when_a_file_does_not_fit_into_the_cache() {
    let tree = PodTree::create("refault");
    let container = format!("kubepods/pod{UID}/container");
    tree.add(&container);
    tree.limit_memory(&container, 16);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    let path = file.display();
    // Written outside any limit, so that the cache starts without it.
    let script = format!("head -c 33554432 /dev/zero > {path} && cat {path} {path} {path} > /dev/null");
    let mut reader = tree.script(&container, &script);
    let refaulted = || Procfs::default().vmstat().unwrap().refaulted * 4_096;
    let before = refaulted();
    reader.begin();
    reader.await_end();
    let grown = refaulted() - before;
    assert!(grown >= 16 * MIB, "{grown} bytes of 64 MiB read again");
}
