//! Tests of the CPU brake on a machine with CPUs that are isolated or exclusive. Prepared kernel rings of 16 CPUs pass
//! through the sampler and the brakes.

use std::{fs, path::Path};

use headroom_agent_ebpf::{
    Config, CpuRing,
    histogram::{BUCKETS, bucket},
    stamp::ticks,
};
use headroom_domain::hint::Brake;
use tempfile::TempDir;

use super::*;
use crate::sample::{
    STAT_EVERY, SampleError, Sampler,
    cpus::Kept,
    procfs::Procfs,
    ring::{Counters, RingSource, Rings, SAMPLING_SHIFT},
};

const CPUS_THERE: usize = 16;
/// Run-queue latency of everything that runs, in nanoseconds.
const WAIT_NS: u64 = 100_000_000;
/// Switches of a CPU between two polls; each ends a wait.
const SWITCHES: u64 = 10;
/// Time of the programs' attachment.
const START_NS: u64 = 40 * QUARTER;

/// The rings: CPUs that have been busy since before the programs were attached, and the others idle for as long.
struct Recorded {
    rings: Vec<CpuRing>,
    waits: Counters,
}

impl Recorded {
    fn with_busy(busy: usize) -> Self {
        let ring = |cpu| {
            let mut ring = CpuRing::default();
            ring.settle(START_NS, cpu < busy);
            ring
        };
        Self {
            rings: (0..CPUS_THERE).map(ring).collect(),
            waits: [0; BUCKETS],
        }
    }
}

impl Rings for Recorded {
    fn rings(&mut self) -> Result<Vec<CpuRing>, SampleError> {
        for ring in &mut self.rings {
            ring.nsw += SWITCHES;
        }
        Ok(self.rings.clone())
    }

    fn waits(&mut self, _generation: u32) -> Result<Vec<Counters>, SampleError> {
        self.waits[bucket(ticks(WAIT_NS))] += SWITCHES * CPUS_THERE as u64;
        Ok(vec![self.waits])
    }

    fn configure(&mut self, _config: Config) -> Result<(), SampleError> {
        Ok(())
    }
}

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Files of the machine: no tick has passed, so only the rings show busy time.
fn machine() -> (TempDir, Procfs) {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "devices/system/cpu/online", "0-15\n");
    write(root.path(), "devices/system/cpu/isolated", "12-15\n");
    let line = |cpu| format!("cpu{cpu} 0 0 0 0 0 0 0 0\n");
    let cpus: Vec<_> = (0..CPUS_THERE).map(line).collect();
    write(root.path(), "stat", &format!("cpu 0\n{}", cpus.concat()));
    let files = Procfs::at(root.path(), root.path());
    (root, files)
}

/// Brake after this time in which this number of CPUs were busy and tasks waited, while `kept` are withheld from
/// pods.
fn brake_after(seconds: u64, busy: usize, kept: Kept) -> (Brake, u64) {
    let (_root, files) = machine();
    let at = |ns| Clocks {
        monotonic_ns: ns,
        boottime_ns: ns,
    };
    let source = RingSource::new(Recorded::with_busy(busy), SAMPLING_SHIFT, START_NS).unwrap();
    let mut sampler = Sampler::new(Box::new(source), files, STAT_EVERY, at(START_NS)).unwrap();
    sampler.keep(kept);
    let mut decider = production();
    for quarter in 1..=seconds * 4 {
        let now = at(START_NS + quarter * QUARTER);
        let poll = sampler.poll(now).unwrap();
        decider.observe(Sample {
            at: now,
            poll: Some(poll),
            ..sample(quarter, 0)
        });
    }
    (
        decider.inputs.estimates().cpu.brake,
        u64::from(decider.inputs.machine().cpus),
    )
}

fn production() -> Decider {
    let identity = Identity {
        node: "n1".into(),
        boot_id: "b1".into(),
    };
    let cpu_source = CpuSource {
        origin: Origin::Ebpf,
        verdicts: Vec::new(),
        obstacle: None,
        shed: Shed::Nothing,
        is_calm: false,
    };
    Decider::new(identity, cpu_source, Profile::Production.timing(), POLL)
}

fn isolated() -> Kept {
    Kept {
        isolated: machine().1.isolated().unwrap(),
        ..Kept::default()
    }
}

#[test]
fn twelve_saturated_cpus_of_sixteen_stop_the_node_if_the_others_are_isolated() {
    assert_eq!(brake_after(35, 12, isolated()), (Brake::Stop, 12));
    assert_eq!(
        brake_after(35, 12, Kept::default()),
        (Brake::Off, 16),
        "four CPUs are free for pods"
    );
    assert_eq!(brake_after(35, 11, isolated()), (Brake::Off, 12), "one is");
}

#[test]
fn exclusive_and_isolated_cpus_are_not_shared() {
    let set = |text: &str| CpuSet::parse(text).unwrap();
    let kept = |kubepods: &str, exclusive: &str| Kept {
        kubepods: Some(set(kubepods)),
        exclusive: set(exclusive),
        ..isolated()
    };
    assert_eq!(brake_after(35, 8, kept("0-7", "15")), (Brake::Stop, 12));
    assert_eq!(brake_after(35, 8, kept("0-15", "8-11")), (Brake::Stop, 12));
    assert_eq!(brake_after(35, 8, kept("0-15", "9-11")), (Brake::Off, 12));
}
