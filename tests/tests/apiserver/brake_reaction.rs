//! How soon a brake halves a node's free capacity in etcd, with durations as in production: the bench, in small, and with
//! `HEADROOM_SOAK` set in full: twenty runs. Needs root, as the agent counts with its kernel programs and pods have cgroups.

use std::env;

use e2e::stand::programs;
use headroom_bench::brake_reaction::{OOM_S, SATURATION_S, measure};

/// Runs; the load comes early, in the middle and late in a period of the brakes.
const RUNS: u16 = 3;
/// Runs of the long form.
const SOAK_RUNS: u16 = 20;

#[tokio::test(flavor = "multi_thread")]
async fn free_capacity_is_halved_in_etcd_in_time_after_saturation_and_after_an_oom_kill() {
    let runs = env::var_os("HEADROOM_SOAK").map_or(RUNS, |_set| SOAK_RUNS);
    let report = measure(programs().await, runs).await.expect("a measurement");
    println!("{report:#?}");
    assert!(report.saturation_s_p99 <= SATURATION_S, "{report:#?}");
    assert!(report.oom_s_max <= OOM_S, "{report:#?}");
}
