//! `PodReader` measures the CPU and memory use of each pod once a frame, and spreads the readings over the frame. The
//! accounts thread calls it.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use headroom_domain::{
    estimate::{PodUse, Timing},
    resource::PerResource,
};

use super::POLL;
use crate::sample::{
    SampleError,
    cgroup::{Kubepods, Pod, PodMemory},
    clock::{Clocks, nanoseconds},
};

/// Minimum interval between two scans of the hierarchy for new pods.
const SCAN_EVERY: Duration = Duration::from_secs(5);

/// Use of the pods in one frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodFrame {
    /// Use by pod UID, of the pods that were read at least twice and still run.
    pub used: BTreeMap<String, PodUse>,
    /// Pods that run and were read for the first time, or could not be read.
    pub unmeasured: BTreeSet<String>,
    pub untracked: usize,
    /// Cgroups in the form of a pod's whose UID is unreadable.
    pub unreadable: usize,
}

/// Reads pods a few at a time.
#[derive(Debug)]
pub(super) struct PodReader {
    frame_ns: u64,
    /// The frame that is being read.
    frame: u64,
    waiting: Vec<Pod>,
    /// Pods of this frame, read or waiting.
    known: BTreeSet<String>,
    /// Time of the last scan of the hierarchy, or of the last attempt.
    scanned_ns: u64,
    /// True if the hierarchy was scanned in this frame.
    is_scanned: bool,
    /// Number of created and removed cgroups of all kinds at the last scan.
    changes: Option<u64>,
    /// Of the frame before. A pod that is not in it has no use yet: that takes two readings.
    before: BTreeMap<String, PodSample>,
    now: BTreeMap<String, PodSample>,
    result: PodFrame,
}

/// One pod at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PodSample {
    at_ns: u64,
    cpu_ns: u64,
    memory: PodMemory,
}

impl PodFrame {
    /// The frame without use that its peak may not contain. Only low estimates shrink: a pod that used isolated CPUs
    /// could otherwise leave and take the use of other pods with it.
    pub(super) fn without_uncounted(mut self, milli: u64) -> Self {
        for used in self.used.values_mut() {
            used.low.cpu = used.low.cpu.saturating_sub(milli);
        }
        self
    }
}

impl PodReader {
    pub(super) fn new(timing: &Timing) -> Self {
        Self {
            frame_ns: nanoseconds(timing.frame()).max(1),
            frame: 0,
            waiting: Vec::new(),
            known: BTreeSet::new(),
            scanned_ns: 0,
            is_scanned: false,
            changes: None,
            before: BTreeMap::new(),
            now: BTreeMap::new(),
            result: PodFrame::default(),
        }
    }

    /// The number of the frame that is being read.
    pub(super) const fn frame(&self) -> u64 {
        self.frame
    }

    /// True if the scan of the current frame succeeded.
    pub(super) const fn is_scanned(&self) -> bool {
        self.is_scanned
    }

    /// Reads the pods that are due. The first call after a frame returns the pods' use in it and scans for pods.
    /// Within the frame it scans again when `changes`, the number of created and removed cgroups, has grown; if that
    /// is unknown, new pods are found at the next frame.
    ///
    /// An unreadable pod does not affect the others: the first failure is returned with the ended frame. An
    /// unreadable pod still counts as present, and a failed scan is repeated. A frame without a successful scan is
    /// `None`: its pods are unknown.
    pub(super) fn turn(
        &mut self,
        at: Clocks,
        kubepods: Option<&Kubepods>,
        changes: Option<u64>,
    ) -> (Option<PodFrame>, Result<(), SampleError>) {
        let (mut ended, mut rest) = (None, Ok(()));
        let is_first = at.boottime_ns / self.frame_ns != self.frame;
        if is_first {
            // Pods that were not read within the frame; a frame may end early when samples were missed.
            rest = self.read(usize::MAX, at, kubepods);
            let result = std::mem::take(&mut self.result);
            ended = std::mem::take(&mut self.is_scanned).then_some(result);
            self.frame = at.boottime_ns / self.frame_ns;
            self.before = std::mem::take(&mut self.now);
            self.waiting.clear();
            self.known.clear();
        }
        let is_due = !self.is_scanned || changes > self.changes;
        let scanned = if is_first || is_due && self.may_scan(at) {
            self.scan(at, kubepods, changes)
        } else {
            Ok(())
        };
        let read = self.read(self.due(at.boottime_ns), at, kubepods);
        (ended, rest.and(scanned).and(read))
    }

    fn may_scan(&self, at: Clocks) -> bool {
        at.monotonic_ns.saturating_sub(self.scanned_ns) >= nanoseconds(SCAN_EVERY)
    }

    /// Lists the pods; a pod that is new in this frame must be read in it.
    fn scan(
        &mut self,
        at: Clocks,
        kubepods: Option<&Kubepods>,
        changes: Option<u64>,
    ) -> Result<(), SampleError> {
        self.scanned_ns = at.monotonic_ns;
        let scan = kubepods.map(Kubepods::scan).transpose()?.unwrap_or_default();
        (self.is_scanned, self.changes) = (true, changes);
        (self.result.untracked, self.result.unreadable) = (scan.untracked, scan.unreadable);
        for pod in scan.pods {
            if self.known.insert(pod.uid.clone()) {
                self.waiting.push(pod);
            }
        }
        Ok(())
    }

    /// Number of pods to read now, so that the last turn of the frame reads the rest.
    fn due(&self, boottime_ns: u64) -> usize {
        let left = self.frame_ns - boottime_ns % self.frame_ns;
        let turns = usize::try_from(left.div_ceil(nanoseconds(POLL))).unwrap_or(usize::MAX);
        self.waiting.len().div_ceil(turns.max(1))
    }

    /// Reads this number of waiting pods. An unreadable pod does not count as left; the first failure is returned.
    fn read(&mut self, count: usize, at: Clocks, kubepods: Option<&Kubepods>) -> Result<(), SampleError> {
        let Some(kubepods) = kubepods else {
            self.waiting.clear();
            return Ok(());
        };
        let mut outcome = Ok(());
        for _ in 0..count {
            let Some(pod) = self.waiting.pop() else { break };
            if let Err(error) = self.read_pod(&pod, at, kubepods) {
                self.result.unmeasured.insert(pod.uid);
                outcome = outcome.and(Err(error));
            }
        }
        outcome
    }

    fn read_pod(&mut self, pod: &Pod, at: Clocks, kubepods: &Kubepods) -> Result<(), SampleError> {
        let (Some(cpu_ns), Some(memory)) = (kubepods.cpu_ns(pod)?, kubepods.memory(pod)?) else {
            return Ok(());
        };
        let now = PodSample {
            at_ns: at.monotonic_ns,
            cpu_ns,
            memory,
        };
        if let Some(before) = self.before.get(&pod.uid) {
            let used = now.since(before);
            // A cgroup may outlive its processes; it counts as removed then. Checked only if the pod used no CPU.
            if used.low.cpu == 0 && !kubepods.is_populated(pod)? {
                return Ok(());
            }
            self.result.used.insert(pod.uid.clone(), used);
        } else {
            self.result.unmeasured.insert(pod.uid.clone());
        }
        self.now.insert(pod.uid.clone(), now);
        Ok(())
    }
}

impl PodSample {
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
    use std::{fs, os::unix::fs::symlink, path::Path};

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

    fn reader() -> PodReader {
        PodReader::new(&Profile::Demo.timing())
    }

    /// Runs a turn in which everything is readable; returns the frame that it ends.
    fn turn(reader: &mut PodReader, quarter: u64, kubepods: &Kubepods) -> Option<PodFrame> {
        turn_after(reader, quarter, kubepods, None)
    }

    /// Runs a turn after this number of cgroup changes.
    fn turn_after(
        reader: &mut PodReader,
        quarter: u64,
        kubepods: &Kubepods,
        changes: Option<u64>,
    ) -> Option<PodFrame> {
        let (ended, outcome) = reader.turn(at(quarter), Some(kubepods), changes);
        outcome.unwrap();
        ended
    }

    /// Has the hierarchy, which is a link to itself then, not be read any more; or lets it be read again.
    fn set_readable(root: &Path, is_readable: bool) {
        let (kubepods, aside) = (root.join("kubepods"), root.join("aside"));
        if is_readable {
            fs::remove_file(&kubepods).unwrap();
            fs::rename(aside, kubepods).unwrap();
        } else {
            fs::rename(&kubepods, aside).unwrap();
            symlink(&kubepods, &kubepods).unwrap();
        }
    }

    #[test]
    fn a_pod_is_reported_from_its_second_reading_on() {
        let (root, kubepods) = hierarchy();
        let mut reader = reader();
        write_pod(root.path(), "a", 1_000_000, 4000);
        assert_eq!(
            turn(&mut reader, 4, &kubepods),
            None,
            "nobody looked in the frame before"
        );
        for quarter in 5..8 {
            assert_eq!(turn(&mut reader, quarter, &kubepods), None);
        }
        write_pod(root.path(), "a", 1_500_000, 3000);
        assert_eq!(
            turn(&mut reader, 8, &kubepods).unwrap(),
            PodFrame {
                unmeasured: ["a".to_owned()].into(),
                ..PodFrame::default()
            }
        );
        for quarter in 9..12 {
            turn(&mut reader, quarter, &kubepods);
        }
        let used = turn(&mut reader, 12, &kubepods).unwrap().used;
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
            turn(&mut reader, quarter, &kubepods);
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
            turn(&mut reader, quarter, &kubepods);
        }
        fs::remove_dir_all(root.path().join("kubepods/podgone")).unwrap();
        fs::write(
            root.path().join("kubepods/podempty/cgroup.events"),
            "populated 0\n",
        )
        .unwrap();
        for quarter in 8..12 {
            turn(&mut reader, quarter, &kubepods);
        }
        let used = turn(&mut reader, 12, &kubepods).unwrap().used;
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
            turn(&mut reader, quarter, &kubepods);
        }
        let used = turn(&mut reader, 16, &kubepods).unwrap().used;
        assert_eq!(used.len(), 3);
    }

    #[test]
    fn a_pod_that_comes_within_a_frame_is_read_in_it_when_the_kernel_tells_of_cgroups() {
        let (root, kubepods) = hierarchy();
        let mut reader = PodReader::new(&Profile::Production.timing());
        let minute = 4 * 60;
        // Frames of five minutes: the first of these calls begins one.
        turn_after(&mut reader, 5 * minute, &kubepods, Some(7));
        write_pod(root.path(), "a", 1000, 1000);
        turn_after(&mut reader, 6 * minute, &kubepods, Some(7));
        assert_eq!(reader.known.len(), 0, "nothing was created as far as is known");
        turn_after(&mut reader, 6 * minute + 1, &kubepods, Some(8));
        assert_eq!(reader.known.len(), 1);
        write_pod(root.path(), "b", 1000, 1000);
        turn_after(&mut reader, 6 * minute + 2, &kubepods, Some(9));
        assert_eq!(reader.known.len(), 1, "not again at once");
        turn_after(&mut reader, 7 * minute, &kubepods, Some(9));
        assert_eq!(reader.known.len(), 2);
        let mut used = BTreeMap::new();
        for quarter in 7 * minute + 1..=15 * minute {
            if let Some(frame) = turn_after(&mut reader, quarter, &kubepods, Some(9)) {
                used = frame.used;
            }
        }
        assert_eq!(used.len(), 2, "read in both frames");
    }

    /// Quarters of a second in a frame of five minutes.
    const FRAME: u64 = 1200;

    /// Reader after the first call of its first frame, with pod `a` in the hierarchy.
    fn begun() -> (tempfile::TempDir, Kubepods, PodReader) {
        let (root, kubepods) = hierarchy();
        write_pod(root.path(), "a", 1000, 1000);
        let mut reader = PodReader::new(&Profile::Production.timing());
        turn(&mut reader, FRAME, &kubepods);
        (root, kubepods, reader)
    }

    #[test]
    fn a_frame_that_ended_is_told_though_nobody_could_look_who_is_there_now() {
        let (root, kubepods, mut reader) = begun();
        set_readable(root.path(), false);
        let (ended, outcome) = reader.turn(at(2 * FRAME), Some(&kubepods), None);
        assert_eq!(ended.unwrap().unmeasured, ["a".to_owned()].into());
        assert!(outcome.is_err() && !reader.is_scanned());

        set_readable(root.path(), true);
        assert_eq!(turn(&mut reader, 2 * FRAME + 1, &kubepods), None);
        assert!(!reader.is_scanned(), "not again at once");
        turn(&mut reader, 2 * FRAME + 20, &kubepods);
        assert!(reader.is_scanned(), "after five seconds");
        let ended = turn(&mut reader, 3 * FRAME, &kubepods).unwrap();
        assert!(ended.used.contains_key("a"), "{ended:?}");
    }

    #[test]
    fn of_a_frame_in_which_nobody_could_look_nothing_is_told() {
        let (root, kubepods, mut reader) = begun();
        set_readable(root.path(), false);
        let ended: Vec<_> = (FRAME + 1..=3 * FRAME)
            .filter_map(|quarter| reader.turn(at(quarter), Some(&kubepods), None).0)
            .collect();
        assert_eq!(ended.len(), 1, "the first, not the second");
        set_readable(root.path(), true);
        assert_eq!(turn(&mut reader, 3 * FRAME + 20, &kubepods), None);
        assert!(turn(&mut reader, 4 * FRAME, &kubepods).is_some());
    }

    #[test]
    fn a_pod_that_cannot_be_read_has_not_left_and_keeps_no_other_from_being_read() {
        let (root, kubepods, mut reader) = begun();
        for uid in ["b", "c"] {
            write_pod(root.path(), uid, 1000, 1000);
        }
        fs::write(root.path().join("kubepods/podb/cpu.stat"), "usage_usec ?\n").unwrap();
        // All but one call of the frame are missed: the rest is read at its end.
        let _first = reader.turn(at(2 * FRAME), Some(&kubepods), None);
        let (ended, outcome) = reader.turn(at(3 * FRAME), Some(&kubepods), None);
        let ended = ended.unwrap();
        assert!(outcome.is_err());
        assert_eq!(ended.used.keys().collect::<Vec<_>>(), ["a"]);
        assert_eq!(ended.unmeasured, ["b", "c"].map(str::to_owned).into());
    }

    #[test]
    fn a_machine_without_kubepods_has_no_pods() {
        let mut reader = reader();
        let ended = [4, 5, 8].map(|quarter| reader.turn(at(quarter), None, None).0);
        assert_eq!(ended, [None, None, Some(PodFrame::default())]);
    }
}
