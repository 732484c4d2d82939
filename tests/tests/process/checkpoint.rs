//! Tests that a readable checkpoint remains whenever a process that saves checkpoints is killed.
#![expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use e2e::numbered_checkpoints;
use headroom_agent::local::checkpoint::Store;

const KILLS: u64 = 200;

/// Saves until it is killed, `time` after the first saved checkpoint; returns the last one that it reported as saved.
fn killed_after(time: Duration, folder: &Path) -> u64 {
    let mut writer = Command::new(env!("CARGO_BIN_EXE_e2e-checkpoint"))
        .arg(folder)
        .stdout(Stdio::piped())
        .spawn()
        .expect("start the writer");
    let mut lines = BufReader::new(writer.stdout.take().expect("its output")).lines();
    let first = lines.next().expect("one is saved").expect("read");
    let listener = std::thread::spawn(move || lines.map_while(Result::ok).last());
    // The moment of the kill is the subject of the test: there is no event to wait for.
    std::thread::sleep(time);
    writer.kill().expect("kill");
    writer.wait().expect("it ends");
    let last = listener.join().expect("listen").unwrap_or(first);
    last.parse().expect("a number")
}

#[test]
fn last_or_previous_checkpoint_is_readable_after_a_kill_at_any_time() {
    let folder = tempfile::tempdir().expect("folder");
    let mut store = Store::open(folder.path(), Duration::ZERO).expect("store");
    let (mut saved, mut hits) = (0, 0);
    for kill in 0..KILLS {
        // Spread over some saves in an order without a pattern: 0 to 40 ms.
        let time = Duration::from_micros(kill * 61_803 % 40_000);
        saved = killed_after(time, folder.path()).max(saved);
        let found = numbered_checkpoints::number(&mut store).unwrap_or(0);
        assert!(found >= saved, "kill {kill}: {saved} was saved, {found} is found");
        hits += u64::from(folder.path().join("estimator.checkpoint.unfinished").exists());
        saved = found;
    }
    assert!(saved >= KILLS, "only {saved} were saved");
    assert!(hits > 0, "no kill has hit a write");
    let aside = fs::read_dir(folder.path())
        .expect("folder")
        .filter_map(Result::ok);
    let aside = aside.filter(|entry| entry.file_name().to_string_lossy().ends_with("unusable"));
    assert_eq!(aside.count(), 0, "nothing was ever unreadable");
}
