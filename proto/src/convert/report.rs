//! Reports of agents: [`wire::HintReport`] ↔ [`NodeHint`].

use headroom_domain::{
    hint::{Brake, NodeHint, PodTrust, ResourceHint, Signals},
    ratio::Cents,
    resource::{PerResource, Resource},
};

use super::{LARGEST, MOST_PODS, WireError, known, name, ppm};
use crate::v1alpha1 as wire;

/// Most reason codes per resource.
const MOST_REASONS: usize = 16;
/// The highest ratio that is believed, in cents. The floor may publish more than any bound.
const HIGHEST_CENTS: u32 = 10_000;

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
            signals,
        } = report;
        if trust.len() > MOST_PODS {
            return Err(WireError::new(
                "trust",
                format!("{} pods are above {MOST_PODS}", trust.len()),
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
            signals: measured(signals.unwrap_or_default())?,
        })
    }
}

/// Signals as sent; shares are at most one.
fn measured(signals: wire::Signals) -> Result<Signals, WireError> {
    let wire::Signals {
        sigma8_ppm,
        runq_p50_us,
        runq_p99_us,
        burst_ppm,
        steal_ppm,
        direct_reclaim_ms,
        psi_mem_some_ppm,
        psi_mem_full_ppm,
        oom_kills,
        prog_runs,
    } = signals;
    Ok(Signals {
        sigma8_ppm: ppm("signals.sigma8_ppm", sigma8_ppm, 1_000_000)?,
        runq_p50_us,
        runq_p99_us,
        burst_ppm,
        steal_ppm: ppm("signals.steal_ppm", steal_ppm, 1_000_000)?,
        direct_reclaim_ms,
        psi_mem_some_ppm: ppm("signals.psi_mem_some_ppm", psi_mem_some_ppm, 1_000_000)?,
        psi_mem_full_ppm: ppm("signals.psi_mem_full_ppm", psi_mem_full_ppm, 1_000_000)?,
        oom_kills,
        prog_runs,
    })
}

/// Exactly one entry for each resource.
fn both(resources: Vec<wire::Resource>) -> Result<PerResource<ResourceHint>, WireError> {
    let mut found: PerResource<Option<ResourceHint>> = PerResource::default();
    for part in resources {
        let resource = Resource::from_name(&part.name).ok_or_else(|| {
            WireError::new("resources.name", format!("{:?} is not known", short(&part.name)))
        })?;
        let slot = found.get_mut(resource);
        if slot.is_some() {
            return Err(WireError::new("resources", format!("{resource} comes twice")));
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

fn resource_hint(resource: Resource, part: wire::Resource) -> Result<ResourceHint, WireError> {
    let wire::Resource {
        name: _,
        capacity,
        usage,
        peak_p0,
        predicted_peak,
        warm_requests,
        published_cents,
        target_cents,
        coverage_ppm,
        margin_ppm,
        brake,
        reasons,
        peak_age_frames,
    } = part;
    let field = |part: &str| format!("resources.{resource}.{part}");
    let amount = |part: &str, value: u64| {
        let most = *LARGEST.get(resource);
        if value > most {
            Err(WireError::new(field(part), format!("{value} is above {most}")))
        } else {
            Ok(value)
        }
    };
    let cents = |part: &str, value: u32| {
        if value > HIGHEST_CENTS {
            Err(WireError::new(
                field(part),
                format!("{value} is above {HIGHEST_CENTS}"),
            ))
        } else {
            Ok(Cents(value))
        }
    };
    if reasons.len() > MOST_REASONS || reasons.iter().any(|reason| name("", reason.clone()).is_err()) {
        return Err(WireError::new(field("reasons"), "are too many or not codes"));
    }
    Ok(ResourceHint {
        capacity: amount("capacity", capacity)?,
        usage: amount("usage", usage)?,
        peak: amount("peak_p0", peak_p0)?,
        peak_age_frames,
        predicted_peak: amount("predicted_peak", predicted_peak)?,
        warm_requests: amount("warm_requests", warm_requests)?,
        published: cents("published_cents", published_cents)?,
        target: cents("target_cents", target_cents)?,
        coverage_ppm: ppm(&field("coverage_ppm"), coverage_ppm, 1_000_000)?,
        margin_ppm: ppm(&field("margin_ppm"), margin_ppm, 1_000_000)?,
        brake: Brake::from_level(brake)
            .ok_or_else(|| WireError::new(field("brake"), format!("{brake} is above 3")))?,
        reasons,
    })
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
            trust,
            signals,
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
            trust: trust.iter().map(wire::Trust::from).collect(),
            signals: Some(signals.into()),
        }
    }
}

fn resource_of(resource: Resource, hint: &ResourceHint) -> wire::Resource {
    let ResourceHint {
        capacity,
        usage,
        peak,
        peak_age_frames,
        predicted_peak,
        warm_requests,
        published,
        target,
        coverage_ppm,
        margin_ppm,
        brake,
        reasons,
    } = hint;
    wire::Resource {
        name: resource.name().to_owned(),
        capacity: *capacity,
        usage: *usage,
        peak_p0: *peak,
        predicted_peak: *predicted_peak,
        warm_requests: *warm_requests,
        published_cents: published.0,
        target_cents: target.0,
        coverage_ppm: *coverage_ppm,
        margin_ppm: *margin_ppm,
        brake: brake.level().into(),
        reasons: reasons.clone(),
        peak_age_frames: *peak_age_frames,
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

impl From<&Signals> for wire::Signals {
    fn from(signals: &Signals) -> Self {
        let Signals {
            sigma8_ppm,
            runq_p50_us,
            runq_p99_us,
            burst_ppm,
            steal_ppm,
            direct_reclaim_ms,
            psi_mem_some_ppm,
            psi_mem_full_ppm,
            oom_kills,
            prog_runs,
        } = *signals;
        Self {
            sigma8_ppm,
            runq_p50_us,
            runq_p99_us,
            burst_ppm,
            steal_ppm,
            direct_reclaim_ms,
            psi_mem_some_ppm,
            psi_mem_full_ppm,
            oom_kills,
            prog_runs,
        }
    }
}
