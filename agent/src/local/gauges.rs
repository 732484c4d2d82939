//! `show` sets the Prometheus gauges to the values of `/status` before metrics are served. `start` registers it.

use headroom_domain::{hint::AgentMode, resource::Resource};

use super::{
    signals::SIGNALS,
    status::{Measured, PodsStatus, Status},
};
use crate::{
    kernel::probe::Health,
    metrics::{
        BRAKE, BURST, COVERAGE, CPU_BUSY, CPU_DEMAND, CPU_STEAL, EXCLUSIVE_CPUS, HOOKS, MEMORY_AVAILABLE,
        MEMORY_USED, MODE, PODS, PRESSURE, PUBLISHED, SIGMA8, SIGNAL_OK, WORKING_SET,
    },
};

/// Sets the gauges to the values in `/status`, when metrics are scraped.
#[expect(
    clippy::cast_precision_loss,
    reason = "a gauge is a float; 53 bits are more than is measured"
)]
pub fn show(status: &Status) {
    for mode in AgentMode::ALL {
        MODE.with([mode.name()])
            .set(f64::from(u8::from(status.mode == mode.name())));
    }
    for health in ["ok", "unsupported", "failed"] {
        let hooks = status.programs.iter().filter(|program| program.health == health);
        HOOKS.with([health]).set(hooks.count() as f64);
    }
    for (signal, shown) in SIGNALS.iter().zip(&status.signals) {
        let is_ok = shown.health == Health::Ok.name();
        SIGNAL_OK.with([signal.name]).set(f64::from(u8::from(is_ok)));
    }
    if let Some(measured) = &status.measured {
        show_measured(measured);
    }
    for resource in Resource::ALL {
        if let Some(part) = status.resource(resource) {
            PUBLISHED
                .with([resource.name()])
                .set(f64::from(part.published_cents) / 1e2);
            BRAKE.with([resource.name()]).set(f64::from(part.brake));
            COVERAGE
                .with([resource.name()])
                .set(f64::from(part.coverage_ppm) / 1e6);
        }
    }
    let PodsStatus {
        tracked,
        untracked,
        unreadable,
    } = status.pods;
    for (state, pods) in [
        ("tracked", tracked),
        ("untracked", untracked),
        ("unreadable", unreadable),
    ] {
        PODS.with([state]).set(pods as f64);
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a gauge is a float; 53 bits are more than is measured"
)]
fn show_measured(measured: &Measured) {
    for (gauge, milli) in [
        (&CPU_BUSY, measured.cpu_busy_milli),
        (&CPU_STEAL, measured.steal_milli),
        (&CPU_DEMAND, measured.cpu_demand_milli),
        (&EXCLUSIVE_CPUS, measured.exclusive_milli),
    ] {
        gauge.with([]).set(milli as f64 / 1e3);
    }
    for (gauge, bytes) in [
        (&MEMORY_USED, measured.mem_used_bytes),
        (&MEMORY_AVAILABLE, measured.mem_available_bytes),
        (&WORKING_SET, measured.working_set_bytes),
    ] {
        gauge.with([]).set(bytes as f64);
    }
    SIGMA8.with([]).set(f64::from(measured.sigma8_ppm) / 1e6);
    BURST.with([]).set(f64::from(measured.burst_ppm) / 1e6);
    for (of, ppm) in [
        (["cpu", "some"], measured.psi_cpu_some_ppm),
        (["memory", "some"], measured.psi_mem_some_ppm),
        (["memory", "full"], measured.psi_mem_full_ppm),
    ] {
        PRESSURE.with(of).set(f64::from(ppm) / 1e6);
    }
}
