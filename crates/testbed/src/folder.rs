//! A temporary folder for its owner alone, which is removed however the owner ends.

use std::{
    fs,
    io::ErrorKind,
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, Result};

/// Waits for the end of its input, which comes with the owner's, and removes what is left. A process that dies with
/// the owner may still write for a moment, hence the second look; 50 looks take 10 s.
const JANITOR: &str = r#"trap '' HUP INT TERM; cat >/dev/null; looks=0
while [ -e "$0" ] && [ $looks -lt 50 ]; do rm -rf -- "$0"; sleep 0.2; looks=$((looks + 1)); done"#;

/// A temporary folder; removed when dropped, and by a janitor process when the owner is killed.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    janitor: Child,
}

impl Folder {
    /// Makes a folder `PREFIX-…` below the system's temporary one.
    ///
    /// # Errors
    /// If the folder or its janitor cannot be made.
    pub fn new(prefix: &str) -> Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix(&format!("{prefix}-"))
            // What is in it may be a credential.
            .permissions(fs::Permissions::from_mode(0o700))
            .tempdir()
            .context("make a folder")?;
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

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path)
            && error.kind() != ErrorKind::NotFound
        {
            tracing::warn!(%error, path = %self.path.display(), "a temporary folder resists; its janitor goes on");
        }
        // Waiting closes the janitor's input first, so it looks once more and ends.
        if let Err(error) = self.janitor.wait() {
            tracing::warn!(%error, "the janitor of a temporary folder could not be awaited");
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
    fn the_janitor_removes_what_a_killed_owner_leaves() {
        let mut folder = Folder::new("headroom-test").expect("folder");
        fs::create_dir(folder.path().join("inner")).expect("folder in it");
        // What the kernel does to the pipe of an owner that is killed.
        drop(folder.janitor.stdin.take());
        assert!(folder.janitor.wait().expect("janitor").success());
        assert!(!folder.path().exists());
    }
}
