//! Tests of `Sampler` over a source that counts its calls, and over the machine that runs the test.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use tempfile::TempDir;

use super::*;

/// Remembers how often it was given CPU times.
struct CountingSource {
    with_stat: Arc<AtomicU32>,
    wants: bool,
}

impl CounterSource for CountingSource {
    fn origin(&self) -> Origin {
        Origin::Ebpf
    }

    fn wants_stat(&self) -> bool {
        self.wants
    }

    fn poll(&mut self, tick: &Tick<'_>) -> Result<Counts, SampleError> {
        if tick.stat.is_some() {
            self.with_stat.fetch_add(1, Ordering::Relaxed);
        }
        Ok(Counts::default())
    }

    fn sample_one_in(&mut self, _shift: u32) {}
}

struct ProcDir(TempDir);

impl ProcDir {
    fn new() -> Self {
        let machine = Self(TempDir::new().unwrap());
        machine.set("sys/devices/system/cpu/online", "0-1\n");
        machine.set("proc/stat", "cpu 0\ncpu0 0 0 0 0 0 0 0 0\ncpu1 0 0 0 0 0 0 0 0\n");
        machine
    }

    fn set(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn files(&self) -> Procfs {
        Procfs::at(&self.0.path().join("proc"), &self.0.path().join("sys"))
    }
}

fn at(milliseconds: u64) -> Clocks {
    Clocks {
        monotonic_ns: milliseconds * 1_000_000,
        boottime_ns: milliseconds * 1_000_000,
    }
}

fn reads_of_stat(wants: bool, stat_every: Duration) -> u32 {
    let (machine, with_stat) = (ProcDir::new(), Arc::new(AtomicU32::new(0)));
    let source = CountingSource {
        with_stat: Arc::clone(&with_stat),
        wants,
    };
    let mut sampler = Sampler::new(Box::new(source), machine.files(), stat_every, at(0)).unwrap();
    for poll in 1..=8 {
        sampler.poll(at(poll * 250)).unwrap();
    }
    with_stat.load(Ordering::Relaxed)
}

#[test]
fn proc_stat_is_read_when_due_or_when_the_source_wants_it() {
    assert_eq!(reads_of_stat(false, STAT_EVERY), 2);
    assert_eq!(reads_of_stat(false, Duration::ZERO), 8);
    assert_eq!(reads_of_stat(true, STAT_EVERY), 8);
}

#[test]
fn stat_covers_the_time_since_it_was_last_read() {
    let (machine, with_stat) = (ProcDir::new(), Arc::new(AtomicU32::new(0)));
    let source = CountingSource {
        with_stat,
        wants: false,
    };
    let mut sampler = Sampler::new(Box::new(source), machine.files(), STAT_EVERY / 2, at(0)).unwrap();
    assert_eq!(sampler.poll(at(250)).unwrap().stat, None);
    machine.set(
        "proc/stat",
        "cpu 0\ncpu0 20 0 0 30 0 0 0 5\ncpu1 10 0 0 40 0 0 0 0\n",
    );
    let span = sampler.poll(at(500)).unwrap().stat.unwrap();
    let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second();
    assert_eq!((span.elapsed_ns, span.time.busy_ns), (500_000_000, 35 * tick_ns));
    assert_eq!(span.time.steal_ns, 5 * tick_ns);
}

#[test]
fn failed_poll_is_covered_by_the_next() {
    let machine = ProcDir::new();
    let mut sampler = Sampler::new(
        Box::new(procstat::ProcStatSource::new(0)),
        machine.files(),
        Duration::ZERO,
        at(0),
    )
    .unwrap();
    machine.set("proc/stat", "nonsense\n");
    let error = sampler.poll(at(250)).unwrap_err().to_string();
    assert!(error.ends_with("proc/stat: no `cpu0`"), "{error}");
    machine.set("proc/stat", "cpu0 40 0 0 10 0 0 0 0\ncpu1 0 0 0 50 0 0 0 0\n");
    let poll = sampler.poll(at(500)).unwrap();
    assert_eq!((poll.counts.from_ns, poll.counts.until_ns), (0, 500_000_000));
    let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second();
    assert_eq!(poll.counts.busy_ns, 40 * tick_ns);
    assert_eq!((poll.online, poll.cpus, poll.origin), (2, 2, Origin::Procfs));
}

#[test]
fn proc_stat_that_cannot_be_read_takes_no_windows_from_who_does_not_need_it() {
    let (machine, with_stat) = (ProcDir::new(), Arc::new(AtomicU32::new(0)));
    let source = |wants| CountingSource {
        with_stat: Arc::clone(&with_stat),
        wants,
    };
    let sampler =
        |wants| Sampler::new(Box::new(source(wants)), machine.files(), STAT_EVERY / 2, at(0)).unwrap();
    let (mut plain, mut wanting) = (sampler(false), sampler(true));
    plain.poll(at(250)).unwrap();
    machine.set("proc/stat", "nonsense\n");
    for poll in 2..=5 {
        let poll = plain.poll(at(poll * 250)).unwrap();
        assert_eq!((poll.stat, poll.origin), (None, Origin::Ebpf));
    }
    assert!(wanting.poll(at(250)).is_err(), "it cannot do without");
    machine.set("proc/stat", "cpu0 40 0 0 10 0 0 0 0\ncpu1 0 0 0 50 0 0 0 0\n");
    let span = plain.poll(at(1500)).unwrap().stat.unwrap();
    assert_eq!(span.elapsed_ns, 1_500_000_000, "all that was not read is covered");
}

#[test]
fn procfs_source_measures_this_machine() {
    let now = Clocks::read();
    let source = procstat::ProcStatSource::new(now.monotonic_ns);
    let mut sampler = Sampler::new(Box::new(source), Procfs::default(), Duration::ZERO, now).unwrap();
    // Until this thread has run for three ticks.
    let deadline = std::time::Instant::now() + Duration::from_secs(30);
    let mut busy_ns = 0;
    while busy_ns < 30_000_000 && std::time::Instant::now() < deadline {
        busy_ns += sampler.poll(Clocks::read()).unwrap().counts.busy_ns;
    }
    assert!(busy_ns >= 30_000_000, "{busy_ns}");
}
