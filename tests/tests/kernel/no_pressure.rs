//! Tests of the brakes on a kernel without accounts of pressure (`psi=0`): windows and waits stop the node. Without the
//! kernel programs no brake could fire, so the node stays at raw.
//!
//! Such a kernel is booted for these tests alone: `cargo xtask test --vm`. Elsewhere they are listed as ignored.

use std::path::Path;

use e2e::{agent::AgentNode, cgroup::Limited, cpu_load::SpinningThreads};
use headroom_domain::resource::Resource;

use super::brakes::{Braking, cpus, sheds_and_stops, tree};

fn assert_kernel_without_pressure() {
    assert!(
        !Path::new("/proc/pressure/cpu").exists(),
        "this kernel keeps an account of pressure"
    );
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a kernel that keeps no account of pressure: cargo xtask test --vm"]
async fn crowd_fires_the_stop_brake_by_windows_and_waits() {
    assert_kernel_without_pressure();
    let (tree, _pod) = tree("no-pressure");
    let group = Limited::cpu("headroom-no-pressure", 100 * 1000 * cpus() as u64);
    let crowd = |_: &Braking| SpinningThreads::start(16 * cpus(), &[group.procs()]);
    println!(
        "{}",
        sheds_and_stops("16 tasks for each CPU, psi=0", tree.mount(), crowd).await
    );
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a kernel that keeps no account of pressure: cargo xtask test --vm"]
async fn node_stays_at_raw_without_the_programs() {
    assert_kernel_without_pressure();
    let node = AgentNode::start().await;
    let mut agent = node.agent("procfs").await;
    let status = agent
        .status_until("the status has the reason", |status| {
            let cpu = status.resource(Resource::Cpu);
            cpu.is_some_and(|cpu| cpu.reasons.iter().any(|reason| reason == "no-brake"))
        })
        .await;
    let cpu = status.resource(Resource::Cpu).expect("CPU");
    assert_eq!(cpu.published_cents, 100, "{cpu:?}");
}
