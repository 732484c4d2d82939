//! Self-limiting: where switches come too fast, fewer waits are sampled, and in the end none that begin with a wake-up.
//! See agent.md, section 1.8.

use crate::sample::ring::SAMPLING_SHIFT;

/// Switches a second on one CPU above which it is hot.
pub const HOT_SWITCHES: u64 = 70_000;
/// Below this share of those every CPU is calm, in percent, so that shedding does not swing.
const CALM_PERCENT: u64 = 70;
/// A CPU is hot for so long before more is shed.
const HOT_FOR_NS: u64 = 10_000_000_000;
/// All are calm for so long before less is shed.
const CALM_FOR_NS: u64 = 60_000_000_000;

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

/// Decides how much to shed from how fast switches come.
#[derive(Debug)]
pub(super) struct Shedder {
    /// Switches a second on one CPU above which it is hot.
    hot_switches: u64,
    level: Shed,
    /// Since when a CPU has been hot, or all calm, without interruption.
    hot_since_ns: Option<u64>,
    calm_since_ns: Option<u64>,
}

impl Shedder {
    /// Nothing is shed yet; a CPU with more switches a second than these is hot.
    pub(super) const fn new(hot_switches: u64) -> Self {
        Self {
            hot_switches,
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

    /// Takes the switches a second of the busiest CPU, up to `now_ns`; the new level if it changes now.
    pub(super) fn take(&mut self, switches_per_s: u64, now_ns: u64) -> Option<Shed> {
        let lasts = |since: &mut Option<u64>, is_so: bool, needed_ns: u64| {
            if !is_so {
                *since = None;
                return false;
            }
            now_ns.saturating_sub(*since.get_or_insert(now_ns)) >= needed_ns
        };
        let is_hot = switches_per_s > self.hot_switches;
        let is_calm = switches_per_s.saturating_mul(100) < self.hot_switches.saturating_mul(CALM_PERCENT);
        let step = if lasts(&mut self.hot_since_ns, is_hot, HOT_FOR_NS) {
            1
        } else if lasts(&mut self.calm_since_ns, is_calm, CALM_FOR_NS) {
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
    use super::*;

    const QUARTER_NS: u64 = 250_000_000;

    /// The levels taken, and after how many seconds each, of so many seconds at each rate.
    fn levels(stretches: &[(u64, u64)]) -> Vec<(u64, Shed)> {
        let mut shedder = Shedder::new(HOT_SWITCHES);
        let rates = stretches
            .iter()
            .flat_map(|(seconds, rate)| (0..seconds * 4).map(|_| *rate));
        (0..)
            .zip(rates)
            .filter_map(|(quarter, rate)| Some((quarter / 4, shedder.take(rate, quarter * QUARTER_NS)?)))
            .collect()
    }

    #[test]
    fn a_hot_cpu_sheds_step_by_step_and_never_more_than_there_is() {
        let expected = [(10, Shed::To64), (20, Shed::To512), (30, Shed::WakeUps)];
        assert_eq!(levels(&[(100, 70_001)]), expected);
        assert_eq!(expected.map(|(_, level)| level.sampling_shift()), [6, 9, 9]);
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
    fn between_hot_and_calm_nothing_changes() {
        assert_eq!(levels(&[(11, 80_000), (600, 60_000)]).len(), 1);
    }
}
