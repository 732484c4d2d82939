//! The test that needs per-CPU accounting of cgroup v1 (`cpuacct.usage_percpu`). It is skipped on machines without it.

use std::path::Path;

use super::Kind;

/// File of cgroup v1 with the CPU time of each CPU.
const PER_CPU: &str = "/sys/fs/cgroup/cpuacct/cpuacct.usage_percpu";
/// The test that compares with [`PER_CPU`], and the reason for skipping it without the file.
pub(super) const COMPARING_TEST: (&str, &str) = (
    "busy_time_is_within_half_a_percent_of_the_kernels_own_account",
    "cgroup v2 has no per-CPU accounting that is exact to 0.5 %",
);

/// Test of this kind that this machine cannot run, and the reason.
pub(super) fn not_run(kind: Kind) -> Option<(&'static str, String)> {
    let can_run = kind != Kind::Kernel || Path::new(PER_CPU).exists();
    let (test, why) = COMPARING_TEST;
    (!can_run).then(|| (test, why.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_kernel_tests_need_per_cpu_accounting() {
        assert_eq!(not_run(Kind::Unit), None);
        assert_eq!(not_run(Kind::Kernel).is_none(), Path::new(PER_CPU).exists());
    }
}
