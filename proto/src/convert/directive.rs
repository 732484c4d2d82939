//! Conversions of directives to agents: a replica's view of a node, its pods and its policy.

use headroom_domain::{
    estimate::{PodRequest, Profile, View},
    policy::{AnnotationEffect, Bounds, Floor, InForce, Policy, Source},
    ratio::Cents,
    resource::{PerResource, Resource},
    workload::Workload,
};

use super::{LARGEST, MOST_PODS, WireError, name};
use crate::v1alpha1 as wire;

impl wire::Policy {
    /// Policy for an agent, with the timing profiles that the server accepts.
    pub fn from_domain(policy: &Policy, timing_allowed: &[Profile]) -> Self {
        let Policy {
            mode,
            bounds,
            static_max: _,
            floor,
            annotations: _,
            target_ppm,
        } = policy;
        let part = |resource: Resource| {
            let Bounds { min, max } = *bounds.get(resource);
            wire::Bounds {
                min_cents: min.0,
                max_cents: max.0,
                target_ppm: *target_ppm.get(resource),
            }
        };
        Self {
            mode: wire::AmplificationMode::from(*mode).into(),
            cpu: Some(part(Resource::Cpu)),
            memory: Some(part(Resource::Memory)),
            floor: match floor {
                Floor::Requests => wire::Floor::Requests,
                Floor::None => wire::Floor::None,
            }
            .into(),
            timing_allowed: timing_allowed
                .iter()
                .map(|&profile| wire::Timing::from(profile).into())
                .collect(),
            quarantine: String::new(),
        }
    }
}

impl wire::PolicyInForce {
    /// Policy in force for a node, for users of the debug service.
    pub fn from_domain(in_force: &InForce, timing_allowed: &[Profile]) -> Self {
        let InForce {
            policy,
            mode_from,
            entry,
        } = in_force;
        let PerResource { cpu, memory } = policy.static_max;
        Self {
            policy: Some(wire::Policy::from_domain(policy, timing_allowed)),
            static_max_cpu_cents: cpu.0,
            static_max_memory_cents: memory.0,
            mode_from: mode_from.name().to_owned(),
            annotations: policy.annotations.name().to_owned(),
            entry: entry.clone().unwrap_or_default(),
        }
    }
}

impl TryFrom<wire::PolicyInForce> for InForce {
    type Error = WireError;

    fn try_from(message: wire::PolicyInForce) -> Result<Self, WireError> {
        let wire::PolicyInForce {
            policy,
            static_max_cpu_cents,
            static_max_memory_cents,
            mode_from,
            entry,
            annotations,
        } = message;
        let policy = policy.ok_or_else(|| WireError::new("policy", "is missing"))?;
        let (bounds, target_ppm) = agent_policy(&policy)?;
        let static_max = |field: &str, cents: u32| {
            Bounds::new(Cents::ONE, Cents(cents))
                .map(|bounds| bounds.max)
                .map_err(|error| WireError::new(field, error.to_string()))
        };
        // A webhook of an earlier version sends none.
        let effect = |text: &str| {
            AnnotationEffect::ALL
                .into_iter()
                .find(|effect| effect.name() == text)
        };
        let effect = Some(annotations.as_str())
            .filter(|text| !text.is_empty())
            .map(effect);
        let known = Source::ALL.into_iter().find(|source| source.name() == mode_from);
        Ok(Self {
            policy: Policy {
                mode: policy.mode().try_into()?,
                bounds,
                static_max: PerResource {
                    cpu: static_max("static_max_cpu_cents", static_max_cpu_cents)?,
                    memory: static_max("static_max_memory_cents", static_max_memory_cents)?,
                },
                floor: match policy.floor() {
                    wire::Floor::Unspecified => return Err(WireError::new("floor", "is unspecified")),
                    wire::Floor::Requests => Floor::Requests,
                    wire::Floor::None => Floor::None,
                },
                annotations: effect
                    .unwrap_or(Some(AnnotationEffect::All))
                    .ok_or_else(|| WireError::new("annotations", format!("{annotations:?} is not known")))?,
                target_ppm,
            },
            mode_from: known
                .ok_or_else(|| WireError::new("mode_from", format!("{mode_from:?} is not known")))?,
            entry: Some(entry).filter(|entry| !entry.is_empty()),
        })
    }
}

/// Content of the directives that an agent uses: the estimator's view, with the Node's capacity instead of the
/// machine's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeView {
    /// UID of the Node object.
    pub node_uid: String,
    /// View of the node, with the Node object's capacity and, until a policy arrives, the default policy's bounds.
    pub view: View,
    /// True while the Node's condition `MemoryPressure` is true.
    pub has_memory_pressure: bool,
}

impl TryFrom<wire::Pods> for NodeView {
    type Error = WireError;

    fn try_from(message: wire::Pods) -> Result<Self, WireError> {
        let wire::Pods {
            generation,
            node_uid,
            capacity,
            raw_allocatable,
            pods,
            memory_pressure,
            admitted,
        } = message;
        if pods.len() > MOST_PODS {
            return Err(WireError::new(
                "pods",
                format!("{} pods exceed the limit of {MOST_PODS}", pods.len()),
            ));
        }
        let amounts = |field: &str, amounts: Option<wire::Amounts>| {
            let amounts: PerResource<u64> =
                amounts.ok_or_else(|| WireError::new(field, "is missing"))?.into();
            for resource in Resource::ALL {
                let (value, most) = (*amounts.get(resource), *LARGEST.get(resource));
                if value == 0 || value > most {
                    return Err(WireError::new(
                        format!("{field}.{resource}"),
                        format!("{value} is outside 1..{most}"),
                    ));
                }
            }
            Ok(amounts)
        };
        let policy = Policy::default();
        let pods = pods.into_iter().map(pod_request).collect::<Result<_, _>>()?;
        let view = View {
            generation,
            capacity: amounts("capacity", capacity)?,
            raw: amounts("raw_allocatable", raw_allocatable)?,
            pods,
            admitted: admitted.map_or_else(PerResource::default, PerResource::from),
            bounds: policy.bounds,
            target_ppm: policy.target_ppm,
        };
        Ok(Self {
            node_uid: name("node_uid", node_uid)?,
            view,
            has_memory_pressure: memory_pressure,
        })
    }
}

fn pod_request(pod: wire::PodRequest) -> Result<(String, PodRequest), WireError> {
    let wire::PodRequest {
        uid,
        cpu_milli,
        memory_bytes,
        qos,
        deleting,
        controller,
        version,
    } = pod;
    let requests = PerResource {
        cpu: cpu_milli,
        memory: memory_bytes,
    };
    for resource in Resource::ALL {
        let (value, most) = (*requests.get(resource), *LARGEST.get(resource));
        if value > most {
            return Err(WireError::new(
                format!("pods.{resource}"),
                format!("{value} is above {most}"),
            ));
        }
    }
    Ok((
        name("pods.uid", uid)?,
        PodRequest {
            requests,
            is_deleting: deleting,
            is_guaranteed: qos == i32::from(wire::Qos::Guaranteed),
            has_own_cpus: false,
            workload: (controller != 0).then_some(Workload { controller, version }),
        },
    ))
}

/// Bounds and targets per resource in a policy directive, the part that agents use.
///
/// # Errors
/// If bounds are missing or out of range, or a target is outside 1 to 1,000,000 ppm.
pub fn agent_policy(policy: &wire::Policy) -> Result<(PerResource<Bounds>, PerResource<u32>), WireError> {
    let part = |resource: Resource| {
        let (field, bounds) = match resource {
            Resource::Cpu => ("cpu", &policy.cpu),
            Resource::Memory => ("memory", &policy.memory),
        };
        let wire::Bounds {
            min_cents,
            max_cents,
            target_ppm,
        } = bounds.ok_or_else(|| WireError::new(field, "is missing"))?;
        if !(1..=1_000_000).contains(&target_ppm) {
            return Err(WireError::new(
                format!("{field}.target_ppm"),
                format!("{target_ppm} is outside 1..1000000"),
            ));
        }
        let bounds = Bounds::new(Cents(min_cents), Cents(max_cents))
            .map_err(|error| WireError::new(field, error.to_string()))?;
        Ok((bounds, target_ppm))
    };
    let (cpu, memory) = (part(Resource::Cpu)?, part(Resource::Memory)?);
    Ok((
        PerResource {
            cpu: cpu.0,
            memory: memory.0,
        },
        PerResource {
            cpu: cpu.1,
            memory: memory.1,
        },
    ))
}
