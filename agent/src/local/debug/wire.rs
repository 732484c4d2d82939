//! Converts the agent's pods and histograms to messages of the debug service. A field added to a message or to `PodStatus`
//! does not compile here until it is handled.

use headroom_domain::estimate::PodUse;
use headroom_kit::metric::{Counted, CountedHistogram, Unit};
use headroom_proto::v1alpha1 as wire;

use crate::local::status::PodStatus;

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
