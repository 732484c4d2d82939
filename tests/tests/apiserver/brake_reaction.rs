//! A brake halves a node's free capacity in etcd in time, also while the primary replica is stopped: the benches of
//! `brake_reaction` as tests, with production durations. Needs root, as the agent counts with its kernel programs and pods
//! have cgroups.

use e2e::built::programs;
use headroom_bench::brake_reaction::{OOM_S, SATURATION_S, cut_off, measure};

/// Number of runs; over them the load starts at different points of a brake period.
const RUNS: u16 = 20;

#[ignore = "measures for minutes and needs the CPUs for itself: cargo xtask test --long measurements"]
#[tokio::test(flavor = "multi_thread")]
async fn free_capacity_is_halved_in_etcd_in_time_after_saturation_and_after_an_oom_kill() {
    let report = measure(programs().await, RUNS).await.expect("a measurement");
    println!("{report:#?}");
    assert!(report.saturation_s_p99 <= SATURATION_S, "{report:#?}");
    assert!(report.oom_s_max <= OOM_S, "{report:#?}");
}

#[ignore = "measures for minutes and needs the CPUs for itself: cargo xtask test --long measurements"]
#[tokio::test(flavor = "multi_thread")]
async fn free_cpu_is_halved_in_etcd_in_time_while_the_primary_replica_is_stopped() {
    let report = cut_off::measure(programs().await, RUNS)
        .await
        .expect("a measurement");
    println!("{report:#?}");
    assert!(report.saturation_s_p99 <= SATURATION_S, "{report:#?}");
}
