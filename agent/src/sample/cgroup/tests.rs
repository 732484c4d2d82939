//! Tests of `Kubepods` on cgroup trees of every shape in a temporary directory.

use tempfile::TempDir;

use super::*;

const UID: &str = "0b1c7a52-3f4e-4d6b-9a1e-2c3d4e5f6a7b";
const OTHER: &str = "11111111-2222-3333-4444-555555555555";
/// Static pods, and the mirror pods that stand for them, have a hash in their place.
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

/// Mounts of the hierarchies: their names below the mount, and the version.
const MOUNTS: [(&[&str], Version); 4] = [
    (&["cpuacct", "memory"], Version::V1),
    (&["cpu,cpuacct", "memory"], Version::V1),
    (&["unified"], Version::V2),
    (&["."], Version::V2),
];

/// Places of a Guaranteed, a Burstable and a BestEffort pod with either driver, below the root and below a kubelet's
/// own cgroup.
fn placed() -> [[String; 3]; 4] {
    let [guaranteed, burstable, besteffort] = [UID, STATIC, OTHER].map(underscored);
    let cgroupfs = |kubepods: &str| {
        [
            format!("{kubepods}/pod{UID}"),
            format!("{kubepods}/burstable/pod{STATIC}"),
            format!("{kubepods}/besteffort/pod{OTHER}"),
        ]
    };
    let systemd = |folder: &str, name: &str| {
        let kubepods = format!("{folder}{name}.slice");
        [
            format!("{kubepods}/{name}-pod{guaranteed}.slice"),
            format!("{kubepods}/{name}-burstable.slice/{name}-burstable-pod{burstable}.slice"),
            format!("{kubepods}/{name}-besteffort.slice/{name}-besteffort-pod{besteffort}.slice"),
        ]
    };
    [
        cgroupfs("kubepods"),
        cgroupfs("kubelet/kubepods"),
        systemd("", "kubepods"),
        systemd("kubelet.slice/", "kubelet-kubepods"),
    ]
}

#[test]
fn pods_of_all_classes_are_found_wherever_a_kubelet_puts_them() {
    for (hierarchies, version) in MOUNTS {
        for pods in placed() {
            let mount = Mount::new();
            for hierarchy in hierarchies {
                if version == Version::V2 {
                    mount.write(&format!("{hierarchy}/cgroup.controllers"), "cpu memory\n");
                }
                for pod in &pods {
                    mount.folder(&format!("{hierarchy}/{pod}"));
                }
            }
            let kubepods = mount.kubepods();
            let scan = kubepods.scan().unwrap();
            let expected = [UID, OTHER, STATIC].map(str::to_owned).as_slice().sorted();
            assert_eq!(mount.uids(), expected, "{hierarchies:?} {pods:?}");
            assert_eq!(
                (scan.unreadable, scan.untracked),
                (0, 0),
                "{hierarchies:?} {pods:?}"
            );
            assert_eq!(kubepods.versions(), (version, version));
        }
    }
}

#[test]
fn containers_of_every_runtime_belong_to_their_pod_and_are_none() {
    let id = "9c1d".repeat(16);
    let containers = [
        id.clone(),
        format!("cri-containerd-{id}.scope"),
        format!("crio-{id}.scope"),
        format!("crio-conmon-{id}.scope"),
        format!("crio-{id}.scope/container"),
        format!("docker-{id}.scope"),
        // A runtime that uses the name for systemd as a path.
        format!(
            "kubepods-burstable-pod{}.slice:cri-containerd:{id}",
            underscored(OTHER)
        ),
        format!("pod{OTHER}"),
    ];
    for [pod, ..] in placed() {
        let mount = Mount::new();
        mount.folder(&format!("memory/{pod}"));
        for container in &containers {
            mount.folder(&format!("cpuacct/{pod}/{container}"));
        }
        let scan = mount.kubepods().scan().unwrap();
        assert_eq!((scan.pods.len(), scan.unreadable), (1, 0), "{scan:?}");
        assert_eq!(scan.pods[0].uid, UID);
        for container in &containers {
            let processes = format!("cpuacct/{pod}/{container}/cgroup.procs");
            mount.write(&processes, "4711\n");
            assert!(
                mount.kubepods().is_populated(&scan.pods[0]).unwrap(),
                "{container}"
            );
            mount.write(&processes, "");
            assert!(
                !mount.kubepods().is_populated(&scan.pods[0]).unwrap(),
                "{container}"
            );
        }
    }
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

/// After a change of the kubelet's cgroup driver the tree of the former one stays, with empty cgroups of pods.
#[test]
fn tree_with_running_pods_counts_next_to_a_leftover_of_another_driver() {
    for (used, leftover) in [(2, 0), (0, 2), (3, 1), (2, 3), (3, 0)] {
        for left in [&[] as &[&str], &["populated 0\n"]] {
            let mount = Mount::unified();
            let [pod, other, ..] = &placed()[used];
            mount.write(&format!("{pod}/cgroup.events"), "populated 1\n");
            mount.folder(other);
            let places = &placed()[leftover];
            mount.folder(Path::new(&places[0]).parent().unwrap().to_str().unwrap());
            for (place, text) in places
                .iter()
                .flat_map(|place| left.iter().map(move |text| (place, text)))
            {
                mount.write(&format!("{place}/cgroup.events"), text);
            }
            let expected = [UID, STATIC].map(str::to_owned).as_slice().sorted();
            assert_eq!(mount.uids(), expected, "{pod} next to {places:?} {left:?}");
        }
    }
}

#[test]
fn pods_count_by_the_number_of_tasks_in_leftover_trees_of_version_1() {
    let mount = Mount::new();
    let [systemd, ..] = &placed()[2];
    let cgroupfs = &placed()[0];
    for (pod, tasks) in cgroupfs.iter().map(|pod| (pod, "0\n")).chain([(systemd, "7\n")]) {
        for hierarchy in ["cpuacct", "memory"] {
            mount.folder(&format!("{hierarchy}/{pod}"));
        }
        mount.write(&format!("pids/{pod}/pids.current"), tasks);
    }
    assert_eq!(mount.uids(), [UID]);
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

    let mount = Mount::unified();
    let burstable = "kubepods.slice/kubepods-burstable.slice";
    mount
        .folder("kubepods.slice/kubepods-pod.slice")
        .folder(&format!(
            "{burstable}/kubepods-burstable-pod{}.slice",
            "a".repeat(64)
        ))
        .folder(&format!("{burstable}/kubepods-burstable-pod%2e%2e.slice"))
        // Without the names of the slices above, or not a slice.
        .folder(&format!("{burstable}/kubepods-pod{STATIC}.slice"))
        .folder(&format!("kubepods.slice/pod{STATIC}"))
        .folder(&format!("kubepods.slice/kubepods-pod{STATIC}.scope"));
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
        .write("memory/kubepods/memory.failcnt", "4\n");
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
        Some(LimitEvents { hits: 4, ooms: None })
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
            ooms: Some(Ooms {
                own: 1,
                with_below: 8
            })
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

#[test]
fn processes_of_other_pid_namespaces_populate_a_pod_of_version_1() {
    let mount = Mount::new();
    mount
        .folder("memory/kubepods")
        .write(&format!("cpuacct/kubepods/pod{UID}/container/cgroup.procs"), "")
        .write(&format!("pids/kubepods/pod{UID}/pids.current"), "2\n");
    let kubepods = mount.kubepods();
    let pod = kubepods.scan().unwrap().pods.remove(0);
    assert!(kubepods.is_populated(&pod).unwrap());
    mount.write(&format!("pids/kubepods/pod{UID}/pids.current"), "0\n");
    assert!(!kubepods.is_populated(&pod).unwrap());
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
