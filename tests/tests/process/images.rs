//! Tests of container images: equal programs give equal images, images fit the manifests, and bad input is refused.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests panic: a returned error has no stack"
)]

use std::{
    env, fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Output},
    time::{Duration, SystemTime},
};

use e2e::{image_archive::Unpacked, stand::until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use xtask::{
    elf::Architecture,
    images::{self, Archive, Image, Linkage, Sources},
    launch,
    process::Process,
    setup::buildah::busybox,
    workspace,
};

/// Offset of the architecture in an ELF header, and its value for machines that Headroom does not run on.
const MACHINE: usize = 18;
const RISCV: u8 = 243;

/// True if this machine can build images. In CI it must.
fn can_build() -> bool {
    let obstacle = images::obstacle();
    assert!(
        obstacle.is_none() || env::var_os("CI").is_none(),
        "no images in CI: {obstacle:?}"
    );
    obstacle.is_none()
}

/// Builds images in `folder` of the programs in its folder `programs`.
fn build(folder: &Path, images: &[Image]) -> anyhow::Result<Vec<Archive>> {
    let sources = Sources {
        programs: &folder.join("programs"),
        architecture: Architecture::OWN,
        revision: "0123abcd",
        folder: &folder.join("images"),
    };
    images::build(sources, images).map(|built| built.into_values().collect())
}

/// Writes the programs of Headroom's images: each is a busybox, changed by `change`.
fn write_programs(folder: &Path, change: impl Fn(&mut Vec<u8>)) {
    let programs = folder.join("programs");
    fs::create_dir_all(&programs).expect("a folder");
    let mut bytes = fs::read(busybox().expect("busybox")).expect("a program");
    change(&mut bytes);
    for image in Image::OURS {
        fs::write(programs.join(image.program()), &bytes).expect("write");
    }
}

#[test]
fn equal_programs_give_equal_images_and_archives() {
    if !can_build() {
        return;
    }
    let [first, second] = [(), ()].map(|()| tempfile::tempdir().expect("a folder"));
    for folder in [&first, &second] {
        write_programs(folder.path(), |_| {});
    }
    // Time and mode of the files differ.
    for image in Image::OURS {
        let path = second.path().join("programs").join(image.program());
        let file = fs::File::options().write(true).open(&path).expect("open");
        let earlier = SystemTime::now() - Duration::from_secs(86_400);
        file.set_modified(earlier).expect("change its time");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).expect("change its mode");
    }
    let all = [
        Image::Webhook,
        Image::Agent,
        Image::Cli,
        Image::Pause,
        Image::Busybox,
    ];
    let [first, second] = [first, second].map(|folder| {
        let archives = build(folder.path(), &all).expect("images");
        let bytes: Vec<_> = archives
            .iter()
            .map(|archive| fs::read(&archive.path).expect("an archive"))
            .collect();
        let references = archives
            .into_iter()
            .map(|archive| (archive.reference, archive.id));
        (references.collect::<Vec<_>>(), bytes)
    });
    assert_eq!(first.0.len(), all.len());
    assert_eq!(first.0, second.0);
    assert!(first.1 == second.1, "the archives differ");
}

#[test]
fn unchanged_program_is_not_built_again_and_a_changed_one_is() {
    if !can_build() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let once = |change: fn(&mut Vec<u8>)| {
        write_programs(folder.path(), change);
        let built = build(folder.path(), &[Image::Webhook])
            .expect("an image")
            .remove(0);
        let time = fs::metadata(&built.path)
            .and_then(|file| file.modified())
            .expect("a time");
        (built.id, time)
    };
    let first = once(|_| {});
    assert_eq!(once(|_| {}), first);
    let changed = once(|bytes| bytes.push(0));
    assert!(changed.0 != first.0 && changed.1 > first.1);
}

/// The pod template of an object in a file of manifests.
fn pod(file: &str, kind: &str) -> Value {
    let text = fs::read_to_string(workspace::root().join("deploy/kustomize").join(file)).expect("manifests");
    let objects: Vec<Value> = serde_saphyr::from_multiple(&text).expect("YAML");
    let mut objects = objects.into_iter();
    let object = objects.find(|object| object["kind"] == kind).expect("the object");
    object["spec"]["template"]["spec"].clone()
}

#[test]
fn images_start_and_fit_the_manifests() {
    if !can_build() {
        return;
    }
    let built = images::ensure(Linkage::Relinked, &Image::OURS).expect("images");
    let pods = [
        (Image::Webhook, pod("base/webhook.yaml", "Deployment")),
        (Image::Agent, pod("base/agent.yaml", "DaemonSet")),
        (Image::Cli, pod("examples/script.yaml", "Job")),
    ];
    for (image, pod) in pods {
        let archive = &built[&image];
        let unpacked = Unpacked::unpack(archive);
        let container = &pod["containers"][0];
        assert_eq!(container["image"], image.repository());
        assert!(container["command"].is_null(), "the image has an entrypoint");
        let user = pod["securityContext"]["runAsUser"].as_u64().expect("a user");
        let group = pod["securityContext"]["runAsGroup"].as_u64().unwrap_or(user);
        assert_eq!(unpacked.config["User"], format!("{user}:{group}"));
        assert_eq!(
            unpacked.config["Entrypoint"],
            serde_json::json!([format!("/{}", image.program())])
        );
        assert_eq!(unpacked.architecture, Architecture::OWN.name());

        let version = unpacked.run(&["--version"]);
        let printed = String::from_utf8_lossy(&version.stdout).into_owned();
        assert_eq!(
            printed.trim(),
            format!("{} {}", image.program(), unpacked.label("version")),
            "{version:?}"
        );
        assert!(unpacked.run(&["--help"]).status.success());
        assert!(
            archive
                .reference
                .ends_with(&format!(":{}", unpacked.label("version")))
        );

        assert_eq!(unpacked.label("title"), image.repository());
        assert!(unpacked.label("licenses").starts_with("Apache-2.0"));
        assert_eq!(unpacked.label("source"), env!("CARGO_PKG_REPOSITORY"));
        assert!(!unpacked.label("revision").is_empty());
    }
}

#[test]
fn build_stage_uses_the_pinned_toolchain() {
    let root = workspace::root();
    let pinned = fs::read_to_string(root.join("rust-toolchain.toml")).expect("a toolchain");
    let channel = pinned.lines().find_map(|line| line.strip_prefix("channel = "));
    let channel = channel.expect("a channel").trim_matches('"');
    for image in Image::OURS {
        let text = fs::read_to_string(root.join(image.dockerfile())).expect("a Dockerfile");
        assert!(
            text.contains(&format!("/rust:{channel}-")),
            "{}",
            image.dockerfile()
        );
    }
}

#[test]
fn program_that_cannot_run_in_an_image_is_refused_with_image_file_and_architecture() {
    let error = |folder: &Path| {
        let error = build(folder, &[Image::Agent]).expect_err("a bad program");
        let error = format!("{error:#}");
        let own = Architecture::OWN.name();
        for part in ["headroom-agent:", "programs/headroom-agent", own] {
            assert!(error.contains(part), "{part}: {error}");
        }
        assert!(!folder.join("images").exists(), "refused before the build");
        error
    };
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("programs/headroom-agent");
    assert!(error(folder.path()).contains("does not exist"));

    fs::create_dir(folder.path().join("programs")).expect("a folder");
    fs::write(&program, "#!/bin/sh\n").expect("write");
    assert!(error(folder.path()).contains("is no 64-bit ELF program"));

    // This test program has shared libraries.
    let mut bytes = fs::read(env::current_exe().expect("a path")).expect("a program");
    fs::write(&program, &bytes).expect("write");
    assert!(error(folder.path()).contains("-unknown-linux-musl"));

    bytes[MACHINE] = RISCV;
    fs::write(&program, &bytes).expect("write");
    assert!(error(folder.path()).contains("was built for another architecture"));
}

/// Runs `cargo xtask images` with its output on a file system of its own with these mount options.
fn build_on_mount(options: &str) -> Output {
    launch::ensure(&["xtask"], false).expect("xtask");
    let folder = tempfile::tempdir().expect("a folder");
    // The mount ends with the process.
    let script = r#"mount -t tmpfs -o "$2" none "$1" && exec env CARGO_TARGET_DIR="$1" "$0" images --binaries . --only pause"#;
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "sh", "-c", script]);
    unshare
        .arg(launch::folder(false).join("xtask"))
        .arg(folder.path())
        .arg(options);
    unshare.output().expect("start unshare")
}

#[test]
fn full_or_read_only_disk_is_reported_with_the_folder() {
    if !can_build() {
        return;
    }
    for (options, expected) in [
        ("size=1m", "MiB of free space, and an image needs"),
        ("ro", "Read-only file system"),
    ] {
        let output = build_on_mount(options);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let error = text
            .lines()
            .find(|line| line.starts_with("error: "))
            .expect("an error");
        assert!(!output.status.success());
        assert!(error.contains(expected) && error.contains("/images"), "{text}");
    }
}

/// State letter and parent of a process.
fn state(pid: &str) -> Option<(String, String)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    let mut words = rest.split_whitespace().map(str::to_owned);
    Some((words.next()?, words.next()?))
}

/// Processes whose parent is this one.
fn children(pid: &str) -> Vec<String> {
    let entries = fs::read_dir("/proc").expect("procfs").flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names
        .filter(|name| state(name).is_some_and(|(_, parent)| parent == pid))
        .collect()
}

#[tokio::test]
async fn pause_reaps_the_processes_of_a_pod_and_ends_on_sigterm() {
    if !can_build() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let archive = build(folder.path(), &[Image::Pause]).expect("an image").remove(0);
    let unpacked = Unpacked::unpack(&archive);
    let mut sandbox = Command::new("unshare");
    sandbox.args(["--pid", "--fork", "--kill-child", "chroot"]);
    sandbox.args(unpacked.chroot());
    let log = folder.path().join("log");
    let mut sandbox = Process::spawn("pause", &sandbox, &log, Duration::ZERO).expect("a sandbox");
    let outer = sandbox.pid().to_string();
    let mut pause = String::new();
    until("pause sleeps", async || {
        pause = children(&outer).pop().unwrap_or_default();
        children(&pause).len() == 1
    })
    .await;
    // The shell ends before its child, which becomes a child of the first process and ends there.
    let orphan = Command::new("nsenter")
        .args(["--target", &pause, "--pid", "sh", "-c", "sleep 3 & echo"])
        .status();
    assert!(orphan.expect("start nsenter").success());
    until("the orphan is a child of pause", async || {
        children(&pause).len() == 2
    })
    .await;
    until("the orphan is reaped", async || children(&pause).len() == 1).await;

    let pid: i32 = pause.parse().expect("a process ID");
    kill_process(Pid::from_raw(pid).expect("a process ID"), Signal::TERM).expect("send SIGTERM");
    until("pause ends", async || sandbox.status().expect("status").is_some()).await;
    assert_eq!(
        sandbox.status().expect("status").and_then(|status| status.code()),
        Some(0)
    );
}
