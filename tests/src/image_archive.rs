//! [`Unpacked`]: an image as a container runtime sees it, from its archive: configuration and root folder.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::Value;
use tempfile::TempDir;
use xtask::{images::Archive, workspace};

/// Root folder and configuration of an image.
pub struct Unpacked {
    folder: TempDir,
    /// The `config` of the image: user, entrypoint, labels.
    pub config: Value,
    pub architecture: String,
}

impl Unpacked {
    /// Unpacks a docker-archive.
    pub fn unpack(archive: &Archive) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let [parts, root] = ["parts", "root"].map(|name| folder.path().join(name));
        extract(&archive.path, &parts);
        let read = |name: &str| -> Value {
            let text = fs::read(parts.join(name)).expect("a file of the archive");
            serde_json::from_slice(&text).expect("JSON")
        };
        let manifest = read("manifest.json");
        // A name without a registry has that of Docker, for buildah and for the kubelet.
        let tag = manifest[0]["RepoTags"][0].as_str().expect("a name");
        assert_eq!(tag.trim_start_matches("docker.io/library/"), archive.reference);
        let config = manifest[0]["Config"].as_str().expect("a configuration");
        let id = archive.id.strip_prefix("sha256:").expect("a SHA-256");
        assert_eq!(
            config,
            format!("{id}.json"),
            "the ID is the digest of the configuration"
        );
        for layer in manifest[0]["Layers"].as_array().expect("layers") {
            extract(&parts.join(layer.as_str().expect("a file")), &root);
        }
        let config = read(config);
        Self {
            folder,
            architecture: config["architecture"]
                .as_str()
                .expect("an architecture")
                .to_owned(),
            config: config["config"].clone(),
        }
    }

    /// Runs the entrypoint with these arguments as the image's user, without any other file of this machine.
    pub fn run(&self, arguments: &[&str]) -> Output {
        let mut chroot = Command::new(workspace::on_path("chroot").expect("chroot"));
        chroot.env_clear().args(self.chroot()).args(arguments);
        chroot.output().expect("start chroot")
    }

    /// Arguments of `chroot` that start the entrypoint.
    pub fn chroot(&self) -> Vec<String> {
        let user = self.config["User"].as_str().expect("a user");
        let entrypoint = self.config["Entrypoint"].as_array().expect("an entrypoint");
        let entrypoint = entrypoint
            .iter()
            .map(|word| word.as_str().expect("a word").to_owned());
        [format!("--userspec={user}"), self.root().display().to_string()]
            .into_iter()
            .chain(entrypoint)
            .collect()
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    pub fn label(&self, name: &str) -> &str {
        let label = &self.config["Labels"][format!("org.opencontainers.image.{name}")];
        label.as_str().unwrap_or_default()
    }
}

fn extract(archive: &Path, folder: &Path) {
    fs::create_dir_all(folder).expect("a folder");
    let mut tar = Command::new("tar");
    tar.arg("-xf").arg(archive).arg("-C").arg(folder);
    assert!(
        tar.status().expect("start tar").success(),
        "{}",
        archive.display()
    );
}
