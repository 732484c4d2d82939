//! Tests that the demo works as documented, that the README's commands run on it as printed, that only its owner can
//! read its credentials, and that it leaves no trace.
#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "tests panic: a returned error has no stack"
)]

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Output, Stdio},
    time::Duration,
};

use e2e::{
    built::programs,
    console,
    shell::{Lines, Shell},
    stand::until,
};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use xtask::{launch, workspace};

/// Binary behind `cargo xtask demo`.
const DEMO: &str = "headroom-demo";
/// Line that the demo prints when all parts run; the folder of its cluster follows.
const RUNS: &str = "files and logs: ";
/// Line that the demo prints at the end of the story.
const KEPT: &str = "Everything keeps running until Ctrl-C.";
/// Starting everything, and the longest story.
const STORY_WITHIN: Duration = Duration::from_secs(300);

/// The files of a folder and of those below it, as far as they do not go meanwhile.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            files.extend(self::files(&path));
        } else if !path.is_symlink() {
            files.push(path);
        }
    }
    files
}

fn credentials_are_their_owners(folder: &Path) {
    let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    assert_eq!(mode(folder), 0o700);
    let mut credentials = 0;
    for file in files(folder) {
        let name = file.file_name().expect("a name").to_string_lossy().into_owned();
        if [".kubeconfig", ".key", "token", "environment"]
            .iter()
            .any(|end| name.ends_with(end))
        {
            assert_eq!(mode(&file), 0o600, "{}", file.display());
            credentials += 1;
        }
    }
    assert!(credentials > 6, "{credentials}");
}

/// The line that a command of the README must print in the demo; `None` if the demo cannot answer it.
fn expected(command: &str) -> Option<&'static str> {
    match command.split(' ').nth(2).expect("a command of the plugin") {
        // It asks a Prometheus server.
        "advise" => None,
        "check" => Some("No problem found by "),
        "top" | "hints" => Some("worker-1 "),
        "explain" => Some("worker-1 offers "),
        "off" => Some("worker-1: raw"),
        other => panic!("no expected output of {other} in the demo"),
    }
}

/// Runs the README's commands for looking at a cluster as printed, in a shell that is set up like the demo's. `off`
/// is not run.
async fn follow_the_readme(shell: &Shell) -> Vec<String> {
    let readme = fs::read_to_string(workspace::root().join("README.md")).expect("the README");
    let commands = console::commands(console::section(&readme, "Looking at it"));
    assert!(commands.len() > 5, "{commands:#?}");
    let mut left = Vec::new();
    for command in commands {
        let Some(line) = expected(&command) else { continue };
        if command.starts_with("kubectl headroom off") {
            left.push(command);
        } else if command.ends_with(" --watch") {
            shell.shows(&command, line).await;
        } else {
            // The first hints take a while.
            until(&command, async || {
                let Output {
                    status,
                    stdout,
                    stderr,
                } = shell.run(&command).await;
                let printed =
                    String::from_utf8_lossy(&stdout).into_owned() + &String::from_utf8_lossy(&stderr);
                status.success() && printed.lines().any(|printed| printed.contains(line))
            })
            .await;
        }
    }
    left
}

/// Checks that no claim of the demo failed. The machine runs other tests, so claims that need idle CPU time may be skipped.
fn check_claims(printed: &[String]) {
    let with = |start: &str| -> Vec<&String> {
        let lines = printed.iter().filter(|line| line.starts_with(start));
        lines.collect()
    };
    let (held, failed, skipped) = (with("ok  "), with("FAIL  "), with("-   "));
    assert!(failed.is_empty(), "{printed:#?}");
    assert_eq!(held.len() + skipped.len(), 9, "{printed:#?}");
    for line in &skipped {
        let reason = "skipped: the machine was busy (";
        assert!(
            line.contains(reason) && line.ends_with(" CPUs used by others)"),
            "{line}"
        );
    }
    assert!(skipped.len() <= 5, "{skipped:#?}");
}

fn interrupt(demo: &Child) {
    let id = demo.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    kill_process(id.expect("it runs"), Signal::INT).expect("Ctrl-C");
}

#[tokio::test(flavor = "multi_thread")]
async fn demo_runs_the_readmes_commands_as_documented() {
    programs().await;
    launch::ensure(&[DEMO], false).expect("build it");
    let temporary = tempfile::tempdir().expect("a folder");
    let mut demo = Command::new(launch::folder(false).join(DEMO))
        .args(["--for", "90s", "--keep"])
        .env("TMPDIR", temporary.path())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("cargo xtask demo");
    let mut lines = Lines::read(demo.stdout.take().expect("output"));
    let line = lines.until(|line| line.contains(RUNS), STORY_WITHIN).await;
    let folder = PathBuf::from(line.split_once(RUNS).expect("the folder").1);
    assert!(folder.starts_with(temporary.path()), "{}", folder.display());
    let line = lines.until(|line| line.starts_with("  . "), STORY_WITHIN).await;
    credentials_are_their_owners(&folder);

    let home = tempfile::tempdir().expect("a folder");
    let shell = Shell::new(home.path(), line.trim());
    let left = follow_the_readme(&shell).await;
    lines.until(|line| line.contains(KEPT), STORY_WITHIN).await;
    check_claims(lines.printed());
    // The commands that the demo itself prints; the last one makes room for `off`.
    loop {
        let line = lines.until(|line| line.starts_with("  "), STORY_WITHIN).await;
        let output = shell.run(line.trim()).await;
        assert!(output.status.success(), "{line}: {output:?}");
        if line.contains(" delete ") {
            break;
        }
    }
    let [off] = left.as_slice() else {
        panic!("{left:?}")
    };
    let output = shell.run(off).await;
    let answer = String::from_utf8_lossy(&output.stdout);
    let line = expected(off).expect("a line");
    assert!(
        output.status.success() && answer.lines().any(|answer| answer.starts_with(line)),
        "{off}: {output:?}"
    );

    interrupt(&demo);
    let ended = demo.wait().await.expect("wait");
    assert!(ended.success(), "{ended}: {:#?}", lines.printed());
    let left: Vec<_> = fs::read_dir(temporary.path()).expect("a folder").collect();
    assert!(left.is_empty(), "{left:?}");
}
