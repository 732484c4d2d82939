//! Tests of `Kubepods::cpusets` on cpusets as the static CPU manager leaves them, with either cgroup version and
//! driver.

use std::fs;

use tempfile::TempDir;

use super::*;

fn tree(files: &[(&str, &str)]) -> TempDir {
    let mount = TempDir::new().unwrap();
    for (path, text) in files {
        let path = mount.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    mount
}

/// Confined pods below `mount`: UID, and CPUs per container in rising order.
fn confined(mount: &TempDir) -> Vec<(String, Vec<u32>)> {
    let kubepods = Kubepods::find(mount.path()).expect("kubepods");
    let mut found: Vec<_> = kubepods
        .cpusets()
        .unwrap()
        .confined
        .into_iter()
        .map(sizes)
        .collect();
    found.sort();
    found
}

fn sizes(PinnedPod { pod, cpus }: PinnedPod) -> (String, Vec<u32>) {
    let mut cpus: Vec<_> = cpus.iter().map(CpuSet::count).collect();
    cpus.sort_unstable();
    (pod.uid, cpus)
}

#[test]
fn containers_with_fewer_cpus_than_kubepods_are_found_with_version_2() {
    let mount = tree(&[
        ("cgroup.controllers", "cpu cpuset memory\n"),
        ("kubepods.slice/cpuset.cpus.effective", "0-7\n"),
        (
            "kubepods.slice/kubepods-podaaaa.slice/cri-1.scope/cpuset.cpus.effective",
            "2-3\n",
        ),
        (
            "kubepods.slice/kubepods-podaaaa.slice/cri-2.scope/cpuset.cpus.effective",
            "0-1,4-7\n",
        ),
        (
            "kubepods.slice/kubepods-podaaaa.slice/cri-sandbox.scope/cpuset.cpus.effective",
            "0-7\n",
        ),
        (
            "kubepods.slice/kubepods-podbbbb.slice/cri-3.scope/cpuset.cpus.effective",
            "0-7\n",
        ),
        (
            "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podcccc.slice/cri-4.scope/\
             cpuset.cpus.effective",
            "0-1,4-7\n",
        ),
    ]);
    assert_eq!(confined(&mount), [("aaaa".to_owned(), vec![2, 6])]);
}

#[test]
fn containers_with_fewer_cpus_than_kubepods_are_found_with_version_1() {
    let mount = tree(&[
        ("cpuacct/kubepods/cpuacct.usage", "1\n"),
        ("memory/kubepods/memory.usage_in_bytes", "1\n"),
        ("cpuset/kubepods/cpuset.cpus", "0-3\n"),
        ("cpuset/kubepods/podaaaa/cpuset.cpus", "0-3\n"),
        ("cpuset/kubepods/podaaaa/1/cpuset.cpus", "3\n"),
        ("cpuset/kubepods/podbbbb/2/cpuset.cpus", "\n"),
        ("cpuset/kubepods/burstable/podcccc/3/cpuset.cpus", "0-2\n"),
    ]);
    assert_eq!(confined(&mount), [("aaaa".to_owned(), vec![1])]);
}

#[test]
fn kubepods_that_are_confined_themselves_confine_nobody() {
    let mount = tree(&[
        ("cgroup.controllers", "cpu cpuset memory\n"),
        ("kubepods/cpuset.cpus.effective", "2-7\n"),
        ("kubepods/podaaaa/1/cpuset.cpus.effective", "2-7\n"),
    ]);
    assert_eq!(confined(&mount), []);
}

#[test]
fn a_machine_without_cpusets_confines_nobody() {
    let unified = tree(&[
        ("cgroup.controllers", "cpu memory\n"),
        ("kubepods/podaaaa/1/cpu.stat", "usage_usec 1\n"),
    ]);
    assert_eq!(confined(&unified), []);
    let version_1 = tree(&[
        ("cpuacct/kubepods/cpuacct.usage", "1\n"),
        ("memory/kubepods/memory.usage_in_bytes", "1\n"),
    ]);
    assert_eq!(confined(&version_1), []);
}

#[test]
fn a_malformed_set_is_named() {
    let mount = tree(&[
        ("cgroup.controllers", "cpu cpuset memory\n"),
        ("kubepods/cpuset.cpus.effective", "0-7\n"),
        ("kubepods/podaaaa/1/cpuset.cpus.effective", "two\n"),
    ]);
    let error = Kubepods::find(mount.path())
        .unwrap()
        .cpusets()
        .unwrap_err()
        .to_string();
    assert!(
        error.ends_with("1/cpuset.cpus.effective: `cpu list` is \"two\""),
        "{error}"
    );
}

#[test]
fn kubepods_says_which_cpus_pods_may_run_on() {
    let all = |files: &[(&str, &str)]| Kubepods::find(tree(files).path()).unwrap().cpusets();
    let unified = |text| {
        all(&[
            ("cgroup.controllers", "cpu cpuset memory\n"),
            ("kubepods/cpuset.cpus.effective", text),
        ])
    };
    let version_1 = |text| {
        all(&[
            ("cpuacct/kubepods/cpuacct.usage", "1\n"),
            ("memory/kubepods/memory.usage_in_bytes", "1\n"),
            ("cpuset/kubepods/cpuset.cpus", text),
        ])
    };
    let expected = CpuSet::parse("2-7").ok();
    assert_eq!(unified("2-7\n").unwrap().all, expected);
    assert_eq!(version_1("2-7\n").unwrap().all, expected);
    assert_eq!(version_1("\n").unwrap().all, None, "nobody has set it");
    assert!(unified("\n").is_err(), "version 2 always has some");
    assert!(unified("2-").is_err());
}
