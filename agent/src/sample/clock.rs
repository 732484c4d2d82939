//! `Clocks` is one reading of the agent's two clocks, CLOCK_MONOTONIC and CLOCK_BOOTTIME. Wall time is not one of them.

use std::time::Duration;

use rustix::time::{ClockId, Timespec, clock_gettime};

/// One reading of both clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clocks {
    /// CLOCK_MONOTONIC in nanoseconds: the clock of windows; stands still while the machine is suspended.
    pub monotonic_ns: u64,
    /// CLOCK_BOOTTIME in nanoseconds: the clock of frames; continues while the machine is suspended.
    pub boottime_ns: u64,
}

impl Clocks {
    pub fn read() -> Self {
        Self {
            monotonic_ns: monotonic_ns(),
            boottime_ns: since_start(clock_gettime(ClockId::Boottime)),
        }
    }

    /// Time for which the machine has been suspended since boot, in nanoseconds: a jump shows a suspend.
    pub const fn suspended_ns(&self) -> u64 {
        self.boottime_ns.saturating_sub(self.monotonic_ns)
    }
}

/// CLOCK_MONOTONIC in nanoseconds, as `bpf_ktime_get_ns` gives it.
pub fn monotonic_ns() -> u64 {
    since_start(clock_gettime(ClockId::Monotonic))
}

fn since_start(time: Timespec) -> u64 {
    let (seconds, nanos) = (
        u64::try_from(time.tv_sec).unwrap_or(0),
        u64::try_from(time.tv_nsec).unwrap_or(0),
    );
    seconds.saturating_mul(1_000_000_000).saturating_add(nanos)
}

/// Whole nanoseconds; the largest number if there are more.
pub(crate) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_advance_and_boot_time_is_not_behind() {
        let first = Clocks::read();
        let second = Clocks::read();
        assert!(second.monotonic_ns >= first.monotonic_ns && first.monotonic_ns > 0);
        assert!(second.boottime_ns >= first.monotonic_ns);
    }

    #[test]
    fn suspended_time_is_never_negative() {
        assert_eq!(
            Clocks {
                monotonic_ns: 10,
                boottime_ns: 9
            }
            .suspended_ns(),
            0
        );
        assert_eq!(
            Clocks {
                monotonic_ns: 10,
                boottime_ns: 25
            }
            .suspended_ns(),
            15
        );
    }
}
