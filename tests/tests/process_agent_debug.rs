//! The real CLI against the socket of real agents, on the kernel programs and on procfs: every question, and what is
//! said when there is nobody to ask.
#![forbid(unsafe_code)]
#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "tests panic: a returned error has no stack"
)]

use std::{
    fs,
    io::{BufRead as _, BufReader},
    net::SocketAddr,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use e2e::{
    hint_server::{HintServer, this_machine},
    stand::programs,
};
use headroom_domain::estimate::Profile;
use headroom_proto::v1alpha1::{PodRequest, Pods, Qos};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};
use xtask::headroom::agent::{Agent, Options};

/// How long something that must happen may take.
const HAPPENS_WITHIN: Duration = Duration::from_secs(30);

const ANY_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

/// A pod without a cgroup.
const POD: &str = "00000000-0000-4000-8002-000000000001";

/// An agent with a debug socket, and a server that it reports to.
struct Stand {
    folder: TempDir,
    server: HintServer,
    socket: PathBuf,
    cli: PathBuf,
}

impl Stand {
    async fn new() -> Self {
        let folder = tempfile::tempdir().expect("folder");
        let pod = PodRequest {
            uid: POD.to_owned(),
            cpu_milli: 250,
            memory_bytes: 1 << 30,
            qos: Qos::Burstable.into(),
            deleting: false,
        };
        let pods = Pods {
            pods: vec![pod],
            ..this_machine()
        };
        let server = HintServer::start(ANY_PORT, &folder.path().join("tls"), pods).await;
        Self {
            socket: folder.path().join("agent.sock"),
            folder,
            server,
            cli: programs().await.cli,
        }
    }

    async fn agent(&self, source: &str) -> Agent {
        let options = Options {
            program: programs().await.agent,
            folder: self.folder.path().to_owned(),
            node: "n1".to_owned(),
            token: "token".to_owned(),
            servers: vec![self.server.address],
            ca: self.server.ca.clone(),
            timing: Profile::Demo,
            source: source.to_owned(),
            flags: vec!["--debug-socket".to_owned(), self.socket.display().to_string()],
        };
        Agent::spawn(&options).expect("start the agent")
    }

    /// A question to the agent, without a kubeconfig.
    fn command(&self, question: &[&str]) -> Command {
        let mut command = Command::new(&self.cli);
        command
            .env_clear()
            .args(["agent", "--socket"])
            .arg(&self.socket)
            .args(question);
        command
    }

    fn ask(&self, question: &[&str]) -> Result<String, String> {
        let output = self.command(question).output().expect("run the CLI");
        let text = |bytes| String::from_utf8(bytes).expect("text");
        if output.status.success() {
            Ok(text(output.stdout))
        } else {
            Err(text(output.stderr))
        }
    }

    fn json(&self, question: &str) -> Result<Value, String> {
        let answer = self.ask(&[question, "-o", "json"])?;
        serde_json::from_str(&answer).map_err(|error| format!("{error}: {answer}"))
    }

    /// Asks until the answer is as wanted.
    async fn until(&self, question: &str, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + HAPPENS_WITHIN;
        loop {
            let answer = self.json(question);
            if let Ok(answer) = &answer
                && is_it(answer)
            {
                return answer.clone();
            }
            assert!(
                Instant::now() < deadline,
                "not in {HAPPENS_WITHIN:?}: {what}; {answer:?}"
            );
            sleep(Duration::from_millis(100)).await;
        }
    }
}

fn signal<'a>(signals: &'a Value, name: &str) -> &'a Value {
    let signals = signals.as_array().expect("signals");
    let found = signals.iter().find(|signal| signal["name"] == name);
    found.unwrap_or_else(|| panic!("no signal {name}"))
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

/// Ends an agent and waits for its end.
async fn end(mut agent: Agent) {
    let ended = tokio::task::spawn_blocking(move || agent.process.stop()).await;
    ended.expect("join").expect("its end");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_question_is_answered_from_the_kernel_programs() {
    let stand = Stand::new().await;
    let agent = stand.agent("ebpf").await;
    let status = stand
        .until("status", "FULL, and an answer to a report", |status| {
            status["mode"] == "FULL" && status["streams"][0]["last_ack"]["verdict"] == "accepted"
        })
        .await;
    assert_eq!(
        (&status["node"], &status["source"]),
        (&"n1".into(), &"ebpf".into())
    );
    // The same as on the admin port.
    let page = agent.status().await.expect("status");
    assert_eq!(status["boot_id"], page.boot_id.as_str());
    assert_eq!(status["mode_sentence"], page.mode_sentence.as_str());
    let names: Vec<_> = page.signals.iter().map(|signal| signal.name.as_str()).collect();
    let shown = status["signals"].as_array().expect("signals");
    let shown: Vec<_> = shown
        .iter()
        .filter_map(|signal| signal["name"].as_str())
        .collect();
    assert_eq!(shown, names);

    let signals = stand
        .until("signals", "switches", |signals| {
            signal(signals, "switches")["value"].as_u64() > Some(0)
        })
        .await;
    for name in ["cpu-busy", "sigma8", "run-queue-p99", "memory-available"] {
        assert_eq!(signal(&signals, name)["health"], "ok", "{signals:#}");
    }
    let pods = stand.json("pods").expect("pods");
    let told = pods
        .as_array()
        .expect("pods")
        .iter()
        .find(|pod| pod["uid"] == POD);
    let told = told.expect("the pod that the server tells of");
    assert_eq!(
        (&told["request"]["cpu_milli"], &told["used"]),
        (&250.into(), &Value::Null)
    );
    let histograms = stand
        .until("histogram", "waits and blocks", |histograms| {
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
        let table = stand.ask(&[question]).expect("a table");
        assert!(table.lines().count() > 1 && !table.contains('\x1b'), "{table}");
    }
    end(agent).await;
    assert!(!stand.socket.exists(), "the socket goes with the agent");
}

#[tokio::test(flavor = "multi_thread")]
async fn procfs_says_which_signals_are_missing_and_why() {
    let stand = Stand::new().await;
    let _agent = stand.agent("procfs").await;
    let signals = stand
        .until("signals", "a measurement", |signals| {
            signal(signals, "cpu-busy")["value"].is_u64()
        })
        .await;
    let sigma8 = signal(&signals, "sigma8");
    assert_eq!(
        (&sigma8["health"], &sigma8["value"]),
        (&"unsupported".into(), &Value::Null)
    );
    let missing = sigma8["missing"].as_str().unwrap_or_default();
    assert!(missing.ends_with("--source procfs"), "{missing}");
    assert_eq!(signal(&signals, "cpu-busy")["source"], "/proc/stat");
    let histograms = stand.json("histogram").expect("histograms");
    assert_eq!(observations(&histograms, "headroom_agent_runq_wait_seconds"), 0);
    stand
        .until("status", "PROC", |status| status["mode"] == "PROC")
        .await;
    let status = stand.ask(&["status"]).expect("status");
    assert!(
        status.contains("--source procfs") && status.contains("no kernel programs"),
        "{status}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_goes_on_until_the_agent_ends() {
    let stand = Stand::new().await;
    let agent = stand.agent("procfs").await;
    stand.until("status", "an answer", |_| true).await;
    let mut watch = stand
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
        "{seen:?} came in {:?}, though a status comes at most once a second",
        began.elapsed()
    );
    end(agent).await;
    lines.for_each(drop);
    let told = watch.wait_with_output().expect("its end");
    assert_eq!(told.status.code(), Some(1));
    let told = String::from_utf8_lossy(&told.stderr).into_owned();
    assert!(told.contains("the agent has ended"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_agent_leaves_is_explained_and_taken_over() {
    let stand = Stand::new().await;
    let nobody = stand.ask(&["status"]).expect_err("there is no agent");
    assert!(nobody.contains("--debug-socket"), "{nobody}");

    let mut agent = stand.agent("procfs").await;
    stand.until("status", "an answer", |_| true).await;
    let mode = fs::metadata(&stand.socket)
        .expect("the socket")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let inode = fs::metadata(&stand.socket).expect("the socket").ino();

    // A second agent with the same socket measures without.
    let second = stand.agent("procfs").await;
    let deadline = Instant::now() + HAPPENS_WITHIN;
    loop {
        let log = read(second.process.log());
        if log.contains("--debug-socket") && log.contains("second agent") && second.status().await.is_ok() {
            break;
        }
        assert!(Instant::now() < deadline, "{log}");
        sleep(Duration::from_millis(50)).await;
    }
    drop(second);
    assert_eq!(fs::metadata(&stand.socket).expect("the socket").ino(), inode);
    stand.json("status").expect("the first goes on");

    agent.process.signal(Signal::KILL).expect("kill");
    ended_log(&mut agent).await;
    let dead = stand.ask(&["status"]).expect_err("it was killed");
    assert!(dead.contains("nobody listens at"), "{dead}");
    let _next = stand.agent("procfs").await;
    stand.until("status", "an answer of the next", |_| true).await;
}

/// What an agent that ends by itself has logged.
async fn ended_log(agent: &mut Agent) -> String {
    let deadline = Instant::now() + HAPPENS_WITHIN;
    while agent.process.check().is_ok() {
        assert!(Instant::now() < deadline, "it runs on");
        sleep(Duration::from_millis(50)).await;
    }
    read(agent.process.log())
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).expect("a log")
}
