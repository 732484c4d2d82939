//! [`Archive`]: an exported image, and the record of the inputs that it was built from.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use sha2::{Digest as _, Sha256};

use super::image::{Image, VERSION};
use crate::{elf::Architecture, workspace};

/// An image as a docker-archive, which `ctr images import` and `docker load` read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Archive {
    /// Repository and tag, as in a pod's `image`.
    pub reference: String,
    /// Digest of the image's configuration, which covers all its layers. Kubernetes reports it as `imageID`.
    pub id: String,
    pub path: PathBuf,
}

/// Digest of everything that an image is built from.
pub(super) fn inputs(
    image: Image,
    architecture: Architecture,
    revision: &str,
    program: &[u8],
) -> Result<String> {
    let dockerfile = workspace::root().join(image.dockerfile());
    let dockerfile = fs::read(&dockerfile).with_context(|| format!("read {}", dockerfile.display()))?;
    let mut digest = Sha256::new();
    for part in [
        dockerfile.as_slice(),
        architecture.name().as_bytes(),
        VERSION.as_bytes(),
        revision.as_bytes(),
        program,
    ] {
        // With its length, so that moving a byte between parts changes the digest.
        digest.update(part.len().to_le_bytes());
        digest.update(part);
    }
    let mut text = String::new();
    for byte in digest.finalize() {
        write!(text, "{byte:02x}").context("format a digest")?;
    }
    Ok(text)
}

impl Archive {
    /// Path of an image's archive in a folder.
    pub(super) fn path(image: Image, architecture: Architecture, folder: &Path) -> PathBuf {
        let reference = image.reference();
        let name = reference.rsplit('/').next().unwrap_or(&reference);
        folder.join(format!("{}-{architecture}.tar", name.replace(':', "-")))
    }

    /// The archive at this path, if it was built from these inputs.
    pub(super) fn find(image: Image, path: &Path, inputs: &str) -> Option<Self> {
        let record = fs::read_to_string(record(path)).ok()?;
        let id = record.strip_prefix(inputs)?.trim();
        path.is_file().then(|| Self {
            reference: image.reference(),
            id: id.to_owned(),
            path: path.to_owned(),
        })
    }

    /// Removes the record, so that an interrupted build leaves none.
    pub(super) fn forget(path: &Path) -> Result<()> {
        let record = record(path);
        if record.exists() {
            fs::remove_file(&record).with_context(|| format!("remove {}", record.display()))?;
        }
        Ok(())
    }

    /// Records the inputs of the archive.
    pub(super) fn record(&self, inputs: &str) -> Result<()> {
        let record = record(&self.path);
        fs::write(&record, format!("{inputs} {}\n", self.id))
            .with_context(|| format!("write {}", record.display()))
    }
}

fn record(archive: &Path) -> PathBuf {
    archive.with_extension("inputs")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archive_is_reused_only_for_equal_inputs() {
        let folder = tempfile::tempdir().expect("folder");
        let path = Archive::path(Image::Pause, Architecture::Arm64, folder.path());
        assert_eq!(path, folder.path().join("pause-1-arm64.tar"));
        let of = |program: &[u8], revision: &str| {
            inputs(Image::Pause, Architecture::Arm64, revision, program).expect("inputs")
        };
        let first = of(b"one", "r");
        assert_ne!(first, of(b"two", "r"));
        assert_ne!(first, of(b"ne", "ro"));
        let archive = Archive {
            reference: Image::Pause.reference(),
            id: "sha256:12".to_owned(),
            path: path.clone(),
        };
        archive.record(&first).expect("record");
        assert_eq!(Archive::find(Image::Pause, &path, &first), None);
        fs::write(&path, "tar").expect("write");
        assert_eq!(Archive::find(Image::Pause, &path, &first), Some(archive));
        assert_eq!(Archive::find(Image::Pause, &path, &of(b"two", "r")), None);
        Archive::forget(&path).expect("forget");
        assert_eq!(Archive::find(Image::Pause, &path, &first), None);
    }
}
