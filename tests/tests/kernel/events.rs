//! Tests of the hooks that fire rarely, on the running kernel: stalls, victims, cgroups. Also tests of lost programs,
//! which are attached again, and of shed sampling.
#![expect(clippy::unwrap_used, reason = "tests panic: a returned error has no stack")]

use std::{
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    process::Command,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use e2e::{
    cgroup::Limited,
    cpu_load::Loop,
    kernel::attach,
    kernel_types::KernelTypes,
    pace::{as_many, happens_within},
    seccomp::{self, Command as Bpf},
};
use headroom_agent::{
    gather::{Gatherer, POLL, Sample},
    kernel::{
        events::KernelEvents,
        hooks::{EventCounters, Hook},
        probe::{Health, Options, Probe},
        supervisor::{Limits, ProbeState, Shed, Watch},
    },
    sample::{Origin, Poll, STAT_EVERY, Sampler, clock::Clocks, cpus::CpuSet, procfs::Procfs, ring},
};
use headroom_domain::estimate::Profile;
use headroom_testbed::{ping_pong, thread::last_cpu};
use rustix::io::Errno;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

/// More tasks than a storm has at a time.
const CROWD: u64 = 20_000;
const POLL_NS: u64 = 250_000_000;
const MS: Duration = Duration::from_millis(1);

/// Serialises the tests, which count events of the whole machine.
fn machine() -> MutexGuard<'static, ()> {
    static MACHINE: Mutex<()> = Mutex::new(());
    MACHINE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read(events: &mut KernelEvents) -> EventCounters {
    events.read().unwrap()
}

#[test]
fn every_hook_is_attached_on_this_kernel() {
    let _machine = machine();
    let probe = attach(&Options::default());
    for verdict in probe.verdicts() {
        assert_eq!(verdict.health, Health::Ok, "{verdict:?}");
    }
    assert_eq!(probe.verdicts().len(), Hook::ALL.len());
}

#[test]
fn optional_btf_fields_may_be_absent() {
    let _machine = machine();
    let with_another_name = |field: &str| {
        let folder = tempfile::tempdir().unwrap();
        let btf = folder.path().join("vmlinux");
        let mut types = KernelTypes::read();
        types.rename(field, &"x".repeat(field.len()));
        types.write(&btf);
        let options = Options {
            btf,
            ..Options::default()
        };
        Probe::load(&options)
    };
    for field in ["prio", "sum_exec_runtime", "prev_sum_exec_runtime"] {
        let probe = with_another_name(field).unwrap();
        for verdict in probe.verdicts() {
            assert_eq!(verdict.health, Health::Ok, "without {field}: {verdict:?}");
        }
    }
    assert!(
        with_another_name("pid").is_err(),
        "without it nothing can be counted"
    );
}

#[test]
fn direct_reclaim_lasts_from_its_begin_to_its_end() {
    let _machine = machine();
    // Nothing on this machine is short of memory, so the programs run without their event.
    let raw = Options {
        typed: false,
        ..Options::default()
    };
    let mut probe = attach(&raw);
    let mut events = probe.take_events().unwrap();
    let before = read(&mut events);
    let begun = Instant::now();
    probe.test_run(Hook::ReclaimBegin, &[]).unwrap();
    thread::sleep(20 * MS);
    probe.test_run(Hook::ReclaimEnd, &[]).unwrap();
    let longest = begun.elapsed();
    let after = read(&mut events);
    let stalled = Duration::from_nanos(after.memory.reclaim_ns - before.memory.reclaim_ns);
    assert_eq!(after.memory.reclaims - before.memory.reclaims, 1);
    assert!(
        stalled >= 19 * MS && stalled <= longest,
        "{stalled:?} of at most {longest:?}"
    );

    probe.test_run(Hook::ReclaimEnd, &[]).unwrap();
    assert_eq!(
        read(&mut events).memory.reclaims,
        after.memory.reclaims,
        "an end without a begin is none"
    );
}

#[test]
fn task_that_meets_its_limit_is_a_victim_and_no_stall_of_the_machine() {
    let _machine = machine();
    let mut probe = attach(&Options::default());
    let mut events = probe.take_events().unwrap();
    let limit = Limited::memory("headroom-events", 32 << 20);
    let before = read(&mut events);
    // Doubles a string until it is killed.
    let script = format!(
        "echo $$ > {}; x=0123456789abcdef; while :; do x=$x$x; done",
        limit.procs().display()
    );
    let ended = Command::new("sh").args(["-c", &script]).status().unwrap();
    assert!(!ended.success());
    let after = read(&mut events);
    assert_eq!(after.memory.victims - before.memory.victims, 1);
    assert_eq!(
        after.memory.reclaims, before.memory.reclaims,
        "the machine had memory to spare"
    );
}

#[test]
fn created_and_removed_cgroups_are_counted() {
    let _machine = machine();
    let mut probe = attach(&Options::default());
    let mut events = probe.take_events().unwrap();
    let before = read(&mut events);
    for _ in 0..10 {
        drop(Limited::memory("headroom-events-churn", 1 << 20));
    }
    let counted = read(&mut events).changes.cgroups() - before.changes.cgroups();
    assert!(counted >= 20, "{counted} changes");
}

/// A gatherer on the kernel source, as the agent makes it, that notices silence after a second.
fn gatherer(mut probe: Probe) -> Gatherer {
    let maps = probe.take_maps().unwrap();
    let source = ring::RingSource::new(maps, ring::SAMPLING_SHIFT, probe.attached_ns()).unwrap();
    let files = Procfs::default();
    Gatherer {
        sampler: Sampler::new(Box::new(source), files.clone(), STAT_EVERY, Clocks::read()).unwrap(),
        probe: Some(probe),
        watch: Watch::new(Duration::from_secs(1), Duration::from_secs(60)),
        limits: Limits {
            hot_switches: as_many(Limits::HOT_SWITCHES),
            ..Limits::from_timing(&Profile::Demo.timing())
        },
        has_program_stats: false,
        files,
        cgroup_root: PathBuf::from("/nonexistent"),
        timing: Profile::Production.timing(),
    }
}

/// Runs it on its own thread until a sample matches, and returns all samples up to that one.
fn samples_until(gatherer: Gatherer, may_bpf: bool, is_it: impl Fn(&Sample) -> bool) -> Vec<Sample> {
    let (samples_tx, mut samples) = mpsc::channel(64);
    let stop = CancellationToken::new();
    let stopping = stop.clone();
    let thread = thread::spawn(move || {
        if !may_bpf {
            seccomp::deny(&[Bpf::RawTracepointOpen, Bpf::LinkCreate], Errno::PERM);
        }
        let (_sender, exclusive) = watch::channel(CpuSet::default());
        gatherer.run(&samples_tx, exclusive, &stopping);
    });
    // A hypervisor that takes the CPU for a moment restarts the ten seconds of switches.
    let deadline = Instant::now() + 6 * happens_within();
    let mut seen = Vec::new();
    loop {
        assert!(
            Instant::now() < deadline,
            "not among {} samples: {:?}",
            seen.len(),
            seen.last()
        );
        if let Ok(sample) = samples.try_recv() {
            let is_last = is_it(&sample);
            seen.push(sample);
            if is_last {
                break;
            }
        } else {
            thread::sleep(POLL / 4);
        }
    }
    stop.cancel();
    thread.join().unwrap();
    seen
}

fn switches(sample: &Sample) -> u64 {
    sample.poll.as_ref().map_or(0, |poll| poll.counts.switches)
}

#[test]
fn detached_programs_are_reattached_after_capabilities_were_dropped() {
    let _machine = machine();
    let mut probe = attach(&Options::default());
    probe.detach();
    let body = || {
        headroom_agent::kernel::privilege::give_up(|| probe.can_count());
        let has_been_silent = Cell::new(false);
        samples_until(gatherer(probe), true, |sample| {
            let switches = switches(sample);
            has_been_silent.set(has_been_silent.get() || (sample.poll.is_some() && switches == 0));
            has_been_silent.get() && switches > 0
        })
    };
    // Capabilities are each thread's own; the thread that gathers is started by this one.
    let samples = thread::spawn(body).join().unwrap();
    let again = ProbeState::Counting {
        shed: Shed::Nothing,
        is_calm: false,
        reattached: 1,
        verdicts: None,
    };
    assert_eq!(samples.last().unwrap().probe_state, Some(again));
}

#[test]
fn programs_that_cannot_be_reattached_fall_back_to_procfs() {
    let _machine = machine();
    let mut probe = attach(&Options::default());
    probe.detach();
    let samples = samples_until(gatherer(probe), false, |sample| {
        sample
            .poll
            .as_ref()
            .is_some_and(|poll| poll.origin == Origin::Procfs)
    });
    let Some(ProbeState::Lost(reason)) = &samples.last().unwrap().probe_state else {
        panic!("{:?}", samples.last());
    };
    assert!(
        reason.contains("no context switch for 1 s") && reason.contains("cannot be re-attached"),
        "{reason}"
    );
}

#[test]
fn fork_storm_yields_only_plausible_numbers() {
    let _machine = machine();
    let forks = as_many(4_000);
    let storm = format!("i=0; while [ $i -lt {forks} ]; do (:) & (:); i=$((i+1)); done; wait");
    let storm = Command::new("sh").args(["-c", &storm]).spawn().unwrap();
    let (started, polls) = (Instant::now(), Cell::new(0));
    let samples = samples_until(gatherer(attach(&Options::default())), true, |sample| {
        polls.set(polls.get() + u32::from(sample.poll.is_some()));
        polls.get() > 8 && started.elapsed() > Duration::from_secs(4)
    });
    let ended = storm.wait_with_output().unwrap();
    assert!(ended.status.success());
    let polls: Vec<_> = samples.iter().filter_map(|sample| sample.poll.as_ref()).collect();
    let mut until_ns = polls[0].counts.from_ns;
    for poll in polls {
        let counts = &poll.counts;
        assert_eq!(counts.from_ns, until_ns, "stretches follow each other");
        until_ns = counts.until_ns;
        let length_ns = counts.until_ns - counts.from_ns;
        assert!(counts.busy_ns <= length_ns * u64::from(poll.cpus), "{counts:?}");
        // A wait is projected from one task in eight, and may have begun two polls ago.
        assert!(counts.wait_ns <= CROWD * (length_ns + 2 * POLL_NS), "{counts:?}");
        assert!(
            counts.waits.percentile_us(1_000_000) <= 3 * 1_000_000,
            "{counts:?}"
        );
    }
}

#[test]
fn sampling_is_shed_at_high_switch_rates_and_resumes() {
    let _machine = machine();
    let cpu = last_cpu().unwrap();
    let is_over = AtomicBool::new(false);
    let counting = |shed| Some(ProbeState::counting(shed));
    let samples = thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                ping_pong::round(cpu, 100 * MS).unwrap();
            }
        });
        let is_last = |sample: &Sample| {
            if sample.probe_state == counting(Shed::WakeUps) {
                is_over.store(true, Ordering::Relaxed);
            }
            is_over.load(Ordering::Relaxed) && sample.probe_state == counting(Shed::Nothing)
        };
        let ended = catch_unwind(AssertUnwindSafe(|| {
            samples_until(gatherer(attach(&Options::default())), true, is_last)
        }));
        is_over.store(true, Ordering::Relaxed);
        ended.unwrap()
    });
    let mut steps: Vec<_> = samples.into_iter().map(|sample| sample.probe_state).collect();
    steps.dedup();
    let way = [Shed::Nothing, Shed::To64, Shed::To512, Shed::WakeUps];
    let back = way.iter().rev().skip(1);
    let expected: Vec<_> = way.iter().chain(back).map(|shed| counting(*shed)).collect();
    assert_eq!(steps, expected);
}

#[test]
fn wake_up_hooks_are_attached_only_after_cpus_are_full() {
    let _machine = machine();
    let mut gatherer = gatherer(attach(&Options::default()));
    gatherer.limits.rest_after = Duration::from_secs(2);
    // A CPU for each that never rests, once the programs have been at rest for two seconds.
    let (at_rest, woken) = (Cell::new(0), Cell::new(0));
    let crowd = Mutex::new(Vec::new());
    let resting = Some(ProbeState::Counting {
        shed: Shed::Nothing,
        is_calm: true,
        reattached: 0,
        verdicts: None,
    });
    let is_woken = |sample: &Sample| {
        let mut crowd = crowd.lock().unwrap();
        if sample.probe_state != resting {
            if crowd.is_empty() {
                return false;
            }
            woken.set(woken.get() + 1);
            let has_waits = |poll: &Poll| poll.counts.waits.count() > 0;
            return woken.get() >= 4 && sample.poll.as_ref().is_some_and(has_waits);
        }
        at_rest.set(at_rest.get() + 1);
        if crowd.is_empty() && at_rest.get() == 8 {
            let cpus = (0..=last_cpu().unwrap()).cycle().take(4);
            crowd.extend(cpus.map(|cpu| Loop::start(cpu, 100 * MS, Duration::from_micros(1))));
        }
        false
    };
    let samples = samples_until(gatherer, true, is_woken);
    drop(crowd);
    // A calm CPU is read once a second. It is read at every poll before it is calm, and after such a reading finds
    // full CPUs.
    let is_at_rest = |sample: &&Sample| sample.probe_state == resting;
    let read: Vec<_> = samples
        .iter()
        .filter(is_at_rest)
        .filter(|sample| sample.poll.is_some())
        .map(|sample| sample.at.boottime_ns / 1_000_000_000)
        .collect();
    println!(
        "{} samples at rest, counters read in the seconds {read:?}",
        at_rest.get()
    );
    assert!(
        read.len() >= 2 && read.is_sorted_by(|one, next| one < next),
        "{read:?}"
    );
    let mut others = samples.iter().filter(|sample| !is_at_rest(sample));
    assert!(others.all(|sample| sample.poll.is_some()), "{samples:?}");
    assert!(
        samples.iter().all(|sample| matches!(
            sample.probe_state,
            Some(ProbeState::Counting { reattached: 0, .. })
        )),
        "nothing was lost"
    );
}

#[test]
fn only_a_removed_cpu_is_a_change_of_cpus() {
    let _machine = machine();
    let raw = Options {
        typed: false,
        ..Options::default()
    };
    let mut probe = attach(&raw);
    let mut events = probe.take_events().unwrap();
    let before = read(&mut events).changes.offline_steps;
    let step = |target: u64| [0, target];
    // Modules run their callbacks for CPUs that are online and stay so; this is some state in between.
    probe.test_run(Hook::CpuhpEnter, &step(150)).unwrap();
    probe.test_run(Hook::CpuhpExit, &step(150)).unwrap();
    assert_eq!(read(&mut events).changes.offline_steps, before);
    probe.test_run(Hook::CpuhpEnter, &step(0)).unwrap();
    probe.test_run(Hook::CpuhpExit, &step(0)).unwrap();
    assert_eq!(read(&mut events).changes.offline_steps, before + 2);
}
