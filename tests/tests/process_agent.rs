//! The real `headroom-agent` process against a hint server over TLS: it reports, comes back, says what it lacks, and
//! ends in order.
#![forbid(unsafe_code)]
#![expect(
    clippy::expect_used,
    clippy::too_many_lines,
    reason = "tests panic: a returned error has no stack; a table of cases is read in one go"
)]

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use assert_cmd::Command;
use e2e::{
    cgroup::PodCgroup,
    hint_server::{Heard, HintServer, this_machine},
    stand::programs,
};
use headroom_agent::{
    sample::clock::Clocks,
    status::{Status, StreamState},
};
use headroom_domain::estimate::Profile;
use headroom_proto::v1alpha1::{Amounts, Mode, PodRequest, Pods, Qos};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};
use xtask::headroom::{
    agent::{Agent, Options},
    get,
};

/// How long something that must happen may take.
const HAPPENS_WITHIN: Duration = Duration::from_secs(30);

const ANY_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

async fn server(folder: &TempDir) -> HintServer {
    HintServer::start(ANY_PORT, &folder.path().join("tls"), this_machine()).await
}

async fn agent(folder: &TempDir, server: &HintServer, source: &str) -> Agent {
    spawn(folder, server.address, server.ca.clone(), Profile::Demo, source).await
}

async fn spawn(folder: &TempDir, server: SocketAddr, ca: PathBuf, timing: Profile, source: &str) -> Agent {
    let options = Options {
        program: programs().await.agent,
        folder: folder.path().to_owned(),
        node: "n1".to_owned(),
        token: "first".to_owned(),
        servers: vec![server],
        ca,
        timing,
        source: source.to_owned(),
        flags: Vec::new(),
    };
    Agent::spawn(&options).expect("start the agent")
}

async fn status_until(agent: &mut Agent, what: &str, is_it: impl Fn(&Status) -> bool) -> Status {
    let deadline = Instant::now() + HAPPENS_WITHIN;
    loop {
        agent.process.check().expect("the agent goes on");
        let status = agent.status().await;
        if let Ok(status) = &status
            && is_it(status)
        {
            return status.clone();
        }
        assert!(
            Instant::now() < deadline,
            "not in {HAPPENS_WITHIN:?}: {what}; the status is {status:?}"
        );
        sleep(Duration::from_millis(50)).await;
    }
}

async fn stop(mut agent: Agent) -> Option<i32> {
    let ended = tokio::task::spawn_blocking(move || agent.process.stop())
        .await
        .expect("join");
    ended.expect("its end").code()
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_ends_it_with_code_zero_after_a_last_report() {
    let folder = tempfile::tempdir().expect("folder");
    let mut server = server(&folder).await;
    let agent = agent(&folder, &server, "auto").await;
    let first = server.report_until("the first", |_| true).await.report;
    assert_eq!(
        (first.node.as_str(), first.draining, first.primary),
        ("n1", false, true)
    );
    let has_numbers =
        |heard: &Heard| heard.report.resources[0].usage > 0 && heard.report.mode() != Mode::Blind;
    let measured = server.report_until("numbers", has_numbers).await.report;
    assert_eq!(stop(agent).await, Some(0));
    let last = server
        .report_until("the last", |heard| heard.report.draining)
        .await
        .report;
    assert!(last.seq > measured.seq && last.boot_id == first.boot_id);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_report_tells_what_is_known_before_any_period_has_ended() {
    for source in ["auto", "procfs"] {
        let folder = tempfile::tempdir().expect("folder");
        let mut server = server(&folder).await;
        let started_ms = Clocks::read().boottime_ns / 1_000_000;
        let _agent = spawn(
            &folder,
            server.address,
            server.ca.clone(),
            Profile::Production,
            source,
        )
        .await;
        let first = server.report_until("the first", |_| true).await.report;
        assert_eq!(first.mode(), Mode::Blind, "no frame has ended");
        for resource in &first.resources {
            assert!(resource.capacity > 0, "{source}: {resource:?}");
            assert_eq!(resource.reasons, ["no-history"], "{source}");
        }
        // Reports are numbered by milliseconds since boot.
        let period_ms = Profile::Production.timing().brake_period.as_millis();
        let took_ms = first
            .seq
            .checked_sub(started_ms)
            .expect("a number behind the start");
        assert!(u128::from(took_ms) < period_ms, "{source}: {took_ms} ms");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_comes_back_is_reported_to_again() {
    let folder = tempfile::tempdir().expect("folder");
    let mut server = server(&folder).await;
    let mut agent = agent(&folder, &server, "auto").await;
    let before = server.report_until("the first", |_| true).await.report;
    let address = server.address;
    drop(server);
    let down = status_until(&mut agent, "the stream is lost", |status| {
        status
            .streams
            .iter()
            .all(|stream| stream.state == StreamState::Waiting)
    })
    .await;
    let seen = |status: &Status| status.measured.map_or(0, |measured| measured.until_ns);
    status_until(&mut agent, "it measures on", |status| seen(status) > seen(&down)).await;
    let mut server = HintServer::start(address, &folder.path().join("tls"), this_machine()).await;
    // A stream begins with the report of the moment, which may be the one that was heard before.
    let is_another = |heard: &Heard| heard.report.seq > before.seq;
    let after = server.report_until("another", is_another).await.report;
    assert!(after.primary);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_token_is_shown_on_a_new_stream() {
    let folder = tempfile::tempdir().expect("folder");
    let mut server = server(&folder).await;
    let _agent = agent(&folder, &server, "auto").await;
    let heard = server.report_until("the first", |_| true).await;
    assert_eq!(heard.token.as_deref(), Some("first"));
    fs::write(folder.path().join("agent-n1.token"), "second\n").expect("rotate");
    server
        .report_until("the new token", |heard| heard.token.as_deref() == Some("second"))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_of_another_ca_hears_nothing() {
    let folder = tempfile::tempdir().expect("folder");
    let server = server(&folder).await;
    let stranger = HintServer::start(ANY_PORT, &folder.path().join("other-tls"), this_machine()).await;
    let mut agent = spawn(
        &folder,
        stranger.address,
        server.ca.clone(),
        Profile::Demo,
        "auto",
    )
    .await;
    let has_failed = |status: &Status| status.streams.iter().any(|stream| stream.last_problem.is_some());
    let status = status_until(&mut agent, "a problem", has_failed).await;
    let problem = status.streams[0].last_problem.clone().unwrap_or_default();
    assert!(problem.contains("invalid peer certificate"), "{problem}");
    assert_eq!(status.mode, "BLIND");
}

#[tokio::test(flavor = "multi_thread")]
async fn procfs_alone_is_said_everywhere_and_once_in_the_log() {
    let folder = tempfile::tempdir().expect("folder");
    let mut server = server(&folder).await;
    let mut agent = agent(&folder, &server, "procfs").await;
    server
        .report_until("PROC", |heard| heard.report.mode() == Mode::Proc)
        .await;
    let status = status_until(&mut agent, "PROC", |status| status.mode == "PROC").await;
    assert_eq!(status.source, "procfs");
    assert!(
        status.mode_sentence.contains("--source procfs"),
        "{}",
        status.mode_sentence
    );
    let (_, metrics) = get(agent.admin, "/metrics").await.expect("metrics");
    let metrics = String::from_utf8_lossy(&metrics).into_owned();
    assert!(
        metrics.contains(r#"headroom_agent_mode{mode="PROC"} 1"#),
        "{metrics}"
    );
    let log = fs::read_to_string(agent.process.log()).expect("log");
    let warnings = log
        .lines()
        .filter(|line| line.contains("WARN") && line.contains("--source procfs"));
    assert_eq!(warnings.count(), 1, "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_object_about_another_machine_blinds_it() {
    let folder = tempfile::tempdir().expect("folder");
    let Pods { capacity, .. } = this_machine();
    let Amounts {
        cpu_milli,
        memory_bytes,
    } = capacity.expect("capacity");
    let twice = Some(Amounts {
        cpu_milli: cpu_milli * 2,
        memory_bytes,
    });
    let pods = Pods {
        capacity: twice,
        ..this_machine()
    };
    let mut server = HintServer::start(ANY_PORT, &folder.path().join("tls"), pods).await;
    let mut agent = agent(&folder, &server, "procfs").await;
    let told = |heard: &Heard| heard.report.resources[0].reasons == ["capacity-mismatch"];
    let report = server.report_until("capacity-mismatch", told).await.report;
    assert_eq!(
        (report.mode(), report.resources[0].published_cents),
        (Mode::Blind, 100)
    );
    let status = status_until(&mut agent, "BLIND", |status| status.mode == "BLIND").await;
    assert!(
        status.mode_sentence.contains(&format!("says {}", cpu_milli * 2)),
        "{}",
        status.mode_sentence
    );
}

/// What the agent says of that pod: milli-cores that it holds for itself.
fn held(heard: &Heard, uid: &str) -> Option<u64> {
    let trust = heard.report.trust.iter().find(|trust| trust.pod_uid == uid)?;
    Some(trust.exclusive_cpus_milli)
}

#[tokio::test(flavor = "multi_thread")]
async fn cpus_that_a_pod_holds_for_itself_are_read_from_its_cpuset() {
    let folder = tempfile::tempdir().expect("folder");
    let uid = format!("00000000-0000-4000-8001-{:012}", std::process::id());
    let cgroup = PodCgroup::create(&uid);
    let pod = PodRequest {
        uid: uid.clone(),
        cpu_milli: 1000,
        memory_bytes: 1 << 20,
        qos: Qos::Guaranteed.into(),
        deleting: false,
    };
    let pods = Pods {
        pods: vec![pod],
        ..this_machine()
    };
    let mut server = HintServer::start(ANY_PORT, &folder.path().join("tls"), pods).await;
    let _agent = agent(&folder, &server, "auto").await;
    server
        .report_until("it may run everywhere", |heard| held(heard, &uid) == Some(0))
        .await;
    cgroup.confine("0");
    server
        .report_until("it has a CPU of its own", |heard| held(heard, &uid) == Some(1000))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_meant_is_refused_at_start_with_its_flag_and_path() {
    let folder = tempfile::tempdir().expect("folder");
    let server = server(&folder).await;
    let text = folder.path().join("text");
    fs::write(&text, "no certificate").expect("write");
    let (ca, text) = (server.ca.display().to_string(), text.display().to_string());
    let program = programs().await.agent;
    let good = [
        "--node-name",
        "n1",
        "--admin-addr",
        "127.0.0.1:0",
        "--source",
        "procfs",
    ];
    for (flags, code, told) in [
        (
            vec!["--ca-file", &ca, "--token-file", &text, "--privileged"],
            2,
            vec!["--privileged"],
        ),
        (
            vec!["--ca-file", &ca],
            2,
            vec!["--token-file", "--client-cert-file"],
        ),
        (
            vec!["--ca-file", "/nowhere/ca.crt", "--token-file", &text],
            1,
            vec!["--ca-file", "/nowhere/ca.crt"],
        ),
        (
            vec!["--ca-file", &text, "--token-file", &text],
            1,
            vec!["--ca-file", &text],
        ),
        (
            vec!["--ca-file", &ca, "--token-file", "/nowhere/token"],
            1,
            vec!["--token-file", "/nowhere/token"],
        ),
        (
            vec![
                "--ca-file",
                &ca,
                "--client-cert-file",
                &ca,
                "--client-key-file",
                &text,
            ],
            1,
            vec!["--client-cert-file", &text],
        ),
        (
            vec!["--ca-file", &ca, "--token-file", &text, "--proc-root", "/nowhere"],
            1,
            vec!["/nowhere"],
        ),
    ] {
        let flags = [&good[..], &flags].concat();
        refused(&program, &flags, code, &told);
    }
    refused(
        &program,
        &["--ca-file", &ca, "--token-file", &text],
        2,
        &["--node-name", "NODE_NAME"],
    );
}

fn refused(program: &Path, flags: &[&str], code: i32, told: &[&str]) {
    let mut command = Command::new(program);
    command
        .env_remove("NODE_NAME")
        .args(flags)
        .timeout(HAPPENS_WITHIN);
    let assert = command.assert().code(code);
    let errors = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    for told in told {
        assert!(errors.contains(told), "{flags:?} said {errors:?}");
    }
}

/// How much of the ring holds valid frames, of CPU, in ppm.
fn coverage(status: &Status) -> u32 {
    status.resources[0].coverage_ppm
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_agent_goes_on_with_its_history() {
    let folder = tempfile::tempdir().expect("folder");
    let server = server(&folder).await;
    let checkpoint = folder.path().join("history");
    fs::create_dir(&checkpoint).expect("a folder");
    let program = programs().await.agent;
    let start = || {
        let options = Options {
            program: program.clone(),
            folder: folder.path().to_owned(),
            node: "n1".to_owned(),
            token: "first".to_owned(),
            servers: vec![server.address],
            ca: server.ca.clone(),
            timing: Profile::Demo,
            source: "procfs".to_owned(),
            flags: vec![format!("--checkpoint={}", checkpoint.display())],
        };
        Agent::spawn(&options).expect("start the agent")
    };
    // Six of twenty frames, a second each.
    let mut first = start();
    let before = status_until(&mut first, "some frames", |status| coverage(status) >= 300_000).await;
    first
        .process
        .signal(rustix::process::Signal::KILL)
        .expect("kill it");
    drop(first);

    let mut second = start();
    let after = status_until(&mut second, "a frame", |status| coverage(status) > 0).await;
    assert!(
        coverage(&after) >= 250_000,
        "one at most is lost of {}: {}",
        coverage(&before),
        coverage(&after)
    );
    assert_eq!(stop(second).await, Some(0));

    // Told to stop it saves once more, and what is damaged costs memory and not the start.
    for entry in fs::read_dir(&checkpoint).expect("the folder") {
        fs::write(entry.expect("an entry").path(), b"not a checkpoint").expect("damage it");
    }
    let mut third = start();
    let anew = status_until(&mut third, "a frame", |status| coverage(status) > 0).await;
    assert!(coverage(&anew) <= 100_000, "nothing is left: {}", coverage(&anew));
    let set_aside = |entry: fs::DirEntry| entry.file_name().to_string_lossy().ends_with("unusable");
    let entries = fs::read_dir(&checkpoint).expect("the folder");
    assert!(entries.filter_map(Result::ok).any(set_aside));
    assert_eq!(stop(third).await, Some(0));
}
