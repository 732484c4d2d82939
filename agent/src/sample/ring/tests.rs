//! Tests of `RingSource` against a brute-force timeline; the kernel's own ring code writes the rings.

use std::sync::{Arc, Mutex};

use headroom_agent_ebpf::{histogram::bucket, ring::guard, stamp};
use proptest::prelude::*;

use super::*;
use crate::sample::{
    cpus::{CpuSet, Cpus, Kept},
    procfs::Stat,
};

const MS: u64 = 1_000_000;
const START: u64 = 1_000 * WINDOW_NS;
/// Number of copies of an attempt.
const COPIES: usize = if copies::KEEPS_ORDER { 1 } else { 3 };

/// Simulated kernel, shared between the test and the source that reads it.
#[derive(Default)]
struct SimulatedKernel {
    rings: Vec<CpuRing>,
    histograms: Vec<Counters>,
    config: Config,
    /// Number of half-done updates that rings return before whole ones.
    torn: usize,
}

#[derive(Clone, Default)]
struct Fake(Arc<Mutex<SimulatedKernel>>);

impl Fake {
    fn with_cpus(cpus: usize) -> Self {
        let fake = Self::default();
        let mut kernel = fake.0.lock().unwrap();
        kernel.rings = vec![CpuRing::default(); cpus];
        kernel.histograms = vec![[0; BUCKETS]; 2];
        drop(kernel);
        fake
    }

    /// Switch as in `sched_switch`: `was` and `is` are the busy states before and after.
    fn switch(&self, cpu: usize, now: u64, was: bool, is: bool) {
        let ring = &mut self.0.lock().unwrap().rings[cpu];
        ring.nsw += 1;
        if ring.state == UNKNOWN {
            ring.settle(now, was);
        }
        if was != is {
            ring.turn(now, is);
        }
    }

    fn wait(&self, cpu: usize, now: u64, ticks: u64) {
        let mut kernel = self.0.lock().unwrap();
        let generation = kernel.config.hist_idx as usize;
        kernel.histograms[generation][bucket(ticks)] += 1;
        kernel.rings[cpu].add_wait(now, ticks);
    }

    fn config(&self) -> Config {
        self.0.lock().unwrap().config
    }

    fn source(&self) -> RingSource<Self> {
        RingSource::new(self.clone(), 3, START).unwrap()
    }
}

impl Rings for Fake {
    fn rings(&mut self) -> Result<Vec<CpuRing>, SampleError> {
        let mut kernel = self.0.lock().unwrap();
        let mut rings = kernel.rings.clone();
        if kernel.torn > 0 {
            kernel.torn -= 1;
            guard::open(&mut rings[0]);
        }
        Ok(rings)
    }

    fn waits(&mut self, generation: u32) -> Result<Vec<Counters>, SampleError> {
        Ok(vec![self.0.lock().unwrap().histograms[generation as usize]])
    }

    fn configure(&mut self, config: Config) -> Result<(), SampleError> {
        self.0.lock().unwrap().config = config;
        Ok(())
    }
}

/// Polls at `now_ns` with CPUs 0 and 1 online and without `/proc/stat`.
fn poll(source: &mut RingSource<Fake>, now_ns: u64) -> Counts {
    poll_with(source, now_ns, "0-1")
}

/// Poll with these CPUs online.
fn poll_with(source: &mut RingSource<Fake>, now_ns: u64, online: &str) -> Counts {
    let cpus = all(online);
    source
        .poll(&Tick {
            now_ns,
            cpus: &cpus,
            stat: None,
        })
        .unwrap()
}

/// All of these CPUs online, and none of them withheld.
fn all(online: &str) -> Cpus {
    Kept::default().within(CpuSet::parse(online).unwrap())
}

fn busy(counts: &Counts) -> Vec<u64> {
    counts
        .windows
        .windows
        .iter()
        .map(|window| window.busy_ns)
        .collect()
}

#[test]
fn task_that_runs_on_while_we_read_is_accounted() {
    let fake = Fake::with_cpus(1);
    let mut source = fake.source();
    fake.switch(0, START + 5 * MS, false, true);
    let now = START + 250 * MS;
    let counts = poll(&mut source, now);
    let first = START + WINDOW_NS;
    assert_eq!(
        (counts.from_ns, counts.until_ns),
        (first, now >> W_SHIFT << W_SHIFT)
    );
    assert_eq!(counts.busy_ns, counts.until_ns - counts.from_ns);
    assert!(busy(&counts).iter().all(|busy| *busy == WINDOW_NS));
}

#[test]
fn cpu_busy_since_before_attach_is_busy_back_to_attach() {
    let fake = Fake::with_cpus(1);
    let mut source = fake.source();
    fake.switch(0, START + 180 * MS, true, true);
    let counts = poll(&mut source, START + 250 * MS);
    assert_eq!(counts.busy_ns, counts.until_ns - counts.from_ns);
    assert_eq!(counts.lost_windows, 0);
}

#[test]
fn cpu_that_never_switched_is_what_procfs_says() {
    let fake = Fake::with_cpus(2);
    let mut source = fake.source();
    assert!(source.wants_stat());
    let cpus = all("0-1");
    let stat = Stat::parse("cpu0 24 0 0 1 0 0 0 0\ncpu1 1 0 0 24 0 0 0 0\n", 10 * MS).unwrap();
    let tick = Tick {
        now_ns: START + 250 * MS,
        cpus: &cpus,
        stat: Some(&stat),
    };
    let counts = source.poll(&tick).unwrap();
    assert_eq!(
        counts.busy_ns,
        counts.until_ns - counts.from_ns,
        "CPU 0 all the time, CPU 1 never"
    );
    assert!(source.wants_stat(), "still not known");

    fake.switch(0, START + 300 * MS, true, true);
    fake.switch(1, START + 300 * MS, false, false);
    let counts = poll(&mut source, START + 500 * MS);
    assert_eq!(counts.busy_ns, counts.until_ns - counts.from_ns);
    assert!(!source.wants_stat());
}

#[test]
fn gap_longer_than_the_ring_loses_windows_and_no_busy_time() {
    let fake = Fake::with_cpus(1);
    let mut source = fake.source();
    fake.switch(0, START, false, false);
    let before = poll(&mut source, START + 250 * MS);
    // Half-busy windows for 3.1 s.
    let mut at = before.until_ns;
    while at < START + 3_350 * MS {
        fake.switch(0, at, false, true);
        fake.switch(0, at + WINDOW_NS / 2, true, false);
        at += WINDOW_NS;
    }
    let counts = poll(&mut source, START + 3_350 * MS);
    assert_eq!(counts.from_ns, before.until_ns);
    assert_eq!(counts.busy_ns, (counts.until_ns - counts.from_ns) / 2);
    assert_eq!(
        counts.windows.windows.len() as u64 + counts.lost_windows,
        (counts.until_ns - counts.from_ns) / WINDOW_NS
    );
    assert!(
        (115..=120).contains(&counts.lost_windows),
        "{}",
        counts.lost_windows
    );
    assert!(busy(&counts).iter().all(|busy| *busy == WINDOW_NS / 2));
}

#[test]
fn half_done_update_is_read_again_and_one_that_stays_is_waited_for() {
    let fake = Fake::with_cpus(1);
    let mut source = fake.source();
    fake.switch(0, START, false, true);
    fake.0.lock().unwrap().torn = (copies::ATTEMPTS - 1) * COPIES;
    let counts = poll(&mut source, START + 100 * MS);
    assert!(counts.busy_ns > 0);

    fake.0.lock().unwrap().torn = copies::ATTEMPTS * COPIES;
    let none = poll(&mut source, START + 200 * MS);
    assert_eq!(
        (none.from_ns, none.until_ns, none.busy_ns),
        (counts.until_ns, counts.until_ns, 0)
    );
    let both = poll(&mut source, START + 300 * MS);
    assert_eq!(both.from_ns, counts.until_ns);
    assert_eq!(both.busy_ns, both.until_ns - both.from_ns);
}

#[test]
fn poll_within_the_same_window_has_nothing_to_tell() {
    let fake = Fake::with_cpus(1);
    let mut source = fake.source();
    let counts = poll(&mut source, START + 1);
    assert_eq!(
        (counts.until_ns - counts.from_ns, counts.windows.windows.len()),
        (0, 0)
    );
}

#[test]
fn waits_are_projected_by_the_sampling_factor_and_counted_once() {
    let fake = Fake::with_cpus(2);
    let mut source = fake.source();
    fake.switch(0, START, false, true);
    fake.switch(1, START, false, true);
    fake.wait(0, START + 20 * MS, 1_000);
    fake.wait(1, START + 30 * MS, 3_000);
    let counts = poll(&mut source, START + 100 * MS);
    assert_eq!(counts.wait_ns, 4_000 * 1_024 * 8);
    assert_eq!(
        counts
            .windows
            .windows
            .iter()
            .map(|window| window.wait_ns)
            .sum::<u64>(),
        counts.wait_ns
    );
    assert_eq!(counts.waits.count(), 2);

    fake.wait(0, START + 120 * MS, 500);
    let counts = poll(&mut source, START + 200 * MS);
    assert_eq!((counts.wait_ns, counts.waits.count()), (500 * 1_024 * 8, 1));
    let counts = poll(&mut source, START + 300 * MS);
    assert_eq!((counts.wait_ns, counts.waits.count()), (0, 0));
}

#[test]
fn waits_say_how_many_each_stands_for() {
    let fake = Fake::with_cpus(1);
    let mut source = fake.source();
    fake.switch(0, START, false, true);
    let mut factors = Vec::new();
    for number in 1..=4 {
        let now = START + number * 250 * MS;
        if number == 2 {
            source.sample_one_in(6);
        }
        fake.wait(0, now - MS, 1_000);
        let counts = poll(&mut source, now);
        factors.push((counts.wait_factor, counts.waits.count()));
    }
    // The second poll reads samples from before it configured the programs to sample less.
    assert_eq!(factors, [(8, 1), (8, 1), (64, 1), (64, 1)]);
}

#[test]
fn every_poll_turns_salt_and_generation_and_keeps_the_former_salt() {
    let fake = Fake::with_cpus(1);
    let mut source = fake.source();
    let mut before = fake.config();
    let mut residues = std::collections::BTreeSet::new();
    for number in 1..=64 {
        let now = START + number * 250 * MS;
        poll(&mut source, now);
        let config = fake.config();
        assert_ne!(config.hist_idx, before.hist_idx);
        assert_eq!((config.former_salt, config.mask), (before.salt, 7));
        assert!(stamp::elapsed(config.since, stamp::ticks(now)).abs_diff(stamp::ticks(250 * MS)) <= 1);
        residues.insert(config.salt & 7);
        before = config;
    }
    assert_eq!(residues.len(), 8, "every task is sampled at some time");
}

#[test]
fn switch_that_was_missed_is_counted_and_made_good() {
    let fake = Fake::with_cpus(1);
    let mut source = fake.source();
    fake.switch(0, START, false, false);
    let before = poll(&mut source, START + 100 * MS);
    assert_eq!((before.busy_ns, before.missed_switches), (0, 0));
    // The arrival of the task that leaves after 150 ms was not observed; 50 ms of that counted as idle.
    let leaves = before.until_ns + 100 * MS;
    fake.0.lock().unwrap().rings[0].correct(leaves, true, 150 * MS);
    fake.switch(0, leaves, true, false);
    let counts = poll(&mut source, START + 250 * MS);
    assert_eq!((counts.busy_ns, counts.missed_switches), (150 * MS, 1));
}

#[test]
fn cpu_that_went_offline_while_its_ring_said_busy_is_not_busy_for_ever() {
    let fake = Fake::with_cpus(2);
    let mut source = fake.source();
    fake.switch(0, START, false, false);
    fake.switch(1, START, false, true);
    let before = poll(&mut source, START + 250 * MS);
    assert_eq!(before.busy_ns, before.until_ns - before.from_ns);

    // Its last switch was not reported.
    for number in 2..=9 {
        let counts = poll_with(&mut source, START + number * 250 * MS, "0");
        assert_eq!((counts.busy_ns, counts.lost_windows), (0, 0), "poll {number}");
        assert!(busy(&counts).iter().all(|busy| *busy == 0), "poll {number}");
    }

    // Online again, the idle task leaves first: that shows the missed switch, and none of the offline time counts.
    let back = START + 9 * 250 * MS + 10 * MS;
    fake.0.lock().unwrap().rings[1].correct(back, false, 0);
    fake.switch(1, back, false, true);
    fake.switch(1, back + 50 * MS, true, false);
    let counts = poll(&mut source, START + 2_500 * MS);
    assert_eq!((counts.busy_ns, counts.missed_switches), (50 * MS, 1));
    let counts = poll(&mut source, START + 2_750 * MS);
    assert_eq!(counts.busy_ns, 0);
}

#[test]
fn what_a_cpu_did_before_it_went_offline_counts() {
    let fake = Fake::with_cpus(2);
    let mut source = fake.source();
    fake.switch(0, START, false, false);
    fake.switch(1, START, false, true);
    let before = poll(&mut source, START + 250 * MS);
    let off = before.until_ns + 60 * MS;
    fake.switch(1, off, true, false);
    let counts = poll_with(&mut source, START + 500 * MS, "0");
    assert_eq!((counts.from_ns, counts.busy_ns), (before.until_ns, 60 * MS));
    let counts = poll_with(&mut source, START + 750 * MS, "0");
    assert_eq!(counts.busy_ns, 0);
}

#[test]
fn cpu_that_is_offline_and_never_switched_is_not_waited_for() {
    let fake = Fake::with_cpus(2);
    let mut source = fake.source();
    fake.switch(0, START, false, false);
    poll_with(&mut source, START + 250 * MS, "0");
    assert!(!source.wants_stat());
    poll(&mut source, START + 500 * MS);
    assert!(source.wants_stat(), "online, and not known yet");
}

/// One CPU's life: it changes between idle and busy after each of these gaps.
#[derive(Clone, Debug)]
struct Life {
    starts_busy: bool,
    gaps: Vec<u64>,
}

impl Life {
    fn strategy() -> impl Strategy<Value = Self> {
        // From bursts far shorter than a window to silence of seconds.
        let gap = prop_oneof![1_u64..100_000, 100_000..(20 * MS), (20 * MS)..(3_000 * MS)];
        (any::<bool>(), prop::collection::vec(gap, 1..120))
            .prop_map(|(starts_busy, gaps)| Self { starts_busy, gaps })
    }

    /// (time, busy from then on), ascending.
    fn turns(&self) -> Vec<(u64, bool)> {
        let mut at = START;
        let mut is_busy = self.starts_busy;
        let turn = |gap: &u64| {
            at += gap;
            is_busy = !is_busy;
            (at, is_busy)
        };
        self.gaps.iter().map(turn).collect()
    }

    fn busy_between(&self, from: u64, until: u64) -> u64 {
        let mut sum = 0;
        let (mut since, mut is_busy) = (0, self.starts_busy);
        for (at, next) in self.turns().into_iter().chain([(u64::MAX, false)]) {
            if is_busy {
                sum += at.min(until).saturating_sub(since.max(from));
            }
            (since, is_busy) = (at, next);
        }
        sum
    }
}

proptest! {
    /// For any behaviour of CPUs and any delay of copies: every window is exact, and so is the sum, also over lost
    /// windows; only a first poll that is too late must estimate its loss.
    #[test]
    fn windows_and_sums_are_exact(
        lives in prop::collection::vec(Life::strategy(), 1..4),
        polls in prop::collection::vec((20 * MS..2_500 * MS, 0..30 * MS), 1..20),
    ) {
        let fake = Fake::with_cpus(lives.len());
        let mut source = fake.source();
        for (cpu, life) in lives.iter().enumerate() {
            // Known from the start; the other tests cover CPUs that settle later.
            fake.switch(cpu, START, life.starts_busy, life.starts_busy);
        }
        let mut pending: Vec<_> = lives.iter().map(|life| life.turns().into_iter().peekable()).collect();
        let mut now = START;
        let mut is_first = true;
        for (gap, delay) in polls {
            now += gap;
            for (cpu, turns) in pending.iter_mut().enumerate() {
                while let Some((at, is)) = turns.next_if(|(at, _)| *at <= now + delay) {
                    fake.switch(cpu, at, !is, is);
                }
            }
            let counts = poll_with(&mut source, now, "0-3");
            let oracle = |from, until| lives.iter().map(|life| life.busy_between(from, until)).sum::<u64>();
            if !is_first || counts.lost_windows == 0 {
                prop_assert_eq!(counts.busy_ns, oracle(counts.from_ns, counts.until_ns));
            }
            is_first &= counts.until_ns == counts.from_ns;
            for (number, window) in counts.windows.iter() {
                prop_assert_eq!(window.busy_ns, oracle(number << W_SHIFT, (number + 1) << W_SHIFT), "window {}", number);
            }
            let covered = counts.windows.windows.len() as u64 + counts.lost_windows;
            prop_assert_eq!(covered, (counts.until_ns - counts.from_ns) >> W_SHIFT);
            prop_assert!(gap + delay > 2_100 * MS || counts.lost_windows == 0);
            now += delay;
        }
    }
}
