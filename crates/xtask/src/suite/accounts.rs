//! Names the test that needs per-CPU accounts, which only cgroup version 1 keeps. Machines without these accounts list
//! it as not run.

use std::path::Path;

use super::Kind;

/// The account of single CPUs.
const PER_CPU: &str = "/sys/fs/cgroup/cpuacct/cpuacct.usage_percpu";
/// The test that measures by it, and why it is left out where there is none.
pub(super) const MEASURED_BY: (&str, &str) = (
    "busy_time_is_within_half_a_percent_of_the_kernels_own_account",
    "cgroup version 2 keeps no account of single CPUs that is exact to half a percent",
);

/// Tests of this kind that this machine cannot run, and why.
pub(super) fn not_run(kind: Kind) -> Option<(&'static str, &'static str)> {
    let is_measured = kind != Kind::Kernel || Path::new(PER_CPU).exists();
    (!is_measured).then_some(MEASURED_BY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_kernel_tests_are_measured_by_accounts() {
        assert_eq!(not_run(Kind::Unit), None);
        assert_eq!(not_run(Kind::Kernel).is_none(), Path::new(PER_CPU).exists());
    }
}
