//! Computes the target ratio from peaks and requests: T, P, Rw, S and the bounds. See docs/estimator.md#target.

use super::Reason;
use crate::{policy::Bounds, ratio::Cents, resource::Resource};

/// Inputs of [`slack()`], in milli-cores or bytes.
#[derive(Debug, Clone, Copy)]
pub struct Inputs {
    /// Resource: CPU's target is a share of capacity, memory's of raw allocatable.
    pub resource: Resource,
    /// C: physical capacity without isolated CPUs.
    pub capacity: u64,
    /// A: raw allocatable, the kubelet's own value.
    pub raw: u64,
    /// theta: target share of use, in ppm.
    pub target_ppm: u32,
    /// P0: conditioned peak, before the margin.
    pub peak: u64,
    /// m: margin on the peak, in ppm.
    pub margin_ppm: u32,
    /// Rw: requests of trusted pods, weighted by trust.
    pub warm_requests: u64,
    /// R: sum of all bound requests.
    pub bound: u64,
}

/// Terms of measured slack, in milli-cores or bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Slack {
    /// A: raw allocatable, the kubelet's own value.
    pub raw: u64,
    /// T: safe use, the target share of capacity or raw.
    pub safe: u64,
    /// P0: conditioned peak before the margin.
    pub peak: u64,
    /// P: P0 with its margin, rounded up.
    pub predicted_peak: u64,
    /// Rw: requests of trusted pods, weighted by trust.
    pub warm_requests: u64,
    /// R: sum of all bound requests.
    pub bound: u64,
    /// Slack: S = T - P + Rw - A.
    pub slack: i128,
}

/// Target ratio and the numbers behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Terms of measured slack, unscaled.
    pub slack: Slack,
    /// A*: raw plus scaled slack, within bounds, in milli-cores or bytes; A without any valid frame.
    pub allocatable: u64,
    /// A* / A, rounded down to cents.
    pub cents: Cents,
    /// S': slack after scaling by coverage.
    pub scaled: i128,
    /// Reasons for the ratio, most important first.
    pub reasons: Vec<Reason>,
}

/// `value` × `ppm` / 10⁶, rounded down.
fn share(value: u64, ppm: u32) -> u64 {
    u64::try_from(u128::from(value) * u128::from(ppm) / 1_000_000).unwrap_or(u64::MAX)
}

/// T: safe use of a node with that capacity and raw allocatable. A theta above 1 counts as 1.
pub fn safe_use(resource: Resource, capacity: u64, raw: u64, target_ppm: u32) -> u64 {
    let target_ppm = target_ppm.min(1_000_000);
    match resource {
        Resource::Cpu => share(capacity, target_ppm).min(raw),
        Resource::Memory => share(raw, target_ppm),
    }
}

/// Measured slack. A theta above 1 counts as 1; sums saturate at 2⁶⁴-1.
pub fn slack(inputs: &Inputs) -> Slack {
    let Inputs {
        resource,
        capacity,
        raw,
        target_ppm,
        peak,
        margin_ppm,
        warm_requests,
        bound,
    } = *inputs;
    let safe = safe_use(resource, capacity, raw, target_ppm);
    let with_margin = (u128::from(peak) * (1_000_000 + u128::from(margin_ppm))).div_ceil(1_000_000);
    let predicted_peak = u64::try_from(with_margin).unwrap_or(u64::MAX);
    let slack = i128::from(safe) - i128::from(predicted_peak) + i128::from(warm_requests) - i128::from(raw);
    Slack {
        raw,
        safe,
        peak,
        predicted_peak,
        warm_requests,
        bound,
        slack,
    }
}

/// Target ratio: raw plus slack within bounds. Positive slack is scaled by coverage, and counts as zero under a latch
/// of the margin.
///
/// The ratio is 1.00 without any valid frame, and if raw is zero. `valid_frames` above `ring_frames` counts as
/// `ring_frames`. If the bounds contradict each other, the upper one applies.
///
/// A higher predicted peak never raises A* or the ratio. Hence neither does more use, except that more memory use in
/// an earlier frame can lower the expected peak: [`super::Peak::expected`].
pub fn target(
    slack: &Slack,
    valid_frames: u32,
    ring_frames: u32,
    bounds: Bounds,
    is_latched: bool,
) -> Target {
    if valid_frames == 0 || slack.raw == 0 {
        return Target {
            slack: *slack,
            allocatable: slack.raw,
            cents: Cents::ONE,
            scaled: 0,
            reasons: vec![Reason::NoHistory],
        };
    }
    let raw = i128::from(slack.raw);
    let mut reasons = Vec::new();
    let scaled = if slack.slack > 0 && is_latched {
        reasons.push(Reason::MarginLatched);
        0
    } else if slack.slack > 0 {
        reasons.push(Reason::Slack);
        if valid_frames < ring_frames {
            reasons.push(Reason::Coverage);
        }
        let ring_frames = ring_frames.max(1);
        slack.slack * i128::from(valid_frames.min(ring_frames)) / i128::from(ring_frames)
    } else {
        reasons.push(Reason::NoSlack);
        slack.slack
    };
    let lowest = (raw * i128::from(bounds.min.0) + 99) / 100;
    let highest = raw * i128::from(bounds.max.0) / 100;
    let wanted = raw + scaled;
    if wanted > highest {
        reasons.push(Reason::ClampedMax);
    } else if wanted < lowest {
        reasons.push(Reason::ClampedMin);
    }
    let allowed = wanted.max(lowest).min(highest);
    let cents = u32::try_from(allowed * 100 / raw).unwrap_or(u32::MAX);
    Target {
        slack: *slack,
        allocatable: u64::try_from(allowed.max(0)).unwrap_or(u64::MAX),
        cents: Cents(cents),
        scaled,
        reasons,
    }
}

/// Smallest ratio that covers the demand of pods: ceil(held × 100 / A), at most 2³² - 1. 1.00 if raw is zero.
pub fn floor_cents(held: u64, raw: u64) -> Cents {
    if raw == 0 {
        return Cents::ONE;
    }
    let cents = (u128::from(held) * 100).div_ceil(u128::from(raw));
    Cents(u32::try_from(cents).unwrap_or(u32::MAX))
}
