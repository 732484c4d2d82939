//! Pods that may hold CPUs for themselves alone, and how much CPU time they use meanwhile.

use std::{collections::BTreeMap, time::Duration};

use super::{POLL, nanoseconds};
use crate::sample::{
    SampleError,
    cgroup::{Confined, Kubepods},
    clock::Clocks,
};

/// One such pod at one poll.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The pod's UID.
    pub uid: String,
    /// How many CPUs each of its confined containers may run on.
    pub cpus: Vec<u32>,
    /// What the pod used since the poll before; `None` at the first.
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

/// Looks for such pods every now and then, and reads at every poll what they use: they are few, each has whole CPUs.
#[derive(Debug)]
pub(super) struct Watcher {
    every_ns: u64,
    due_ns: u64,
    confined: Vec<Confined>,
    /// Monotonic time and CPU time by UID, when it was last read.
    before: BTreeMap<String, (u64, u64)>,
}

impl Watcher {
    /// Looks for pods this often.
    pub(super) fn new(every: Duration) -> Self {
        Self {
            // A turn may come a little early.
            every_ns: nanoseconds(every.saturating_sub(POLL / 2)),
            due_ns: 0,
            confined: Vec::new(),
            before: BTreeMap::new(),
        }
    }

    /// The pods as they are now. After an error, what was known before stays known.
    pub(super) fn turn(&mut self, at: Clocks, kubepods: Option<&Kubepods>) -> Result<Vec<Held>, SampleError> {
        let Some(kubepods) = kubepods else {
            self.confined.clear();
            self.before.clear();
            return Ok(Vec::new());
        };
        if at.monotonic_ns >= self.due_ns {
            self.confined = kubepods.confined()?;
            self.due_ns = at.monotonic_ns.saturating_add(self.every_ns);
        }
        let mut now = BTreeMap::new();
        let mut held = Vec::new();
        for Confined { pod, cpus } in &self.confined {
            let Some(cpu_ns) = kubepods.cpu_ns(pod)? else {
                continue;
            };
            let used = self.before.get(&pod.uid).map(|(then_ns, then_cpu_ns)| Used {
                elapsed_ns: at.monotonic_ns.saturating_sub(*then_ns),
                cpu_ns: cpu_ns.saturating_sub(*then_cpu_ns),
            });
            now.insert(pod.uid.clone(), (at.monotonic_ns, cpu_ns));
            held.push(Held {
                uid: pod.uid.clone(),
                cpus: cpus.clone(),
                used,
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

    #[test]
    fn a_pod_is_found_when_it_is_due_and_its_use_read_at_every_poll() {
        let root = tempfile::tempdir().unwrap();
        let pod = "kubepods/podaaaa";
        write(root.path(), "cgroup.controllers", "cpu cpuset memory\n");
        write(root.path(), "kubepods/cpuset.cpus.effective", "0-7\n");
        write(root.path(), &format!("{pod}/cpu.stat"), "usage_usec 1000000\n");
        let kubepods = Kubepods::find(root.path()).unwrap();
        let mut watcher = Watcher::new(Duration::from_secs(5));
        let mut turn = |seconds| watcher.turn(at(seconds), Some(&kubepods)).unwrap();

        assert_eq!(turn(1), [], "it has no container yet");
        write(root.path(), &format!("{pod}/app/cpuset.cpus.effective"), "2-3\n");
        assert_eq!(turn(2), [], "not due");
        let held = |used| Held {
            uid: "aaaa".to_owned(),
            cpus: vec![2],
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
    fn a_machine_without_kubepods_holds_nothing() {
        assert_eq!(Watcher::new(Duration::ZERO).turn(at(1), None).unwrap(), []);
    }
}
