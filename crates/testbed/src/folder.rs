//! A temporary folder that only its owner can read, and that is removed even if the owner is killed.

use std::{
    env, fs,
    io::ErrorKind,
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, Result};

/// Shell script that waits until its standard input is closed, which happens at the owner's end, and removes the folder.
/// Repeats that for up to 10 s, because a process that is killed with the owner may still write for a moment.
const JANITOR: &str = r#"trap '' HUP INT TERM; cat >/dev/null; tries=0
while [ -e "$0" ] && [ $tries -lt 50 ]; do rm -rf -- "$0"; sleep 0.2; tries=$((tries + 1)); done"#;

/// A temporary folder; removed when dropped, and by a janitor process when the owner is killed.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    janitor: Child,
}

impl Folder {
    /// Creates a folder `PREFIX-…` in the system's temporary folder.
    ///
    /// # Errors
    /// If the folder cannot be created, or its janitor cannot be started.
    pub fn new(prefix: &str) -> Result<Self> {
        Self::new_in(&env::temp_dir(), prefix)
    }

    /// Creates a folder `PREFIX-…` in this folder.
    ///
    /// # Errors
    /// Errors of [`Self::new`].
    pub fn new_in(parent: &Path, prefix: &str) -> Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix(&format!("{prefix}-"))
            // Files in it may be credentials.
            .permissions(fs::Permissions::from_mode(0o700))
            .tempdir_in(parent)
            .with_context(|| format!("create a temporary folder in {}", parent.display()))?;
        let janitor = Command::new("sh")
            .args(["-c", JANITOR])
            .arg(folder.path())
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .context("start the janitor of the folder")?;
        Ok(Self {
            path: folder.keep(),
            janitor,
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path)
            && error.kind() != ErrorKind::NotFound
        {
            tracing::warn!(%error, path = %self.path.display(), "a temporary folder could not be removed; its janitor tries again");
        }
        // `wait` closes the janitor's input first, so that the janitor tries again and ends.
        if let Err(error) = self.janitor.wait() {
            tracing::warn!(%error, "waiting for the janitor of a temporary folder failed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropping_removes_the_folder_and_its_janitor() {
        let folder = Folder::new("headroom-test").expect("folder");
        let path = folder.path().to_owned();
        let janitor = format!("/proc/{}", folder.janitor.id());
        fs::write(path.join("file"), "text").expect("write");
        assert!(Path::new(&janitor).exists());
        drop(folder);
        assert!(!path.exists());
        assert!(!Path::new(&janitor).exists());
    }

    #[test]
    fn janitor_removes_the_folder_of_a_killed_owner() {
        let mut folder = Folder::new("headroom-test").expect("folder");
        fs::create_dir(folder.path().join("inner")).expect("folder in it");
        // The kernel closes the pipe like this if the owner is killed.
        drop(folder.janitor.stdin.take());
        assert!(folder.janitor.wait().expect("janitor").success());
        assert!(!folder.path().exists());
    }
}
