//! [`Traces`] lists what a real node has left on this machine: processes, mounts, cgroups, its network interface and its folder.

use std::{
    fs,
    path::{Path, PathBuf},
    thread::sleep,
    time::{Duration, Instant},
};

const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Names by which the traces of a node are recognised.
#[derive(Debug, Clone)]
pub struct Traces {
    folder: PathBuf,
    /// Name of the folder and of the node's cgroups.
    name: String,
    interface: String,
}

impl Traces {
    /// The node with this state folder and this interface on the machine.
    pub fn new(folder: &Path, interface: String) -> Self {
        let name = folder.file_name().and_then(|name| name.to_str()).expect("a name");
        Self {
            folder: folder.to_owned(),
            name: name.to_owned(),
            interface,
        }
    }

    /// Lists the traces, one per line.
    pub fn list(&self) -> Vec<String> {
        let Self {
            folder,
            name,
            interface,
        } = self;
        let mut found = Vec::new();
        if folder.exists() {
            found.push(folder.display().to_string());
        }
        if Path::new("/sys/class/net").join(interface).exists() {
            found.push(format!("interface {interface}"));
        }
        let hierarchies = fs::read_dir("/sys/fs/cgroup")
            .expect("cgroups")
            .flatten()
            .map(|entry| entry.path());
        let cgroups = hierarchies
            .chain([PathBuf::from("/sys/fs/cgroup")])
            .map(|root| root.join(name));
        found.extend(
            cgroups
                .filter(|cgroup| cgroup.exists())
                .map(|cgroup| cgroup.display().to_string()),
        );
        for process in fs::read_dir("/proc").expect("/proc").flatten() {
            let pid = process.file_name();
            if pid.to_string_lossy().parse::<u32>().is_err() {
                continue;
            }
            // A process may end while it is read.
            let text = |file: &str| fs::read(process.path().join(file)).unwrap_or_default();
            let link = fs::read_link(process.path().join("cwd")).unwrap_or_default();
            for (file, text) in [
                ("cmdline", text("cmdline")),
                ("cgroup", text("cgroup")),
                ("mountinfo", text("mountinfo")),
                ("cwd", link.into_os_string().into_encoded_bytes()),
            ] {
                if String::from_utf8_lossy(&text).contains(name.as_str()) {
                    found.push(format!("process {}: {file}", pid.display()));
                }
            }
        }
        found
    }

    /// Waits until there are no traces.
    pub fn await_none(&self, limit: Duration) {
        let deadline = Instant::now() + limit;
        loop {
            let left = self.list();
            if left.is_empty() {
                return;
            }
            assert!(Instant::now() < deadline, "after {limit:?}: {left:#?}");
            sleep(LOOK_EVERY);
        }
    }
}
