//! `Shedder` limits the cost of the kernel programs: when switches come too fast, it samples fewer waits. At its last
//! level no wait that begins with a wake-up is sampled.

use std::time::Duration;

use headroom_domain::estimate::Timing;

use crate::sample::{clock::nanoseconds, ring::SAMPLING_SHIFT};

/// From when on sampling is shed, from when on it comes back, and how closely the programs are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Switches a second on one CPU above which it is hot.
    pub hot_switches: u64,
    /// Below this share of those every CPU is calm, in percent, so that shedding does not swing.
    pub calm_percent: u64,
    /// A CPU is hot for so long before more is shed.
    pub hot_for: Duration,
    /// All are calm for so long before less is shed.
    pub calm_for: Duration,
    /// No CPU is nearly full for so long before wake-ups are not listened to.
    pub rest_after: Duration,
    /// The kernel is asked so often whether it still has their links.
    pub links_every: Duration,
}

/// How much of the sampling is given up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shed {
    /// Nothing: one task in 8 is sampled.
    #[default]
    Nothing,
    /// One task in 64 is.
    To64,
    /// One task in 512 is.
    To512,
    /// That, and wake-ups are not heard of: only waits of preempted tasks count.
    WakeUps,
}

impl Shed {
    const ALL: [Self; 4] = [Self::Nothing, Self::To64, Self::To512, Self::WakeUps];

    /// One task in two to the power of this is sampled.
    pub const fn sampling_shift(self) -> u32 {
        match self {
            Self::Nothing => SAMPLING_SHIFT,
            Self::To64 => SAMPLING_SHIFT + 3,
            Self::To512 | Self::WakeUps => SAMPLING_SHIFT + 6,
        }
    }

    fn beside(self, step: isize) -> Option<Self> {
        let index = Self::ALL.iter().position(|level| *level == self)?;
        Self::ALL.get(index.checked_add_signed(step)?).copied()
    }
}

/// Decides how much to shed from how fast switches come, and holds what it has decided.
#[derive(Debug)]
pub(super) struct Shedder {
    limits: Limits,
    level: Shed,
    /// Since when a CPU has been hot, or all calm, without interruption.
    hot_since_ns: Option<u64>,
    calm_since_ns: Option<u64>,
}

impl Limits {
    /// Switches a second on one CPU above which it is hot, whatever the timing. A wake-up program costs 60 to 80 ns to enter
    /// (docs/journal/agent-overhead.md): at this rate half a percent of the CPU.
    pub const HOT_SWITCHES: u64 = 70_000;

    /// [`Self::HOT_SWITCHES`] as it stands in sentences: `70,000`.
    pub fn hot_text() -> String {
        let (thousands, rest) = (Self::HOT_SWITCHES / 1000, Self::HOT_SWITCHES % 1000);
        format!("{thousands},{rest:03}")
    }

    /// A brake period of heat sheds, six of calm take back: 10 s and a minute in production. After sixty without a full CPU,
    /// ten minutes, wake-ups are left alone: as long as a brake that sheds lasts, so that nothing is attached and detached
    /// again and again. Links are asked for once a minute, and at once where a poll counts no switch.
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
    /// Nothing is shed yet.
    pub(super) const fn new(limits: Limits) -> Self {
        Self {
            limits,
            level: Shed::Nothing,
            hot_since_ns: None,
            calm_since_ns: None,
        }
    }

    /// How much is shed.
    pub(super) const fn level(&self) -> Shed {
        self.level
    }

    /// Stays at a level that could not be left.
    pub(super) const fn stay(&mut self, level: Shed) {
        self.level = level;
    }

    /// Records the switches a second of the busiest CPU, up to `now_ns`; the new level if it changes now.
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
        self.level = self.level.beside(step)?;
        Some(self.level)
    }
}

#[cfg(test)]
mod tests {
    use headroom_domain::estimate::Profile;

    use super::*;

    const QUARTER_NS: u64 = 250_000_000;

    /// The levels taken, and after how many seconds each, of so many seconds at each rate.
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
    fn the_limit_reads_as_in_the_manual() {
        assert_eq!(Limits::hot_text(), "70,000");
    }

    #[test]
    fn a_short_burst_sheds_nothing() {
        assert_eq!(levels(&[(9, 900_000), (1, 70_000), (9, 900_000), (1, 0)]), []);
    }

    #[test]
    fn a_calm_node_gets_everything_back_step_by_step() {
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
    fn a_level_that_could_not_be_left_is_tried_to_be_left_again() {
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
