//! Tests of the accounts thread, and of the sampling thread's reaction when the accounts thread hangs or has ended.

use std::{
    fs::{self, OpenOptions},
    path::Path,
    thread,
    time::Instant,
};

use headroom_domain::estimate::Profile;
use rustix::fs::{Mode, mkfifoat};

use super::*;

const PATIENCE: Duration = Duration::from_secs(30);

/// A hierarchy with one pod.
fn hierarchy(root: &Path) -> Question {
    let pod = root.join("kubepods/poda");
    fs::create_dir_all(&pod).unwrap();
    for (file, text) in [
        ("cgroup.controllers", "cpu cpuset memory\n"),
        ("kubepods/memory.current", "5000\n"),
        (
            "kubepods/memory.stat",
            "anon 4000\nactive_file 0\ninactive_file 0\n",
        ),
        ("kubepods/poda/cpu.stat", "usage_usec 1000\n"),
        ("kubepods/poda/memory.current", "5000\n"),
        (
            "kubepods/poda/memory.stat",
            "anon 4000\nactive_file 0\ninactive_file 0\n",
        ),
        ("kubepods/poda/cgroup.events", "populated 1\nfrozen 0\n"),
    ] {
        fs::write(root.join(file), text).unwrap();
    }
    Question {
        kubepods: Kubepods::find(root),
        cgroup_changes: None,
    }
}

/// Time this many milliseconds after the machine's start.
fn at(milliseconds: u64) -> Clocks {
    Clocks {
        monotonic_ns: milliseconds * 1_000_000,
        boottime_ns: milliseconds * 1_000_000,
    }
}

fn answered(accounts: &mut Accounts, question: &Question) -> Answer {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = accounts.turn(Clocks::read(), question.clone()).unwrap() {
            return answer;
        }
        assert!(Instant::now() < deadline, "no answer");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn what_pods_used_in_a_frame_is_there_by_its_end() {
    let root = tempfile::tempdir().unwrap();
    let question = hierarchy(root.path());
    for (profile, last_ms) in [(Profile::Demo, 500), (Profile::Production, 295_000)] {
        let timing = profile.timing();
        let frame_ms = u64::try_from(timing.frame().as_millis()).unwrap();
        let mut reader = AccountReader::new(Procfs::default(), &timing);
        let mut told = Vec::new();
        for turn in frame_ms / 250..3 * frame_ms / 250 {
            if let Some((frame, pods)) = reader.answer(at(turn * 250), &question).pods {
                told.push((turn * 250, frame, pods.used.len() + pods.unmeasured.len()));
            }
        }
        // In the first frame, and in the second; the one before was not watched.
        let expected = [(frame_ms + last_ms, 1, 1), (2 * frame_ms + last_ms, 2, 1)];
        assert_eq!(told, expected, "{profile:?}");
    }
}

/// A pod's task that names isolated CPUs runs there, and no frame contains that.
#[test]
fn a_pods_use_of_isolated_cpus_is_not_subtracted_when_it_leaves() {
    let root = tempfile::tempdir().unwrap();
    let question = hierarchy(root.path());
    let cpus = root.path().join("devices/system/cpu");
    fs::create_dir_all(&cpus).unwrap();
    fs::write(cpus.join("online"), "0-7\n").unwrap();
    let timing = Profile::Demo.timing();
    let uses = ["\n", "7\n"].map(|isolated| {
        fs::write(cpus.join("isolated"), isolated).unwrap();
        let mut reader = AccountReader::new(Procfs::at(Path::new("/proc"), root.path()), &timing);
        let mut used = Vec::new();
        for turn in 4..20 {
            // A core and a half.
            let spent = format!("usage_usec {}\n", turn * 375_000);
            fs::write(root.path().join("kubepods/poda/cpu.stat"), spent).unwrap();
            if let Some((_, pods)) = reader.answer(at(turn * 250), &question).pods {
                used.extend(pods.used.into_values().map(|used| (used.low.cpu, used.high.cpu)));
            }
        }
        used.pop().unwrap()
    });
    assert_eq!(uses, [(1500, 1500), (500, 1500)]);
}

#[test]
fn a_read_that_does_not_end_holds_up_nobody_and_is_told_of() {
    let root = tempfile::tempdir().unwrap();
    let question = hierarchy(root.path());
    let mut accounts = Accounts::start(Procfs::default(), &Profile::Production.timing()).unwrap();
    let memory = answered(&mut accounts, &question).memory.unwrap();
    assert_eq!(memory.working_set, Some(5000));
    assert_eq!(accounts.failing().count(), 0);

    // A reader of a pipe blocks until there is a writer, as a reader of a slow kernel file does.
    let stuck = root.path().join("kubepods/poda/cpu.stat");
    fs::remove_file(&stuck).unwrap();
    mkfifoat(rustix::fs::CWD, &stuck, Mode::from_raw_mode(0o600)).unwrap();
    let other = Accounts::start(Procfs::default(), &Profile::Production.timing());
    let mut accounts = other.unwrap();
    for seconds in 0..5 {
        assert!(
            accounts
                .turn(at(seconds * 1000), question.clone())
                .unwrap()
                .is_none()
        );
        assert_eq!(accounts.failing().count(), 0, "after {seconds} s");
    }
    for seconds in 5..100 {
        assert!(
            accounts
                .turn(at(seconds * 1000), question.clone())
                .unwrap()
                .is_none()
        );
        assert_eq!(accounts.failing().collect::<Vec<_>>(), [GatheredSignal::Pods]);
    }

    // The reading ends at last: without values, which is reported as well.
    drop(OpenOptions::new().write(true).open(&stuck).unwrap());
    let answer = answered(&mut accounts, &question);
    assert!(answer.memory.is_some());
    assert_eq!(accounts.failing().collect::<Vec<_>>(), [GatheredSignal::Pods]);
    assert!(!accounts.is_late);
}

#[test]
fn who_samples_learns_that_the_thread_is_gone() {
    let (questions, _nobody) = sync_channel(1);
    let (answers_tx, answers) = sync_channel(1);
    drop(answers_tx);
    let mut accounts = Accounts {
        questions,
        answers,
        asked_ns: None,
        is_late: false,
        has_answered: false,
        failing: BTreeSet::new(),
    };
    let question = Question {
        kubepods: None,
        cgroup_changes: None,
    };
    assert!(accounts.turn(at(0), question).is_err());
}

#[test]
fn answer_lists_pods_if_none_has_a_process() {
    let root = tempfile::tempdir().unwrap();
    let question = hierarchy(root.path());
    let mut reader = AccountReader::new(Procfs::default(), &Profile::Demo.timing());
    assert_eq!(
        reader.answer(at(1_000), &question).empty_pods,
        Some(BTreeSet::new())
    );
    fs::write(root.path().join("kubepods/poda/cgroup.events"), "populated 0\n").unwrap();
    let empty = reader.answer(at(20_000), &question).empty_pods;
    assert_eq!(empty, Some(["a".to_owned()].into()));
}
