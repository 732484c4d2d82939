//! Creates the disk of the emulated machine: tests, the programs that they start, the libraries of both, and init.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};
use tempfile::TempDir;

use super::folder;
use crate::{setup::emulator::MKE2FS, workspace};

/// Script of the first process.
const INIT: &str = include_str!("init.sh");
/// Programs of this machine that init and the tests start by name.
const PROGRAMS: [&str; 12] = [
    "sh", "mount", "stty", "unshare", "nsenter", "setpriv", "chrt", "taskset", "cat", "head", "true",
    "truncate",
];
/// Mount points of init, and folders for files of programs.
const FOLDERS: [&str; 6] = ["proc", "sys", "dev", "run", "tmp", "tests"];
/// Free space for tests, in bytes. The image file is sparse.
const FREE_SPACE: u64 = 1 << 30;

/// A file system in a file; deleted when dropped.
#[derive(Debug)]
pub(super) struct Disk {
    folder: TempDir,
}

impl Disk {
    /// Creates the disk. Tests and programs of the workspace have the same paths as on this machine, so that they find each
    /// other.
    ///
    /// # Errors
    /// If a program is missing, or a file cannot be written.
    pub(super) fn create(tests: &[&Path], ours: &[PathBuf]) -> Result<Self> {
        let disk = Self {
            folder: tempfile::tempdir_in(folder()).context("make a folder for a disk")?,
        };
        let tree = Tree {
            root: disk.folder.path().join("tree"),
        };
        for folder in FOLDERS {
            tree.folder(&Path::new("/").join(folder))?;
        }
        for name in PROGRAMS {
            let program = workspace::on_path(name).with_context(|| format!("{name} is not on PATH"))?;
            tree.add_program(&program, &Path::new("/bin").join(name))?;
        }
        for program in tests.iter().copied().chain(ours.iter().map(PathBuf::as_path)) {
            tree.add_program(program, program)?;
        }
        for test in tests {
            let name = test.file_name().context("a test is a file")?;
            symlink(test, tree.path(&Path::new("/tests").join(name))).context("list a test")?;
        }
        let init = tree.path(Path::new("/init"));
        fs::write(&init, INIT).context("write init")?;
        fs::set_permissions(&init, fs::Permissions::from_mode(0o755)).context("let init run")?;
        disk.fill(&tree)?;
        Ok(disk)
    }

    pub(super) fn path(&self) -> PathBuf {
        self.folder.path().join("disk")
    }

    fn fill(&self, tree: &Tree) -> Result<()> {
        let bytes = bytes(&tree.root)? * 5 / 4 + FREE_SPACE;
        // A real file system, so that the page cache works as on a node. It needs no journal: it is never used after a crash.
        let output = Command::new(MKE2FS)
            .args(["-q", "-t", "ext4", "-O", "^has_journal", "-d"])
            .arg(&tree.root)
            .arg(self.path())
            .arg(format!("{}k", bytes / 1_024))
            .output()
            .with_context(|| format!("start {MKE2FS}"))?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "{MKE2FS} failed ({}): {errors}",
            output.status
        );
        fs::remove_dir_all(&tree.root).context("remove what is on the disk now")
    }
}

/// Folder that becomes the root directory of the disk.
struct Tree {
    root: PathBuf,
}

impl Tree {
    fn path(&self, inside: &Path) -> PathBuf {
        self.root.join(inside.strip_prefix("/").unwrap_or(inside))
    }

    fn folder(&self, inside: &Path) -> Result<()> {
        let folder = self.path(inside);
        fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))
    }

    fn add(&self, from: &Path, inside: &Path) -> Result<()> {
        let to = self.path(inside);
        if to.exists() {
            return Ok(());
        }
        self.folder(inside.parent().context("a file is in a folder")?)?;
        fs::copy(from, &to).with_context(|| format!("copy {}", from.display()))?;
        Ok(())
    }

    /// Adds a program with its loader and shared libraries.
    fn add_program(&self, from: &Path, inside: &Path) -> Result<()> {
        self.add(from, inside)?;
        let output = Command::new("ldd").arg(from).output().context("start ldd")?;
        ensure!(output.status.success(), "ldd cannot read {}", from.display());
        for library in libraries(&String::from_utf8_lossy(&output.stdout)) {
            self.add(library, library)?;
        }
        Ok(())
    }
}

/// Total size of the files in a folder, in bytes.
fn bytes(folder: &Path) -> Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))? {
        let entry = entry.context("read a folder")?;
        let metadata = entry.metadata().context("look at a file")?;
        sum += if metadata.is_dir() {
            bytes(&entry.path())?
        } else {
            metadata.len()
        };
    }
    Ok(sum)
}

/// Paths in the output of `ldd`: `name => /path (0x...)`, and the loader, which has no arrow.
fn libraries(text: &str) -> impl Iterator<Item = &Path> {
    text.lines()
        .filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')))
        .map(Path::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ldd_output_lists_libraries_and_loader_but_not_the_vdso() {
        let text = "\tlinux-vdso.so.1 (0x00007ffe2d9f1000)\n\
                    \tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f1f2a000000)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x00007f1f2a3c5000)\n";
        let found: Vec<&Path> = libraries(text).collect();
        assert_eq!(
            found,
            [
                Path::new("/lib/x86_64-linux-gnu/libc.so.6"),
                Path::new("/lib64/ld-linux-x86-64.so.2")
            ]
        );
    }

    #[test]
    fn program_is_copied_with_its_libraries() {
        let folder = tempfile::tempdir().expect("folder");
        let tree = Tree {
            root: folder.path().to_owned(),
        };
        let shell = workspace::on_path("sh").expect("a shell");
        tree.add_program(&shell, Path::new("/bin/sh")).expect("copy");
        assert!(folder.path().join("bin/sh").is_file());
        let text = Command::new("ldd").arg(&shell).output().expect("ldd").stdout;
        let text = String::from_utf8(text).expect("paths");
        assert!(libraries(&text).count() > 0, "{text}");
        assert!(libraries(&text).all(|library| tree.path(library).is_file()));
        assert!(bytes(folder.path()).expect("sizes") > 0);
    }
}
