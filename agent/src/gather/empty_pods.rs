//! `EmptyPodsReader` finds out if no pod has a process in its cgroup. Then the container runtime has placed the containers
//! elsewhere, as with another cgroup driver than the kubelet's. The accounts thread calls it.

use std::{collections::BTreeSet, time::Duration};

use super::interval::Every;
use crate::sample::{
    SampleError,
    cgroup::{Kubepods, Pod},
    clock::Clocks,
};

/// Time between two checks. While a pod runs, a check reads one file.
const CHECK_EVERY: Duration = Duration::from_secs(15);

#[derive(Debug)]
pub(super) struct EmptyPodsReader {
    due: Every,
    /// A pod that had processes at the last check.
    running: Option<Pod>,
}

impl EmptyPodsReader {
    pub(super) fn new() -> Self {
        Self {
            due: Every::new(CHECK_EVERY),
            running: None,
        }
    }

    /// UIDs of the pods with a cgroup if none of them has a process, otherwise none; `None` if the check is not due, or
    /// there is no kubepods.
    ///
    /// # Errors
    /// If a file or directory is there but cannot be read or parsed.
    pub(super) fn turn(
        &mut self,
        at: Clocks,
        kubepods: Option<&Kubepods>,
    ) -> Result<Option<BTreeSet<String>>, SampleError> {
        let Some(kubepods) = kubepods else {
            self.running = None;
            return Ok(None);
        };
        if !self.due.is_due(at.monotonic_ns) {
            return Ok(None);
        }
        if let Some(running) = self.running.take()
            && kubepods.is_populated(&running)?
        {
            self.running = Some(running);
            return Ok(Some(BTreeSet::new()));
        }
        let mut empty = BTreeSet::new();
        for pod in kubepods.scan()?.pods {
            if kubepods.is_populated(&pod)? {
                self.running = Some(pod);
                return Ok(Some(BTreeSet::new()));
            }
            empty.insert(pod.uid);
        }
        Ok(Some(empty))
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    fn at(seconds: u64) -> Clocks {
        Clocks {
            monotonic_ns: seconds * 1_000_000_000,
            boottime_ns: seconds * 1_000_000_000,
        }
    }

    fn write_pod(root: &Path, uid: &str, populated: u8) {
        let pod = root.join("kubepods").join(format!("pod{uid}"));
        fs::create_dir_all(&pod).unwrap();
        fs::write(pod.join("cgroup.events"), format!("populated {populated}\n")).unwrap();
    }

    #[test]
    fn pods_are_empty_only_while_none_has_a_process() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("cgroup.controllers"), "cpu memory\n").unwrap();
        for (uid, populated) in [("a", 0), ("b", 0)] {
            write_pod(root.path(), uid, populated);
        }
        let kubepods = Kubepods::find(root.path());
        let mut reader = EmptyPodsReader::new();
        let mut turn = |seconds| reader.turn(at(seconds), kubepods.as_ref()).unwrap();
        let uids = |uids: &[&str]| Some(uids.iter().map(|&uid| uid.to_owned()).collect::<BTreeSet<_>>());
        assert_eq!(turn(0), uids(&["a", "b"]));
        assert_eq!(turn(5), None, "not due");
        write_pod(root.path(), "b", 1);
        assert_eq!(turn(15), uids(&[]));
        write_pod(root.path(), "a", 1);
        write_pod(root.path(), "b", 0);
        assert_eq!(turn(30), uids(&[]), "another pod runs");
        write_pod(root.path(), "a", 0);
        assert_eq!(turn(45), uids(&["a", "b"]));
        fs::remove_dir_all(root.path().join("kubepods/poda")).unwrap();
        assert_eq!(turn(60), uids(&["b"]));
        assert_eq!(EmptyPodsReader::new().turn(at(0), None).unwrap(), None);
    }
}
