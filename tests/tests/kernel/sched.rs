//! Tests of the kernel programs at the scheduler, on the running kernel: their counts agree with the kernel's own.
//!
//! Other load shares the machine. So nothing is compared with a clock alone: busy time is compared with the kernel's
//! own idle time of the same CPU, waits with waits in the same run, a typed program with its raw fallback.
#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "tests panic: a returned error has no stack"
)]

use std::{
    fs,
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use aya::{maps::loaded_maps, programs::loaded_programs};
use e2e::{
    cpu_load::{Loop, real_time_spinner},
    kernel::{CpuInterval, LOOK_EVERY, Meter, Programs, Totals, attach},
    lone_cpu::Alone,
    pace::happens_within,
};
use headroom_agent::{
    kernel::probe::{Flavour, Hook, Options, Probe},
    sample::{ring::Counters, waits::Waits},
};
use headroom_agent_ebpf::ring::WINDOW_NS;
use headroom_testbed::{ping_pong, thread::last_cpu};

const MS: Duration = Duration::from_millis(1);
/// `/proc/stat` keeps idle time, waiting for I/O or not, in two counts of 10 ms each, cut off.
const STAT_RESOLUTION_NS: u64 = 20_000_000;
/// Maximum delay between a loop's use of CPU time and its report.
const LATE_NS: u64 = 1_000_000;

/// One test at a time: they load the same CPU.
fn machine() -> MutexGuard<'static, ()> {
    static MACHINE: Mutex<()> = Mutex::new(());
    MACHINE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn busy_time_equals_non_idle_time_at_any_load_share() {
    let _machine = machine();
    let cpu = last_cpu().unwrap();
    for burn in [5, 20, 40] {
        // Out of step with the kernel's ticks of 1, 4 or 10 ms.
        let load = Loop::start(cpu, burn * MS, (53 - burn) * MS);
        let mut meter = Meter::start(cpu);
        let (mut stretch, mut used) = without_missed_switches(&mut meter, &load);
        // Programs and kernel count time that the host takes away at different moments.
        for _ in 0..2 {
            if !equals_non_idle_time(&stretch) && stretch.stat.steal_ns > 0 {
                (stretch, used) = without_missed_switches(&mut meter, &load);
            }
        }
        assert!(equals_non_idle_time(&stretch), "{burn} ms of 53: {stretch:?}");
        let (length, busy) = (stretch.length_ns(), stretch.counts.busy_ns);
        assert!(
            used > 0 && used <= busy + LATE_NS && busy <= length,
            "{burn} ms of 53: the loop used {used} ns, {busy} ns counted of {length}"
        );
    }
}

fn equals_non_idle_time(stretch: &CpuInterval) -> bool {
    let length = stretch.length_ns();
    let not_idle = length.saturating_sub(stretch.stat.idle_ns);
    // The kernel does not count interrupts as idle; to the programs the idle task is idle with them.
    let interrupts = length / 50;
    stretch.counts.busy_ns.abs_diff(not_idle) <= STAT_RESOLUTION_NS + interrupts
}

/// Half a second on the CPU, and the time that the loop used in it.
///
/// On some virtual machines the kernel does not report every switch. Once the programs detect it, they omit unknown
/// intervals instead of guessing, so such a stretch is no measure of their accuracy.
fn without_missed_switches(meter: &mut Meter, load: &Loop) -> (CpuInterval, u64) {
    let deadline = Instant::now() + 2 * happens_within();
    while Instant::now() < deadline {
        meter.read();
        let used_before = load.used_ns();
        thread::sleep(500 * MS);
        let used = load.used_ns() - used_before;
        let stretch = meter.read();
        if stretch.counts.missed_switches == 0 {
            return (stretch, used);
        }
    }
    panic!("the kernel left out a switch in every half second of a minute");
}

#[test]
fn task_that_runs_on_without_a_switch_is_counted_while_it_runs() {
    let _machine = machine();
    let cpu = last_cpu().unwrap();
    let folder = tempfile::tempdir().unwrap();
    // Next to a real-time task the kernel gives ordinary tasks a little time once a second, so a loaded machine has
    // no longer intervals without a switch.
    let wanted_ns = 75 * WINDOW_NS;
    let mut spinner = real_time_spinner(cpu, folder.path());
    let mut meter = Meter::start(cpu);
    let deadline = Instant::now() + happens_within();
    let mut silent_ns = 0;
    // A window in which the CPU switched is emitted after it has ended: with the next reading, not with the switch.
    let mut has_begun_silent = false;
    while silent_ns < wanted_ns {
        assert!(
            Instant::now() < deadline,
            "cpu {cpu} was never without a switch for {wanted_ns} ns"
        );
        spinner.check().unwrap();
        thread::sleep(50 * MS);
        let stretch = meter.read();
        let is_silent = stretch.counts.switches == 0;
        if !(is_silent && has_begun_silent) {
            silent_ns = 0;
            has_begun_silent = is_silent;
            continue;
        }
        silent_ns += stretch.length_ns();
        assert_eq!(stretch.counts.busy_ns, stretch.length_ns(), "{stretch:?}");
        let windows = &stretch.counts.windows.windows;
        assert!(
            !windows.is_empty() && windows.iter().all(|window| window.busy_ns == WINDOW_NS),
            "{windows:?}"
        );
    }
}

#[test]
fn waits_grow_when_tasks_contend_for_the_cpu() {
    let _machine = machine();
    let cpu = last_cpu().unwrap();
    // Real-time tasks, so that ordinary load delays no task. The crowd leaves a little time, because the kernel
    // eventually runs starving ordinary tasks before real-time ones.
    let task = Loop::start_real_time(cpu, MS, 2 * MS);
    let mut programs = Programs::sampling_one(task.tid);
    let mut ratios = Vec::new();
    for _ in 0..5 {
        let start = programs.waits();
        thread::sleep(300 * MS);
        let between = programs.waits();
        let crowd: Vec<Loop> = (0..4)
            .map(|_| Loop::start_real_time(cpu, 5 * MS, 30 * MS))
            .collect();
        let crowded = programs.waits();
        thread::sleep(500 * MS);
        let end = programs.waits();
        drop(crowd);
        let (alone, crowded) = (gained(&start, &between), gained(&crowded, &end));
        assert!(alone.count() > 0 && crowded.count() > 0, "{alone:?} {crowded:?}");
        let p99_us = |waits: &Waits| waits.percentile_us(990_000).max(1);
        ratios.push(p99_us(&crowded) / p99_us(&alone));
    }
    ratios.sort_unstable();
    assert!(
        ratios[2] >= 4,
        "p99 crowded / p99 alone, round by round: {ratios:?}"
    );
}

fn gained(before: &Counters, after: &Counters) -> Waits {
    let mut gained = *after;
    for (count, before) in gained.iter_mut().zip(before) {
        *count -= before;
    }
    Waits::new(gained)
}

#[test]
fn raw_fallback_counts_like_the_typed_program() {
    let _machine = machine();
    let cpu = last_cpu().unwrap();
    let raw_only = Options {
        typed: false,
        ..Options::default()
    };
    let mut typed = Programs::sampling_all(&Options::default());
    let mut raw = Programs::sampling_all(&raw_only);
    typed.await_first_switches();
    raw.await_first_switches();
    let _alone = Alone::on(cpu);
    let all = |flavour| [Some(flavour); Hook::ALL.len()];
    assert_eq!(flavours(&typed.probe), all(Flavour::Typed));
    assert_eq!(flavours(&raw.probe), all(Flavour::Raw));

    // The fallback's count between its readings is at least the typed program's count between its inner readings and
    // at most that between its outer ones.
    let start = (typed.totals(), raw.totals(), typed.totals());
    let round = ping_pong::round(cpu, 1_000 * MS).unwrap();
    let end = (typed.totals(), raw.totals(), typed.totals());
    let cpus = u64::try_from(thread::available_parallelism().unwrap().get()).unwrap();
    let check = |what: &str, of: fn(&Totals) -> u64, least: u64, slack: u64| {
        let counted = of(&end.1) - of(&start.1);
        let inner = of(&end.0).saturating_sub(of(&start.2));
        let outer = of(&end.2) - of(&start.0);
        assert!(
            counted >= least && counted + slack >= inner && counted <= outer + slack,
            "{what}: typed {inner}..={outer}, raw {counted}, at least {least}; slack {slack}"
        );
    };
    // A reading may fall between the two programs of one event on each CPU.
    let least = nearly_all(round.switches);
    check("switches", |totals| totals.switches, least, 2 * cpus);
    check("waits", |totals| totals.waits, least, 2 * cpus);
    let used_ns = u64::try_from(round.cpu.as_nanos()).unwrap();
    // The programs read the clock one after the other. Busy time is promised to half a percent of the kernel's own
    // account: where the kernel does not report a thread's switches, the CPU seems idle until the next one.
    let least = used_ns - used_ns / 200;
    check("busy time", |totals| totals.busy_ns, least, used_ns / 100);
}

#[test]
fn detached_programs_stop_counting_and_resume_when_reattached() {
    let _machine = machine();
    let cpu = last_cpu().unwrap();
    let mut programs = Programs::sampling_all(&Options::default());
    let gained = |programs: &mut Programs| {
        let before = programs.totals().switches;
        let round = ping_pong::round(cpu, 50 * MS).unwrap();
        (programs.totals().switches - before, nearly_all(round.switches))
    };
    let (counted, made) = gained(&mut programs);
    assert!(counted >= made, "{counted} of {made}");
    programs.probe.detach();
    assert_eq!(gained(&mut programs).0, 0);
    programs.probe.attach().unwrap();
    let (counted, made) = gained(&mut programs);
    assert!(counted >= made, "{counted} of {made}");
}

/// On some virtual machines the kernel does not report every switch.
const fn nearly_all(switches: u64) -> u64 {
    switches / 100 * 99
}

fn flavours(probe: &Probe) -> [Option<Flavour>; Hook::ALL.len()] {
    Hook::ALL.map(|hook| {
        let verdict = probe.verdicts().iter().find(|verdict| verdict.hook == hook);
        verdict.and_then(|verdict| verdict.flavour)
    })
}

#[test]
fn loading_and_unloading_a_hundred_times_leaks_no_kernel_object() {
    let _machine = machine();
    let files_before = open_files();
    let (mut programs, mut maps) = (Vec::new(), Vec::new());
    for _ in 0..100 {
        let probe = attach(&Options::default());
        let own: Vec<u32> = probe.runs().unwrap().iter().map(|runs| runs.id).collect();
        assert_eq!(own.len(), Hook::ALL.len());
        for program in loaded_programs().filter_map(Result::ok) {
            if own.contains(&program.id()) {
                programs.push(program.id());
                maps.extend(program.map_ids().unwrap().unwrap_or_default());
            }
        }
    }
    maps.sort_unstable();
    maps.dedup();
    assert_eq!(programs.len(), 100 * Hook::ALL.len());
    assert!(
        maps.len() >= 100 * 4,
        "a ring, a histogram, stamps and settings each: {}",
        maps.len()
    );
    assert_eq!(open_files(), files_before);

    // The kernel frees them a grace period after their last user has ended.
    let deadline = Instant::now() + happens_within();
    loop {
        let programs_left = loaded_programs()
            .filter_map(Result::ok)
            .filter(|program| programs.contains(&program.id()))
            .count();
        let maps_left = loaded_maps()
            .filter_map(Result::ok)
            .filter(|map| maps.contains(&map.id()))
            .count();
        if programs_left + maps_left == 0 {
            break;
        }
        assert!(
            Instant::now() < deadline,
            "{programs_left} programs and {maps_left} maps are still there"
        );
        thread::sleep(LOOK_EVERY);
    }
}

fn open_files() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}
