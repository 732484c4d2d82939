//! Tests of the configuration file of a running agent: changes that apply at once, changes that wait for a restart, and
//! refused files.
#![expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]

use std::{fs, path::PathBuf};

use e2e::{
    agent::{ANY_PORT, AgentNode, Running},
    hint_server::{HintServer, ReceivedReport},
};
use headroom_agent::local::status::{Status, StreamState};

async fn agent(node: &AgentNode, servers: &[&HintServer], flags: Vec<String>) -> Running {
    // Without a flag for the kernel's statistics, so that the file's value applies.
    node.agent_under(&["env"], |options| {
        "procfs".clone_into(&mut options.source);
        options.servers = servers.iter().map(|server| server.address).collect();
        options.flags = flags;
    })
    .await
}

fn config(node: &AgentNode, text: &str) -> PathBuf {
    let folder = node.folder.path();
    let (path, new) = (folder.join("agent.yaml"), folder.join("new.yaml"));
    fs::write(&new, text).expect("write");
    fs::rename(new, &path).expect("rename");
    path
}

fn open(status: &Status) -> usize {
    let streams = status.streams.iter();
    streams.filter(|stream| stream.state == StreamState::Open).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn reloadable_settings_apply_at_once_and_others_are_named() {
    let node = AgentNode::start().await;
    let second = node.another_server(ANY_PORT).await;
    let path = config(&node, "publishFanout: 1\n");
    let flags = vec!["--config".to_owned(), path.display().to_string()];
    let mut agent = agent(&node, &[&node.server, &second], flags).await;
    agent
        .until("one stream", async |_, status| {
            (status.streams.len(), open(status)) == (1, 1)
        })
        .await;
    let kept = agent.status().await.expect("status").streams[0].peer;

    config(
        &node,
        "publishFanout: 2\nlogFilter: info,headroom_agent=debug\nprogramStats: true\n",
    );
    agent
        .until("two streams", async |_, status| open(status) == 2)
        .await;
    let text = agent.log();
    let waiting = text
        .lines()
        .filter(|line| line.contains("when the agent restarts"));
    let waiting: Vec<_> = waiting.collect();
    assert!(
        waiting.len() == 1 && waiting[0].contains("programStats"),
        "{waiting:?}"
    );
    let lost = text
        .lines()
        .filter(|line| line.contains("no stream to hint server"));
    assert_eq!(lost.count(), 0, "the stream to {kept} stays open: {text}");

    let reloaded = agent
        .counted(r#"headroom_config_reloads_total{result="loaded"}"#)
        .await;
    assert_eq!(reloaded, 1);
    config(&node, "publishFanout: 1\npublishFanOut: 1\n");
    agent
        .until("a refusal", async |agent, _| {
            agent
                .counted(r#"headroom_config_reloads_total{result="failed"}"#)
                .await
                == 1
        })
        .await;
    let status = agent.status().await.expect("status");
    assert_eq!(open(&status), 2, "what was in force stays in force");
    let text = agent.log();
    let logged = text
        .lines()
        .filter(|line| line.contains("new configuration refused"));
    let logged: Vec<_> = logged.collect();
    assert!(
        logged.len() == 1 && logged[0].contains("publishFanOut: unknown field"),
        "{logged:?}"
    );
    assert!(!text.contains('\x1b'), "colours without a terminal: {text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_eviction_threshold_applies_at_once() {
    let mut node = AgentNode::start().await;
    let path = config(&node, "evictionHardMemory: 0\n");
    let flags = vec!["--config".to_owned(), path.display().to_string()];
    let mut agent = agent(&node, &[&node.server], flags).await;
    agent.mode_until("PROC").await;
    let begun = agent.status().await.expect("status");
    assert!(
        begun.resources.iter().all(|resource| resource.brake < 3),
        "{begun:?}"
    );
    // There is never more above all memory.
    config(&node, "evictionHardMemory: 100%\n");
    let is_short = |received: &ReceivedReport| {
        let memory = received.report.resources.get(1);
        memory.is_some_and(|memory| {
            memory.brake == 3 && memory.reasons.iter().any(|why| why == "memory-available")
        })
    };
    node.server.report_until("memory is stopped", is_short).await;
    assert_eq!(agent.lines("when the agent restarts"), 0, "{}", agent.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn flag_overrides_the_configuration_file() {
    let node = AgentNode::start().await;
    let second = node.another_server(ANY_PORT).await;
    let path = config(&node, "{}");
    let flags = ["--publish-fanout", "1", "--config", &path.display().to_string()];
    let flags = flags.map(ToOwned::to_owned).to_vec();
    let mut agent = agent(&node, &[&node.server, &second], flags).await;
    agent
        .until("one stream", async |_, status| open(status) == 1)
        .await;
    config(&node, "publishFanout: 2\nsource: auto\nlogFilter: debug\n");
    agent
        .until("the file is read", async |agent, _| {
            agent
                .counted(r#"headroom_config_reloads_total{result="loaded"}"#)
                .await
                == 1
        })
        .await;
    agent
        .until("more is logged", async |agent, _| agent.log().contains("DEBUG"))
        .await;
    let status = agent.status().await.expect("status");
    assert_eq!(status.streams.len(), 1, "the flag wins");
    assert!(
        !agent.log().contains("when the agent restarts"),
        "the source is a flag's"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_configuration_file_ends_the_agent_with_its_path() {
    let node = AgentNode::start().await;
    let second = node.another_server(ANY_PORT).await;
    let path = config(&node, "webhookAddr: [a.svc]\nsampling: {shift: 3}\n");
    let flags = vec!["--config".to_owned(), path.display().to_string()];
    let mut agent = agent(&node, &[&node.server, &second], flags).await;
    let text = agent.ended_log().await;
    assert!(
        text.contains("--config") && text.contains("agent.yaml:2:1: sampling: unknown field"),
        "{text}"
    );
}
