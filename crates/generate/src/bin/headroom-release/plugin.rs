//! Writes the archive of the kubectl plugin, and its manifest for krew.

use std::{fs, path::Path};

use anyhow::{Context as _, Result};
use serde_json::json;
use xtask::{elf::Architecture, images::VERSION, workspace};

use crate::{
    pack::{pack, sha256},
    publisher::Publisher,
};

const PROGRAM: &str = "kubectl-headroom";
const LICENCE: &str = "LICENSE";

/// Writes both files to the folder of the release.
pub(crate) fn write(publisher: &Publisher, programs: &Path, folder: &Path) -> Result<()> {
    let staging = tempfile::tempdir().context("make a folder")?;
    for (from, name) in [
        (programs.join(PROGRAM), PROGRAM),
        (workspace::root().join(LICENCE), LICENCE),
    ] {
        fs::copy(&from, staging.path().join(name)).with_context(|| format!("copy {}", from.display()))?;
    }
    let architecture = Architecture::OWN;
    let archive = format!("{PROGRAM}-{VERSION}-linux-{architecture}.tar.gz");
    pack(staging.path(), &[PROGRAM, LICENCE], &folder.join(&archive))?;
    let digest = sha256(&folder.join(&archive))?;
    let manifest = krew(publisher, &archive, &digest);
    let text = serde_saphyr::to_string(&manifest).context("write the manifest as YAML")?;
    fs::write(folder.join("headroom.yaml"), text).context("write the manifest of krew")
}

/// The manifest of the plugin, as krew reads it.
fn krew(publisher: &Publisher, archive: &str, digest: &str) -> serde_json::Value {
    let Publisher { home, downloads, .. } = publisher;
    json!({
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "headroom"},
        "spec": {
            "version": format!("v{VERSION}"),
            "homepage": home,
            "shortDescription": "See and explain allocatable that Headroom raises",
            "description": "Shows why each node has its allocatable, checks an installation, and removes it.",
            "platforms": [{
                "selector": {"matchLabels": {"os": "linux", "arch": Architecture::OWN.to_string()}},
                "uri": format!("{downloads}/v{VERSION}/{archive}"),
                "sha256": digest,
                "bin": PROGRAM,
                "files": [{"from": PROGRAM, "to": "."}, {"from": LICENCE, "to": "."}],
            }],
        },
    })
}
