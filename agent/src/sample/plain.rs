//! `PlainReader` reads plain signals: each is one number of one file below /proc, displayed as it is. A `PlainSignal`
//! has the file and the parser of one signal.
//!
//! A new plain signal takes a row here and a row in the table of signals; no code between them knows it by name.

use std::collections::BTreeMap;

use super::{
    SampleError,
    clock::Clocks,
    field::{FieldError, required},
    procfs::Procfs,
    psi::Psi,
    read_if_present,
};

#[derive(Debug)]
pub struct PlainSignal {
    /// Name in the table of signals.
    pub name: &'static str,
    pub file: &'static str,
    /// Meaning of the number.
    pub kind: PlainKind,
    /// The number in the text of the file.
    ///
    /// # Errors
    /// It is missing or no number.
    pub parse: fn(&str) -> Result<u64, FieldError>,
    /// Why it is not there on a machine without the file.
    pub lacks: &'static str,
}

/// Meaning of the number in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlainKind {
    Level,
    /// A total since boot; the value is its growth in a second.
    PerSecond,
}

/// Result of reading a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlainReading {
    Value(u64),
    /// The first of the two readings that a growth takes.
    First,
    /// There is no such file.
    Absent,
    /// The file is there and cannot be read.
    Failed,
}

/// Readings by the names of signals.
pub type PlainReadings = BTreeMap<&'static str, PlainReading>;

/// Tasks that wait for I/O without being interruptible.
pub static TASKS_BLOCKED: PlainSignal = PlainSignal {
    name: "tasks-blocked",
    file: "stat",
    kind: PlainKind::Level,
    parse: |text| required(text, "procs_blocked"),
    lacks: "there is no /proc/stat",
};

/// Time in which some task waited for I/O. The total is in microseconds, so its growth in a second is a share in ppm.
pub static PSI_IO: PlainSignal = PlainSignal {
    name: "psi-io",
    file: "pressure/io",
    kind: PlainKind::PerSecond,
    parse: |text| Psi::parse(text).map(|psi| psi.some_us),
    lacks: "this kernel has no I/O pressure",
};

/// Every signal of this kind.
static PLAIN_SIGNALS: &[&PlainSignal] = &[&TASKS_BLOCKED, &PSI_IO];

#[derive(Debug)]
pub struct PlainReader {
    files: Procfs,
    /// Totals of the last reading, with its monotonic time in nanoseconds.
    totals: BTreeMap<&'static str, (u64, u64)>,
}

impl PlainReader {
    pub const fn new(files: Procfs) -> Self {
        Self {
            files,
            totals: BTreeMap::new(),
        }
    }

    /// Reads each signal; returns the first error as well.
    pub fn read(&mut self, at: Clocks) -> (PlainReadings, Result<(), SampleError>) {
        let (mut readings, mut first) = (PlainReadings::new(), Ok(()));
        for signal in PLAIN_SIGNALS {
            let reading = match number(&self.files, signal) {
                Ok(None) => PlainReading::Absent,
                Ok(Some(number)) => self.reading(signal, number, at.monotonic_ns),
                Err(error) => {
                    first = first.and(Err(error));
                    PlainReading::Failed
                }
            };
            readings.insert(signal.name, reading);
        }
        (readings, first)
    }

    fn reading(&mut self, signal: &PlainSignal, now: u64, at_ns: u64) -> PlainReading {
        if signal.kind == PlainKind::Level {
            return PlainReading::Value(now);
        }
        let Some((before, before_ns)) = self.totals.insert(signal.name, (now, at_ns)) else {
            return PlainReading::First;
        };
        let grown = u128::from(now.saturating_sub(before)) * 1_000_000_000;
        let elapsed_ns = u128::from(at_ns.saturating_sub(before_ns));
        grown
            .checked_div(elapsed_ns)
            .map_or(PlainReading::First, |per_second| {
                PlainReading::Value(u64::try_from(per_second).unwrap_or(u64::MAX))
            })
    }
}

fn number(files: &Procfs, signal: &PlainSignal) -> Result<Option<u64>, SampleError> {
    let path = files.path(signal.file);
    let Some(text) = read_if_present(&path)? else {
        return Ok(None);
    };
    (signal.parse)(&text)
        .map(Some)
        .map_err(|fault| SampleError::field(&path, fault))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::*;

    static GROWING: PlainSignal = PlainSignal {
        name: "growing",
        file: "growing",
        kind: PlainKind::PerSecond,
        parse: |text| required(text, "total"),
        lacks: "",
    };

    fn reader(proc: &TempDir) -> PlainReader {
        PlainReader::new(Procfs::at(proc.path(), proc.path()))
    }

    fn at(seconds: u64) -> Clocks {
        Clocks {
            monotonic_ns: seconds * 1_000_000_000,
            boottime_ns: 0,
        }
    }

    #[test]
    fn a_level_is_read_and_a_missing_file_is_no_error() {
        let proc = TempDir::new().unwrap();
        let (readings, result) = reader(&proc).read(at(1));
        assert_eq!(readings.get("tasks-blocked"), Some(&PlainReading::Absent));
        result.unwrap();
        fs::write(proc.path().join("stat"), "cpu 1 2 3\nprocs_blocked 7\n").unwrap();
        let (readings, _) = reader(&proc).read(at(1));
        assert_eq!(readings.get("tasks-blocked"), Some(&PlainReading::Value(7)));
    }

    #[test]
    fn io_pressure_is_a_share_of_the_time_between_two_readings() {
        let proc = TempDir::new().unwrap();
        fs::create_dir(proc.path().join("pressure")).unwrap();
        let mut reader = reader(&proc);
        let mut read = |total_us: u64, seconds: u64| {
            let text = format!("some avg10=0.00 avg60=0.00 avg300=0.00 total={total_us}\n");
            fs::write(proc.path().join("pressure/io"), text).unwrap();
            reader.read(at(seconds)).0.get("psi-io").copied()
        };
        assert_eq!(read(1_000_000, 1), Some(PlainReading::First));
        assert_eq!(
            read(1_500_000, 3),
            Some(PlainReading::Value(250_000)),
            "a quarter of 2 s"
        );
    }

    #[test]
    fn a_file_without_its_number_fails_and_is_named() {
        let proc = TempDir::new().unwrap();
        fs::write(proc.path().join("stat"), "cpu 1 2 3\n").unwrap();
        let (readings, result) = reader(&proc).read(at(1));
        assert_eq!(readings.get("tasks-blocked"), Some(&PlainReading::Failed));
        let error = result.unwrap_err().to_string();
        assert!(error.contains("procs_blocked"), "{error}");
    }

    #[test]
    fn a_growth_takes_two_readings_and_never_goes_below_nothing() {
        let proc = TempDir::new().unwrap();
        let mut reader = reader(&proc);
        let second = 1_000_000_000;
        assert_eq!(reader.reading(&GROWING, 10, second), PlainReading::First);
        assert_eq!(reader.reading(&GROWING, 40, 3 * second), PlainReading::Value(15));
        assert_eq!(
            reader.reading(&GROWING, 40, 3 * second),
            PlainReading::First,
            "no time went by"
        );
        assert_eq!(
            reader.reading(&GROWING, 5, 4 * second),
            PlainReading::Value(0),
            "it began anew"
        );
    }
}
