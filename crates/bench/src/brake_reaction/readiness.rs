//! Predicates on a node and its agent's status for `run`: amplified allocatable, brakes, calm CPUs, readiness for a
//! run.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use headroom_agent::local::status::Status;
use headroom_domain::{
    capacity::amount,
    hint::Brake,
    resource::{PerResource, Resource},
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::quiet_day::RATIO;

/// Allocatable at the ratios of the quiet day.
pub(super) fn amplified(raw: &PerResource<u64>) -> PerResource<u64> {
    raw.map(|resource, raw| raw * RATIO.get(resource) / 100)
}

/// Limit of the contended windows of a period, in ppm: half of the threshold of L2. Starting node and agent causes
/// some contention too.
const CALM_PPM: u32 = 50_000;

/// True if a brake has already reduced free capacity; it stays for minutes.
pub(super) fn is_shed(status: &Status) -> bool {
    let shed = Brake::Shed.level();
    status.resources.iter().any(|part| part.brake >= shed)
}

/// True if the last period was calm.
pub(super) fn is_calm(status: &Status) -> bool {
    let measured = status.measured.as_ref();
    measured.is_some_and(|measured| measured.sigma8_ppm <= CALM_PPM)
}

/// True if the agent uses all signals, the ratios of the quiet day are in force, and a replica has accepted a report.
pub(super) fn is_settled(status: &Status) -> bool {
    let is_free = |resource: Resource| {
        let part = status.resource(resource);
        part.is_some_and(|part| u64::from(part.published_cents) == *RATIO.get(resource))
    };
    let is_accepted = status.streams.iter().any(|stream| {
        stream
            .last_ack
            .as_ref()
            .is_some_and(|ack| ack.verdict == "accepted")
    });
    status.mode == "FULL" && Resource::ALL.into_iter().all(is_free) && is_accepted
}

/// CPU and memory of a Node's resource list.
pub(super) fn amounts(list: &BTreeMap<String, Quantity>) -> Result<PerResource<u64>> {
    let of = |resource: Resource| {
        let text = &list.get(resource.name())?.0;
        amount(resource, &text.parse().ok()?)
    };
    let missing = || format!("no CPU or memory in {list:?}");
    Ok(PerResource {
        cpu: of(Resource::Cpu).with_context(missing)?,
        memory: of(Resource::Memory).with_context(missing)?,
    })
}
