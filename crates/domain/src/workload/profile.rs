//! [`WorkloadProfile`]: what a replica knows of one workload and sends to the agents that run its pods.

use super::HourlyUse;
use crate::resource::{PerResource, Resource};

/// Expected use and trust of the pods of one controller and version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WorkloadProfile {
    /// M and D by hour slot.
    pub hourly: PerResource<HourlyUse>,
    /// r̂: the largest request that was observed in every observed slot, in milli-cores or bytes.
    pub request: PerResource<u64>,
    /// Trust in new pods, in ppm.
    pub trust_ppm: PerResource<u32>,
}

impl WorkloadProfile {
    /// The careful combination of two replicas' profiles: the smallest trust and request, and the largest use.
    #[must_use]
    pub fn most_careful(&self, other: &Self) -> Self {
        let least = |resource: Resource| {
            let (own, others) = (self.trust_ppm.get(resource), other.trust_ppm.get(resource));
            *own.min(others)
        };
        Self {
            hourly: self
                .hourly
                .map(|resource, own| own.largest(other.hourly.get(resource))),
            request: self
                .request
                .map(|resource, own| *own.min(other.request.get(resource))),
            trust_ppm: PerResource::from_fn(least),
        }
    }
}
