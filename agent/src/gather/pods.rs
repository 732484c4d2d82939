//! What each pod used, read once a frame and spread over it.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use headroom_domain::{
    estimate::{PodUse, Timing},
    resource::PerResource,
};

use super::{POLL, nanoseconds};
use crate::sample::{
    SampleError,
    cgroup::{Kubepods, Pod, PodMemory},
    clock::Clocks,
};

/// The hierarchy is looked through for new pods no more often than this.
const SCAN_EVERY: Duration = Duration::from_secs(5);

/// What the pods used in one frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodFrame {
    /// Use by pod UID, of the pods that were read at least twice and still run.
    pub used: BTreeMap<String, PodUse>,
    /// Pods that run and were read for the first time.
    pub unmeasured: BTreeSet<String>,
    /// Pods beyond the limit.
    pub untracked: usize,
    /// Cgroups that look like a pod's and have no UID we can read.
    pub unreadable: usize,
}

/// Reads pods a few at a time.
#[derive(Debug)]
pub(super) struct Reader {
    frame_ns: u64,
    /// The frame that is being read.
    frame: u64,
    waiting: Vec<Pod>,
    /// Pods of this frame, read or waiting.
    known: BTreeSet<String>,
    scanned_ns: u64,
    /// Cgroups created or removed, of all kinds, when the hierarchy was last looked through.
    changes: Option<u64>,
    before: BTreeMap<String, Reading>,
    now: BTreeMap<String, Reading>,
    result: PodFrame,
}

/// One pod at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reading {
    at_ns: u64,
    cpu_ns: u64,
    memory: PodMemory,
}

impl Reader {
    pub(super) fn new(timing: &Timing) -> Self {
        Self {
            frame_ns: nanoseconds(timing.frame()).max(1),
            frame: 0,
            waiting: Vec::new(),
            known: BTreeSet::new(),
            scanned_ns: 0,
            changes: None,
            before: BTreeMap::new(),
            now: BTreeMap::new(),
            result: PodFrame::default(),
        }
    }

    /// Does a turn at this time begin a new frame?
    pub(super) const fn ends_frame(&self, boottime_ns: u64) -> bool {
        boottime_ns / self.frame_ns != self.frame
    }

    /// Reads the pods that are due. At the first turn after a frame: what they used in it; then looks who is there.
    /// Looks again within the frame when `changes`, the number of cgroups created and removed so far, has grown; who
    /// does not know it sees new pods at the next frame.
    pub(super) fn turn(
        &mut self,
        at: Clocks,
        kubepods: Option<&Kubepods>,
        changes: Option<u64>,
    ) -> Result<Option<PodFrame>, SampleError> {
        let mut ended = None;
        if self.ends_frame(at.boottime_ns) {
            // Pods that the frame had no turn left for; a frame may end early when turns were missed.
            self.read(usize::MAX, at, kubepods)?;
            ended = Some(std::mem::take(&mut self.result));
            self.frame = at.boottime_ns / self.frame_ns;
            self.before = std::mem::take(&mut self.now);
            self.waiting.clear();
            self.known.clear();
            self.scan(at, kubepods, changes)?;
        } else if changes > self.changes && self.may_scan(at) {
            self.scan(at, kubepods, changes)?;
        }
        self.read(self.due(at.boottime_ns), at, kubepods)?;
        Ok(ended)
    }

    fn may_scan(&self, at: Clocks) -> bool {
        at.monotonic_ns.saturating_sub(self.scanned_ns) >= nanoseconds(SCAN_EVERY)
    }

    /// Looks who is there; who was not known in this frame is to be read in it.
    fn scan(
        &mut self,
        at: Clocks,
        kubepods: Option<&Kubepods>,
        changes: Option<u64>,
    ) -> Result<(), SampleError> {
        (self.scanned_ns, self.changes) = (at.monotonic_ns, changes);
        let scan = kubepods.map(Kubepods::scan).transpose()?.unwrap_or_default();
        (self.result.untracked, self.result.unreadable) = (scan.untracked, scan.unreadable);
        for pod in scan.pods {
            if self.known.insert(pod.uid.clone()) {
                self.waiting.push(pod);
            }
        }
        Ok(())
    }

    /// So many that the rest is read by the last turn of the frame.
    fn due(&self, boottime_ns: u64) -> usize {
        let left = self.frame_ns - boottime_ns % self.frame_ns;
        let turns = usize::try_from(left.div_ceil(nanoseconds(POLL))).unwrap_or(usize::MAX);
        self.waiting.len().div_ceil(turns.max(1))
    }

    fn read(&mut self, count: usize, at: Clocks, kubepods: Option<&Kubepods>) -> Result<(), SampleError> {
        let Some(kubepods) = kubepods else {
            self.waiting.clear();
            return Ok(());
        };
        for _ in 0..count {
            let Some(pod) = self.waiting.pop() else {
                return Ok(());
            };
            let (Some(cpu_ns), Some(memory)) = (kubepods.cpu_ns(&pod)?, kubepods.memory(&pod)?) else {
                continue;
            };
            let now = Reading {
                at_ns: at.monotonic_ns,
                cpu_ns,
                memory,
            };
            if let Some(before) = self.before.get(&pod.uid) {
                let used = now.since(before);
                // A cgroup may outlive its processes; it counts as gone then. Asked only where nothing ran.
                if used.low.cpu == 0 && !kubepods.is_populated(&pod)? {
                    continue;
                }
                self.result.used.insert(pod.uid.clone(), used);
            } else {
                self.result.unmeasured.insert(pod.uid.clone());
            }
            self.now.insert(pod.uid, now);
        }
        Ok(())
    }
}

impl Reading {
    fn since(&self, before: &Self) -> PodUse {
        let elapsed = u128::from(self.at_ns.saturating_sub(before.at_ns).max(1));
        let ran = u128::from(self.cpu_ns.saturating_sub(before.cpu_ns));
        let cpu = u64::try_from(ran * 1000 / elapsed).unwrap_or(u64::MAX);
        PodUse {
            low: PerResource {
                cpu,
                memory: self.memory.low.min(before.memory.low),
            },
            high: PerResource {
                cpu,
                memory: self.memory.high,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use headroom_domain::estimate::Profile;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn at(quarters: u64) -> Clocks {
        Clocks {
            monotonic_ns: quarters * SECOND / 4,
            boottime_ns: quarters * SECOND / 4 + 7,
        }
    }

    fn write_pod(root: &Path, uid: &str, cpu_us: u64, anon: u64) {
        let pod = root.join("kubepods").join(format!("pod{uid}"));
        fs::create_dir_all(&pod).unwrap();
        fs::write(pod.join("cpu.stat"), format!("usage_usec {cpu_us}\n")).unwrap();
        fs::write(pod.join("memory.current"), format!("{}\n", anon + 500)).unwrap();
        let stat = format!("anon {anon}\nactive_file 100\ninactive_file 200\n");
        fs::write(pod.join("memory.stat"), stat).unwrap();
        fs::write(pod.join("cgroup.events"), "populated 1\nfrozen 0\n").unwrap();
    }

    fn hierarchy() -> (tempfile::TempDir, Kubepods) {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("cgroup.controllers"), "cpu memory\n").unwrap();
        fs::create_dir(root.path().join("kubepods")).unwrap();
        let kubepods = Kubepods::find(root.path()).unwrap();
        (root, kubepods)
    }

    fn reader() -> Reader {
        Reader::new(&Profile::Demo.timing())
    }

    #[test]
    fn a_pod_is_reported_from_its_second_reading_on() {
        let (root, kubepods) = hierarchy();
        let mut reader = reader();
        write_pod(root.path(), "a", 1_000_000, 4000);
        assert_eq!(
            reader.turn(at(4), Some(&kubepods), None).unwrap().unwrap(),
            PodFrame::default()
        );
        for quarter in 5..8 {
            assert_eq!(reader.turn(at(quarter), Some(&kubepods), None).unwrap(), None);
        }
        write_pod(root.path(), "a", 1_500_000, 3000);
        assert_eq!(
            reader.turn(at(8), Some(&kubepods), None).unwrap().unwrap(),
            PodFrame {
                unmeasured: ["a".to_owned()].into(),
                ..PodFrame::default()
            }
        );
        for quarter in 9..12 {
            reader.turn(at(quarter), Some(&kubepods), None).unwrap();
        }
        let used = reader.turn(at(12), Some(&kubepods), None).unwrap().unwrap().used;
        let expected = PodUse {
            low: PerResource {
                cpu: 500,
                memory: 3000,
            },
            high: PerResource {
                cpu: 500,
                memory: 3250,
            },
        };
        assert_eq!(used, BTreeMap::from([("a".to_owned(), expected)]));
    }

    #[test]
    fn every_pod_is_read_once_a_frame_and_not_all_at_once() {
        let (root, kubepods) = hierarchy();
        for pod in 0..10 {
            write_pod(root.path(), &format!("{pod:02}"), 1, 1);
        }
        let mut reader = reader();
        let mut left = Vec::new();
        for quarter in 4..8 {
            reader.turn(at(quarter), Some(&kubepods), None).unwrap();
            left.push(reader.waiting.len());
        }
        assert_eq!(left, [7, 4, 2, 0]);
    }

    #[test]
    fn a_pod_whose_cgroup_is_gone_or_empty_is_not_reported() {
        let (root, kubepods) = hierarchy();
        let mut reader = reader();
        for uid in ["gone", "empty", "idle"] {
            write_pod(root.path(), uid, 1000, 1000);
        }
        for quarter in 4..8 {
            reader.turn(at(quarter), Some(&kubepods), None).unwrap();
        }
        fs::remove_dir_all(root.path().join("kubepods/podgone")).unwrap();
        fs::write(
            root.path().join("kubepods/podempty/cgroup.events"),
            "populated 0\n",
        )
        .unwrap();
        for quarter in 8..12 {
            reader.turn(at(quarter), Some(&kubepods), None).unwrap();
        }
        let used = reader.turn(at(12), Some(&kubepods), None).unwrap().unwrap().used;
        assert_eq!(used.keys().collect::<Vec<_>>(), ["idle"]);
    }

    #[test]
    fn a_frame_that_was_cut_short_is_read_to_its_end() {
        let (root, kubepods) = hierarchy();
        let mut reader = reader();
        for uid in ["a", "b", "c"] {
            write_pod(root.path(), uid, 1000, 1000);
        }
        for quarter in [4, 8, 12] {
            reader.turn(at(quarter), Some(&kubepods), None).unwrap();
        }
        let used = reader.turn(at(16), Some(&kubepods), None).unwrap().unwrap().used;
        assert_eq!(used.len(), 3);
    }

    #[test]
    fn a_pod_that_comes_within_a_frame_is_read_in_it_when_the_kernel_tells_of_cgroups() {
        let (root, kubepods) = hierarchy();
        let mut reader = Reader::new(&Profile::Production.timing());
        let minute = 4 * 60;
        // Frames of five minutes: the first of these turns begins one.
        reader.turn(at(5 * minute), Some(&kubepods), Some(7)).unwrap();
        write_pod(root.path(), "a", 1000, 1000);
        reader.turn(at(6 * minute), Some(&kubepods), Some(7)).unwrap();
        assert_eq!(reader.known.len(), 0, "nothing was created as far as is known");
        reader.turn(at(6 * minute + 1), Some(&kubepods), Some(8)).unwrap();
        assert_eq!(reader.known.len(), 1);
        write_pod(root.path(), "b", 1000, 1000);
        reader.turn(at(6 * minute + 2), Some(&kubepods), Some(9)).unwrap();
        assert_eq!(reader.known.len(), 1, "not again at once");
        reader.turn(at(7 * minute), Some(&kubepods), Some(9)).unwrap();
        assert_eq!(reader.known.len(), 2);
        let mut used = BTreeMap::new();
        for quarter in 7 * minute + 1..=15 * minute {
            if let Some(frame) = reader.turn(at(quarter), Some(&kubepods), Some(9)).unwrap() {
                used = frame.used;
            }
        }
        assert_eq!(used.len(), 2, "read in both frames");
    }

    #[test]
    fn a_machine_without_kubepods_has_no_pods() {
        let mut reader = reader();
        assert_eq!(reader.turn(at(4), None, None).unwrap(), Some(PodFrame::default()));
        assert_eq!(reader.turn(at(5), None, None).unwrap(), None);
    }
}
