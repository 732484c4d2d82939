//! Finds or installs the container runtime of a real node: containerd, runc, the network plugins, and the programs that connect
//! the node to this machine. Services of these packages are not used; the node runs its own processes.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::Result;

use super::debian::{self, Package};
use crate::workspace;

/// Folder of the network plugins.
pub const PLUGINS: &str = "/usr/lib/cni";

const PACKAGES: [Package; 5] = [
    Package {
        name: "containerd",
        why: "runs the pods of a real node",
    },
    Package {
        name: "runc",
        why: "creates the containers of those pods",
    },
    Package {
        name: "containernetworking-plugins",
        why: "connects those pods to the network",
    },
    Package {
        name: "iproute2",
        why: "connects the node to this machine",
    },
    Package {
        name: "nftables",
        why: "serves the addresses of Services with kube-proxy",
    },
];
/// Files of these packages, and of util-linux, which is essential in Debian.
const PROGRAMS: [&str; 7] = ["containerd", "ctr", "runc", "ip", "nft", "unshare", "nsenter"];
const PLUGIN: &str = "ptp";
/// Controllers of cgroups that the kubelet needs.
const CONTROLLERS: [&str; 4] = ["cpu", "cpuset", "memory", "pids"];
/// Creates the namespaces of a node.
const NAMESPACES: [&str; 6] = ["--cgroup", "--mount", "--pid", "--net", "--ipc", "--uts"];

/// Path of containerd, if all programs are installed.
pub fn find() -> Option<String> {
    if missing().is_some() {
        return None;
    }
    Some(workspace::on_path("containerd")?.display().to_string())
}

/// Installs the packages.
///
/// # Errors
/// Errors of [`debian::ensure`].
pub fn ensure() -> Result<()> {
    debian::ensure(&PACKAGES)
}

/// Reason why this machine cannot run a real node, if there is one.
pub fn obstacle() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("only root can run a real node".to_owned());
    }
    if let Some(program) = missing() {
        return Some(format!(
            "{program} of the container runtime is missing; cargo xtask setup installs it"
        ));
    }
    let mounted = controllers();
    if let Some(missing) = CONTROLLERS
        .iter()
        .find(|name| !mounted.iter().any(|it| it == *name))
    {
        return Some(format!(
            "the cgroup controller {missing} is not mounted below /sys/fs/cgroup"
        ));
    }
    let mut unshare = Command::new("unshare");
    unshare
        .args(NAMESPACES)
        .args(["--fork", "true"])
        .stdin(Stdio::null());
    match unshare.output() {
        Ok(output) if output.status.success() => None,
        Ok(output) => {
            let cause = String::from_utf8_lossy(&output.stderr);
            Some(format!("this machine refuses new namespaces: {}", cause.trim()))
        }
        Err(error) => Some(format!("unshare cannot run: {error}")),
    }
}

/// The first program that is not installed.
fn missing() -> Option<&'static str> {
    let program = PROGRAMS
        .into_iter()
        .find(|program| workspace::on_path(program).is_none());
    program.or_else(|| (!Path::new(PLUGINS).join(PLUGIN).is_file()).then_some(PLUGIN))
}

/// Mounted controllers of cgroups, of both versions.
fn controllers() -> Vec<String> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mut names = Vec::new();
    for (mount, kind) in mounts.lines().filter_map(|line| line.split_once(" - ")) {
        let point = Path::new(mount.split(' ').nth(4).unwrap_or_default());
        if kind.starts_with("cgroup2 ") {
            let text = fs::read_to_string(point.join("cgroup.controllers")).unwrap_or_default();
            names.extend(text.split_whitespace().map(str::to_owned));
        } else if kind.starts_with("cgroup ") {
            let options = kind.rsplit(' ').next().unwrap_or_default();
            names.extend(options.split(',').map(str::to_owned));
        }
    }
    names
}
