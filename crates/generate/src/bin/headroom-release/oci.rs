//! Converts an image's archive to an OCI archive, which registries and tools for signatures read. Needs no daemon.

use std::{ffi::OsString, fs, path::Path, process::Command};

use anyhow::{Context as _, Result, ensure};
use xtask::{images::Archive, setup::buildah::BUILDAH};

/// Nothing is pulled from a registry, so there is no signature to check.
const POLICY: &str = r#"{"default": [{"type": "insecureAcceptAnything"}]}"#;

/// Writes `NAME-VERSION-ARCHITECTURE.oci.tar` to the folder.
pub(crate) fn convert(archive: &Archive, folder: &Path) -> Result<()> {
    let Archive { reference, path, .. } = archive;
    let name = path
        .file_stem()
        .context("an archive has a name")?
        .to_string_lossy();
    let to = folder.join(format!("{name}.oci.tar"));
    let storage = tempfile::tempdir_in(folder).context("make a folder for buildah")?;
    let policy = storage.path().join("policy.json");
    fs::write(&policy, POLICY).context("write the policy of buildah")?;
    let from = format!("docker-archive:{}", path.display());
    run(storage.path(), &["pull", "--quiet"], &policy, &[&from])?;
    let target = format!("oci-archive:{}:{reference}", to.display());
    run(
        storage.path(),
        &["push", "--quiet"],
        &policy,
        &[reference, &target],
    )
    .with_context(|| format!("convert image {reference}"))
}

fn run(storage: &Path, command: &[&str], policy: &Path, arguments: &[&str]) -> Result<()> {
    let mut buildah = Command::new(BUILDAH);
    for (option, name) in [("--root", "root"), ("--runroot", "run")] {
        buildah.arg(option).arg(storage.join(name));
    }
    buildah
        .args(["--storage-driver", "vfs"])
        .args(command)
        .arg(OsString::from("--signature-policy"))
        .arg(policy)
        .args(arguments)
        .env("TMPDIR", storage);
    let output = buildah.output().context("start buildah")?;
    ensure!(
        output.status.success(),
        "buildah: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}
