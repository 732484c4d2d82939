//! The state folder of a node, and the removal of folders and cgroups that killed runs have left.

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fs::{self, File, TryLockError},
    io::ErrorKind,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use rustix::fs::statvfs;
use xtask::terminal::print;

use crate::folder::Folder;

/// Prefix of state folders, and of the nodes' cgroups, which have the names of the folders.
const PREFIX: &str = "headroom-real";
/// The owner holds a lock on this file in its folder.
const LOCK: &str = "lock";
/// A folder without a lock file may be about to get one.
const NEW: Duration = Duration::from_secs(60);
/// Images, containers and logs of a few small pods.
const SPACE_MIB: u64 = 512;
/// The node has its own folders at these places, see `node.sh`.
const REPLACED: [&str; 3] = ["/run", "/var/lib", "/var/log"];

/// A state folder, which is removed with its owner.
#[derive(Debug)]
pub(super) struct State {
    _lock: File,
    name: String,
    folder: Folder,
}

impl State {
    /// Creates a state folder in this folder, after the removal of folders and cgroups of killed runs.
    pub(super) fn create(parent: &Path) -> Result<Self> {
        if let Some(hidden) = REPLACED.iter().find(|hidden| parent.starts_with(hidden)) {
            bail!(
                "{} is in {hidden}, which the node replaces by its own folder: set TMPDIR to another folder",
                parent.display()
            );
        }
        remove_folders(parent)?;
        remove_cgroups(parent)?;
        let space =
            statvfs(parent).with_context(|| format!("read the free space of {}", parent.display()))?;
        let free_mib = (space.f_bavail * space.f_frsize) >> 20;
        ensure!(
            free_mib >= SPACE_MIB,
            "{} has {free_mib} MiB of free space; a node needs {SPACE_MIB} MiB: set TMPDIR to another folder, or delete files",
            parent.display()
        );
        let folder = Folder::new_in(parent, PREFIX)?;
        let lock = File::create(folder.path().join(LOCK))
            .with_context(|| format!("write to {}", folder.path().display()))?;
        lock.lock().context("lock the state folder")?;
        let name = folder.path().file_name().and_then(|name| name.to_str());
        let name = name.context("name the state folder")?.to_owned();
        Ok(Self {
            _lock: lock,
            name,
            folder,
        })
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Name of the folder and of the node's cgroups.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Folder in which the node's cgroups appear as the hierarchies of a machine of its own.
    pub(super) fn cgroup_root(&self) -> Result<PathBuf> {
        links(&hierarchies()?, &self.name, &self.folder().join("hierarchies"))
    }
}

/// Removes state folders whose owner has ended.
fn remove_folders(parent: &Path) -> Result<()> {
    for folder in with_prefix(parent)? {
        if is_left(&folder)? {
            print(format!(
                "Removing {}, which a killed run has left.",
                folder.display()
            ));
            // Removal would delete the files of the mounted file system.
            let mounts = fs::read_to_string("/proc/self/mountinfo").context("list the mounts")?;
            let mut points = mounts.lines().filter_map(|line| line.split(' ').nth(4));
            if let Some(point) = points.find(|point| Path::new(point).starts_with(&folder)) {
                bail!("unmount {point}, which is in the folder of a killed run");
            }
            fs::remove_dir_all(&folder).with_context(|| format!("remove {}", folder.display()))?;
        }
    }
    Ok(())
}

/// Removes the nodes' cgroups without processes and without a state folder.
fn remove_cgroups(parent: &Path) -> Result<()> {
    let mut printed = BTreeSet::new();
    for hierarchy in hierarchies()? {
        for cgroup in with_prefix(&hierarchy)? {
            let folder = cgroup.file_name().map(|name| parent.join(name));
            if folder.is_some_and(|folder| folder.exists()) || !is_without_processes(&cgroup)? {
                continue;
            }
            remove_cgroup(&cgroup)?;
            let name = cgroup.file_name().map(OsStr::to_owned).unwrap_or_default();
            if printed.insert(name.clone()) {
                print(format!(
                    "Removing the cgroups {}, which a killed run has left.",
                    name.display()
                ));
            }
        }
    }
    Ok(())
}

/// True if no process holds the lock of the folder.
fn is_left(folder: &Path) -> Result<bool> {
    let Ok(lock) = File::open(folder.join(LOCK)) else {
        let made = fs::metadata(folder).and_then(|metadata| metadata.modified());
        // Its owner has removed it meanwhile, or the clock was set back.
        return Ok(made.is_ok_and(|made| made.elapsed().is_ok_and(|age| age > NEW)));
    };
    match lock.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error).with_context(|| format!("lock {}", folder.display())),
    }
}

/// Roots of the cgroup hierarchies of this machine.
pub(super) fn hierarchies() -> Result<Vec<PathBuf>> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").context("list the mounts")?;
    let roots = mounts.lines().filter_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        let point = Path::new(mount.split(' ').nth(4)?);
        let is_cgroup = kind.starts_with("cgroup ") || kind.starts_with("cgroup2 ");
        (is_cgroup && point.starts_with("/sys/fs/cgroup")).then(|| point.to_owned())
    });
    Ok(roots.collect())
}

/// Folder with a link to the cgroup of this name in each hierarchy of `points`, or that cgroup if it is in the only hierarchy.
fn links(points: &[PathBuf], name: &str, folder: &Path) -> Result<PathBuf> {
    if let [only] = points {
        return Ok(only.join(name));
    }
    fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
    for point in points {
        let link = folder.join(point.file_name().context("a hierarchy without a name")?);
        if !link.is_symlink() {
            symlink(point.join(name), &link).with_context(|| format!("make {}", link.display()))?;
        }
    }
    Ok(folder.to_owned())
}

/// Folders below `parent` whose name begins with [`PREFIX`].
fn with_prefix(parent: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(parent).with_context(|| format!("read {}", parent.display()))? {
        let entry = entry.with_context(|| format!("read {}", parent.display()))?;
        let is_ours = entry
            .file_name()
            .to_string_lossy()
            .starts_with(&format!("{PREFIX}-"));
        if is_ours && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.push(entry.path());
        }
    }
    Ok(found)
}

fn is_without_processes(cgroup: &Path) -> Result<bool> {
    let processes = cgroup.join("cgroup.procs");
    let own = fs::read_to_string(&processes).with_context(|| format!("read {}", processes.display()))?;
    if !own.is_empty() {
        return Ok(false);
    }
    for child in children(cgroup)? {
        if !is_without_processes(&child)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn remove_cgroup(cgroup: &Path) -> Result<()> {
    for child in children(cgroup)? {
        remove_cgroup(&child)?;
    }
    match fs::remove_dir(cgroup) {
        // Its supervisor was faster.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed.with_context(|| format!("remove the cgroup {}", cgroup.display())),
    }
}

fn children(cgroup: &Path) -> Result<Vec<PathBuf>> {
    let mut children = Vec::new();
    for entry in fs::read_dir(cgroup).with_context(|| format!("read {}", cgroup.display()))? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            children.push(entry.path());
        }
    }
    Ok(children)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cgroup_root_has_a_link_for_each_of_several_hierarchies() {
        let parent = tempfile::tempdir().expect("folder");
        let points = ["memory", "cpuacct"].map(|name| Path::new("/sys/fs/cgroup").join(name));
        let root = links(&points, "node", &parent.path().join("hierarchies")).expect("links");
        let link = fs::read_link(root.join("memory")).expect("a link");
        assert_eq!(link, Path::new("/sys/fs/cgroup/memory/node"));
        let again = links(&points, "node", &root).expect("links");
        assert_eq!(again, root);
        let only = [PathBuf::from("/sys/fs/cgroup")];
        let found = links(&only, "node", &root).expect("a path");
        assert_eq!(found, Path::new("/sys/fs/cgroup/node"));
    }

    #[test]
    fn only_folders_without_an_owner_are_removed() {
        let parent = tempfile::tempdir().expect("folder");
        let [left, owned, new, other] = ["headroom-real-a", "headroom-real-b", "headroom-real-c", "other"]
            .map(|name| parent.path().join(name));
        for folder in [&left, &owned, &new, &other] {
            fs::create_dir(folder).expect("folder");
        }
        fs::create_dir_all(left.join("var/lib")).expect("folder");
        for folder in [&left, &other] {
            fs::write(folder.join(LOCK), "").expect("lock file");
        }
        let lock = File::create(owned.join(LOCK)).expect("lock file");
        lock.lock().expect("lock");
        remove_folders(parent.path()).expect("remove");
        let exist = [&left, &owned, &new, &other].map(|folder| folder.exists());
        assert_eq!(exist, [false, true, true, true]);
    }

    #[test]
    fn folders_that_the_node_replaces_are_refused() {
        let error = State::create(Path::new("/var/lib/builds"))
            .expect_err("hidden")
            .to_string();
        assert!(error.contains("/var/lib/builds is in /var/lib"), "{error}");
    }
}
