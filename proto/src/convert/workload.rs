//! Conversions for the profiles of workloads: the use of pods in a report, and profiles in a directive.

use std::collections::BTreeMap;

use headroom_domain::{
    hint::{FrameUse, PodFrameUse},
    resource::{PerResource, Resource},
    workload::{HourlyUse, LARGEST_PPM, SLOTS, SlotUse, Workload, WorkloadProfile},
};

use super::{LARGEST, MOST_PODS, WireError, name, ppm};
use crate::v1alpha1 as wire;

/// Seconds in a day.
const DAY_SECONDS: u32 = 86_400;

impl TryFrom<wire::FrameUse> for FrameUse {
    type Error = WireError;

    fn try_from(message: wire::FrameUse) -> Result<Self, WireError> {
        let wire::FrameUse { frame, pods } = message;
        if pods.len() > MOST_PODS {
            return Err(WireError::new(
                "frame_use.pods",
                format!("{} pods exceed the limit of {MOST_PODS}", pods.len()),
            ));
        }
        Ok(Self {
            frame,
            pods: pods.into_iter().map(pod_use).collect::<Result<_, _>>()?,
        })
    }
}

fn pod_use(message: wire::PodUse) -> Result<PodFrameUse, WireError> {
    let wire::PodUse { pod_uid, low, high } = message;
    Ok(PodFrameUse {
        uid: name("frame_use.pods.pod_uid", pod_uid)?,
        low: low.map_or_else(PerResource::default, PerResource::from),
        high: high.map_or_else(PerResource::default, PerResource::from),
    })
}

impl From<&FrameUse> for wire::FrameUse {
    fn from(used: &FrameUse) -> Self {
        let pods = used.pods.iter().map(|pod| wire::PodUse {
            pod_uid: pod.uid.clone(),
            low: Some(pod.low.into()),
            high: Some(pod.high.into()),
        });
        Self {
            frame: used.frame,
            pods: pods.collect(),
        }
    }
}

/// Profiles of one replica, with the time of its day.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WorkloadDirective {
    /// Seconds since midnight of the replica's clock.
    pub seconds_of_day: u32,
    /// Profiles by controller and version.
    pub profiles: BTreeMap<Workload, WorkloadProfile>,
}

impl From<&WorkloadDirective> for wire::Workloads {
    fn from(directive: &WorkloadDirective) -> Self {
        let profiles = directive.profiles.iter().map(|(workload, profile)| {
            let part = |resource| Some(hourly_message(profile, resource));
            wire::WorkloadProfile {
                controller: workload.controller,
                version: workload.version,
                cpu: part(Resource::Cpu),
                memory: part(Resource::Memory),
            }
        });
        Self {
            seconds_of_day: directive.seconds_of_day,
            profiles: profiles.collect(),
        }
    }
}

fn hourly_message(profile: &WorkloadProfile, resource: Resource) -> wire::HourlyUse {
    let hourly = profile.hourly.get(resource);
    let slots = || (0..SLOTS).map(|slot| hourly.slot(slot).unwrap_or_default());
    wire::HourlyUse {
        mean_ppm: slots().map(|used| used.mean_ppm).collect(),
        excess_ppm: slots().map(|used| used.excess_ppm).collect(),
        request: *profile.request.get(resource),
        trust_ppm: *profile.trust_ppm.get(resource),
    }
}

impl TryFrom<wire::Workloads> for WorkloadDirective {
    type Error = WireError;

    fn try_from(message: wire::Workloads) -> Result<Self, WireError> {
        let wire::Workloads {
            seconds_of_day,
            profiles,
        } = message;
        if seconds_of_day >= DAY_SECONDS {
            return Err(WireError::new(
                "workloads.seconds_of_day",
                format!("{seconds_of_day} is not a time of the day"),
            ));
        }
        if profiles.len() > MOST_PODS {
            return Err(WireError::new(
                "workloads.profiles",
                format!("{} profiles exceed the limit of {MOST_PODS}", profiles.len()),
            ));
        }
        let profiles = profiles.into_iter().map(profile_of);
        Ok(Self {
            seconds_of_day,
            profiles: profiles.collect::<Result<_, _>>()?,
        })
    }
}

fn profile_of(message: wire::WorkloadProfile) -> Result<(Workload, WorkloadProfile), WireError> {
    let wire::WorkloadProfile {
        controller,
        version,
        cpu,
        memory,
    } = message;
    let mut profile = WorkloadProfile::default();
    for (resource, part) in [(Resource::Cpu, cpu), (Resource::Memory, memory)] {
        let wire::HourlyUse {
            mean_ppm,
            excess_ppm,
            request,
            trust_ppm,
        } = part.unwrap_or_default();
        *profile.hourly.get_mut(resource) = hourly_use(&mean_ppm, &excess_ppm)?;
        *profile.request.get_mut(resource) = request.min(*LARGEST.get(resource));
        *profile.trust_ppm.get_mut(resource) = ppm("workloads.trust_ppm", trust_ppm, 1_000_000)?;
    }
    Ok((Workload { controller, version }, profile))
}

/// An absent list counts as no observation.
fn hourly_use(mean_ppm: &[u32], excess_ppm: &[u32]) -> Result<HourlyUse, WireError> {
    if mean_ppm.len() != excess_ppm.len() || ![0, SLOTS].contains(&mean_ppm.len()) {
        return Err(WireError::new(
            "workloads.mean_ppm",
            format!("does not contain {SLOTS} hours"),
        ));
    }
    let mut hourly = HourlyUse::default();
    for (slot, (mean_ppm, excess_ppm)) in mean_ppm.iter().zip(excess_ppm).enumerate() {
        let used = SlotUse {
            mean_ppm: ppm("workloads.mean_ppm", *mean_ppm, LARGEST_PPM)?,
            excess_ppm: ppm("workloads.excess_ppm", *excess_ppm, LARGEST_PPM)?,
        };
        hourly.set(slot, (*mean_ppm > 0).then_some(used));
    }
    Ok(hourly)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directive() -> WorkloadDirective {
        let mut cpu = HourlyUse::default();
        cpu.set(
            3,
            Some(SlotUse {
                mean_ppm: 400_000,
                excess_ppm: 120_000,
            }),
        );
        let profile = WorkloadProfile {
            hourly: PerResource {
                cpu,
                memory: HourlyUse::default(),
            },
            request: PerResource {
                cpu: 1000,
                memory: 1 << 30,
            },
            trust_ppm: PerResource {
                cpu: 800_000,
                memory: 0,
            },
        };
        let workload = Workload {
            controller: u64::MAX,
            version: 7,
        };
        WorkloadDirective {
            seconds_of_day: 86_399,
            profiles: BTreeMap::from([(workload, profile)]),
        }
    }

    #[test]
    fn profiles_survive_the_wire() {
        let message = wire::Workloads::from(&directive());
        assert_eq!(WorkloadDirective::try_from(message).unwrap(), directive());
    }

    #[test]
    fn impossible_profiles_are_refused() {
        let refused = |change: fn(&mut wire::Workloads)| {
            let mut message = wire::Workloads::from(&directive());
            change(&mut message);
            WorkloadDirective::try_from(message).unwrap_err().field
        };
        assert_eq!(
            refused(|message| message.seconds_of_day = 86_400),
            "workloads.seconds_of_day"
        );
        let first = |message: &mut wire::Workloads, change: fn(&mut wire::HourlyUse)| {
            change(message.profiles[0].cpu.as_mut().unwrap());
            WorkloadDirective::try_from(message.clone()).unwrap_err().field
        };
        let mut message = wire::Workloads::from(&directive());
        assert_eq!(
            first(&mut message, |cpu| cpu.trust_ppm = 1_000_001),
            "workloads.trust_ppm"
        );
        let mut message = wire::Workloads::from(&directive());
        assert_eq!(
            first(&mut message, |cpu| cpu.mean_ppm.truncate(23)),
            "workloads.mean_ppm"
        );
        let mut message = wire::Workloads::from(&directive());
        assert_eq!(
            first(&mut message, |cpu| cpu.mean_ppm[0] = LARGEST_PPM + 1),
            "workloads.mean_ppm"
        );
    }
}
