//! Tests of `kubectl headroom agent` against the socket of real agents, on the kernel programs and on procfs: every
//! question, and the error where no agent answers.
#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "tests panic: a returned error has no stack"
)]

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead as _, BufReader},
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    process::Stdio,
    time::Duration,
};

use e2e::{
    agent::{AgentNode, Running},
    hint_server::this_machine,
};
use headroom_agent::local::status::{self, Status};
use headroom_proto::{
    status::FIELDS,
    v1alpha1::{PodRequest, Pods, Qos},
};
use headroom_testbed::programs::get;
use rustix::process::Signal;
use serde_json::Value;
use tokio::time::Instant;

/// A pod without a cgroup.
const POD: &str = "00000000-0000-4000-8002-000000000001";

/// A node whose server lists the pod.
async fn node() -> AgentNode {
    let pod = PodRequest {
        uid: POD.to_owned(),
        cpu_milli: 250,
        memory_bytes: 1 << 30,
        qos: Qos::Burstable.into(),
        deleting: false,
        controller: 0,
        version: 0,
    };
    AgentNode::with_pods(Pods {
        pods: vec![pod],
        ..this_machine()
    })
    .await
}

fn signal<'a>(signals: &'a Value, name: &str) -> &'a Value {
    let signals = signals.as_array().expect("signals");
    let found = signals.iter().find(|signal| signal["name"] == name);
    found.unwrap_or_else(|| panic!("no signal {name}"))
}

/// The paths of all fields of a document; of an array, those of its elements.
fn fields(document: &Value) -> BTreeSet<String> {
    let below = |name: &str, part: &Value| {
        let deeper = fields(part).into_iter();
        let mut paths: Vec<_> = deeper.map(|path| format!("{name}.{path}")).collect();
        paths.push(name.to_owned());
        paths
    };
    match document {
        Value::Object(parts) => parts.iter().flat_map(|(name, part)| below(name, part)).collect(),
        Value::Array(parts) => parts.iter().flat_map(fields).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => BTreeSet::new(),
    }
}

/// Makes sure that the list of a status's fields has all of these.
fn assert_listed(fields: &BTreeSet<String>) {
    let listed: BTreeSet<_> = FIELDS.iter().map(|field| field.path.replace("[]", "")).collect();
    for path in fields.iter().filter(|path| !listed.contains(*path)) {
        let part = format!("{path}.");
        assert!(
            listed.iter().any(|field| field.starts_with(&part)),
            "{path} is not in the list of fields"
        );
    }
}

/// Observations of the histogram of that metric.
fn observations(histograms: &Value, metric: &str) -> u64 {
    let mut all = histograms.as_array().expect("histograms").iter();
    let histogram = all.find(|histogram| histogram["metric"] == metric).expect(metric);
    let buckets = histogram["buckets"].as_array().expect("buckets");
    buckets
        .iter()
        .map(|bucket| bucket["count"].as_u64().expect("a count"))
        .sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_has_data_of_the_kernel_programs() {
    let node = node().await;
    let agent = node.agent("ebpf").await;
    let status = node
        .json_until("status", "FULL, and an answer to a report", |status| {
            status["mode"] == "FULL" && status["streams"][0]["last_ack"]["verdict"] == "accepted"
        })
        .await;
    assert_eq!(
        (&status["node"], &status["source"]),
        (&"n1".into(), &"ebpf".into())
    );
    // Field by field the same as on the admin port, whose figures may be of a later moment.
    let (_, page) = get(agent.admin, status::PATH).await.expect("the page");
    let page: Value = serde_json::from_slice(&page).expect("a document");
    assert_eq!(fields(&status), fields(&page));
    assert_listed(&fields(&page));
    for name in ["boot_id", "mode_sentence", "version"] {
        assert_eq!(status[name], page[name]);
    }

    let signals = node
        .json_until("signals", "switches", |signals| {
            signal(signals, "switches")["value"].as_u64() > Some(0)
        })
        .await;
    for name in ["cpu-busy", "sigma8", "run-queue-p99", "memory-available"] {
        assert_eq!(signal(&signals, name)["health"], "ok", "{signals:#}");
    }
    let pods = node.json("pods").expect("pods");
    let listed = pods
        .as_array()
        .expect("pods")
        .iter()
        .find(|pod| pod["uid"] == POD);
    let listed = listed.expect("the pod that the server listed");
    assert_eq!(
        (&listed["request"]["cpu_milli"], &listed["used"]),
        (&250.into(), &Value::Null)
    );
    let histograms = node
        .json_until("histogram", "waits and blocks", |histograms| {
            observations(histograms, "headroom_agent_runq_wait_seconds") > 0
                && observations(histograms, "headroom_agent_cpu_block_use_ratio") > 10
        })
        .await;
    let (windows, blocks) = (
        observations(&histograms, "headroom_agent_cpu_window_use_ratio"),
        observations(&histograms, "headroom_agent_cpu_block_use_ratio"),
    );
    assert!(
        windows >= blocks * 16,
        "{windows} windows in {blocks} blocks of 16"
    );
    for question in ["status", "signals", "pods", "histogram"] {
        let table = node.ask(&[question]).expect("a table");
        assert!(table.lines().count() > 1 && !table.contains('\x1b'), "{table}");
    }
    agent.end().await;
    assert!(!node.socket().exists(), "the socket is deleted with the agent");
}

#[tokio::test(flavor = "multi_thread")]
async fn procfs_status_names_missing_signals_and_reasons() {
    let node = node().await;
    let _agent = node.agent("procfs").await;
    let signals = node
        .json_until("signals", "a measurement", |signals| {
            signal(signals, "cpu-busy")["value"].is_u64()
        })
        .await;
    let sigma8 = signal(&signals, "sigma8");
    assert_eq!(
        (&sigma8["health"], &sigma8["value"]),
        (&"unsupported".into(), &Value::Null)
    );
    let missing = sigma8["missing"].as_str().unwrap_or_default();
    assert!(
        missing.ends_with("--source procfs; start the agent with --source auto to use kernel programs"),
        "{missing}"
    );
    assert_eq!(signal(&signals, "cpu-busy")["source"], "/proc/stat");
    let histograms = node.json("histogram").expect("histograms");
    assert_eq!(observations(&histograms, "headroom_agent_runq_wait_seconds"), 0);
    node.json_until("status", "PROC", |status| status["mode"] == "PROC")
        .await;
    let status = node.ask(&["status"]).expect("status");
    assert!(
        status.contains("--source procfs") && status.contains("no kernel programs"),
        "{status}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_continues_until_the_agent_ends() {
    let node = node().await;
    let agent = node.agent("procfs").await;
    node.json_until("status", "an answer", |_| true).await;
    let mut watch = node
        .command(&["watch", "-o", "json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("watch");
    let lines = BufReader::new(watch.stdout.take().expect("its output")).lines();
    let mut lines = lines.map(|line| serde_json::from_str::<Value>(&line.expect("a line")).expect("JSON"));
    let began = Instant::now();
    let seen: Vec<_> = lines
        .by_ref()
        .take(4)
        .map(|status| status["mode"].clone())
        .collect();
    assert!(
        began.elapsed() >= Duration::from_secs(2),
        "{seen:?} arrived in {:?}, although a status is sent at most once a second",
        began.elapsed()
    );
    agent.end().await;
    lines.for_each(drop);
    let ended = watch.wait_with_output().expect("its end");
    assert_eq!(ended.status.code(), Some(1));
    let ended = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(ended.contains("the agent has stopped"), "{ended}");
}

#[tokio::test(flavor = "multi_thread")]
async fn checkpoint_of_a_killed_agent_is_explained_and_resumed() {
    let node = node().await;
    let refusal = node.ask(&["status"]).expect_err("there is no agent");
    assert!(refusal.contains("--debug-socket"), "{refusal}");

    let mut agent = node.agent("procfs").await;
    node.json_until("status", "an answer", |_| true).await;
    let mode = fs::metadata(node.socket())
        .expect("the socket")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let inode = fs::metadata(node.socket()).expect("the socket").ino();

    // A second agent with the same socket measures without.
    let mut second = node.agent("procfs").await;
    let is_told = async |second: &Running, _: &Status| {
        let log = second.log();
        log.contains("--debug-socket") && log.contains("second agent")
    };
    second.until("it logs the conflict", is_told).await;
    drop(second);
    assert_eq!(fs::metadata(node.socket()).expect("the socket").ino(), inode);
    node.json("status").expect("the first agent runs");

    agent.process.signal(Signal::KILL).expect("kill");
    agent.ended_log().await;
    let dead = node.ask(&["status"]).expect_err("it was killed");
    assert!(dead.contains("no agent listens on"), "{dead}");
    let _next = node.agent("procfs").await;
    node.json_until("status", "an answer of the next", |_| true).await;
}
