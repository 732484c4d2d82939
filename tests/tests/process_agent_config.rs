//! A configuration file under a running agent: what changes at once, what waits for a restart, what is refused.
#![forbid(unsafe_code)]
#![expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use e2e::{
    hint_server::{HintServer, this_machine},
    stand::programs,
};
use headroom_agent::status::{Status, StreamState};
use headroom_domain::estimate::Profile;
use headroom_proto::v1alpha1::{Amounts, Pods};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};
use xtask::headroom::{
    agent::{Agent, Options},
    get,
};

/// How long something that must happen may take.
const HAPPENS_WITHIN: Duration = Duration::from_secs(30);

const ANY_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

async fn agent(folder: &TempDir, servers: &[&HintServer], flags: Vec<String>) -> Agent {
    let options = Options {
        program: programs().await.agent,
        folder: folder.path().to_owned(),
        node: "n1".to_owned(),
        token: "token".to_owned(),
        servers: servers.iter().map(|server| server.address).collect(),
        ca: servers.first().expect("a server").ca.clone(),
        timing: Profile::Demo,
        source: "procfs".to_owned(),
        flags,
    };
    // Without a flag for the kernel's statistics, so that the file has a say.
    Agent::spawn_under(&["env"], &options).expect("start the agent")
}

/// Two replicas with one certificate.
async fn servers(folder: &TempDir) -> [HintServer; 2] {
    let tls = folder.path().join("tls");
    [
        HintServer::start(ANY_PORT, &tls, this_machine()).await,
        HintServer::start(ANY_PORT, &tls, this_machine()).await,
    ]
}

fn config(folder: &TempDir, text: &str) -> PathBuf {
    let (path, new) = (folder.path().join("agent.yaml"), folder.path().join("new.yaml"));
    fs::write(&new, text).expect("write");
    fs::rename(new, &path).expect("rename");
    path
}

fn open(status: &Status) -> usize {
    let streams = status.streams.iter();
    streams.filter(|stream| stream.state == StreamState::Open).count()
}

fn log(agent: &Agent) -> String {
    read(agent.process.log())
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).expect("a log")
}

async fn counted(agent: &Agent, metric: &str) -> u64 {
    let (_, page) = get(agent.admin, "/metrics").await.expect("metrics");
    let page = String::from_utf8_lossy(&page).into_owned();
    let value = page.lines().find_map(|line| line.strip_prefix(metric));
    value.map_or(0, |value| value.trim().parse().expect("a count"))
}

/// Looks again and again until it is so.
async fn until(agent: &mut Agent, what: &str, is_it: impl AsyncFn(&Agent, &Status) -> bool) {
    let deadline = Instant::now() + HAPPENS_WITHIN;
    loop {
        agent.process.check().expect("the agent goes on");
        let status = agent.status().await;
        if let Ok(status) = &status
            && is_it(agent, status).await
        {
            return;
        }
        assert!(
            Instant::now() < deadline,
            "not in {HAPPENS_WITHIN:?}: {what}; {status:?}; {}",
            log(agent)
        );
        sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_may_change_changes_at_once_and_the_rest_is_named() {
    let folder = tempfile::tempdir().expect("folder");
    let [first, second] = servers(&folder).await;
    let path = config(&folder, "publishFanout: 1\n");
    let flags = vec!["--config".to_owned(), path.display().to_string()];
    let mut agent = agent(&folder, &[&first, &second], flags).await;
    until(&mut agent, "one stream", async |_, status| {
        (status.streams.len(), open(status)) == (1, 1)
    })
    .await;
    let kept = agent.status().await.expect("status").streams[0].peer;

    config(
        &folder,
        "publishFanout: 2\nlogFilter: info,headroom_agent=debug\nprogramStats: true\n",
    );
    until(&mut agent, "two streams", async |_, status| open(status) == 2).await;
    let text = log(&agent);
    let waiting = text.lines().filter(|line| line.contains("is started again"));
    let waiting: Vec<_> = waiting.collect();
    assert!(
        waiting.len() == 1 && waiting[0].contains("programStats"),
        "{waiting:?}"
    );
    let lost = text
        .lines()
        .filter(|line| line.contains("no stream to hint server"));
    assert_eq!(lost.count(), 0, "the stream to {kept} stays open: {text}");

    let reloaded = counted(&agent, r#"headroom_config_reloads_total{result="loaded"}"#).await;
    assert_eq!(reloaded, 1);
    config(&folder, "publishFanout: 1\npublishFanOut: 1\n");
    until(&mut agent, "a refusal", async |agent, _| {
        counted(agent, r#"headroom_config_reloads_total{result="failed"}"#).await == 1
    })
    .await;
    let status = agent.status().await.expect("status");
    assert_eq!(open(&status), 2, "what was in force stays in force");
    let text = log(&agent);
    let told = text
        .lines()
        .filter(|line| line.contains("new configuration refused"));
    let told: Vec<_> = told.collect();
    assert!(
        told.len() == 1 && told[0].contains("publishFanOut: unknown field"),
        "{told:?}"
    );
    assert!(!text.contains('\x1b'), "colours for nobody: {text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flag_hides_what_the_file_says() {
    let folder = tempfile::tempdir().expect("folder");
    let [first, second] = servers(&folder).await;
    let path = config(&folder, "{}");
    let flags = ["--publish-fanout", "1", "--config", &path.display().to_string()];
    let flags = flags.map(ToOwned::to_owned).to_vec();
    let mut agent = agent(&folder, &[&first, &second], flags).await;
    until(&mut agent, "one stream", async |_, status| open(status) == 1).await;
    config(&folder, "publishFanout: 2\nsource: auto\nlogFilter: debug\n");
    until(&mut agent, "the file is read", async |agent, _| {
        counted(agent, r#"headroom_config_reloads_total{result="loaded"}"#).await == 1
    })
    .await;
    until(&mut agent, "more is logged", async |agent, _| {
        log(agent).contains("DEBUG")
    })
    .await;
    let status = agent.status().await.expect("status");
    assert_eq!(status.streams.len(), 1, "the flag wins");
    assert!(
        !log(&agent).contains("is started again"),
        "the source is a flag's"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_cannot_be_meant_ends_the_agent_with_its_path() {
    let folder = tempfile::tempdir().expect("folder");
    let [first, second] = servers(&folder).await;
    let path = config(&folder, "webhookAddr: [a.svc]\nsampling: {shift: 3}\n");
    let flags = vec!["--config".to_owned(), path.display().to_string()];
    let mut agent = agent(&folder, &[&first, &second], flags).await;
    let deadline = Instant::now() + HAPPENS_WITHIN;
    while agent.process.check().is_ok() {
        assert!(Instant::now() < deadline, "it runs on");
        sleep(Duration::from_millis(50)).await;
    }
    let text = log(&agent);
    assert!(
        text.contains("--config") && text.contains("agent.yaml:2:1: sampling: unknown field"),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_takes_connections_and_says_nothing_holds_up_no_sample() {
    let folder = tempfile::tempdir().expect("folder");
    let mut silent = HintServer::start(ANY_PORT, &folder.path().join("tls"), this_machine()).await;
    let listener = std::net::TcpListener::bind(ANY_PORT).expect("bind");
    silent.address = listener.local_addr().expect("its address");
    let mut agent = agent(&folder, &[&silent], vec!["--log-filter=debug".to_owned()]).await;
    let seen = |status: &Status| status.measured.map_or(0, |measured| measured.until_ns);
    until(&mut agent, "a measurement", async |_, status| seen(status) > 0).await;
    let began = agent.status().await.expect("status");
    // Three seconds of measurements while the first attempt is still waiting for an answer.
    until(&mut agent, "it measures on", async |_, status| {
        seen(status) >= seen(&began) + 3_000_000_000
    })
    .await;
    until(&mut agent, "the attempt is given up", async |_, status| {
        status.streams.iter().any(|stream| stream.last_problem.is_some())
    })
    .await;
    let log = log(&agent);
    assert!(!log.contains("a sample was lost"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_tells_nonsense_is_counted_said_once_and_measured_on() {
    let folder = tempfile::tempdir().expect("folder");
    // As a negative number looks to who takes it for an unsigned one.
    let amounts = Some(Amounts {
        cpu_milli: u64::MAX - 999,
        memory_bytes: 1 << 30,
    });
    let pods = Pods {
        raw_allocatable: amounts,
        ..this_machine()
    };
    let server = HintServer::start(ANY_PORT, &folder.path().join("tls"), pods).await;
    let mut agent = agent(&folder, &[&server], Vec::new()).await;
    let invalid = r#"headroom_agent_directives_total{kind="invalid"}"#;
    until(&mut agent, "it is counted", async |agent, _| {
        counted(agent, invalid).await == 1
    })
    .await;
    // A new token is shown on a new stream, on which the server says the same again.
    fs::write(folder.path().join("agent-n1.token"), "another\n").expect("rotate");
    until(&mut agent, "it is counted again", async |agent, _| {
        counted(agent, invalid).await == 2
    })
    .await;
    let text = log(&agent);
    let told = text.lines().filter(|line| line.contains("unusable directive"));
    let told: Vec<_> = told.collect();
    assert!(
        told.len() == 1 && told[0].contains("raw_allocatable.cpu"),
        "{told:?}"
    );
    let seen = |status: &Status| status.measured.map_or(0, |measured| measured.until_ns);
    let before = seen(&agent.status().await.expect("status"));
    until(&mut agent, "it measures on", async |_, status| {
        open(status) == 1 && status.mode == "BLIND" && seen(status) > before
    })
    .await;
}
