//! Tests of the real `headroom-agent` process against a hint server over TLS: reports, reconnects, missing inputs,
//! refused flags, and an orderly end.
#![expect(
    clippy::indexing_slicing,
    clippy::too_many_lines,
    reason = "tests panic; a table of cases is read in one go"
)]

use std::{fs, path::Path};

use assert_cmd::Command;
use e2e::{
    agent::AgentNode,
    built::programs,
    cgroup::PodCgroup,
    hint_server::{HintServer, ReceivedReport, this_machine},
    pace::happens_within,
};
use headroom_agent::{
    local::status::{Status, StreamState},
    sample::clock::Clocks,
};
use headroom_domain::estimate::Profile;
use headroom_proto::v1alpha1::{Amounts, Mode, PodRequest, Pods, Qos};

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_ends_it_with_code_zero_after_a_last_report() {
    let mut node = AgentNode::start().await;
    let agent = node.agent("auto").await;
    let first = node.server.report_until("the first", |_| true).await.report;
    assert_eq!(
        (first.node.as_str(), first.draining, first.primary),
        ("n1", false, true)
    );
    let has_numbers = |received: &ReceivedReport| {
        received.report.resources[0].usage > 0 && received.report.mode() != Mode::Blind
    };
    let measured = node.server.report_until("numbers", has_numbers).await.report;
    assert_eq!(agent.end().await, Some(0));
    let last = node
        .server
        .report_until("the last", |received| received.report.draining)
        .await
        .report;
    assert!(last.seq > measured.seq && last.boot_id == first.boot_id);
}

#[tokio::test(flavor = "multi_thread")]
async fn first_report_contains_state_known_before_the_first_period_ends() {
    for source in ["auto", "procfs"] {
        let mut node = AgentNode::start().await;
        let started_ms = Clocks::read().boottime_ns / 1_000_000;
        let _agent = node
            .agent_with(|options| {
                source.clone_into(&mut options.source);
                options.timing = Profile::Production;
            })
            .await;
        let first = node.server.report_until("the first", |_| true).await.report;
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
async fn reports_resume_when_a_server_returns() {
    let mut node = AgentNode::start().await;
    let mut agent = node.agent("auto").await;
    let before = node.server.report_until("the first", |_| true).await.report;
    let AgentNode { folder, server, .. } = node;
    let address = server.address;
    drop(server);
    let down = agent
        .status_until("the stream is lost", |status| {
            status
                .streams
                .iter()
                .all(|stream| stream.state == StreamState::Waiting)
        })
        .await;
    let seen = |status: &Status| status.measured.map_or(0, |measured| measured.until_ns);
    agent
        .status_until("it measures on", |status| seen(status) > seen(&down))
        .await;
    let mut server = HintServer::start(address, &folder.path().join("tls"), this_machine()).await;
    // A stream begins with a current report, which may be an earlier one.
    let is_another = |received: &ReceivedReport| received.report.seq > before.seq;
    let after = server.report_until("another", is_another).await.report;
    assert!(after.primary);
}

#[tokio::test(flavor = "multi_thread")]
async fn rotated_token_is_sent_on_a_new_stream() {
    let mut node = AgentNode::start().await;
    let _agent = node.agent("auto").await;
    let received = node.server.report_until("the first", |_| true).await;
    assert_eq!(received.token.as_deref(), Some("first"));
    fs::write(node.folder.path().join("agent-n1.token"), "second\n").expect("rotate");
    node.server
        .report_until("the new token", |received| {
            received.token.as_deref() == Some("second")
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn server_of_another_ca_receives_no_report() {
    let node = AgentNode::start().await;
    let stranger = AgentNode::start().await;
    let mut agent = node
        .agent_with(|options| options.servers = vec![stranger.server.address])
        .await;
    let has_failed = |status: &Status| status.streams.iter().any(|stream| stream.last_problem.is_some());
    let status = agent.status_until("a problem", has_failed).await;
    let problem = status.streams[0].last_problem.clone().unwrap_or_default();
    assert!(problem.contains("invalid peer certificate"), "{problem}");
    assert_eq!(status.mode, "BLIND");
}

#[tokio::test(flavor = "multi_thread")]
async fn procfs_fallback_is_reported_everywhere_and_logged_once() {
    let mut node = AgentNode::start().await;
    let mut agent = node.agent("procfs").await;
    node.server
        .report_until("PROC", |received| received.report.mode() == Mode::Proc)
        .await;
    let status = agent.status_until("PROC", |status| status.mode == "PROC").await;
    assert_eq!(status.source, "procfs");
    assert!(
        status.mode_sentence.contains("--source procfs"),
        "{}",
        status.mode_sentence
    );
    assert_eq!(agent.counted(r#"headroom_agent_mode{mode="PROC"}"#).await, 1);
    assert_eq!(agent.warnings("--source procfs"), 1, "{}", agent.log());
    assert_eq!(agent.lines(&status.mode_sentence), 1, "{}", agent.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn node_object_of_another_machine_makes_the_agent_blind() {
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
    let mut node = AgentNode::with_pods(pods).await;
    let mut agent = node.agent("procfs").await;
    let expected = |received: &ReceivedReport| received.report.resources[0].reasons == ["capacity-mismatch"];
    let report = node
        .server
        .report_until("capacity-mismatch", expected)
        .await
        .report;
    assert_eq!(
        (report.mode(), report.resources[0].published_cents),
        (Mode::Blind, 100)
    );
    let status = agent.status_until("BLIND", |status| status.mode == "BLIND").await;
    assert!(
        status
            .mode_sentence
            .contains(&format!("its Node object {}", cpu_milli * 2)),
        "{}",
        status.mode_sentence
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_near_the_eviction_threshold_gets_the_stop_brake() {
    let mut node = AgentNode::start().await;
    let _agent = node
        .agent_with(|options| {
            "procfs".clone_into(&mut options.source);
            // There is never more above all memory.
            options.flags.push("--eviction-hard-memory=100%".to_owned());
        })
        .await;
    assert_eq!(stopped(&mut node.server).await[0], "memory-available");
}

#[tokio::test(flavor = "multi_thread")]
async fn node_with_memory_pressure_condition_gets_the_stop_brake() {
    let pods = Pods {
        memory_pressure: true,
        ..this_machine()
    };
    let mut node = AgentNode::with_pods(pods).await;
    let _agent = node.agent("procfs").await;
    assert_eq!(stopped(&mut node.server).await[0], "memory-pressure");
}

/// The reasons of the first report in which memory is stopped, and the CPU held for that.
async fn stopped(server: &mut HintServer) -> Vec<String> {
    let is_stopped = |received: &ReceivedReport| {
        received.report.resources[1].brake == 3 && received.report.mode() != Mode::Blind
    };
    let report = server.report_until("memory is stopped", is_stopped).await.report;
    assert!(report.resources[0].brake >= 1, "{report:?}");
    report.resources[1].reasons.clone()
}

/// Exclusive milli-cores of that pod in the report.
fn exclusive_milli(received: &ReceivedReport, uid: &str) -> Option<u64> {
    let trust = received.report.trust.iter().find(|trust| trust.pod_uid == uid)?;
    Some(trust.exclusive_cpus_milli)
}

#[tokio::test(flavor = "multi_thread")]
async fn cpus_that_a_pod_holds_for_itself_are_read_from_its_cpuset() {
    let uid = format!("00000000-0000-4000-8001-{:012}", std::process::id());
    let cgroup = PodCgroup::create(&uid);
    let pod = PodRequest {
        uid: uid.clone(),
        cpu_milli: 1000,
        memory_bytes: 1 << 20,
        qos: Qos::Guaranteed.into(),
        deleting: false,
        controller: 0,
        version: 0,
    };
    let pods = Pods {
        pods: vec![pod],
        ..this_machine()
    };
    let mut node = AgentNode::with_pods(pods).await;
    let _agent = node.agent("auto").await;
    node.server
        .report_until("it may run everywhere", |received| {
            exclusive_milli(received, &uid) == Some(0)
        })
        .await;
    cgroup.confine("0");
    node.server
        .report_until("it has a CPU of its own", |received| {
            exclusive_milli(received, &uid) == Some(1000)
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_options_are_refused_at_start_with_flag_and_path() {
    let AgentNode { folder, server, .. } = AgentNode::start().await;
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
    for (flags, code, expected) in [
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
        refused(&program, &flags, code, &expected);
    }
    refused(
        &program,
        &["--ca-file", &ca, "--token-file", &text],
        2,
        &["--node-name", "NODE_NAME"],
    );
}

fn refused(program: &Path, flags: &[&str], code: i32, expected: &[&str]) {
    let mut command = Command::new(program);
    command
        .env_remove("NODE_NAME")
        .args(flags)
        .timeout(happens_within());
    let assert = command.assert().code(code);
    let errors = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    for expected in expected {
        assert!(errors.contains(expected), "{flags:?} printed {errors:?}");
    }
}

/// Share of the ring with valid CPU frames, in ppm.
fn coverage(status: &Status) -> u32 {
    status.resources[0].coverage_ppm
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_agent_resumes_its_history() {
    let node = AgentNode::start().await;
    let checkpoint = node.folder.path().join("history");
    fs::create_dir(&checkpoint).expect("a folder");
    let start = || {
        node.agent_with(|options| {
            "procfs".clone_into(&mut options.source);
            options.flags = vec![format!("--checkpoint={}", checkpoint.display())];
        })
    };
    // Six of twenty frames, a second each.
    let mut first = start().await;
    let before = first
        .status_until("some frames", |status| coverage(status) >= 300_000)
        .await;
    first
        .process
        .signal(rustix::process::Signal::KILL)
        .expect("kill it");
    drop(first);

    let mut second = start().await;
    let after = second
        .status_until("a frame", |status| coverage(status) > 0)
        .await;
    assert!(
        coverage(&after) >= 250_000,
        "one at most is lost of {}: {}",
        coverage(&before),
        coverage(&after)
    );
    assert_eq!(second.end().await, Some(0));

    // It saves again at SIGTERM. A damaged file loses its content but does not prevent the start.
    for entry in fs::read_dir(&checkpoint).expect("the folder") {
        fs::write(entry.expect("an entry").path(), b"not a checkpoint").expect("damage it");
    }
    let mut third = start().await;
    let restarted = third.status_until("a frame", |status| coverage(status) > 0).await;
    assert!(
        coverage(&restarted) <= 100_000,
        "nothing is left: {}",
        coverage(&restarted)
    );
    let set_aside = |entry: fs::DirEntry| entry.file_name().to_string_lossy().ends_with("unusable");
    let entries = fs::read_dir(&checkpoint).expect("the folder");
    assert!(entries.filter_map(Result::ok).any(set_aside));
    assert_eq!(third.end().await, Some(0));
}
