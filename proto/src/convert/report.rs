//! Conversions of an agent's report: [`wire::HintReport`] ↔ [`NodeHint`].

use headroom_domain::{
    hint::{Beginning, FrameUse, NodeHint, Past, PodTrust, ResourceHint, Signal},
    resource::{PerResource, Resource},
};

use super::{
    MOST_PODS, WireError, known, name, ppm,
    resource::{resource_hint, resource_of},
};
use crate::v1alpha1 as wire;

/// Most signals of a report: about ten times the number that an agent has.
const MOST_SIGNALS: usize = 256;
/// Longest unit of a signal, in bytes.
const LONGEST_UNIT: usize = 32;

impl TryFrom<wire::HintReport> for NodeHint {
    type Error = WireError;

    fn try_from(report: wire::HintReport) -> Result<Self, WireError> {
        let wire::HintReport {
            node,
            node_uid,
            boot_id,
            seq,
            primary,
            pods_generation,
            mode,
            timing,
            draining,
            resources,
            trust,
            past,
            steal_ppm,
            signals,
            frame_use,
        } = report;
        if trust.len() > MOST_PODS {
            return Err(WireError::new(
                "trust",
                format!("{} pods exceed the limit of {MOST_PODS}", trust.len()),
            ));
        }
        if signals.len() > MOST_SIGNALS {
            return Err(WireError::new(
                "signals",
                format!("{} signals exceed the limit of {MOST_SIGNALS}", signals.len()),
            ));
        }
        Ok(Self {
            node: name("node", node)?,
            node_uid: name("node_uid", node_uid)?,
            boot_id: name("boot_id", boot_id)?,
            seq,
            is_primary: primary,
            pods_generation,
            sight: known::<wire::Mode>("mode", mode)?.try_into()?,
            timing: known::<wire::Timing>("timing", timing)?.try_into()?,
            is_draining: draining,
            resources: both(resources)?,
            trust: trust
                .into_iter()
                .map(PodTrust::try_from)
                .collect::<Result<_, _>>()?,
            past: past.map(Past::from),
            steal_ppm: ppm("steal_ppm", steal_ppm, 1_000_000)?,
            signals: signals
                .into_iter()
                .map(Signal::try_from)
                .collect::<Result<_, _>>()?,
            frame_use: frame_use.map(FrameUse::try_from).transpose()?,
        })
    }
}

impl TryFrom<wire::Signal> for Signal {
    type Error = WireError;

    fn try_from(signal: wire::Signal) -> Result<Self, WireError> {
        let wire::Signal {
            name: signal,
            unit,
            value,
        } = signal;
        if unit.len() > LONGEST_UNIT || unit.chars().any(char::is_control) {
            return Err(WireError::new("signals.unit", "is not a unit"));
        }
        Ok(Self {
            name: name("signals.name", signal)?,
            unit,
            value,
        })
    }
}

/// Requires exactly one entry per resource.
fn both(resources: Vec<wire::Resource>) -> Result<PerResource<ResourceHint>, WireError> {
    let mut found: PerResource<Option<ResourceHint>> = PerResource::default();
    for part in resources {
        let resource = Resource::from_name(&part.name).ok_or_else(|| {
            WireError::new("resources.name", format!("{:?} is not known", short(&part.name)))
        })?;
        let slot = found.get_mut(resource);
        if slot.is_some() {
            return Err(WireError::new("resources", format!("{resource} occurs twice")));
        }
        *slot = Some(resource_hint(resource, part)?);
    }
    match found {
        PerResource {
            cpu: Some(cpu),
            memory: Some(memory),
        } => Ok(PerResource { cpu, memory }),
        PerResource { cpu: None, .. } => Err(WireError::new("resources", "cpu is missing")),
        PerResource { memory: None, .. } => Err(WireError::new("resources", "memory is missing")),
    }
}

fn short(text: &str) -> String {
    text.chars().take(40).collect()
}

impl TryFrom<wire::Trust> for PodTrust {
    type Error = WireError;

    fn try_from(trust: wire::Trust) -> Result<Self, WireError> {
        let wire::Trust {
            pod_uid,
            cpu_ppm,
            memory_ppm,
            exclusive_cpus_milli,
        } = trust;
        Ok(Self {
            uid: name("trust.pod_uid", pod_uid)?,
            cpu_ppm: ppm("trust.cpu_ppm", cpu_ppm, 1_000_000)?,
            memory_ppm: ppm("trust.memory_ppm", memory_ppm, 1_000_000)?,
            exclusive_cpus_milli,
        })
    }
}

impl From<&NodeHint> for wire::HintReport {
    fn from(hint: &NodeHint) -> Self {
        Self {
            trust: hint.trust.iter().map(wire::Trust::from).collect(),
            frame_use: hint.frame_use.as_ref().map(wire::FrameUse::from),
            ..Self::without_trust(hint)
        }
    }
}

impl wire::HintReport {
    /// Converts without trust and use of single pods, for clients that list many nodes.
    pub fn without_trust(hint: &NodeHint) -> Self {
        let NodeHint {
            node,
            node_uid,
            boot_id,
            seq,
            is_primary,
            pods_generation,
            sight,
            timing,
            is_draining,
            resources,
            trust: _,
            past,
            steal_ppm,
            signals,
            frame_use: _,
        } = hint;
        Self {
            node: node.clone(),
            node_uid: node_uid.clone(),
            boot_id: boot_id.clone(),
            seq: *seq,
            primary: *is_primary,
            pods_generation: *pods_generation,
            mode: wire::Mode::from(*sight).into(),
            timing: wire::Timing::from(*timing).into(),
            draining: *is_draining,
            resources: Resource::ALL
                .into_iter()
                .map(|part| resource_of(part, resources.get(part)))
                .collect(),
            trust: Vec::new(),
            past: past.map(wire::Past::from),
            steal_ppm: *steal_ppm,
            signals: signals.iter().map(wire::Signal::from).collect(),
            frame_use: None,
        }
    }
}

impl From<wire::Past> for Past {
    fn from(past: wire::Past) -> Self {
        let wire::Past { age_s, beginning } = past;
        Self {
            age_s,
            beginning: Beginning::from_name(&beginning),
        }
    }
}

impl From<Past> for wire::Past {
    fn from(past: Past) -> Self {
        let Past { age_s, beginning } = past;
        Self {
            age_s,
            beginning: beginning.map_or_else(String::new, |beginning| beginning.name().to_owned()),
        }
    }
}

impl From<&PodTrust> for wire::Trust {
    fn from(trust: &PodTrust) -> Self {
        let PodTrust {
            uid,
            cpu_ppm,
            memory_ppm,
            exclusive_cpus_milli,
        } = trust;
        Self {
            pod_uid: uid.clone(),
            cpu_ppm: *cpu_ppm,
            memory_ppm: *memory_ppm,
            exclusive_cpus_milli: *exclusive_cpus_milli,
        }
    }
}

impl From<&Signal> for wire::Signal {
    fn from(signal: &Signal) -> Self {
        let Signal { name, unit, value } = signal;
        Self {
            name: name.clone(),
            unit: unit.clone(),
            value: *value,
        }
    }
}
