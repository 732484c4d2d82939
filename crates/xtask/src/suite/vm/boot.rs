//! The kinds of boot of the emulated machine. Each selects the tests to run, the number of CPUs, and the arguments of
//! the kernel and of the tests.

use clap::ValueEnum;

use super::super::{SLOWER, accounts::MEASURED_BY};

/// How many times fewer instructions the machine runs in its second than those that the tests are written for.
const TIMES_SLOWER: u32 = 10;
/// How names of tests begin that need a kernel that is locked down, which nothing else is: they are marked `ignored`, so
/// that other runs name them.
const LOCKED_DOWN: &str = "lockdown::";
/// How names of tests begin that use up the memory of the machine, which no other test would survive: marked alike.
const SHORT: &str = "shortage::";
/// How names of tests begin that need a kernel that keeps no account of pressure: marked alike.
const NO_PRESSURE: &str = "no_pressure::";
/// How names of tests begin that need a CPU that the scheduler leaves alone: marked alike.
const ISOLATED: &str = "isolated::";
/// Tests of quotas, which say something else for each number of CPUs.
const QUOTAS: [&str; 2] = [
    "tasks_at_their_quota_do_not_make_the_node_shed",
    "quotas_are_no_saturation_and_crowds_are",
];
/// Tests that cannot be meant for an emulated machine, and why.
const NOT_EMULATED: [(&str, &str); 2] = [
    MEASURED_BY,
    (
        "what_was_shed_comes_back_when_the_node_calms_down",
        "an emulated CPU does not switch 70,000 times a second, which is what the real agent goes by",
    ),
];

/// One reason to boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::suite) enum Boot {
    /// All tests but those of the other boots.
    Plain,
    /// The kernel keeps its memory from everybody, root included.
    LockedDown,
    /// The machine runs out of memory.
    #[value(name = "short-of-memory")]
    Short,
    /// The kernel keeps no account of pressure.
    NoPressure,
    /// The scheduler leaves one of the CPUs alone.
    #[value(name = "isolated-cpu")]
    Isolated,
    /// Twice as many CPUs.
    FourCpus,
}

impl Boot {
    /// The name by which it is asked for.
    pub(in crate::suite) fn name(self) -> String {
        let value = self.to_possible_value();
        value.map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// Tests of its files that it leaves out, and why.
    pub(super) const fn left_out(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Plain => &NOT_EMULATED,
            Self::LockedDown | Self::Short | Self::NoPressure | Self::Isolated | Self::FourCpus => &[],
        }
    }

    /// How many CPUs the machine has.
    pub(super) const fn cpus(self) -> u32 {
        match self {
            Self::FourCpus => 4,
            Self::Plain | Self::LockedDown | Self::Short | Self::NoPressure | Self::Isolated => 2,
        }
    }

    /// What the kernel is told. What it does not know itself becomes the environment of the tests.
    pub(super) fn kernel_arguments(self) -> String {
        let own = match self {
            Self::Plain | Self::Short | Self::FourCpus => "psi=1",
            Self::LockedDown => "psi=1 lockdown=confidentiality",
            Self::NoPressure => "psi=0",
            Self::Isolated => "psi=1 isolcpus=1",
        };
        format!("{own} {SLOWER}={TIMES_SLOWER}")
    }

    /// What each test program is told.
    pub(super) fn test_arguments(self, filter: Option<&str>) -> Vec<&str> {
        let skipped = self.left_out().iter().flat_map(|(test, _)| ["--skip", test]);
        let own: &[&str] = match self {
            // Tests of the other boots are marked as ignored; here they would only be counted once more.
            Self::Plain => &[
                "--skip",
                LOCKED_DOWN,
                "--skip",
                SHORT,
                "--skip",
                NO_PRESSURE,
                "--skip",
                ISOLATED,
            ],
            Self::LockedDown => &[LOCKED_DOWN, "--ignored"],
            Self::Short => &[SHORT, "--ignored"],
            Self::NoPressure => &[NO_PRESSURE, "--ignored"],
            Self::Isolated => &[ISOLATED, "--ignored"],
            Self::FourCpus => &QUOTAS,
        };
        // What they print, as what they have measured, belongs into the console.
        filter
            .filter(|_| self == Self::Plain)
            .into_iter()
            .chain(["--nocapture"])
            .chain(own.iter().copied())
            .chain(skipped)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_told_what_to_leave_out_and_how_slow_they_are() {
        let plain = Boot::Plain.test_arguments(Some("busy"));
        assert_eq!(plain.first(), Some(&"busy"));
        let left_out = plain.iter().filter(|argument| **argument == "--skip");
        assert_eq!(left_out.count(), Boot::Plain.left_out().len() + 4);
        let locked_down = ["--nocapture", LOCKED_DOWN, "--ignored"];
        let short = ["--nocapture", SHORT, "--ignored"];
        // Nothing else can run there, whatever was asked for.
        for filter in [None, Some("busy")] {
            assert_eq!(Boot::LockedDown.test_arguments(filter), locked_down);
            assert_eq!(Boot::Short.test_arguments(filter), short);
        }
        for &boot in Boot::value_variants() {
            assert!(boot.kernel_arguments().contains(SLOWER), "{boot:?}");
            assert!(!boot.name().is_empty(), "{boot:?}");
        }
    }
}
