//! [`Span`]: time range that `advise` replays, in frames and steps.

use std::time::Duration;

use headroom_domain::estimate::FRAME_SECONDS;

/// Seconds per frame of the estimator in production.
pub const FRAME_S: u64 = FRAME_SECONDS as u64;
/// Seconds per request to a server. A day at the finest step stays below Prometheus' limit of 11,000 points per
/// series.
const PART_S: u64 = 86_400;

/// A time range of whole frames, in seconds since 1970. A sample at its very start belongs to the frame before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// In seconds since 1970; a multiple of [`FRAME_S`].
    from: u64,
    /// In seconds since 1970; a multiple of [`FRAME_S`].
    until: u64,
}

impl Span {
    /// The whole frames that start at or after `from` and end by `until`.
    pub fn new(from: u64, until: u64) -> Self {
        let until = until / FRAME_S * FRAME_S;
        Self {
            from: from.div_ceil(FRAME_S).saturating_mul(FRAME_S).min(until),
            until,
        }
    }

    /// The time range of this length that ends with the last whole frame before `until`.
    pub fn until(until: u64, length: Duration) -> Self {
        let until = until / FRAME_S * FRAME_S;
        Self::new(until.saturating_sub(length.as_secs()), until)
    }

    pub fn start_s(&self) -> u64 {
        self.from
    }

    pub fn end_s(&self) -> u64 {
        self.until
    }

    /// Numbers of the frames, oldest first.
    pub fn frames(&self) -> std::ops::Range<u64> {
        self.from / FRAME_S..self.until / FRAME_S
    }

    /// Parts of at most a day, oldest first.
    pub fn parts(&self) -> impl Iterator<Item = Self> + use<> {
        let Self { from, until } = *self;
        (from..until)
            .step_by(usize::try_from(PART_S).unwrap_or(usize::MAX))
            .map(move |from| Self {
                from,
                until: (from + PART_S).min(until),
            })
    }

    /// Slot of a sample taken at `at_s`, for slots of `step_s` seconds; `None` outside the time range.
    pub fn slot(&self, at_s: u64, step_s: u64) -> Option<usize> {
        if at_s <= self.from || at_s > self.until {
            return None;
        }
        usize::try_from((at_s - self.from).div_ceil(step_s) - 1).ok()
    }

    /// Number of slots of `step_s` seconds.
    pub fn slots(&self, step_s: u64) -> usize {
        usize::try_from((self.until - self.from) / step_s).unwrap_or(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_consists_of_whole_frames() {
        let span = Span::new(301, 1499);
        assert_eq!((span.start_s(), span.end_s()), (600, 1200));
        assert_eq!(span.frames(), 2..4);
        assert_eq!(Span::new(900, 100).frames().count(), 0);
        assert_eq!(Span::until(1499, Duration::from_secs(600)), span);
    }

    #[test]
    fn a_sample_at_the_end_of_a_frame_belongs_to_it() {
        let span = Span::new(600, 1200);
        assert_eq!(span.slot(600, 60), None);
        assert_eq!(span.slot(601, 60), Some(0));
        assert_eq!(span.slot(660, 60), Some(0));
        assert_eq!(span.slot(661, 60), Some(1));
        assert_eq!(span.slot(1200, 60), Some(9));
        assert_eq!(span.slot(1201, 60), None);
        assert_eq!(span.slots(60), 10);
    }

    #[test]
    fn parts_are_days_and_cover_the_span() {
        let span = Span::new(600, 600 + 2 * PART_S + 300);
        let parts: Vec<_> = span.parts().collect();
        assert_eq!(parts.len(), 3);
        assert_eq!(parts[0], Span::new(600, 600 + PART_S));
        assert_eq!(parts[2].frames().count(), 1);
        assert_eq!(
            parts.iter().flat_map(Span::frames).collect::<Vec<_>>(),
            span.frames().collect::<Vec<_>>()
        );
    }
}
