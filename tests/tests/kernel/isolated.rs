//! Tests of the brakes on a machine of two CPUs, one of them isolated (`isolcpus=1`). Pods get the other one, half of
//! the machine: a crowd on it stops the node.
//!
//! Such a kernel is booted for these tests alone: `cargo xtask test --vm`. Elsewhere they are listed as ignored.
#![expect(clippy::unwrap_used, reason = "tests panic: a returned error has no stack")]

use std::{
    fs,
    time::{Duration, Instant},
};

use e2e::{
    cgroup::Limited,
    cpu_load::{Loop, SpinningThreads},
};
use headroom_domain::{hint::Brake, resource::Resource::Cpu};

use super::brakes::{Braking, cpus, sheds_and_stops, tree};

/// The CPU that is left alone.
const ISOLATED: u32 = 1;

fn assert_isolated_cpu() {
    let isolated = fs::read_to_string("/sys/devices/system/cpu/isolated").unwrap();
    assert_eq!(isolated.trim(), ISOLATED.to_string(), "of {} CPUs", cpus());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a kernel with isolated CPUs: cargo xtask test --vm"]
async fn crowd_on_non_isolated_cpus_stops_the_node() {
    assert_isolated_cpu();
    let (tree, _pod) = tree("isolated");
    let group = Limited::cpu("headroom-isolated", 100 * 1000);
    // The scheduler puts none of them on the isolated CPU.
    let crowd = |_: &Braking| SpinningThreads::start(16, &[group.procs()]);
    println!(
        "{}",
        sheds_and_stops("16 tasks next to an idle isolated CPU", tree.mount(), crowd).await
    );
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a kernel with isolated CPUs: cargo xtask test --vm"]
async fn a_task_that_fills_the_isolated_cpu_alone_does_not_brake() {
    assert_isolated_cpu();
    let (tree, _pod) = tree("alone");
    let mut braking = Braking::start(tree.mount()).await;
    let task = Loop::start(ISOLATED, Duration::from_secs(1), Duration::ZERO);
    let (began, before_ns) = (Instant::now(), task.used_ns());
    let seen = braking.observe(Cpu, Brake::Hold).await;
    let used = Duration::from_nanos(task.used_ns() - before_ns);
    assert!(used > began.elapsed() / 2, "it ran for {used:?}");
    let busy = seen.most(|second| second.cpu_busy_milli);
    println!(
        "an isolated CPU filled: L{}, {busy} milli-cores at most",
        seen.brake
    );
    // Isolated CPUs are not among those that are counted.
    assert!(busy < 900 && seen.brake == 0, "{seen:#?}");
}
