//! Computes the target ratio from peaks and requests: T, P, Rw, S and the clamp. See docs/estimator.md#target.

use super::Reason;
use crate::{policy::Bounds, ratio::Cents, resource::Resource};

/// The inputs of slack.
#[derive(Debug, Clone, Copy)]
pub struct Inputs {
    /// The resource: CPU's target is a share of capacity, memory's of raw allocatable.
    pub resource: Resource,
    /// C: physical capacity.
    pub capacity: u64,
    /// A: raw allocatable.
    pub raw: u64,
    /// theta, in ppm.
    pub target_ppm: u32,
    /// P0: conditioned peak.
    pub peak: u64,
    /// m, in ppm.
    pub margin_ppm: u32,
    /// Rw: warm requests.
    pub warm_requests: u64,
    /// R: all requests bound.
    pub bound: u64,
}

/// The terms of measured slack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Slack {
    /// A.
    pub raw: u64,
    /// T: use that is safe.
    pub safe: u64,
    /// P0.
    pub peak: u64,
    /// P: P0 with its margin, rounded up.
    pub predicted_peak: u64,
    /// Rw.
    pub warm_requests: u64,
    /// R.
    pub bound: u64,
    /// S = T - P + Rw - A.
    pub slack: i128,
}

/// A target ratio and the numbers behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The terms.
    pub slack: Slack,
    /// A*: raw plus slack, scaled and within bounds, in milli-cores or bytes; A where nothing is known.
    pub allocatable: u64,
    /// The ratio: A* over A, rounded down.
    pub cents: Cents,
    /// S': what counts of S.
    pub scaled: i128,
    /// Why, most important first.
    pub reasons: Vec<Reason>,
}

/// `value` × `ppm` / 10⁶, rounded down.
fn share(value: u64, ppm: u32) -> u64 {
    u64::try_from(u128::from(value) * u128::from(ppm) / 1_000_000).unwrap_or(u64::MAX)
}

/// Measured slack. A theta above 1 counts as 1; sums beyond 2⁶⁴ count as that.
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
    let target_ppm = target_ppm.min(1_000_000);
    let safe = match resource {
        Resource::Cpu => share(capacity, target_ppm).min(raw),
        Resource::Memory => share(raw, target_ppm),
    };
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

/// The target ratio: raw plus slack, slack above zero scaled by coverage, within bounds; under a latch of the margin no
/// slack above zero counts.
///
/// It is 1.00 without any valid frame, and where raw is zero: nothing can be a share of it. More valid frames than the
/// ring has count as all of them. Where bounds contradict each other the upper one holds.
///
/// A higher predicted peak never raises A* or the ratio. So neither does more use, but where more memory in an earlier
/// frame lowers the peak that is expected: [`super::Peak::expected`].
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

/// The smallest ratio that covers what pods hold: ceil(held × 100 / A); 2³² - 1 if it would be more. 1.00 where raw is
/// zero: no ratio covers anything there.
pub fn floor_cents(held: u64, raw: u64) -> Cents {
    if raw == 0 {
        return Cents::ONE;
    }
    let cents = (u128::from(held) * 100).div_ceil(u128::from(raw));
    Cents(u32::try_from(cents).unwrap_or(u32::MAX))
}
