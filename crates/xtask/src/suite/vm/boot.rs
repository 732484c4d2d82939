//! What the emulated machine is booted for: which tests run there, and how its kernel and they are told what it is.

use super::super::SLOWER;

/// How many times fewer instructions the machine runs in its second than those that the tests are written for.
const TIMES_SLOWER: u32 = 10;
/// How names of tests begin that need a kernel that is locked down, which nothing else is: they are marked `ignored`, so
/// that other runs name them.
const LOCKED_DOWN: &str = "lockdown::";
/// How names of tests begin that use up the memory of the machine, which no other test would survive: marked alike.
const SHORT: &str = "shortage::";
/// Tests that cannot be meant for an emulated machine, and why.
const NOT_EMULATED: [(&str, &str); 2] = [
    (
        "busy_time_is_within_half_a_percent_of_the_kernels_own_account",
        "cgroup version 2 keeps no account of single CPUs that is exact to half a percent",
    ),
    (
        "what_was_shed_comes_back_when_the_node_calms_down",
        "an emulated CPU does not switch 70,000 times a second, which is what the real agent goes by",
    ),
];

/// One reason to boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Boot {
    /// All tests but those of the other boots.
    Plain,
    /// The kernel keeps its memory from everybody, root included.
    LockedDown,
    /// The machine runs out of memory.
    Short,
}

impl Boot {
    pub(super) const ALL: [Self; 3] = [Self::Plain, Self::LockedDown, Self::Short];

    /// What it is called behind the kernel's release.
    pub(super) const fn suffix(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::LockedDown => ", locked down",
            Self::Short => ", short of memory",
        }
    }

    /// Tests of its files that it leaves out, and why.
    pub(super) const fn left_out(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Plain => &NOT_EMULATED,
            Self::LockedDown | Self::Short => &[],
        }
    }

    /// What the kernel is told. What it does not know itself becomes the environment of the tests.
    pub(super) fn kernel_arguments(self) -> String {
        let slower = format!("{SLOWER}={TIMES_SLOWER}");
        match self {
            Self::Plain | Self::Short => slower,
            Self::LockedDown => format!("lockdown=confidentiality {slower}"),
        }
    }

    /// What each test program is told.
    pub(super) fn test_arguments(self, filter: Option<&str>) -> Vec<&str> {
        let skipped = self.left_out().iter().flat_map(|(test, _)| ["--skip", test]);
        let own: &[&str] = match self {
            Self::Plain => &["--skip", LOCKED_DOWN, "--skip", SHORT],
            Self::LockedDown => &[LOCKED_DOWN, "--ignored"],
            Self::Short => &[SHORT, "--ignored"],
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
        assert_eq!(left_out.count(), Boot::Plain.left_out().len() + 2);
        let locked_down = ["--nocapture", LOCKED_DOWN, "--ignored"];
        let short = ["--nocapture", SHORT, "--ignored"];
        // Nothing else can run there, whatever was asked for.
        for filter in [None, Some("busy")] {
            assert_eq!(Boot::LockedDown.test_arguments(filter), locked_down);
            assert_eq!(Boot::Short.test_arguments(filter), short);
        }
        for boot in Boot::ALL {
            assert!(boot.kernel_arguments().contains(SLOWER), "{boot:?}");
        }
    }
}
