//! Boot configurations of the emulated machine. Each selects tests, the number of CPUs, and the arguments of the kernel and
//! of the tests.

use clap::ValueEnum;

use super::super::{SLOWER, cpuacct::COMPARING_TEST};

/// Slowdown of the emulated machine: instructions per second, compared with a usual machine.
const TIMES_SLOWER: u32 = 10;
/// Name prefix of tests that need a kernel with lockdown. They are `#[ignore]`d, so that other runs list them as ignored.
const LOCKED_DOWN: &str = "lockdown::";
/// Name prefix of tests that use up all memory, which would kill other tests. Also `#[ignore]`d.
const SHORT: &str = "shortage::";
/// Name prefix of tests that need a kernel without pressure stall information. Also `#[ignore]`d.
const NO_PRESSURE: &str = "no_pressure::";
/// Name prefix of tests that need an isolated CPU. Also `#[ignore]`d.
const ISOLATED: &str = "isolated::";
/// Tests of CPU quotas, whose expected values depend on the number of CPUs.
const QUOTAS: [&str; 2] = [
    "tasks_at_their_quota_do_not_make_the_node_shed",
    "throttled_quotas_are_not_saturation_but_crowds_are",
];
/// Tests that cannot run in an emulated machine, with the reason.
const NOT_EMULATED: [(&str, &str); 2] = [
    COMPARING_TEST,
    (
        "shed_capacity_returns_when_the_node_calms_down",
        "an emulated CPU cannot reach 70,000 context switches a second, the threshold of the agent",
    ),
];

/// A configuration of the kernel and the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::suite) enum Boot {
    /// Runs all tests except those of the other configurations.
    Plain,
    /// The kernel hides its memory from all users, root included (`lockdown=confidentiality`).
    LockedDown,
    /// Tests use up the memory of the machine.
    #[value(name = "short-of-memory")]
    Short,
    /// The kernel has no pressure stall information (`psi=0`).
    NoPressure,
    /// One CPU is isolated from the scheduler (`isolcpus=1`).
    #[value(name = "isolated-cpu")]
    Isolated,
    /// The machine has 4 CPUs instead of 2.
    FourCpus,
}

impl Boot {
    /// Name as a value of `--boot`.
    pub(in crate::suite) fn name(self) -> String {
        let value = self.to_possible_value();
        value.map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// Skipped tests, with the reason.
    pub(super) const fn skipped(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Plain => &NOT_EMULATED,
            Self::LockedDown | Self::Short | Self::NoPressure | Self::Isolated | Self::FourCpus => &[],
        }
    }

    pub(super) const fn cpus(self) -> u32 {
        match self {
            Self::FourCpus => 4,
            Self::Plain | Self::LockedDown | Self::Short | Self::NoPressure | Self::Isolated => 2,
        }
    }

    /// Arguments of the kernel. It passes unknown `NAME=value` arguments to init as environment variables.
    pub(super) fn kernel_arguments(self) -> String {
        let own = match self {
            Self::Plain | Self::Short | Self::FourCpus => "psi=1",
            Self::LockedDown => "psi=1 lockdown=confidentiality",
            Self::NoPressure => "psi=0",
            Self::Isolated => "psi=1 isolcpus=1",
        };
        format!("{own} {SLOWER}={TIMES_SLOWER}")
    }

    /// Arguments of each test program.
    pub(super) fn test_arguments(self, filter: Option<&str>) -> Vec<&str> {
        let skipped = self.skipped().iter().flat_map(|(test, _)| ["--skip", test]);
        let own: &[&str] = match self {
            // Ignored tests of the other configurations would be counted again here.
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
        // The output of tests, such as measured values, belongs in the console log.
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
    fn arguments_select_tests_and_set_the_slowdown() {
        let plain = Boot::Plain.test_arguments(Some("busy"));
        assert_eq!(plain.first(), Some(&"busy"));
        let skipped = plain.iter().filter(|argument| **argument == "--skip");
        assert_eq!(skipped.count(), Boot::Plain.skipped().len() + 4);
        let locked_down = ["--nocapture", LOCKED_DOWN, "--ignored"];
        let short = ["--nocapture", SHORT, "--ignored"];
        // The filter has no effect: no other test can run there.
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
