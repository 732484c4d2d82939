//! Google's predictors: N-sigma over the machine's series, RC-like over each task's, and the larger of the two.
//!
//! Bashir et al., "Take it to the Limit: Peak Prediction-driven Resource Overcommitment in Datacenters", EuroSys 2021,
//! and its simulator, github.com/googleinterns/cluster-resource-forecast. Tasks with less than 2 hours of samples count
//! with their limit; use above the limit counts as the limit. A pod fits if its request fits beside the predicted peak;
//! there is no highest ratio.

use super::{Kind, Policy, Settings};
use crate::{
    convert::{long, real, whole},
    node::{Node, Pod},
    source::DAY,
};

/// Samples after which a task is warm: two hours.
const WARM: usize = 24;
const TEN_HOURS: usize = 120;
/// Standard deviations above the mean.
const SIGMAS: f64 = 5.0;
const PERCENT: f64 = 99.0;

pub(super) static N_SIGMA_10H: Kind = Kind {
    name: "n-sigma-10h",
    about: "mean + 5 sigma of use per limit over 10 h (EuroSys 2021); no highest ratio",
    build: |settings| predictor(settings, TEN_HOURS, n_sigma, false),
};
pub(super) static N_SIGMA_24H: Kind = Kind {
    name: "n-sigma-24h",
    about: "mean + 5 sigma of use per limit over 24 h (EuroSys 2021)",
    build: |settings| predictor(settings, DAY, n_sigma, true),
};
pub(super) static RC_LIKE: Kind = Kind {
    name: "rc-like-10h",
    about: "sum of each task's p99 over 10 h (EuroSys 2021); no highest ratio",
    build: |settings| predictor(settings, TEN_HOURS, rc_like, false),
};
pub(super) static MAX_10H: Kind = Kind {
    name: "max-10h",
    about: "the larger of n-sigma and rc-like over 10 h (EuroSys 2021); no highest ratio",
    build: |settings| predictor(settings, TEN_HOURS, larger, false),
};

/// Maps warm pods, the next frame and the window to their peak.
type Rule = fn(&[&Pod], usize, usize) -> f64;

#[derive(Debug)]
struct Predictor {
    settings: Settings,
    window: usize,
    rule: Rule,
    is_bounded: bool,
}

fn predictor(settings: &Settings, window: usize, rule: Rule, is_bounded: bool) -> Box<dyn Policy> {
    Box::new(Predictor {
        settings: *settings,
        window,
        rule,
        is_bounded,
    })
}

impl Predictor {
    fn peak(&self, node: &Node) -> u64 {
        let is_warm = |pod: &&Pod| pod.recent_use(node.now, WARM).len() == WARM;
        let (warm, cold): (Vec<&Pod>, Vec<&Pod>) = node.pods().iter().partition(is_warm);
        let limits: u64 = cold.iter().map(|pod| pod.limit).sum();
        let peak = if warm.is_empty() {
            0.0
        } else {
            (self.rule)(&warm, node.now, self.window)
        };
        whole(peak) + limits + node.machine.system
    }
}

impl Policy for Predictor {
    fn allocatable(&mut self, node: &Node) -> u64 {
        let wanted = self.settings.beside(node, self.peak(node));
        if self.is_bounded {
            self.settings.bounded(wanted)
        } else {
            self.settings.at_least(wanted)
        }
    }

    fn predicted_peak(&mut self, node: &Node) -> Option<u64> {
        Some(self.peak(node))
    }
}

/// Limits use to the pod's limit.
fn capped(pod: &Pod, used: u64) -> u64 {
    used.min(pod.limit)
}

/// min(1, mean + 5 sigma) of the series of use per limit, times the current limits. Each sample of the series covers
/// the currently warm tasks that ran then.
fn n_sigma(warm: &[&Pod], now: usize, window: usize) -> f64 {
    let mut series = Vec::with_capacity(window);
    for frame in now.saturating_sub(window)..now {
        let there = warm.iter().filter_map(|pod| Some((pod, pod.used(frame)?)));
        let (used, limits) = there.fold((0, 0), |(used, limits), (pod, use_then)| {
            (used + capped(pod, use_then), limits + pod.limit)
        });
        if limits > 0 {
            series.push(real(used) / real(limits));
        }
    }
    let count = real(long(series.len()));
    let mean = series.iter().sum::<f64>() / count;
    let squares: f64 = series.iter().map(|value| (value - mean).powi(2)).sum();
    let deviation = (squares / (count - 1.0)).sqrt();
    let limits: u64 = warm.iter().map(|pod| pod.limit).sum();
    (mean + SIGMAS * deviation).min(1.0) * real(limits)
}

/// Sum of each task's 99th percentile, interpolated between ranks.
fn rc_like(warm: &[&Pod], now: usize, window: usize) -> f64 {
    let mut samples: Vec<u64> = Vec::with_capacity(window);
    let percentiles = warm.iter().map(|pod| {
        samples.clear();
        samples.extend(pod.recent_use(now, window).iter().map(|&used| capped(pod, used)));
        interpolated(&mut samples)
    });
    percentiles.sum()
}

fn larger(warm: &[&Pod], now: usize, window: usize) -> f64 {
    n_sigma(warm, now, window).max(rc_like(warm, now, window))
}

/// The percentile between the two nearest ranks; `samples` must not be empty.
fn interpolated(samples: &mut [u64]) -> f64 {
    let last = samples.len().saturating_sub(1);
    let rank = real(long(last)) * PERCENT / 100.0;
    let at = usize::try_from(whole(rank)).unwrap_or(last).min(last);
    let (lower, &mut above, _) = samples.select_nth_unstable(at);
    let below = lower.iter().max().copied().unwrap_or(above);
    let part = 1.0 - (real(long(at)) - rank);
    real(below) + real(above - below) * part
}
