//! The agent's kernel programs, attached to the running kernel, and their counters: [`Programs`] for all CPUs or one
//! task, [`Meter`] for one CPU.

use std::{
    mem, thread,
    time::{Duration, Instant},
};

use headroom_agent::{
    kernel::probe::{KernelMaps, Options, Probe},
    sample::{
        CounterSource as _, Counts, SampleError, Tick,
        clock::monotonic_ns,
        cpus::Kept,
        procfs::{CpuTime, Procfs},
        ring::{Counters, RingSource, Rings},
    },
};
use headroom_agent_ebpf::{
    Config, CpuRing,
    histogram::BUCKETS,
    ring::{BUSY, UNKNOWN, WINDOW_NS},
    stamp::ticks,
};

use crate::pace::happens_within;

/// Poll interval of kernel tests.
pub const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Readings this close together count as simultaneous, in nanoseconds.
const AT_ONCE_NS: u64 = 500_000;

/// Loads and attaches the programs. A kernel test fails where that is impossible; it is never skipped.
pub fn attach(options: &Options) -> Probe {
    Probe::load(options).expect(
        "kernel tests need root, an agent built with its kernel programs, and a kernel that takes them",
    )
}

/// Attached programs and their counters.
#[derive(Debug)]
pub struct Programs {
    pub probe: Probe,
    maps: KernelMaps,
}

/// Counters since the programs were attached, on all CPUs.
#[derive(Debug, Clone, Copy)]
pub struct Totals {
    pub switches: u64,
    pub waits: u64,
    /// Busy time until the reading, in nanoseconds.
    pub busy_ns: u64,
}

impl Programs {
    /// Attaches programs that sample every task.
    pub fn sampling_all(options: &Options) -> Self {
        Self::sampling(options, 0, 0)
    }

    /// Attaches programs that sample only this task.
    pub fn sampling_one(tid: u32) -> Self {
        Self::sampling(&Options::default(), tid, u32::MAX)
    }

    fn sampling(options: &Options, salt: u32, mask: u32) -> Self {
        let mut probe = attach(options);
        let mut maps = probe.take_maps().expect("not taken before");
        let config = Config {
            salt,
            mask,
            former_salt: salt,
            since: ticks(probe.attached_ns()),
            trusts_books: 1,
            ..Config::default()
        };
        maps.configure(config).expect("configure");
        Self { probe, maps }
    }

    /// Waits until the programs know the state of each CPU: its first switch reports it, and its busy time then
    /// counts from a little earlier.
    pub fn await_first_switches(&mut self) {
        let deadline = Instant::now() + happens_within();
        let online = Procfs::default().online().expect("online CPUs");
        loop {
            let rings = self.maps.rings().expect("read the rings");
            let is_known = |cpu: u32| rings.get(cpu as usize).is_some_and(|ring| ring.state != UNKNOWN);
            if online.iter().all(is_known) {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "a CPU without a switch in {:?}",
                happens_within()
            );
            thread::sleep(LOOK_EVERY);
        }
    }

    /// Waits of sampled tasks so far, by length.
    pub fn waits(&mut self) -> Counters {
        let mut sums = [0; BUCKETS];
        for counters in self.maps.waits(0).expect("read the waits") {
            for (sum, count) in sums.iter_mut().zip(counters) {
                *sum += count;
            }
        }
        sums
    }

    pub fn totals(&mut self) -> Totals {
        let now = monotonic_ns();
        let rings = self.maps.rings().expect("read the rings");
        let open_ns = |ring: &CpuRing| {
            if ring.state == BUSY {
                now.saturating_sub(ring.last)
            } else {
                0
            }
        };
        Totals {
            switches: rings.iter().map(|ring| ring.nsw).sum(),
            waits: self.waits().iter().sum(),
            busy_ns: rings.iter().map(|ring| ring.busy + open_ns(ring)).sum(),
        }
    }
}

/// The counters of one CPU, extracted from those of all.
#[derive(Debug)]
struct OneCpu {
    maps: KernelMaps,
    cpu: usize,
}

impl Rings for OneCpu {
    fn rings(&mut self) -> Result<Vec<CpuRing>, SampleError> {
        Ok(self.maps.rings()?.into_iter().skip(self.cpu).take(1).collect())
    }

    fn waits(&mut self, generation: u32) -> Result<Vec<Counters>, SampleError> {
        let cpus = self.maps.waits(generation)?;
        Ok(cpus.into_iter().skip(self.cpu).take(1).collect())
    }

    fn configure(&mut self, config: Config) -> Result<(), SampleError> {
        self.maps.configure(config)
    }
}

/// One CPU, read by the agent's own reader in intervals that end with a window.
#[derive(Debug)]
pub struct Meter {
    source: RingSource<OneCpu>,
    _probe: Probe,
    files: Procfs,
    cpu: u32,
    before: CpuTime,
}

/// Counters of one CPU in one interval.
#[derive(Debug)]
pub struct CpuInterval {
    pub counts: Counts,
    pub stat: CpuTime,
}

impl CpuInterval {
    pub const fn length_ns(&self) -> u64 {
        self.counts.until_ns - self.counts.from_ns
    }
}

impl Meter {
    /// Attaches programs and waits for the first switch on the CPU, which reports its state.
    pub fn start(cpu: u32) -> Self {
        let mut probe = attach(&Options::default());
        let maps = OneCpu {
            maps: probe.take_maps().expect("not taken before"),
            cpu: cpu as usize,
        };
        let mut meter = Self {
            source: RingSource::new(maps, 0, probe.attached_ns()).expect("configure"),
            _probe: probe,
            files: Procfs::default(),
            cpu,
            before: CpuTime::default(),
        };
        let deadline = Instant::now() + happens_within();
        meter.read();
        while meter.source.wants_stat() {
            assert!(
                Instant::now() < deadline,
                "no switch on cpu {cpu} in {:?}",
                happens_within()
            );
            meter.read();
        }
        meter
    }

    /// Counters since the previous reading.
    pub fn read(&mut self) -> CpuInterval {
        let deadline = Instant::now() + happens_within();
        let cpus = Kept::default().within(self.files.online().expect("online CPUs"));
        loop {
            assert!(
                Instant::now() < deadline,
                "no undisturbed moment in {:?}",
                happens_within()
            );
            let now_ns = border();
            let now = self
                .files
                .stat()
                .expect("CPU times")
                .cpu(self.cpu)
                .expect("listed");
            // This thread may have been preempted between the two.
            if monotonic_ns() - now_ns > AT_ONCE_NS {
                continue;
            }
            let tick = Tick {
                now_ns,
                cpus: &cpus,
                stat: None,
            };
            let counts = self.source.poll(&tick).expect("the counters");
            // Otherwise the ring was being written to at each attempt; the next reading covers this one.
            if counts.until_ns > counts.from_ns {
                let stat = since(mem::replace(&mut self.before, now), now);
                return CpuInterval { counts, stat };
            }
        }
    }
}

/// Waits until a window has just begun and returns its start.
fn border() -> u64 {
    loop {
        let now = monotonic_ns();
        let into = now % WINDOW_NS;
        if into <= AT_ONCE_NS {
            return now;
        }
        thread::sleep(Duration::from_nanos(WINDOW_NS - into));
    }
}

fn since(before: CpuTime, now: CpuTime) -> CpuTime {
    let CpuTime {
        busy_ns,
        steal_ns,
        irq_ns,
        idle_ns,
    } = now;
    CpuTime {
        busy_ns: busy_ns.saturating_sub(before.busy_ns),
        steal_ns: steal_ns.saturating_sub(before.steal_ns),
        irq_ns: irq_ns.saturating_sub(before.irq_ns),
        idle_ns: idle_ns.saturating_sub(before.idle_ns),
    }
}
