//! `Psi` has the running totals of pressure stall information (PSI). The kernel's averages are not used: they hide
//! events since the last poll.

use std::{path::Path, time::Duration};

use super::{SampleError, procfs::Procfs, read_if_present};
use crate::sample::field::{FieldError, number};

/// Time lost since boot, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Psi {
    /// Time in which some task waited.
    pub some_us: u64,
    /// Time in which all tasks waited; 0 if the kernel does not report it (CPU, before Linux 5.13).
    pub full_us: u64,
}

/// The resources the kernel keeps pressure of that matter here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// `/proc/pressure/cpu`. Throttled cgroups count as waiting: never to be used alone.
    Cpu,
    Memory,
}

impl Psi {
    /// Parses a pressure file.
    ///
    /// # Errors
    /// If the line `some` or a total is missing or malformed.
    pub fn parse(text: &str) -> Result<Self, FieldError> {
        let total = |kind: &str| {
            let Some(line) = text
                .lines()
                .find_map(|line| line.strip_prefix(kind)?.strip_prefix(' '))
            else {
                return Ok(None);
            };
            let field = format!("{kind} total");
            let total = line.split(' ').find_map(|item| item.strip_prefix("total="));
            number(total.ok_or_else(|| FieldError::missing(&field))?.trim(), &field).map(Some)
        };
        Ok(Self {
            some_us: total("some")?.ok_or_else(|| FieldError::missing("some"))?,
            full_us: total("full")?.unwrap_or(0),
        })
    }

    /// Shares of `elapsed` lost since an earlier reading, (some, full), in ppm, at most 1 000 000.
    pub fn shares_ppm(&self, earlier: &Self, elapsed: Duration) -> (u32, u32) {
        let share = |now: u64, then: u64| {
            let lost = u128::from(now.saturating_sub(then)) * 1_000_000;
            let ppm = lost.checked_div(elapsed.as_micros()).unwrap_or(0);
            u32::try_from(ppm.min(1_000_000)).unwrap_or(1_000_000)
        };
        (
            share(self.some_us, earlier.some_us),
            share(self.full_us, earlier.full_us),
        )
    }

    /// Reads a pressure file; `None` where the kernel keeps none (`CONFIG_PSI` or `psi=1` is missing).
    ///
    /// # Errors
    /// If the file is there but cannot be read or parsed.
    pub fn read(path: &Path) -> Result<Option<Self>, SampleError> {
        let Some(text) = read_if_present(path)? else {
            return Ok(None);
        };
        Self::parse(&text)
            .map(Some)
            .map_err(|fault| SampleError::field(path, fault))
    }
}

impl Procfs {
    /// Reads the node's pressure; `None` where the kernel keeps none.
    ///
    /// # Errors
    /// If the file is there but cannot be read or parsed.
    pub fn psi(&self, subject: Subject) -> Result<Option<Psi>, SampleError> {
        Psi::read(&self.path(match subject {
            Subject::Cpu => "pressure/cpu",
            Subject::Memory => "pressure/memory",
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMORY: &str = "some avg10=0.12 avg60=0.00 avg300=0.00 total=4500\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=1200\n";

    #[test]
    fn totals_are_read() {
        assert_eq!(
            Psi::parse(MEMORY),
            Ok(Psi {
                some_us: 4_500,
                full_us: 1_200
            })
        );
        let old = "some avg10=8.22 avg60=41.63 avg300=60.19 total=483997887\n";
        assert_eq!(
            Psi::parse(old),
            Ok(Psi {
                some_us: 483_997_887,
                full_us: 0
            })
        );
    }

    #[test]
    fn malformed_pressure_names_the_field() {
        assert_eq!(Psi::parse(""), Err(FieldError::missing("some")));
        assert_eq!(
            Psi::parse("some avg10=0.00\n"),
            Err(FieldError::missing("some total"))
        );
        let fault = Psi::parse("some total=1\nfull total=-5\n").unwrap_err();
        assert_eq!(
            fault,
            FieldError {
                field: "full total".into(),
                found: "-5".into()
            }
        );
    }

    #[test]
    fn shares_are_of_the_time_that_passed_and_never_more() {
        let earlier = Psi {
            some_us: 1_000,
            full_us: 1_000,
        };
        let later = Psi {
            some_us: 101_000,
            full_us: 900,
        };
        assert_eq!(later.shares_ppm(&earlier, Duration::from_secs(1)), (100_000, 0));
        assert_eq!(
            later.shares_ppm(&earlier, Duration::from_millis(50)),
            (1_000_000, 0)
        );
        assert_eq!(later.shares_ppm(&earlier, Duration::ZERO), (0, 0));
    }

    #[test]
    fn kernel_without_pressure_information_is_no_error() {
        assert!(matches!(Psi::read(Path::new("/proc/pressure-is-off")), Ok(None)));
    }
}
