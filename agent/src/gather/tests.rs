//! Tests of the sampling thread on a made-up machine: sixteen CPUs of which four are isolated, and kubepods.

use std::{fs, path::Path, thread};

use headroom_domain::estimate::Profile;
use rustix::fs::{Mode, mkfifoat};
use tempfile::TempDir;
use tokio::sync::watch;

use super::*;
use crate::sample::{STAT_EVERY, procstat::ProcStatSource};

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn machine() -> TempDir {
    let root = tempfile::tempdir().unwrap();
    let cpus: Vec<_> = (0..16).map(|cpu| format!("cpu{cpu} 0 0 0 0 0 0 0 0\n")).collect();
    for (path, text) in [
        ("sys/devices/system/cpu/online", "0-15\n"),
        ("sys/devices/system/cpu/isolated", "12-15\n"),
        (
            "proc/meminfo",
            "MemTotal: 8 kB\nMemAvailable: 4 kB\nActive(file): 0 kB\n",
        ),
        ("proc/vmstat", "oom_kill 0\n"),
        ("proc/pressure/memory", "some total=0\nfull total=0\n"),
        ("cgroup/cgroup.controllers", "cpu cpuset memory\n"),
        ("cgroup/kubepods/cpuset.cpus.effective", "0-15\n"),
        ("cgroup/kubepods/memory.current", "5000\n"),
        ("cgroup/kubepods/memory.pressure", "some total=0\nfull total=0\n"),
        ("cgroup/kubepods/memory.events", "max 0\noom 0\n"),
        ("cgroup/kubepods/memory.events.local", "max 0\noom 0\n"),
        ("proc/stat", &format!("cpu 0\n{}", cpus.concat())),
    ] {
        write(root.path(), path, text);
    }
    root
}

/// First samples of the machine: at most `most`, up to the one that is the last.
fn samples(root: &Path, most: usize, is_last: impl Fn(&Sample) -> bool) -> Vec<Sample> {
    let files = Procfs::at(&root.join("proc"), &root.join("sys"));
    let now = Clocks::read();
    let source = ProcStatSource::new(now.monotonic_ns);
    let gatherer = Gatherer {
        sampler: Sampler::new(Box::new(source), files.clone(), STAT_EVERY, now).unwrap(),
        probe: None,
        watch: Watch::default(),
        limits: Limits::from_timing(&Profile::Production.timing()),
        has_program_stats: false,
        files,
        cgroup_root: root.join("cgroup"),
        timing: Profile::Production.timing(),
    };
    let (samples_tx, mut samples) = mpsc::channel(64);
    let stop = CancellationToken::new();
    let stopping = stop.clone();
    let (_nobody_tells, exclusive) = watch::channel(CpuSet::default());
    let thread = thread::spawn(move || gatherer.run(&samples_tx, exclusive, &stopping));
    let mut taken = Vec::new();
    while taken.len() < most && !taken.last().is_some_and(&is_last) {
        taken.push(samples.blocking_recv().unwrap());
    }
    stop.cancel();
    thread.join().unwrap();
    taken
}

#[test]
fn which_cpus_pods_share_is_known_though_the_reader_of_accounts_hangs_from_the_start() {
    let root = machine();
    // A reader of a pipe blocks until there is a writer, as a reader of a slow kernel file does.
    let stuck = root.path().join("cgroup/kubepods/memory.stat");
    mkfifoat(rustix::fs::CWD, &stuck, Mode::from_raw_mode(0o600)).unwrap();
    let samples = samples(root.path(), 9, |_| false);
    let shared: Vec<_> = samples
        .iter()
        .filter_map(|sample| Some(sample.poll.as_ref()?.shared_cpus))
        .collect();
    assert!(
        shared.len() >= 2 && shared.iter().all(|cpus| *cpus == 12),
        "{shared:?}"
    );
    assert!(
        samples
            .iter()
            .all(|sample| sample.memory.is_none() && !sample.knows_shared_cpus),
        "nobody knows which of them pods hold"
    );
}

#[test]
fn which_cpus_pods_share_is_known_once_pods_were_looked_at() {
    let root = machine();
    write(
        root.path(),
        "cgroup/kubepods/memory.stat",
        "anon 4000\nactive_file 0\ninactive_file 0\n",
    );
    let samples = samples(root.path(), 40, |sample| sample.knows_shared_cpus);
    assert!(samples.last().unwrap().knows_shared_cpus);
}

#[test]
fn counters_of_a_calm_machine_are_read_once_a_second_and_pressure_with_every_sample() {
    let root = machine();
    write(root.path(), "proc/pressure/cpu", "some total=0\n");
    let samples = samples(root.path(), 9, |_| false);
    let second = |sample: &Sample| sample.at.boottime_ns / 1_000_000_000;
    let mut last = None;
    for sample in &samples {
        let is_first = last.replace(second(sample)) != Some(second(sample));
        assert_eq!(sample.poll.is_some(), is_first, "{sample:?}");
        assert!(sample.cpu_pressure.is_some() && sample.memory_pressure.node.is_some());
        assert!(!sample.failing.contains(&GatheredSignal::Cpu));
    }
    assert!(samples.iter().any(|sample| sample.poll.is_none()));
}

#[test]
fn polls_lie_on_quarters_of_a_second_since_boot() {
    assert_eq!(until_next(1_000_000_000), POLL);
    assert_eq!(until_next(1_249_999_999), Duration::from_nanos(1));
    assert_eq!(until_next(1_010_000_000), Duration::from_millis(240));
}
