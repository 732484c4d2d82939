//! containerd of the node: its configuration, its network plugin's configuration, its process, and `ctr`.

use std::{
    env::consts::ARCH,
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use xtask::setup::container_runtime::PLUGINS;

use super::{daemon::Daemon, network::Network, sandbox::Sandbox, state::State};

/// Path of its socket in the node.
pub(super) const SOCKET: &str = "/run/containerd/containerd.sock";
/// Image of the first container of each pod.
pub const PAUSE: &str = "localhost/pause:1";
/// containerd's namespace of the kubelet's containers and images.
const NAMESPACE: &str = "k8s.io";

/// Errors of ctr if no image of an archive is for this platform.
const OTHER_PLATFORM: [&str; 2] = ["might be filtered out", "no match for platform"];

/// Paths of containerd's files.
#[derive(Debug)]
pub(super) struct Containerd {
    config: PathBuf,
    pub(super) log: PathBuf,
}

impl Containerd {
    /// Writes the configuration.
    pub(super) fn configure(state: &State, sandbox: &Sandbox, network: Network) -> Result<Self> {
        let folder = state.folder();
        let network_folder = folder.join("cni");
        fs::create_dir(&network_folder).context("make the folder of the network plugin")?;
        // A routed pair of interfaces for each pod. With a bridge, packets between pods would bypass the rules of kube-proxy.
        let network = json!({
            "cniVersion": "1.0.0",
            "name": "pods",
            "plugins": [{
                "type": "ptp",
                "ipMasq": false,
                "ipam": {
                    "type": "host-local",
                    "ranges": [[{ "subnet": network.pods().to_string() }]],
                    "routes": [{ "dst": "0.0.0.0/0" }],
                },
            }],
        });
        write(&network_folder.join("pods.conflist"), &format!("{network:#}\n"))?;
        let config = folder.join("containerd.toml");
        let text = format!(
            r#"version = 2
root = "/var/lib/containerd"
state = "/run/containerd"

[grpc]
address = "{SOCKET}"

[plugins."io.containerd.internal.v1.opt"]
path = "/var/lib/containerd/opt"

[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{PAUSE}"
# Without the right to lower scores, containers could not start.
restrict_oom_score_adj = true

[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{PLUGINS}"
conf_dir = "{}"

[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "{}"
"#,
            network_folder.display(),
            sandbox.snapshotter(),
        );
        write(&config, &text)?;
        Ok(Self {
            config,
            log: folder.join("containerd.log"),
        })
    }

    pub(super) fn start(&self, sandbox: &Sandbox) -> Result<Daemon> {
        let mut command = sandbox.enter("containerd");
        command.arg("--config").arg(&self.config);
        Daemon::start("containerd", &command, &self.log)
    }

    /// True if containerd serves its socket.
    pub(super) fn is_ready(sandbox: &Sandbox) -> Result<bool> {
        let output = ctr(sandbox, &["version"])
            .output()
            .context("start ctr (containerd)")?;
        Ok(output.status.success())
    }

    /// Imports the images of an archive for this architecture.
    pub(super) fn import(sandbox: &Sandbox, archive: &Path) -> Result<()> {
        let file = File::open(archive).with_context(|| format!("open {}", archive.display()))?;
        let mut command = ctr(
            sandbox,
            &["images", "import", "--snapshotter", sandbox.snapshotter(), "-"],
        );
        let output = command.stdin(file).output().context("start ctr (containerd)")?;
        let error = String::from_utf8_lossy(&output.stderr);
        let (archive, error) = (archive.display(), error.trim());
        ensure!(
            !OTHER_PLATFORM.iter().any(|text| error.contains(text)),
            "{archive} has no image for this machine's architecture, {ARCH} ({error})"
        );
        ensure!(output.status.success(), "import {archive}: {error}");
        Ok(())
    }
}

/// Client of containerd, for the images and containers of pods.
pub(super) fn ctr(sandbox: &Sandbox, arguments: &[&str]) -> Command {
    let mut command = sandbox.enter("ctr");
    command
        .args(["--address", SOCKET, "--namespace", NAMESPACE])
        .args(arguments)
        .stdin(Stdio::null());
    command
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("write {}", path.display()))
}
