//! Tests of a real node with bad input: no space, files and cgroups of killed runs, images for other machines, and flags that a
//! kubelet refuses. Each ends with a message that names the cause, and leaves nothing.
#![expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use headroom_testbed::{
    cluster::{Cluster, ClusterOptions},
    real_node::{RealNode, RealNodeOptions},
};
use serde_json::json;
use tempfile::TempDir;

/// Cgroup of a node whose owner and supervisor were killed.
const LEFT: &str = "/sys/fs/cgroup/memory/headroom-real-left";

#[tokio::test(flavor = "multi_thread")]
async fn bad_input_ends_with_a_message_and_leaves_nothing() {
    let options = ClusterOptions {
        has_real_node: true,
        ..ClusterOptions::default()
    };
    let cluster = Cluster::start(options).await.expect("cluster");
    let fail = async |options: RealNodeOptions| match RealNode::start(&cluster, options).await {
        Ok(_) => panic!("the node started"),
        Err(error) => format!("{error:#}"),
    };

    let small = Tmpfs::mount("size=64m");
    let folder = Some(small.path().to_owned());
    let left = small.path().join("headroom-real-left");
    fs::create_dir(&left).expect("a folder of a killed run");
    fs::write(left.join("lock"), "").expect("its lock file");
    let cgroup = Path::new(LEFT);
    // cgroup v2 has no hierarchy for each controller.
    let has_cgroup = fs::create_dir(cgroup).is_ok();
    let message = fail(RealNodeOptions {
        folder,
        ..RealNodeOptions::new("full")
    })
    .await;
    assert!(
        message.contains("MiB of free space; a node needs 512 MiB"),
        "{message}"
    );
    assert!(!left.exists());
    assert!(!has_cgroup || !cgroup.exists());

    let large = tempfile::tempdir().expect("a folder");
    let folder = || Some(large.path().to_owned());
    let other = OtherImage::build();
    let message = fail(RealNodeOptions {
        folder: folder(),
        images: vec![other.archive.clone()],
        ..RealNodeOptions::new("other")
    })
    .await;
    assert!(message.contains("other.tar has no image for"), "{message}");

    let message = fail(RealNodeOptions {
        folder: folder(),
        kubelet: json!({"maxPods": -1}),
        ..RealNodeOptions::new("refused")
    })
    .await;
    assert!(message.contains("kubelet ended"), "{message}");
    assert!(message.contains("maxPods"), "{message}");
    let entries = fs::read_dir(large.path()).expect("the folder").count();
    assert_eq!(entries, 0, "nothing of the failed nodes remains");
}

/// A file system in memory; unmounted when dropped.
struct Tmpfs(TempDir);

impl Tmpfs {
    fn mount(options: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut mount = Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o", options, "tmpfs"])
            .arg(folder.path());
        assert!(mount.status().expect("mount").success());
        Self(folder)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let status = Command::new("umount").arg(self.path()).status();
        assert!(status.expect("umount").success());
    }
}

/// An archive with an empty image for a mainframe.
struct OtherImage {
    _folder: TempDir,
    archive: PathBuf,
}

impl OtherImage {
    fn build() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        let tar = |archive: &str, names: &[&str]| {
            let mut tar = Command::new("tar");
            tar.arg("--create")
                .arg("--file")
                .arg(path(archive))
                .arg("--directory")
                .arg(folder.path());
            assert!(tar.args(names).status().expect("tar").success());
        };
        fs::write(path("file"), "text").expect("a file");
        tar("layer.tar", &["file"]);
        let digest = Command::new("sha256sum")
            .arg(path("layer.tar"))
            .output()
            .expect("sha256sum");
        let digest = String::from_utf8(digest.stdout).expect("UTF-8");
        let digest = digest.split(' ').next().expect("a digest");
        let config = json!({
            "architecture": "s390x", "os": "linux", "config": {},
            "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{digest}")]},
        });
        let manifest =
            json!([{"Config": "config.json", "RepoTags": ["localhost/other:1"], "Layers": ["layer.tar"]}]);
        for (name, text) in [("config.json", config), ("manifest.json", manifest)] {
            fs::write(path(name), text.to_string()).expect("a file");
        }
        tar("other.tar", &["manifest.json", "config.json", "layer.tar"]);
        Self {
            archive: path("other.tar"),
            _folder: folder,
        }
    }
}
