//! Trees of every shape in a temporary directory, and the hierarchy of this machine.

use tempfile::TempDir;

use super::*;

const UID: &str = "0b1c7a52-3f4e-4d6b-9a1e-2c3d4e5f6a7b";
const STATIC: &str = "9f86d081884c7d659a2feaa0c55ad015";

struct Mount(TempDir);

impl Mount {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn unified() -> Self {
        let mount = Self::new();
        mount.write("cgroup.controllers", "cpu memory\n");
        mount
    }

    fn write(&self, path: &str, text: &str) -> &Self {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    fn folder(&self, path: &str) -> &Self {
        fs::create_dir_all(self.0.path().join(path)).unwrap();
        self
    }

    fn kubepods(&self) -> Kubepods {
        Kubepods::find(self.0.path()).expect("kubepods")
    }

    fn uids(&self) -> Vec<String> {
        let mut uids: Vec<_> = self
            .kubepods()
            .scan()
            .unwrap()
            .pods
            .into_iter()
            .map(|pod| pod.uid)
            .collect();
        uids.sort();
        uids
    }
}

fn underscored(uid: &str) -> String {
    uid.replace('-', "_")
}

#[test]
fn pods_of_all_classes_are_found_with_the_cgroupfs_driver() {
    let mount = Mount::new();
    for controller in ["cpuacct", "memory"] {
        mount
            .folder(&format!("{controller}/kubepods/pod{STATIC}/abcdef"))
            .folder(&format!("{controller}/kubepods/burstable/pod{UID}"))
            .folder(&format!(
                "{controller}/kubepods/besteffort/pod11111111-2222-3333-4444-555555555555"
            ));
    }
    assert_eq!(
        mount.uids(),
        [UID, "11111111-2222-3333-4444-555555555555", STATIC]
            .map(str::to_owned)
            .as_slice()
            .sorted()
    );
    assert_eq!(mount.kubepods().versions(), (Version::V1, Version::V1));
}

#[test]
fn pods_of_all_classes_are_found_with_the_systemd_driver() {
    let mount = Mount::unified();
    let burstable = "kubepods.slice/kubepods-burstable.slice";
    mount
        .folder(&format!(
            "kubepods.slice/kubepods-pod{STATIC}.slice/cri-containerd-abc.scope"
        ))
        .folder(&format!(
            "{burstable}/kubepods-burstable-pod{}.slice/crio-abc.scope",
            underscored(UID)
        ))
        .folder("kubepods.slice/kubepods-besteffort.slice");
    assert_eq!(mount.uids(), [UID, STATIC].map(str::to_owned).as_slice().sorted());
    assert_eq!(mount.kubepods().versions(), (Version::V2, Version::V2));
}

#[test]
fn kubepods_below_a_kubelet_cgroup_is_found() {
    let mount = Mount::unified();
    let slice = "kubelet.slice/kubelet-kubepods.slice";
    mount.folder(&format!(
        "{slice}/kubelet-kubepods-besteffort.slice/kubelet-kubepods-besteffort-pod{}.slice",
        underscored(UID)
    ));
    assert_eq!(mount.uids(), [UID]);
}

#[test]
fn hybrid_hierarchy_is_read_where_kubepods_is() {
    let mount = Mount::new();
    mount
        .write("unified/cgroup.controllers", "")
        .folder("cpuacct")
        .folder("memory");
    mount.folder(&format!("unified/kubepods/pod{UID}"));
    assert_eq!(mount.kubepods().versions(), (Version::V2, Version::V2));
    mount
        .folder(&format!("cpuacct/kubepods/pod{UID}"))
        .folder("memory/kubepods");
    assert_eq!(mount.kubepods().versions(), (Version::V1, Version::V1));
}

#[test]
fn tree_that_is_not_kubernetes_has_no_kubepods() {
    let mount = Mount::unified();
    mount.folder("system.slice/ssh.service").folder("user.slice");
    assert_eq!(Kubepods::find(mount.0.path()), None);
    assert_eq!(Kubepods::find(Path::new("/nowhere")), None);
}

#[test]
fn names_that_are_no_pods_are_counted_or_passed_over() {
    let mount = Mount::unified();
    mount
        .folder("kubepods/pod")
        .folder("kubepods/pod..%2f..")
        .folder(&format!("kubepods/pod{}", "a".repeat(64)))
        .folder("kubepods/something-else")
        .folder(&format!("kubepods/burstable/burstable/pod{UID}"))
        .write("kubepods/podfile", "not a directory");
    let scan = mount.kubepods().scan().unwrap();
    assert_eq!((scan.pods.len(), scan.unreadable, scan.untracked), (0, 3, 0));
}

#[test]
fn pods_beyond_the_limit_are_counted_and_not_tracked() {
    let mount = Mount::unified();
    for number in 0..MAX_PODS + 3 {
        mount.folder(&format!("kubepods/pod{number:08}"));
    }
    let scan = mount.kubepods().scan().unwrap();
    assert_eq!((scan.pods.len(), scan.untracked), (MAX_PODS, 3));
}

#[test]
fn version_1_is_read_with_everything_below() {
    let mount = Mount::new();
    let pod = format!("kubepods/burstable/pod{UID}");
    let stat = "rss 1\nactive_file 1\ninactive_file 1\ntotal_rss 5000\ntotal_swap 70\ntotal_active_file 300\n\
                total_inactive_file 2000\n";
    mount
        .write(&format!("cpuacct/{pod}/cpuacct.usage"), "3552109177528\n")
        .write(&format!("memory/{pod}/memory.usage_in_bytes"), "9000\n")
        .write(&format!("memory/{pod}/memory.stat"), stat)
        .write("memory/kubepods/memory.usage_in_bytes", "9000\n")
        .write("memory/kubepods/memory.stat", stat)
        .write("memory/kubepods/memory.failcnt", "4\n")
        .write(
            "memory/kubepods/memory.oom_control",
            "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
        );
    let kubepods = mount.kubepods();
    let pods = kubepods.scan().unwrap().pods;
    assert_eq!(kubepods.cpu_ns(&pods[0]).unwrap(), Some(3_552_109_177_528));
    assert_eq!(
        kubepods.memory(&pods[0]).unwrap(),
        Some(PodMemory {
            low: 5_000,
            high: 6_850
        })
    );
    assert_eq!(kubepods.working_set().unwrap(), Some(6_920));
    assert_eq!(
        kubepods.limit_events().unwrap(),
        Some(LimitEvents {
            hits: 4,
            ooms: 2,
            ooms_below: 2
        })
    );
    assert_eq!(kubepods.pressure().unwrap(), None);
}

#[test]
fn version_2_is_read_with_swap_and_its_own_limit_apart_from_those_below() {
    let mount = Mount::unified();
    let stat = "anon 5000\nfile 9\nactive_file 300\ninactive_file 2000\n";
    for cgroup in ["kubepods".to_owned(), format!("kubepods/pod{UID}")] {
        mount
            .write(&format!("{cgroup}/cpu.stat"), "usage_usec 1234\nuser_usec 1000\n")
            .write(&format!("{cgroup}/memory.current"), "9000\n")
            .write(&format!("{cgroup}/memory.swap.current"), "70\n")
            .write(&format!("{cgroup}/memory.stat"), stat);
    }
    mount
        .write(
            "kubepods/memory.events.local",
            "low 0\nhigh 0\nmax 3\noom 1\noom_kill 0\n",
        )
        .write(
            "kubepods/memory.events",
            "low 0\nhigh 0\nmax 90\noom 8\noom_kill 8\n",
        )
        .write(
            "kubepods/memory.pressure",
            "some avg10=0.00 avg60=0.00 avg300=0.00 total=12\n",
        );
    let kubepods = mount.kubepods();
    let pods = kubepods.scan().unwrap().pods;
    assert_eq!(kubepods.cpu_ns(&pods[0]).unwrap(), Some(1_234_000));
    assert_eq!(kubepods.total_cpu_ns().unwrap(), Some(1_234_000));
    assert_eq!(
        kubepods.memory(&pods[0]).unwrap(),
        Some(PodMemory {
            low: 5_000,
            high: 6_850
        })
    );
    assert_eq!(kubepods.working_set().unwrap(), Some(6_920));
    assert_eq!(
        kubepods.limit_events().unwrap(),
        Some(LimitEvents {
            hits: 3,
            ooms: 1,
            ooms_below: 8
        })
    );
    assert_eq!(kubepods.pressure().unwrap().unwrap().some_us, 12);
}

#[test]
fn pod_that_ends_between_scan_and_read_is_gone_and_no_error() {
    let mount = Mount::unified();
    mount.write(&format!("kubepods/pod{UID}/cpu.stat"), "usage_usec 1\n");
    let kubepods = mount.kubepods();
    let pods = kubepods.scan().unwrap().pods;
    fs::remove_dir_all(mount.0.path().join("kubepods")).unwrap();
    assert_eq!(kubepods.cpu_ns(&pods[0]).unwrap(), None);
    assert_eq!(kubepods.memory(&pods[0]).unwrap(), None);
    assert!(!kubepods.is_populated(&pods[0]).unwrap());
    assert_eq!(kubepods.scan().unwrap(), Scan::default());
}

#[test]
fn malformed_file_is_named_with_its_field() {
    let mount = Mount::unified();
    mount.write(&format!("kubepods/pod{UID}/cpu.stat"), "usage_usec lots\n");
    let kubepods = mount.kubepods();
    let error = kubepods
        .cpu_ns(&kubepods.scan().unwrap().pods[0])
        .unwrap_err()
        .to_string();
    assert!(
        error.ends_with(&format!("pod{UID}/cpu.stat: `usage_usec` is \"lots\"")),
        "{error}"
    );
}

#[test]
fn population_is_told_by_either_version() {
    let mount = Mount::unified();
    mount.write(
        &format!("kubepods/pod{UID}/cgroup.events"),
        "populated 1\nfrozen 0\n",
    );
    let kubepods = mount.kubepods();
    let pod = kubepods.scan().unwrap().pods.remove(0);
    assert!(kubepods.is_populated(&pod).unwrap());
    mount.write(
        &format!("kubepods/pod{UID}/cgroup.events"),
        "populated 0\nfrozen 0\n",
    );
    assert!(!kubepods.is_populated(&pod).unwrap());

    let mount = Mount::new();
    mount
        .folder("memory/kubepods")
        .write(&format!("cpuacct/kubepods/pod{UID}/cgroup.procs"), "");
    let kubepods = mount.kubepods();
    assert!(!kubepods.is_populated(&pod).unwrap());
    mount.write(
        &format!("cpuacct/kubepods/pod{UID}/container/cgroup.procs"),
        "4711\n",
    );
    assert!(kubepods.is_populated(&pod).unwrap());
}

/// Puts a cgroup where the kubelet would, in the hierarchies of this machine, and takes it away again.
struct RealPod {
    folders: Vec<PathBuf>,
}

impl RealPod {
    fn create(uid: &str) -> Option<Self> {
        let mount = Path::new("/sys/fs/cgroup");
        let roots = if mount.join("cpuacct").is_dir() {
            vec![mount.join("cpuacct"), mount.join("memory")]
        } else {
            vec![mount.to_owned()]
        };
        let mut folders = Vec::new();
        for root in roots {
            for path in [
                "kubepods".to_owned(),
                "kubepods/burstable".to_owned(),
                format!("kubepods/burstable/pod{uid}"),
            ] {
                let path = root.join(path);
                if !path.is_dir() {
                    fs::create_dir(&path).ok()?;
                    folders.push(path.clone());
                }
                // Version 2 hands controllers down level by level; version 1 has no such file.
                let _is_v2 = fs::write(path.parent()?.join("cgroup.subtree_control"), "+memory").is_ok();
            }
        }
        Some(Self { folders })
    }
}

impl Drop for RealPod {
    fn drop(&mut self) {
        for folder in self.folders.iter().rev() {
            // Another test or a running demo may have put something of its own in.
            let _may_be_in_use = fs::remove_dir(folder);
        }
    }
}

#[test]
fn real_hierarchy_yields_cpu_and_memory_of_a_pod() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let uid = format!("00000000-0000-4000-8000-{:012}", std::process::id());
    let real = RealPod::create(&uid).expect("root may create cgroups");
    let kubepods = Kubepods::find(Path::new("/sys/fs/cgroup")).expect("kubepods of this test");
    let pods = kubepods.scan().unwrap().pods;
    let pod = pods
        .into_iter()
        .find(|pod| pod.uid == uid)
        .expect("pod of this test");
    assert!(!kubepods.is_populated(&pod).unwrap());

    let folder = kubepods.cpu.path.join(&pod.path);
    let mut child = std::process::Command::new("sh")
        .arg("-c")
        .arg("echo $$ > \"$0/cgroup.procs\" && while :; do :; done")
        .arg(&folder)
        .spawn()
        .unwrap();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while kubepods.cpu_ns(&pod).unwrap() < Some(20_000_000) && std::time::Instant::now() < deadline {
        std::thread::yield_now();
    }
    let used = kubepods.cpu_ns(&pod).unwrap();
    let was_populated = kubepods.is_populated(&pod).unwrap();
    let memory = kubepods.memory(&pod).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(used >= Some(20_000_000) && was_populated, "{used:?}");
    assert!(memory.is_some());

    drop(real);
    assert_eq!(kubepods.cpu_ns(&pod).unwrap(), None);
}

trait Sorted {
    fn sorted(&self) -> Vec<String>;
}

impl Sorted for [String] {
    fn sorted(&self) -> Vec<String> {
        let mut sorted = self.to_vec();
        sorted.sort();
        sorted
    }
}
