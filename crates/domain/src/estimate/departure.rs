//! Lowers the published ratios at once when pods leave. The webhook computes this from the last hint, because it
//! learns of a departure before the agent does. See docs/estimator.md#departures.

use super::{Inputs, slack, target};
use crate::{
    hint::NodeHint,
    policy::Policy,
    ratio::Cents,
    resource::{PerResource, Resource},
};

/// Published ratios, lowered if pods behind them are leaving or have left. `stays` returns the requests of a pod that
/// is bound to the node and not being deleted. `raw` is the node's own allocatable.
pub fn after_departures(
    hint: &NodeHint,
    raw: &PerResource<u64>,
    policy: &Policy,
    stays: impl Fn(&str) -> Option<PerResource<u64>>,
) -> PerResource<Cents> {
    let staying: Vec<_> = hint
        .trust
        .iter()
        .filter_map(|trust| Some((trust, stays(&trust.uid)?)))
        .collect();
    hint.resources.map(|resource, part| {
        let warm = staying.iter().fold(0_u64, |sum, (trust, requests)| {
            let ppm = match resource {
                Resource::Cpu => trust.cpu_ppm,
                Resource::Memory => trust.memory_ppm,
            };
            sum.saturating_add(trusted(*requests.get(resource), ppm))
        });
        // Agents before 0.2 report a ratio that includes the requests of bound pods; the webhook has newer data on
        // these.
        let published = part.published.min(part.target);
        if warm >= part.warm_requests {
            return published;
        }
        let slack = slack(&Inputs {
            resource,
            capacity: part.usable_capacity(),
            raw: *raw.get(resource),
            target_ppm: *policy.target_ppm.get(resource),
            peak: part.predicted_peak,
            // The predicted peak already includes the margin.
            margin_ppm: 0,
            warm_requests: warm,
            bound: 0,
        });
        // The published ratio already reflects a latch.
        let target = target(
            &slack,
            part.coverage_ppm,
            1_000_000,
            *policy.bounds.get(resource),
            false,
        );
        published.min(target.cents)
    })
}

/// Trusted part of a request. The ppm value was rounded down, so one ppm is added: if all pods stay, no trust seems
/// lost.
fn trusted(request: u64, ppm: u32) -> u64 {
    let part = (u128::from(request) * (u128::from(ppm) + 1)).div_ceil(1_000_000);
    u64::try_from(part).unwrap_or(u64::MAX).min(request)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::hint::{PodTrust, ResourceHint, tests::hint};

    /// First row of docs/estimator.md#a-worked-example: 26,000 old, 3,000 at 10 hours, 1,000 young; one of the old
    /// pods requests 4,000.
    fn row_1() -> NodeHint {
        let trust = |uid: &str, parts: u32| PodTrust {
            uid: uid.to_owned(),
            cpu_ppm: parts * 1_000_000 / 264,
            memory_ppm: 0,
            exclusive_cpus_milli: 0,
        };
        let mut hint = hint("n1", 1);
        hint.resources.cpu.warm_requests = 27_090;
        hint.resources.cpu.coverage_ppm = 1_000_000;
        hint.trust = vec![
            trust("old", 264),
            trust("leaving", 264),
            trust("new", 96),
            trust("young", 0),
        ];
        hint
    }

    fn requests(uid: &str) -> PerResource<u64> {
        let cpu = match uid {
            "old" => 22_000,
            "leaving" => 4_000,
            "new" => 3_000,
            _ => 1_000,
        };
        PerResource { cpu, memory: 0 }
    }

    #[test]
    fn a_published_ratio_above_the_target_is_lowered_to_it() {
        let mut hint = row_1();
        hint.resources.cpu.target = Cents(107);
        let raw = PerResource {
            cpu: 31_500,
            memory: 1 << 30,
        };
        let stays = |uid: &str| (uid != "young").then(|| requests(uid));
        assert_eq!(
            after_departures(&hint, &raw, &Policy::default(), stays).cpu,
            Cents(107)
        );
    }

    /// 16 CPUs of which 4 are isolated, at 1.34: T is 10,800 and not A.
    #[test]
    fn isolated_cpus_leave_no_slack_for_staying_pods() {
        let mut hint = row_1();
        hint.resources.cpu = ResourceHint {
            capacity: 16_000,
            isolated: 4_000,
            predicted_peak: 4_000,
            warm_requests: 14_000,
            published: Cents(134),
            target: Cents(134),
            ..hint.resources.cpu
        };
        let requests = |uid: &str| match uid {
            "old" => 10_000,
            "leaving" => 4_000,
            _ => 0,
        };
        let ratio = |leaving: &str| {
            let stays = |uid: &str| {
                let cpu = requests(uid);
                (uid != leaving).then_some(PerResource { cpu, memory: 0 })
            };
            let raw = PerResource {
                cpu: 15_500,
                memory: 1 << 30,
            };
            after_departures(&hint, &raw, &Policy::default(), stays).cpu
        };
        assert_eq!((ratio("no-pod"), ratio("leaving")), (Cents(134), Cents(108)));
    }

    #[rstest]
    #[case::all_stay("no-pod", 128)]
    #[case::announced("leaving", 116)]
    #[case::of_little_trust("new", 125)]
    #[case::of_no_trust("young", 128)]
    fn a_departure_removes_the_pods_trusted_part(#[case] leaving: &str, #[case] expected: u32) {
        let raw = PerResource {
            cpu: 31_500,
            memory: 1 << 30,
        };
        let stays = |uid: &str| (uid != leaving).then(|| requests(uid));
        let ratios = after_departures(&row_1(), &raw, &Policy::default(), stays);
        assert_eq!((ratios.cpu, ratios.memory), (Cents(expected), Cents::ONE));
    }
}
