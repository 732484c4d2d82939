//! `SharedCpus` reads which CPUs pods may use at all: those that are not isolated, within the cpuset of kubepods. The
//! sampling thread reads them itself: the kernel adds nothing up for them, so that they never wait for pods' accounts.

use std::time::Duration;

use super::interval::Every;
use crate::sample::{
    SampleError,
    cgroup::Kubepods,
    clock::Clocks,
    cpus::{CpuSet, Kept},
    procfs::Procfs,
};

/// CPUs withheld from all pods, as of the last reading.
#[derive(Debug)]
pub(super) struct SharedCpus {
    due: Every,
    /// `None` before it could be read.
    kept: Option<Kept>,
}

impl SharedCpus {
    /// Reader with this interval.
    pub(super) fn new(every: Duration) -> Self {
        Self {
            due: Every::new(every),
            kept: None,
        }
    }

    /// Reads it, if it is due or unknown; `None` if not. After an error the earlier value stays.
    pub(super) fn turn(
        &mut self,
        at: Clocks,
        files: &Procfs,
        kubepods: Option<&Kubepods>,
    ) -> Option<Result<(), SampleError>> {
        if !self.due.is_due(at.monotonic_ns) && self.kept.is_some() {
            return None;
        }
        Some(read(files, kubepods).map(|kept| self.kept = Some(kept)))
    }

    /// Could it be read yet?
    pub(super) const fn is_known(&self) -> bool {
        self.kept.is_some()
    }

    /// CPUs withheld from pods if each of these is held by one pod; only these while the rest is unknown.
    pub(super) fn kept(&self, exclusive: CpuSet) -> Kept {
        Kept {
            exclusive,
            ..self.kept.clone().unwrap_or_default()
        }
    }
}

/// Reads which CPUs are isolated and which are for pods. Sets that leave pods none are wrong, or of a moment in which they
/// were being changed.
pub(super) fn read(files: &Procfs, kubepods: Option<&Kubepods>) -> Result<Kept, SampleError> {
    let (online, isolated) = (files.online()?, files.isolated()?);
    let counted = online.without(&isolated);
    if counted.is_empty() {
        return Err(SampleError::NoCpus {
            path: files.isolated_path().to_owned(),
            found: isolated.to_string(),
        });
    }
    let of_pods = kubepods.map_or(Ok(None), Kubepods::cpus)?;
    if let (Some(all), Some(kubepods)) = (&of_pods, kubepods)
        && counted.within(all).is_empty()
    {
        return Err(SampleError::NoCpus {
            path: kubepods.cpuset_path().unwrap_or_default(),
            found: all.to_string(),
        });
    }
    Ok(Kept {
        isolated,
        kubepods: of_pods,
        exclusive: CpuSet::default(),
    })
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
    fn a_machine_without_kubepods_may_isolate() {
        let root = tempfile::tempdir().unwrap();
        let files = machine(root.path(), "6-7\n");
        let mut shared = SharedCpus::new(Duration::ZERO);
        shared.turn(at(1), &files, None).unwrap().unwrap();
        let kept = shared.kept(CpuSet::default());
        assert_eq!((kept.isolated.to_string().as_str(), kept.kubepods), ("6-7", None));
    }

    #[test]
    fn sets_are_read_when_they_are_due_and_at_once_until_they_are_known() {
        let root = tempfile::tempdir().unwrap();
        let files = machine(root.path(), "0-7\n");
        let mut shared = SharedCpus::new(Duration::from_secs(5));
        assert!(shared.turn(at(1), &files, None).unwrap().is_err());
        assert!(!shared.is_known() && shared.turn(at(2), &files, None).unwrap().is_err());
        machine(root.path(), "7\n");
        assert!(shared.turn(at(3), &files, None).unwrap().is_ok() && shared.is_known());
        assert!(shared.turn(at(4), &files, None).is_none());
        assert!(shared.turn(at(6), &files, None).unwrap().is_ok());
    }

    #[test]
    fn sets_that_cannot_be_read_or_leave_no_cpu_change_nothing() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "cgroup.controllers", "cpu cpuset memory\n");
        write(root.path(), "kubepods/cpuset.cpus.effective", "0-7\n");
        let kubepods = Kubepods::find(root.path()).unwrap();
        let mut shared = SharedCpus::new(Duration::ZERO);
        let mut turn = |isolated: &str, of_pods: &str| {
            let files = machine(root.path(), isolated);
            write(root.path(), "kubepods/cpuset.cpus.effective", of_pods);
            let read = shared.turn(at(1), &files, Some(&kubepods)).unwrap();
            let Kept {
                isolated, kubepods, ..
            } = shared.kept(CpuSet::default());
            let read = read.map_err(|error| error.to_string());
            (read, format!("{isolated} of {}", kubepods.unwrap()))
        };
        let good = "6-7 of 2-7".to_owned();
        assert_eq!(turn("6-7\n", "2-7\n"), (Ok(()), good.clone()));
        for (isolated, of_pods, why) in [
            ("0-7\n", "2-7\n", "isolated: `0-7` leaves pods no CPU"),
            (
                "6-7\n",
                "6-7\n",
                "cpuset.cpus.effective: `6-7` leaves pods no CPU",
            ),
            ("6-7\n", "64\n", "`64` leaves pods no CPU"),
            ("6-7\n", "\n", "no `cpu list`"),
            ("6-7\n", "2-", "no `cpu list`"),
            ("nohz\n", "2-7\n", "isolated: `cpu list` is \"nohz\""),
        ] {
            let (read, kept) = turn(isolated, of_pods);
            assert!(read.as_ref().unwrap_err().contains(why), "{read:?}");
            assert_eq!(kept, good, "{isolated}{of_pods}");
        }
    }
}
