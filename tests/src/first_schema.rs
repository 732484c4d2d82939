//! The first checkpoint schema as implemented by the version that wrote it: layout and checks of a record. It must
//! stay unchanged, independent of today's types, while a rollback to a version that reads it is possible.

use std::{collections::BTreeMap, fs, path::Path, time::Duration};

use headroom_domain::estimate::{Profile, Timing};
use serde::{Deserialize, Serialize};

/// File that the version restored from.
const NEWEST: &str = "estimator.checkpoint";
const MARK: &[u8; 8] = b"HEADROOM";
const VERSION: u32 = 1;
/// Bytes before the record: mark, version, length and checksum.
const HEAD: usize = 20;
/// Accepted range of M in ppm; its lower bound was 10 %.
const ACCEPTED_PPM: std::ops::RangeInclusive<u32> = 100_000..=2_225_999;
/// Highest accepted number of pods.
const MOST_PODS: usize = 512;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Both<T> {
    pub cpu: T,
    pub memory: T,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FirstRecord {
    owner: Writer,
    pub boot_id: String,
    pub wall: Duration,
    pub state: State,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Writer {
    node: String,
    timing: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    at: Duration,
    history: Both<Ring>,
    pods: KnownPods,
    limits: Both<Option<u64>>,
    pub outcomes: Both<Outcome>,
    pub publication: Both<Ratio>,
    brakes: Both<[Duration; 3]>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Ring {
    capacity: usize,
    slots: Vec<Slot>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Slot {
    index: u64,
    peak: Option<u64>,
    departed: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct KnownPods {
    tracked: BTreeMap<String, KnownPod>,
    bound: Both<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct KnownPod {
    requests: Both<u64>,
    /// Deleting, guaranteed, with exclusive CPUs, listed.
    flags: [bool; 4],
    birth: u64,
    seen: u32,
    age: Both<u32>,
    low: Both<Cells>,
    peak: Both<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Cells {
    bytes: Vec<u8>,
    last: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    judged_after: u64,
    every: Option<u64>,
    /// M in ppm; the version's lower bound was 100,000.
    pub accumulator_ppm: u32,
    is_latched: bool,
    open: Vec<(u64, bool)>,
    last_hour: Option<u64>,
}

/// The ratio of one resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ratio {
    pub published: u32,
    agreeing: u32,
}

impl FirstRecord {
    /// Reads the record as an agent of the first schema would restore it from this folder for this node, with production
    /// timing.
    ///
    /// # Panics
    /// If the version would have rejected it.
    pub fn read(folder: &Path, node: &str) -> Self {
        let bytes = fs::read(folder.join(NEWEST)).expect(NEWEST);
        let (head, record) = bytes.split_at_checked(HEAD).expect("a head");
        assert_eq!(head, head_of(record), "mark, version, length and checksum");
        let (record, rest): (Self, &[u8]) = postcard::take_from_bytes(record).expect("a record");
        assert!(rest.is_empty(), "{} bytes too many", rest.len());
        let timing = Profile::Production.timing();
        assert_eq!(record.owner.node, node);
        assert_eq!(record.owner.timing, timing.profile.name());
        record.state.check(&timing);
        record
    }

    /// Writes the record as the version did.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn write(&self, folder: &Path) {
        let record = postcard::to_stdvec(self).expect("bytes");
        let bytes = [head_of(&record), record].concat();
        fs::write(folder.join(NEWEST), bytes).expect("write the record");
    }
}

impl State {
    /// The version's checks, with any frame as the last one that may have ended.
    fn check(&self, timing: &Timing) {
        let ring = u64::from(timing.ring_frames);
        let mut last = 0;
        for history in [&self.history.cpu, &self.history.memory] {
            assert_eq!(u64::try_from(history.capacity), Ok(ring));
            let frames: Vec<_> = history.slots.iter().map(|slot| slot.index).collect();
            assert!(frames.is_sorted_by(|one, other| one < other), "{frames:?}");
            let first = frames.first().copied().unwrap_or(0);
            last = frames.last().copied().unwrap_or(0);
            assert!(last - first < ring, "{frames:?}");
        }
        assert!(self.pods.tracked.len() <= MOST_PODS);
        for pod in self.pods.tracked.values() {
            assert!(pod.birth <= last, "{pod:?}");
            for cells in [&pod.low.cpu, &pod.low.memory] {
                assert_eq!(
                    u64::try_from(cells.bytes.len()),
                    Ok(4 * ring),
                    "a cell for each frame"
                );
            }
        }
        for outcome in [&self.outcomes.cpu, &self.outcomes.memory] {
            let Outcome {
                judged_after,
                every,
                accumulator_ppm,
                open,
                last_hour,
                ..
            } = outcome;
            assert_eq!(*judged_after, ring);
            let hour = timing.decision_frames.map(u64::from);
            assert!(every.is_none() || *every == hour, "{outcome:?}");
            assert!(ACCEPTED_PPM.contains(accumulator_ppm), "{outcome:?}");
            assert!(open.is_sorted(), "{outcome:?}");
            let frames = open.iter().map(|(frame, _)| *frame).chain(*last_hour);
            assert!(frames.max().is_none_or(|frame| frame <= last), "{outcome:?}");
        }
    }
}

/// Mark, version, length and checksum of a record.
fn head_of(record: &[u8]) -> Vec<u8> {
    let length = u32::try_from(record.len()).expect("a small record");
    let mut head = [MARK.as_slice(), &VERSION.to_le_bytes(), &length.to_le_bytes()].concat();
    let checksum = crc32fast::hash(&[head.as_slice(), record].concat());
    head.extend(checksum.to_le_bytes());
    head
}
