//! `MemoryReader` reads the counters for memory brakes, for the sampling thread. Each file fails separately.

use super::{GatheredSignal, read_errors::ReadErrors};
use crate::{
    kernel::hooks::EventCounters,
    sample::{
        cgroup::{Kubepods, PodOoms},
        clock::Clocks,
        memory::{KillCounts, KillJudge, MemoryCounters},
        procfs::Procfs,
        psi::Subject,
    },
};

/// The counters as they were last read, and the judge of kills.
#[derive(Debug, Default)]
pub(super) struct MemoryReader {
    counters: MemoryCounters,
    kills: KillJudge,
}

impl MemoryReader {
    /// Current counters. An unreadable one keeps its value, so that events meanwhile count once it is readable again;
    /// a missing one is `None`.
    pub(super) fn read(
        &mut self,
        at: Clocks,
        files: &Procfs,
        kubepods: Option<&Kubepods>,
        events: EventCounters,
        errors: &mut ReadErrors,
    ) -> MemoryCounters {
        let counters = &mut self.counters;
        counters.direct_reclaim_ns = events.memory.reclaim_ns;
        if let Some(vm) = errors.note(files.vmstat(), GatheredSignal::Vmstat) {
            counters.vm = Some(vm);
        }
        if let Some(node) = errors.note(files.psi(Subject::Memory), GatheredSignal::MemoryPressure) {
            counters.node = node;
        }
        let pressure = kubepods.map_or(Ok(None), Kubepods::pressure);
        if let Some(pressure) = errors.note(pressure, GatheredSignal::KubepodsPressure) {
            counters.kubepods = pressure;
        }
        let limit = kubepods.map_or(Ok(None), Kubepods::limit_events);
        if let Some(limit) = errors.note(limit, GatheredSignal::LimitEvents) {
            counters.limit = limit;
        }
        if let Some(vm) = counters.vm {
            let counted = KillCounts {
                at_ns: at.monotonic_ns,
                vm,
                victims: events.memory.victims,
                limit: counters.limit,
            };
            let pods = || kubepods.map_or_else(|| Ok(PodOoms::new()), Kubepods::pod_ooms);
            let (kills, read) = self.kills.attribute(counted, pods);
            errors.note(read, GatheredSignal::Pods);
            counters.kills = kills;
        }
        *counters
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    use tempfile::TempDir;

    use super::*;
    use crate::sample::{
        memory::{Kills, Vmstat},
        psi::Psi,
    };

    const PRESSURE: &str = "proc/pressure/memory";
    const POD_PRESSURE: &str = "cgroup/kubepods/memory.pressure";
    const EVENTS: &str = "cgroup/kubepods/memory.events.local";
    const VMSTAT: &str = "proc/vmstat";

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn psi(some_us: u64) -> String {
        format!("some avg10=0.00 total={some_us}\nfull avg10=0.00 total=0\n")
    }

    /// A machine with kubepods, and its reader.
    struct MemoryFiles {
        root: TempDir,
        reader: MemoryReader,
        errors: ReadErrors,
    }

    impl MemoryFiles {
        fn new() -> Self {
            let root = tempfile::tempdir().unwrap();
            write(root.path(), "cgroup/cgroup.controllers", "cpu cpuset memory\n");
            write(root.path(), "cgroup/kubepods/memory.events", "max 0\noom 0\n");
            let machine = Self {
                root,
                reader: MemoryReader::default(),
                errors: ReadErrors::default(),
            };
            machine.set(0);
            machine
        }

        /// All files, with this much in each.
        fn set(&self, count: u64) {
            let root = self.root.path();
            write(
                root,
                VMSTAT,
                &format!("allocstall_normal {count}\noom_kill {count}\n"),
            );
            write(root, PRESSURE, &psi(count));
            write(root, POD_PRESSURE, &psi(count));
            write(root, EVENTS, &format!("max {count}\noom 0\n"));
        }

        fn read(&mut self, quarter: u64) -> MemoryCounters {
            let root = self.root.path();
            let files = Procfs::at(&root.join("proc"), &root.join("sys"));
            let kubepods = Kubepods::find(&root.join("cgroup")).unwrap();
            let at = Clocks {
                monotonic_ns: quarter * 250_000_000,
                boottime_ns: quarter * 250_000_000,
            };
            let events = EventCounters::default();
            self.reader
                .read(at, &files, Some(&kubepods), events, &mut self.errors)
        }
    }

    #[test]
    fn a_file_that_cannot_be_read_takes_none_of_the_others_with_it() {
        for (file, signal) in [
            (VMSTAT, GatheredSignal::Vmstat),
            (PRESSURE, GatheredSignal::MemoryPressure),
            (POD_PRESSURE, GatheredSignal::KubepodsPressure),
            (EVENTS, GatheredSignal::LimitEvents),
        ] {
            for garbled in ["", "oom_kill x\nsome total=x\nmax x\n"] {
                let mut machine = MemoryFiles::new();
                machine.read(1);
                machine.set(3);
                write(machine.root.path(), file, garbled);
                let counters = machine.read(2);
                assert_eq!(*machine.errors.failing(), BTreeSet::from([signal]), "{garbled:?}");
                let read = |path| if path == file { 0 } else { 3 };
                let counted = (
                    counters.vm.map_or(0, |vm: Vmstat| vm.oom_kills),
                    counters.node.map_or(0, |psi: Psi| psi.some_us),
                    counters.kubepods.map_or(0, |psi| psi.some_us),
                    counters.limit.map_or(0, |limit| limit.hits),
                );
                let expected = (read(VMSTAT), read(PRESSURE), read(POD_PRESSURE), read(EVENTS));
                assert_eq!(counted, expected, "{file} {garbled:?}");
                let kills = Kills {
                    node: read(VMSTAT),
                    limit: 0,
                };
                assert_eq!(counters.kills, kills, "kills are judged all the same: {file}");
                machine.set(3);
                let made_up = machine.read(3);
                assert_eq!(
                    (made_up.vm.unwrap().oom_kills, made_up.kills.node),
                    (3, 3),
                    "{file}"
                );
                assert!(machine.errors.failing().is_empty());
            }
        }
    }
}
