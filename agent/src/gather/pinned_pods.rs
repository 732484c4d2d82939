//! `Watcher` finds pods that may hold CPUs exclusively, and measures their CPU use. The accounts thread calls it.

use std::{collections::BTreeMap, time::Duration};

use super::{POLL, shared_cpus};
use crate::sample::{
    SampleError,
    cgroup::{Cpusets, Kubepods, PinnedPod},
    clock::{Clocks, nanoseconds},
    cpus::CpuSet,
    procfs::Procfs,
};

/// One such pod at one poll.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinnedUse {
    pub uid: String,
    /// Cpuset of each container with a restricted cpuset.
    pub cpus: Vec<CpuSet>,
    /// Use of the pod since the previous poll on CPUs that count as capacity; `None` at the first poll, and if all of
    /// its CPUs are isolated.
    pub used: Option<Used>,
}

/// CPU time over a stretch of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Used {
    /// Length of the stretch, in nanoseconds.
    pub elapsed_ns: u64,
    /// CPU time in it, in nanoseconds.
    pub cpu_ns: u64,
}

/// Scans for such pods at an interval, and reads their use at every poll: they are few, since each has whole CPUs.
#[derive(Debug)]
pub(super) struct Watcher {
    every_ns: u64,
    due_ns: u64,
    isolated: CpuSet,
    /// Isolated CPUs that pods may run on, which no frame contains; `None` before they could be read.
    uncounted: Option<u32>,
    cpusets: Cpusets,
    /// Monotonic time of the last reading, and the CPU time read then, by pod UID.
    before: BTreeMap<String, (u64, u64)>,
}

impl Watcher {
    /// Scans at this interval.
    pub(super) fn new(every: Duration) -> Self {
        Self {
            // A sample may be slightly early.
            every_ns: nanoseconds(every.saturating_sub(POLL / 2)),
            due_ns: 0,
            isolated: CpuSet::default(),
            uncounted: None,
            cpusets: Cpusets::default(),
            before: BTreeMap::new(),
        }
    }

    /// Largest use of a pod that no frame contains, in milli-cores: that of all isolated CPUs. Every pod that may run on
    /// one can name it.
    pub(super) fn uncounted_milli(&self) -> u64 {
        self.uncounted
            .map_or(u64::MAX, |cpus| u64::from(cpus).saturating_mul(1000))
    }

    /// Returns the current pods. An error keeps the pods of the last scan for the next call.
    pub(super) fn turn(
        &mut self,
        at: Clocks,
        files: &Procfs,
        kubepods: Option<&Kubepods>,
    ) -> Result<Vec<PinnedUse>, SampleError> {
        if at.monotonic_ns >= self.due_ns {
            let kept = shared_cpus::read(files, kubepods)?;
            self.cpusets = kubepods.map_or_else(|| Ok(Cpusets::default()), Kubepods::cpusets)?;
            let of_pods = kept
                .isolated
                .within(kept.kubepods.as_ref().unwrap_or(&kept.isolated));
            self.uncounted = Some(of_pods.count());
            self.isolated = kept.isolated;
            self.due_ns = at.monotonic_ns.saturating_add(self.every_ns);
        }
        let Some(kubepods) = kubepods else {
            self.cpusets = Cpusets::default();
            self.before.clear();
            return Ok(Vec::new());
        };
        let mut now = BTreeMap::new();
        let mut held = Vec::new();
        for PinnedPod { pod, cpus } in &self.cpusets.confined {
            let Some(cpu_ns) = kubepods.cpu_ns(pod)? else {
                continue;
            };
            let counts = cpus.iter().any(|cpus| !cpus.without(&self.isolated).is_empty());
            let used = self.before.get(&pod.uid).map(|(then_ns, then_cpu_ns)| Used {
                elapsed_ns: at.monotonic_ns.saturating_sub(*then_ns),
                cpu_ns: cpu_ns.saturating_sub(*then_cpu_ns),
            });
            now.insert(pod.uid.clone(), (at.monotonic_ns, cpu_ns));
            held.push(PinnedUse {
                uid: pod.uid.clone(),
                cpus: cpus.clone(),
                used: used.filter(|_| counts),
            });
        }
        self.before = now;
        Ok(held)
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn at(seconds: u64) -> Clocks {
        Clocks {
            monotonic_ns: seconds * SECOND,
            boottime_ns: seconds * SECOND,
        }
    }

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// A machine with eight CPUs of which some are isolated.
    fn machine(root: &Path, isolated: &str) -> Procfs {
        write(root, "devices/system/cpu/online", "0-7\n");
        write(root, "devices/system/cpu/isolated", isolated);
        Procfs::at(root, root)
    }

    #[test]
    fn a_pod_is_found_when_it_is_due_and_its_use_read_at_every_poll() {
        let root = tempfile::tempdir().unwrap();
        let pod = "kubepods/podaaaa";
        write(root.path(), "cgroup.controllers", "cpu cpuset memory\n");
        write(root.path(), "kubepods/cpuset.cpus.effective", "0-7\n");
        write(root.path(), &format!("{pod}/cpu.stat"), "usage_usec 1000000\n");
        let kubepods = Kubepods::find(root.path()).unwrap();
        let mut watcher = Watcher::new(Duration::from_secs(5));
        let files = machine(root.path(), "\n");
        let mut turn = |seconds| watcher.turn(at(seconds), &files, Some(&kubepods)).unwrap();

        assert_eq!(turn(1), [], "it has no container yet");
        write(root.path(), &format!("{pod}/app/cpuset.cpus.effective"), "2-3\n");
        assert_eq!(turn(2), [], "not due");
        let held = |used| PinnedUse {
            uid: "aaaa".to_owned(),
            cpus: vec![CpuSet::parse("2-3").unwrap()],
            used,
        };
        assert_eq!(turn(6), [held(None)]);
        write(root.path(), &format!("{pod}/cpu.stat"), "usage_usec 1500000\n");
        let used = Used {
            elapsed_ns: SECOND,
            cpu_ns: SECOND / 2,
        };
        assert_eq!(turn(7), [held(Some(used))]);

        fs::remove_dir_all(root.path().join(pod)).unwrap();
        assert_eq!(turn(8), [], "gone, though nobody has looked again");
    }

    #[test]
    fn what_is_used_of_isolated_cpus_is_not_used_of_what_counts() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "cgroup.controllers", "cpu cpuset memory\n");
        write(root.path(), "kubepods/cpuset.cpus.effective", "0-7\n");
        write(root.path(), "kubepods/podaaaa/cpu.stat", "usage_usec 1\n");
        write(root.path(), "kubepods/podaaaa/app/cpuset.cpus.effective", "6-7\n");
        let kubepods = Kubepods::find(root.path()).unwrap();
        let used = |isolated| {
            let files = machine(root.path(), isolated);
            let mut watcher = Watcher::new(Duration::ZERO);
            watcher.turn(at(1), &files, Some(&kubepods)).unwrap();
            watcher.turn(at(2), &files, Some(&kubepods)).unwrap()[0]
                .used
                .is_some()
        };
        assert!(used("\n") && used("7\n") && !used("6-7\n"));
    }

    #[test]
    fn isolated_cpus_that_pods_may_use_are_uncounted() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "cgroup.controllers", "cpu cpuset memory\n");
        write(root.path(), "kubepods/cpuset.cpus.effective", "0-6\n");
        let kubepods = Kubepods::find(root.path()).unwrap();
        let uncounted = |isolated| {
            let mut watcher = Watcher::new(Duration::ZERO);
            assert_eq!(watcher.uncounted_milli(), u64::MAX, "not read yet");
            let files = machine(root.path(), isolated);
            watcher.turn(at(1), &files, Some(&kubepods)).unwrap();
            watcher.uncounted_milli()
        };
        assert_eq!(["\n", "7\n", "5-7\n"].map(uncounted), [0, 0, 2000]);
    }
}
