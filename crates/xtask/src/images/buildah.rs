//! Builds one image by buildah and exports it. Needs no daemon, no registry and no configuration of the machine.

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};

use super::image::{Image, VERSION};
use crate::{elf::Architecture, setup::buildah::BUILDAH, workspace};

/// Nothing is pulled, so there is no signature to check.
const POLICY: &str = r#"{"default": [{"type": "insecureAcceptAnything"}]}"#;
/// Lines of buildah's output in an error message.
const LINES: usize = 10;
/// Free space that a build needs per byte of the program: the layer, its copy in the image, and the archive.
const COPIES: u64 = 4;
/// Free space for everything else, in bytes.
const SPARE: u64 = 8 << 20;

/// Storage of buildah in a folder of its own; removed after each image.
#[derive(Debug)]
pub(super) struct Storage {
    folder: PathBuf,
}

impl Storage {
    /// Creates empty storage. A killed build may have left files in the folder.
    ///
    /// # Errors
    /// If the folder cannot be written, or has too little free space for a program of this size.
    pub(super) fn create(folder: &Path, program_bytes: u64) -> Result<Self> {
        let storage = Self {
            folder: folder.to_owned(),
        };
        storage.remove()?;
        for path in [storage.context(), storage.temporary()] {
            fs::create_dir_all(&path).with_context(|| {
                format!(
                    "the storage folder of images, {}, cannot be written",
                    folder.display()
                )
            })?;
        }
        let status = rustix::fs::statvfs(folder).context("read the free space of the storage folder")?;
        check_space(folder, status.f_bavail * status.f_frsize, program_bytes)?;
        Ok(storage)
    }

    /// Folder for the build context `build`.
    pub(super) fn context(&self) -> PathBuf {
        self.folder.join("context")
    }

    fn temporary(&self) -> PathBuf {
        self.folder.join("tmp")
    }

    /// Builds the image from [`Self::context`], exports it to `archive`, and returns its ID.
    ///
    /// # Errors
    /// If buildah fails; the message has the end of its output.
    pub(super) fn build(
        &self,
        image: Image,
        architecture: Architecture,
        revision: &str,
        archive: &Path,
    ) -> Result<String> {
        let reference = image.reference();
        let [policy, id] = ["policy.json", "id"].map(|name| self.folder.join(name));
        fs::write(&policy, POLICY).with_context(|| format!("write {}", policy.display()))?;
        let mut build = self.buildah("bud", &policy);
        build
            // A fixed time and no version of buildah: equal files give an equal image.
            .args([
                "--isolation",
                "chroot",
                "--timestamp",
                "0",
                "--identity-label=false",
                "--quiet",
            ])
            .args(["--platform", &format!("linux/{architecture}")])
            .args(["--build-arg", &format!("VERSION={VERSION}")])
            .args(["--build-arg", &format!("REVISION={revision}")])
            .args(["--build-context", &format!("build={}", self.context().display())])
            .args(["--tag", &reference])
            .arg("--iidfile")
            .arg(&id)
            .arg("--file")
            .arg(workspace::root().join(image.dockerfile()))
            .arg(self.context());
        run(&mut build).with_context(|| format!("build image {reference}"))?;
        // buildah refuses to replace an archive.
        let new = self.folder.join("archive");
        let mut push = self.buildah("push", &policy);
        push.args(["--quiet", &reference])
            .arg(format!("docker-archive:{}:{reference}", new.display()));
        run(&mut push).with_context(|| format!("export image {reference}"))?;
        fs::rename(&new, archive).with_context(|| format!("write {}", archive.display()))?;
        let id = fs::read_to_string(&id).with_context(|| format!("read {}", id.display()))?;
        Ok(id.trim().to_owned())
    }

    fn buildah(&self, command: &str, policy: &Path) -> Command {
        let mut buildah = Command::new(BUILDAH);
        for (option, name) in [("--root", "root"), ("--runroot", "run")] {
            buildah.arg(option).arg(self.folder.join(name));
        }
        buildah
            .args(["--storage-driver", "vfs", command, "--signature-policy"])
            .arg(policy)
            .env("TMPDIR", self.temporary());
        buildah
    }

    fn remove(&self) -> Result<()> {
        if self.folder.exists() {
            fs::remove_dir_all(&self.folder).with_context(|| format!("remove {}", self.folder.display()))?;
        }
        Ok(())
    }

    /// Removes the storage.
    ///
    /// # Errors
    /// If a file cannot be removed.
    pub(super) fn finish(self) -> Result<()> {
        self.remove()
    }
}

fn check_space(folder: &Path, free: u64, program_bytes: u64) -> Result<()> {
    let needed = program_bytes * COPIES + SPARE;
    ensure!(
        free >= needed,
        "{} has {} MiB of free space, and an image needs {} MiB",
        folder.display(),
        free >> 20,
        needed.div_ceil(1 << 20)
    );
    Ok(())
}

fn run(buildah: &mut Command) -> Result<()> {
    let output = buildah.output().with_context(|| format!("start {BUILDAH}"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    let mut last: Vec<&str> = text.lines().rev().take(LINES).collect();
    last.reverse();
    let command = buildah
        .get_args()
        .nth(6)
        .and_then(OsStr::to_str)
        .unwrap_or_default();
    ensure!(
        output.status.success(),
        "buildah {command} failed ({}): {}",
        output.status,
        last.join("\n")
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_little_space_is_refused_with_both_sizes() {
        let folder = Path::new("/somewhere");
        assert!(check_space(folder, 48 << 20, 10 << 20).is_ok());
        let error = check_space(folder, (48 << 20) - 1, 10 << 20).expect_err("too little");
        assert_eq!(
            error.to_string(),
            "/somewhere has 47 MiB of free space, and an image needs 48 MiB"
        );
    }
}
