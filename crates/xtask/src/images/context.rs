//! The build context `build` of an image: the files that its Dockerfile copies.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
    process::Command,
};

use anyhow::{Context as _, Result, ensure};

use super::Image;

/// Writes the files of an image below `folder`.
///
/// # Errors
/// If a file cannot be written, or busybox cannot list its commands.
pub(super) fn write(image: Image, program: &[u8], folder: &Path) -> Result<()> {
    let name = image.program();
    let inside = folder.join(if image.is_ours() { "out" } else { "bin" });
    fs::create_dir_all(&inside).with_context(|| format!("make {}", inside.display()))?;
    let path = inside.join(name);
    fs::write(&path, program).with_context(|| format!("write {}", path.display()))?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))
        .with_context(|| format!("let {} run", path.display()))?;
    if image == Image::Busybox {
        for command in commands(&path)? {
            symlink(name, inside.join(&command)).with_context(|| format!("link {command}"))?;
        }
    }
    Ok(())
}

/// Names of busybox's commands, other than itself.
fn commands(busybox: &Path) -> Result<Vec<String>> {
    let output = Command::new(busybox)
        .arg("--list")
        .output()
        .context("list the commands of busybox")?;
    ensure!(
        output.status.success(),
        "busybox --list failed ({})",
        output.status
    );
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let names = text.lines().filter(|name| *name != Image::Busybox.program());
    Ok(names.map(str::to_owned).collect())
}
