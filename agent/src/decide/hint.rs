//! `hint` builds a report (`NodeHint`) from the estimates, the machine, the last measurements and the signals.

use headroom_domain::{
    estimate::Estimate,
    hint::{NodeHint, PodTrust, ResourceHint, Signal},
    resource::{PerResource, Resource},
};

use super::{
    Identity,
    inputs::{EstimatorInputs, Reportable},
    machine::Machine,
    period::ppm,
    status::StatusView,
};
use crate::local::status::SignalStatus;

/// The report of that number.
pub(super) fn hint(
    identity: &Identity,
    inputs: &EstimatorInputs,
    view: &StatusView,
    state: &Reportable,
    seq: u64,
) -> NodeHint {
    let usage = PerResource {
        cpu: view.last().frame.used_milli(),
        memory: view.last().memory_bytes,
    };
    let trust = inputs.trust().into_iter().map(|trust| PodTrust {
        exclusive_cpus_milli: inputs.exclusive().of_pod(&trust.uid),
        uid: trust.uid,
        cpu_ppm: trust.ppm.cpu,
        memory_ppm: trust.ppm.memory,
    });
    let capacity_milli = inputs.machine().capacity().cpu;
    NodeHint {
        node: identity.node.clone(),
        node_uid: state.node_uid.clone(),
        boot_id: identity.boot_id.clone(),
        seq,
        // Each stream sets this for itself.
        is_primary: false,
        pods_generation: state.generation,
        sight: state.mode,
        timing: inputs.timing(),
        is_draining: false,
        resources: state.estimates.map(|resource, estimate| {
            resource_hint(inputs.machine(), resource, estimate, *usage.get(resource))
        }),
        trust: trust.collect(),
        steal_ppm: ppm(view.last().second.steal_milli(), capacity_milli).min(1_000_000),
        signals: signals(view, inputs),
        past: Some(inputs.past(state.at)),
        frame_use: inputs.frame_use(),
    }
}

/// The Node counts isolated CPUs; the capacity of pods does not.
fn resource_hint(machine: &Machine, resource: Resource, estimate: &Estimate, usage: u64) -> ResourceHint {
    let hint = estimate.hint(usage);
    let isolated = match resource {
        Resource::Cpu => machine.isolated_milli(),
        Resource::Memory => 0,
    };
    ResourceHint {
        capacity: hint.capacity.saturating_add(isolated),
        isolated,
        ..hint
    }
}

/// Every signal that has a value now.
fn signals(view: &StatusView, inputs: &EstimatorInputs) -> Vec<Signal> {
    let statuses = view.signal_status(inputs, view.measured(inputs)).into_iter();
    let measured = statuses.filter_map(|status| {
        let SignalStatus {
            name, unit, value, ..
        } = status;
        let value = value?;
        Some(Signal { name, unit, value })
    });
    measured.collect()
}
