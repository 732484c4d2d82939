//! `Shedder` limits the cost of the kernel programs: while tasks switch too often, it samples fewer waits. At its last level no
//! wait that begins with a wake-up is sampled.

use std::time::Duration;

use headroom_domain::estimate::Timing;

use crate::sample::{clock::nanoseconds, ring::SAMPLING_SHIFT};

/// Limits of shedding and recovery, and the interval of link checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Switches a second on one CPU above which it is hot.
    pub hot_switches: u64,
    /// Share of `hot_switches`, in percent, below which every CPU is calm. The gap prevents oscillation.
    pub calm_percent: u64,
    /// Time that a CPU is hot before more is shed.
    pub hot_for: Duration,
    /// Time that all CPUs are calm before less is shed.
    pub calm_for: Duration,
    /// Time without a nearly full CPU before the wake-up hooks are detached.
    pub rest_after: Duration,
    /// Interval of checks that the kernel still has the links.
    pub links_every: Duration,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shed {
    /// No shedding: one task in 8 is sampled.
    #[default]
    Nothing,
    /// One task in 64 is sampled.
    To64,
    /// One task in 512 is sampled.
    To512,
    /// One task in 512 is sampled and the wake-up hooks are detached: only waits of preempted tasks count.
    WakeUps,
}

impl Shed {
    const ALL: [Self; 4] = [Self::Nothing, Self::To64, Self::To512, Self::WakeUps];

    /// Exponent n of the sampling rate: one task in 2^n is sampled.
    pub const fn sampling_shift(self) -> u32 {
        match self {
            Self::Nothing => SAMPLING_SHIFT,
            Self::To64 => SAMPLING_SHIFT + 3,
            Self::To512 | Self::WakeUps => SAMPLING_SHIFT + 6,
        }
    }

    fn neighbour(self, step: isize) -> Option<Self> {
        let index = Self::ALL.iter().position(|level| *level == self)?;
        Self::ALL.get(index.checked_add_signed(step)?).copied()
    }
}

/// Chooses the level of shedding from the rate of switches.
#[derive(Debug)]
pub(super) struct Shedder {
    limits: Limits,
    level: Shed,
    /// Start of the time in which a CPU is hot, or all are calm, without interruption.
    hot_since_ns: Option<u64>,
    calm_since_ns: Option<u64>,
}

impl Limits {
    /// Switches a second on one CPU above which it is hot, with every timing. Entering a wake-up program costs 60 to 80 ns
    /// (docs/journal/agent-overhead.md): at this rate half a percent of the CPU.
    pub const HOT_SWITCHES: u64 = 70_000;

    /// [`Self::HOT_SWITCHES`] for sentences: `70,000`.
    pub fn hot_text() -> String {
        let (thousands, rest) = (Self::HOT_SWITCHES / 1000, Self::HOT_SWITCHES % 1000);
        format!("{thousands},{rest:03}")
    }

    /// One hot brake period raises the level and six calm ones lower it: 10 s and a minute in production. After sixty periods
    /// without a full CPU, ten minutes, the wake-up hooks are detached. An L2 brake (shed) lasts as long, so the hooks are not
    /// attached and detached repeatedly. Links are checked once a minute, and at once if a poll counts no switch.
    pub const fn from_timing(timing: &Timing) -> Self {
        Self {
            hot_switches: Self::HOT_SWITCHES,
            calm_percent: 70,
            hot_for: timing.brake_period,
            calm_for: timing.brake_period.saturating_mul(6),
            rest_after: timing.brake_period.saturating_mul(60),
            links_every: timing.second.saturating_mul(60),
        }
    }
}

impl Shedder {
    pub(super) const fn new(limits: Limits) -> Self {
        Self {
            limits,
            level: Shed::Nothing,
            hot_since_ns: None,
            calm_since_ns: None,
        }
    }

    pub(super) const fn level(&self) -> Shed {
        self.level
    }

    /// Returns to a level that could not be left.
    pub(super) const fn stay(&mut self, level: Shed) {
        self.level = level;
    }

    /// Records the switches a second of the busiest CPU, up to `now_ns`; returns the new level if it changes.
    pub(super) fn observe(&mut self, switches_per_s: u64, now_ns: u64) -> Option<Shed> {
        let lasts = |since: &mut Option<u64>, is_so: bool, needed_ns: u64| {
            if !is_so {
                *since = None;
                return false;
            }
            now_ns.saturating_sub(*since.get_or_insert(now_ns)) >= needed_ns
        };
        let Limits {
            hot_switches,
            calm_percent,
            hot_for,
            calm_for,
            rest_after: _,
            links_every: _,
        } = self.limits;
        let is_hot = switches_per_s > hot_switches;
        let is_calm = switches_per_s.saturating_mul(100) < hot_switches.saturating_mul(calm_percent);
        let step = if lasts(&mut self.hot_since_ns, is_hot, nanoseconds(hot_for)) {
            1
        } else if lasts(&mut self.calm_since_ns, is_calm, nanoseconds(calm_for)) {
            -1
        } else {
            return None;
        };
        (self.hot_since_ns, self.calm_since_ns) = (None, None);
        self.level = self.level.neighbour(step)?;
        Some(self.level)
    }
}

#[cfg(test)]
mod tests {
    use headroom_domain::estimate::Profile;

    use super::*;

    const QUARTER_NS: u64 = 250_000_000;

    /// Changes of the level with their times in seconds, for stretches of (seconds, switches a second).
    fn levels(stretches: &[(u64, u64)]) -> Vec<(u64, Shed)> {
        let mut shedder = Shedder::new(Limits::from_timing(&Profile::Production.timing()));
        let rates = stretches
            .iter()
            .flat_map(|(seconds, rate)| (0..seconds * 4).map(|_| *rate));
        (0..)
            .zip(rates)
            .filter_map(|(quarter, rate)| Some((quarter / 4, shedder.observe(rate, quarter * QUARTER_NS)?)))
            .collect()
    }

    #[test]
    fn a_hot_cpu_sheds_step_by_step_and_never_more_than_there_is() {
        let expected = [(10, Shed::To64), (20, Shed::To512), (30, Shed::WakeUps)];
        assert_eq!(levels(&[(100, 70_001)]), expected);
        assert_eq!(expected.map(|(_, level)| level.sampling_shift()), [6, 9, 9]);
    }

    #[test]
    fn the_limit_has_a_thousands_separator() {
        assert_eq!(Limits::hot_text(), "70,000");
    }

    #[test]
    fn a_short_burst_sheds_nothing() {
        assert_eq!(levels(&[(9, 900_000), (1, 70_000), (9, 900_000), (1, 0)]), []);
    }

    #[test]
    fn a_calm_node_recovers_one_level_at_a_time() {
        let levels = levels(&[(21, 80_000), (200, 48_999)]);
        assert_eq!(
            levels,
            [
                (10, Shed::To64),
                (20, Shed::To512),
                (81, Shed::To64),
                (141, Shed::Nothing)
            ]
        );
    }

    #[test]
    fn leaving_a_level_is_tried_again_after_a_failure() {
        let mut shedder = Shedder::new(Limits::from_timing(&Profile::Production.timing()));
        shedder.stay(Shed::WakeUps);
        let calm = |shedder: &mut Shedder, from: u64| {
            (from..from + 300).find_map(|quarter| shedder.observe(0, quarter * QUARTER_NS))
        };
        assert_eq!(calm(&mut shedder, 0), Some(Shed::To512));
        shedder.stay(Shed::WakeUps);
        assert_eq!(shedder.level(), Shed::WakeUps);
        assert_eq!(calm(&mut shedder, 300), Some(Shed::To512));
    }

    #[test]
    fn between_hot_and_calm_nothing_changes() {
        assert_eq!(levels(&[(11, 80_000), (600, 60_000)]).len(), 1);
    }
}
