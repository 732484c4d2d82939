//! The agent's status, pods and distributions as messages. A field that is added breaks here what must think of it.

use headroom_domain::estimate::PodUse;
use headroom_kit::metric::{Counted, CountedHistogram, Unit};
use headroom_proto::v1alpha1 as wire;

use crate::status::{
    AckStatus, PodStatus, PodsStatus, ProgramStatus, ResourceStatus, SignalStatus, Status, StreamStatus,
};

/// The status.
pub(super) fn status(status: Status) -> wire::AgentStatus {
    let Status {
        node,
        node_uid,
        boot_id,
        version,
        mode,
        mode_sentence,
        timing,
        source,
        programs,
        // The signals say the same.
        measured: _,
        resources,
        pods,
        seq,
        generation,
        streams,
        signals,
    } = status;
    let PodsStatus {
        tracked,
        untracked,
        unreadable,
    } = pods;
    wire::AgentStatus {
        node,
        node_uid,
        boot_id,
        version,
        mode,
        mode_sentence,
        timing,
        source,
        programs: programs.into_iter().map(program).collect(),
        resources: resources.into_iter().map(resource).collect(),
        pods: Some(wire::AgentPodCounts {
            tracked,
            untracked,
            unreadable,
        }),
        seq,
        generation,
        streams: streams.into_iter().map(stream).collect(),
        signals: signals.into_iter().map(signal).collect(),
    }
}

fn program(program: ProgramStatus) -> wire::AgentProgram {
    let ProgramStatus {
        hook,
        health,
        flavour,
        reason,
        runs,
        run_time_ns,
        verifier_log,
    } = program;
    wire::AgentProgram {
        hook,
        health,
        flavour: flavour.unwrap_or_default(),
        reason: reason.unwrap_or_default(),
        runs,
        run_time_ns,
        verifier_log: verifier_log.unwrap_or_default(),
    }
}

fn resource(resource: ResourceStatus) -> wire::AgentResource {
    let ResourceStatus {
        name,
        // Told by the name.
        unit: _,
        capacity,
        raw,
        safe,
        peak,
        history: _,
        predicted_peak,
        warm_requests,
        bound,
        slack,
        target_cents,
        published_cents,
        coverage_ppm,
        confidence_ppm: _,
        margin_ppm,
        calibration: _,
        brake,
        reasons,
    } = resource;
    wire::AgentResource {
        name,
        capacity,
        raw,
        safe,
        peak,
        predicted_peak,
        warm_requests,
        bound,
        slack,
        target_cents,
        published_cents,
        coverage_ppm,
        margin_ppm,
        brake: brake.into(),
        reasons,
    }
}

fn stream(stream: StreamStatus) -> wire::AgentStream {
    let StreamStatus {
        peer,
        state,
        is_primary,
        last_ack,
        last_problem,
    } = stream;
    let ack = |ack| {
        let AckStatus { seq, verdict, reason } = ack;
        wire::AgentAck { seq, verdict, reason }
    };
    wire::AgentStream {
        peer: peer.to_string(),
        state: state.name().to_owned(),
        primary: is_primary,
        last_ack: last_ack.map(ack),
        last_problem: last_problem.unwrap_or_default(),
    }
}

fn signal(signal: SignalStatus) -> wire::AgentSignal {
    let SignalStatus {
        name,
        source,
        health,
        unit,
        value,
        missing,
    } = signal;
    wire::AgentSignal {
        name,
        source,
        health,
        unit,
        value,
        missing: missing.unwrap_or_default(),
    }
}

/// One pod.
pub(super) fn pod(pod: PodStatus) -> wire::AgentPod {
    let PodStatus {
        uid,
        used,
        request,
        trust_ppm,
        exclusive_milli,
    } = pod;
    let in_use = |PodUse { low, high }| wire::AgentPodUse {
        cpu_milli: high.cpu,
        memory_low_bytes: low.memory,
        memory_high_bytes: high.memory,
    };
    wire::AgentPod {
        uid,
        used: used.map(in_use),
        request: request.map(|request| request.requests.into()),
        trust_ppm,
        exclusive_cpus_milli: exclusive_milli,
        deleting: request.is_some_and(|request| request.is_deleting),
    }
}

/// One distribution, in whole nanoseconds or ppm.
pub(super) fn histogram(histogram: &CountedHistogram) -> wire::AgentHistogram {
    let metric = histogram.metric();
    let (unit, scale) = match metric.unit {
        Unit::Seconds => ("ns", 1e9),
        Unit::Count | Unit::Bytes | Unit::Ratio | Unit::Cores => ("ppm", 1e6),
    };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "bounds are small, positive and declared"
    )]
    let whole = |bound: f64| (bound * scale).round() as u64;
    let Counted { buckets, sum: _ } = histogram.counted();
    let bucket = |(bound, count): (Option<f64>, u64)| wire::AgentBucket {
        upper: bound.map(whole),
        count,
    };
    wire::AgentHistogram {
        metric: metric.name.to_owned(),
        about: metric.help.to_owned(),
        unit: unit.to_owned(),
        buckets: buckets.into_iter().map(bucket).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::RUNQ_WAIT;

    #[test]
    fn bounds_are_whole_numbers_and_the_last_bucket_has_none() {
        let wire::AgentHistogram { unit, buckets, .. } = histogram(&RUNQ_WAIT);
        let bounds: Vec<_> = buckets.iter().map(|bucket| bucket.upper).collect();
        assert_eq!(unit, "ns");
        assert_eq!((bounds[0], bounds[5]), (Some(16_384), Some(8_388_608)));
        assert_eq!(bounds.last(), Some(&None));
    }
}
