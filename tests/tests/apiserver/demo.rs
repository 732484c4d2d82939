//! Tests that the demo runs by the README's flags, keeps its credentials to its owner, and leaves nothing where it ran.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use e2e::built::programs;
use rustix::process::{Pid, Signal, kill_process};
use xtask::launch;

/// What `cargo xtask demo` becomes.
const DEMO: &str = "headroom-demo";
/// What it says when all parts run; the folder of its cluster follows.
const RUNS: &str = "files and logs: ";

/// The files of a folder and of those below it, as far as they do not go meanwhile.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            files.extend(self::files(&path));
        } else {
            files.push(path);
        }
    }
    files
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_keeps_its_credentials_and_leaves_nothing() {
    programs().await;
    launch::ensure(&[DEMO], false).expect("build it");
    let temporary = tempfile::tempdir().expect("a folder");
    let mut demo = Command::new(launch::folder(false).join(DEMO))
        .args(["--for", "90s"])
        .env("TMPDIR", temporary.path())
        .stdout(Stdio::piped())
        .spawn()
        .expect("cargo xtask demo");
    let output = BufReader::new(demo.stdout.take().expect("output"));
    let mut lines = output.lines().map(|line| line.expect("a line"));
    let folder = lines.find_map(|line| Some(PathBuf::from(line.split_once(RUNS)?.1)));
    let folder = folder.expect("everything runs");
    assert!(folder.starts_with(temporary.path()), "{}", folder.display());

    let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    let mut credentials = 0;
    for file in files(&folder) {
        let name = file.file_name().expect("a name").to_string_lossy().into_owned();
        if [".kubeconfig", ".key", "token"]
            .iter()
            .any(|end| name.ends_with(end))
        {
            assert_eq!(mode(&file), 0o600, "{}", file.display());
            credentials += 1;
        }
    }
    assert!(credentials > 5, "{credentials}");

    kill_process(Pid::from_child(&demo), Signal::INT).expect("Ctrl-C");
    // What it goes on printing must have somewhere to go.
    let rest: Vec<String> = lines.collect();
    let ended = demo.wait().expect("wait");
    assert!(ended.success(), "{ended}: {rest:?}");
    let left: Vec<_> = fs::read_dir(temporary.path()).expect("a folder").collect();
    assert!(left.is_empty(), "{left:?}");
}
