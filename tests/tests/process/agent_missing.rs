//! The real `headroom-agent` process samples on where an input is missing or odd: it counts the fault and logs it once.
//! The cgroup hierarchies are made up here.
#![expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]

use std::{
    fs,
    path::{Path, PathBuf},
};

use e2e::agent::{AgentNode, Running};
use headroom_agent::local::status::{SignalStatus, Status};
use tempfile::TempDir;

/// A mount of cgroup hierarchies that consists of plain files.
struct Tree(TempDir);

impl Tree {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("folder"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> &Self {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
        fs::write(path, text).expect("write");
        self
    }

    fn folder(&self, name: &str) -> &Self {
        fs::create_dir_all(self.path(name)).expect("folders");
        self
    }

    /// A unified hierarchy with kubepods in it.
    fn unified() -> Self {
        let tree = Self::new();
        tree.write("cgroup.controllers", "cpu memory\n")
            .write("kubepods/memory.current", "4096\n")
            .write(
                "kubepods/memory.stat",
                "anon 4096\nactive_file 0\ninactive_file 0\n",
            );
        tree
    }
}

/// An agent whose cgroups are these.
async fn agent(node: &AgentNode, tree: &Path) -> Running {
    node.agent_with(|options| {
        "procfs".clone_into(&mut options.source);
        options.flags.push(format!("--cgroup-root={}", tree.display()));
    })
    .await
}

fn measured_until(status: &Status) -> u64 {
    status.measured.map_or(0, |measured| measured.until_ns)
}

fn signal(status: &Status, name: &str) -> SignalStatus {
    let mut signals = status.signals.iter();
    signals
        .find(|signal| signal.name == name)
        .expect("a signal")
        .clone()
}

/// Waits until two more seconds were measured.
async fn reports_continue(agent: &mut Running) -> Status {
    let before = measured_until(&agent.status().await.expect("status"));
    let later = |status: &Status| measured_until(status) >= before + 2_000_000_000;
    agent.status_until("it continues to sample", later).await
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_without_a_server_is_blind_and_logs_it_once() {
    let node = AgentNode::start().await;
    let mut agent = node
        .agent_with(|options| {
            "procfs".clone_into(&mut options.source);
            // No process listens there.
            options.servers = vec![([127, 0, 0, 1], 1).into()];
        })
        .await;
    let measures = |status: &Status| measured_until(status) > 0;
    let status = agent.status_until("a measurement", measures).await;
    assert_eq!(status.mode, "BLIND");
    assert!(
        status
            .mode_sentence
            .starts_with("no directive from a hint server for this node yet"),
        "{}",
        status.mode_sentence
    );
    assert_eq!(agent.counted(r#"headroom_agent_mode{mode="BLIND"}"#).await, 1);
    for sentence in [&status.mode_sentence, "CPU use comes from /proc/stat"] {
        assert_eq!(agent.lines(sentence), 1, "{}", agent.log());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unparsable_pod_paths_are_counted_and_logged_once() {
    let (node, tree) = (AgentNode::start().await, Tree::unified());
    tree.folder("kubepods/pod").folder("kubepods/pod..%2f..");
    let mut agent = agent(&node, tree.0.path()).await;
    agent
        .status_until("both are counted", |status| status.pods.unreadable == 2)
        .await;
    assert_eq!(
        agent.counted(r#"headroom_agent_pods{state="unreadable"}"#).await,
        2
    );
    reports_continue(&mut agent).await;
    assert_eq!(agent.warnings("have no readable UID"), 1, "{}", agent.log());
    assert_eq!(
        agent.lines("cgroup kubepods does not exist"),
        0,
        "{}",
        agent.log()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn non_kubernetes_cgroup_tree_is_logged_once_per_occurrence() {
    let (node, tree) = (AgentNode::start().await, Tree::new());
    tree.write("cgroup.controllers", "cpu memory\n")
        .folder("user.slice");
    let mut agent = agent(&node, tree.0.path()).await;
    let health = |status: &Status, name: &str| signal(status, name).health;
    agent
        .status_until("a measurement", |status| measured_until(status) > 0)
        .await;
    let status = reports_continue(&mut agent).await;
    assert_eq!(health(&status, "pod-cpu"), "unsupported");
    let sentence = "cgroup kubepods does not exist";
    assert_eq!(agent.warnings(sentence), 1, "{}", agent.log());

    tree.folder("kubepods");
    agent
        .status_until("kubepods", |status| health(status, "pod-cpu") == "ok")
        .await;
    fs::remove_dir(tree.path("kubepods")).expect("remove it");
    agent
        .status_until("no kubepods", |status| health(status, "pod-cpu") != "ok")
        .await;
    assert_eq!(agent.warnings(sentence), 2, "{}", agent.log());
}

/// Checks that the memory pressure is reported as the machine's alone, on machines that have any.
fn is_pressure_of_the_machine_alone(status: &Status) {
    for name in ["psi-memory-some", "psi-memory-full"] {
        let SignalStatus {
            health,
            source,
            missing,
            ..
        } = signal(status, name);
        if health == "ok" {
            assert_eq!(source, "/proc/pressure/memory", "{name}");
        }
        let missing = missing.unwrap_or_default();
        let why = [
            "kubepods has no memory.pressure",
            "this kernel has no memory pressure",
        ];
        assert!(why.iter().any(|why| missing.contains(why)), "{name}: {missing}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_signals_of_cgroup_v1_are_reported() {
    let (node, tree) = (AgentNode::start().await, Tree::new());
    let stat = "total_rss 4096\ntotal_active_file 0\ntotal_inactive_file 0\n";
    tree.folder("cpuacct/kubepods")
        .write("memory/kubepods/memory.usage_in_bytes", "4096\n")
        .write("memory/kubepods/memory.stat", stat)
        .write("memory/kubepods/memory.failcnt", "0\n");
    let mut agent = agent(&node, tree.0.path()).await;
    let measures = |status: &Status| signal(status, "working-set").value == Some(4096);
    let status = agent.status_until("a working set", measures).await;
    is_pressure_of_the_machine_alone(&status);
    let hits = signal(&status, "limit-hits");
    assert_eq!((hits.health.as_str(), hits.value), ("ok", Some(0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_signals_of_an_old_cgroup_v2_kernel_are_reported() {
    let (node, tree) = (AgentNode::start().await, Tree::unified());
    // As before Linux 5.3, and with the pressure of cgroups off.
    tree.write(
        "kubepods/memory.events",
        "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\n",
    );
    let mut agent = agent(&node, tree.0.path()).await;
    let measures = |status: &Status| signal(status, "working-set").value == Some(4096);
    let status = agent.status_until("a working set", measures).await;
    is_pressure_of_the_machine_alone(&status);
    let hits = signal(&status, "limit-hits");
    assert_eq!((hits.health.as_str(), hits.value), ("unsupported", None));
    let missing = hits.missing.unwrap_or_default();
    assert!(missing.contains("no memory.events.local"), "{missing}");
    let metrics = agent.metrics().await;
    let series = r#"headroom_agent_signal_ok{signal="limit-hits"} 0"#;
    assert!(metrics.lines().any(|line| line == series), "{metrics}");

    // A kernel that has both.
    tree.write(
        "kubepods/memory.events.local",
        "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\n",
    )
    .write(
        "kubepods/memory.pressure",
        "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
    );
    let is_whole = |status: &Status| {
        let pressure = signal(status, "psi-memory-some");
        signal(status, "limit-hits").health == "ok" && (pressure.missing.is_none() || pressure.health != "ok")
    };
    let status = agent.status_until("all rows", is_whole).await;
    let pressure = signal(&status, "psi-memory-some");
    assert!(
        pressure.health != "ok" || pressure.source.contains("kubepods memory.pressure"),
        "{pressure:?}"
    );
}
