//! Tests of `kubectl-headroom` as a process against a real webhook, with a scripted agent whose numbers are known.
#![expect(
    clippy::expect_used,
    clippy::too_many_lines,
    reason = "tests panic: a returned error has no stack; a table of cases is read in one go"
)]

use std::{
    path::{Path, PathBuf},
    process::Output,
};

use e2e::{
    scripted_agent::{ScriptedAgent, hint},
    shell::Shell,
    stand::{AUTO, Stand, allocatable, until},
};
use headroom_domain::{hint::Brake, names};
use headroom_proto::v1alpha1::Verdict;
use headroom_testbed::{accounts, agent::write_secret, programs::get, webhook::Webhook};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use serde_json::Value;
use tokio::process::Command;
use xtask::setup::controlplane;

const GIB: u64 = 1 << 30;

pub(crate) struct Cli {
    program: PathBuf,
    addr: String,
    ca: PathBuf,
    token: PathBuf,
}

impl Cli {
    pub(crate) fn new(stand: &Stand, webhook: &Webhook, who: &str, token: &str) -> Self {
        let file = stand.cluster.dir().join(format!("{who}.token"));
        write_secret(&file, token).expect("write");
        Self {
            program: stand.programs.cli.clone(),
            addr: webhook.hints.to_string(),
            ca: webhook.ca.clone(),
            token: file,
        }
    }

    /// A shell in a folder whose `kubectl headroom` asks as this does.
    pub(crate) async fn shell(&self, folder: &Path, kubeconfig: &Path) -> Shell {
        let path = |path: &Path| path.display().to_string();
        Shell::with_plugin(folder, kubeconfig).await.with_variables(&[
            ("HEADROOM_ADDR", &self.addr),
            ("HEADROOM_CA_FILE", &path(&self.ca)),
            ("HEADROOM_TOKEN_FILE", &path(&self.token)),
        ])
    }

    pub(crate) async fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(&self.program);
        command.args(["--addr", &self.addr]);
        command.arg("--ca-file").arg(&self.ca);
        command.arg("--token-file").arg(&self.token);
        command
            .args(arguments)
            .kill_on_drop(true)
            .output()
            .await
            .expect("run it")
    }

    /// Output for a query.
    pub(crate) async fn ask(&self, arguments: &[&str]) -> String {
        let Output {
            status,
            stdout,
            stderr,
        } = self.run(arguments).await;
        assert!(
            status.success() && stderr.is_empty(),
            "{arguments:?} ended with {status}: {}",
            String::from_utf8_lossy(&stderr)
        );
        String::from_utf8(stdout).expect("text")
    }

    pub(crate) async fn ask_json(&self, arguments: &[&str]) -> Value {
        let text = self.ask(&[arguments, &["-o", "json"]].concat()).await;
        serde_json::from_str(&text).expect("JSON")
    }

    /// Exit code and error output of a command that must fail.
    pub(crate) async fn fail(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let Output {
            status,
            stdout,
            stderr,
        } = self.run(arguments).await;
        assert!(stdout.is_empty(), "{arguments:?} has an answer");
        (status.code(), String::from_utf8(stderr).expect("text"))
    }
}

/// Completions by kubectl after these words of ours, as a shell requests them: through a link of the expected name.
async fn completed(stand: &Stand, cli: &Cli, words: &[&str]) -> Vec<String> {
    let folder = stand.cluster.dir().join("plugins");
    std::fs::create_dir_all(&folder).expect("a folder");
    // The plugin and its completion program.
    for name in ["kubectl-headroom", "kubectl_complete-headroom"] {
        let link = folder.join(name);
        if !link.exists() {
            std::os::unix::fs::symlink(&cli.program, &link).expect("a link");
        }
    }
    let output = Command::new(controlplane::kubectl())
        .args(["__complete", "headroom", "--addr", &cli.addr])
        .arg("--ca-file")
        .arg(&cli.ca)
        .arg("--token-file")
        .arg(&cli.token)
        .args(words)
        .env("PATH", &folder)
        .env("KUBECONFIG", "/dev/null")
        .kill_on_drop(true)
        .output()
        .await
        .expect("run kubectl");
    assert!(output.status.success(), "{output:?}");
    let answer = String::from_utf8(output.stdout).expect("text");
    answer.lines().map(ToOwned::to_owned).collect()
}

/// The cells of each line.
fn cells(table: &str) -> Vec<Vec<&str>> {
    table
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect()
}

/// A stream of an agent that sees 1.5 of 4 CPUs and 2 of 8 GiB in use, and brakes on memory.
async fn reporting(stand: &Stand, webhook: &Webhook, node: &Node) -> ScriptedAgent {
    let token = stand.agent_token(node).await;
    let mut agent = ScriptedAgent::open(webhook.hints, &webhook.ca, Some(&token))
        .await
        .expect("a stream");
    let mut numbers = hint("n1", &node.uid().expect("a UID"), 7, 150);
    let cpu = &mut numbers.resources.cpu;
    (cpu.capacity, cpu.usage, cpu.predicted_peak) = (4000, 1500, 1800);
    let memory = &mut numbers.resources.memory;
    (memory.capacity, memory.usage, memory.predicted_peak) = (8 * GIB, 2 * GIB, 3 * GIB);
    memory.brake = Brake::Hold;
    memory.reasons = vec!["psi-memory".to_owned()];
    let ack = agent.report(&numbers).await.expect("an answer");
    assert_eq!(ack.verdict(), Verdict::Accepted, "{}", ack.reason);
    agent
}

#[tokio::test(flavor = "multi_thread")]
async fn cli_shows_the_webhooks_state_of_each_node() {
    let stand = Stand::start().await;
    let webhook = stand.webhook("webhook-0", AUTO).await;
    stand.register(&webhook).await;
    let node = stand.create_node("n1", "4", "8Gi").await;
    let mut agent = reporting(&stand, &webhook, &node).await;
    stand
        .node_until("n1", "amplified to 6", |node| allocatable(node, "cpu") == "6")
        .await;
    stand.create_node("n2", "2", "4Gi").await;
    let token = accounts::debug_token(&stand.client).await.expect("a token");
    let cli = Cli::new(&stand, &webhook, "person", &token);
    // The replica observes its own write through the watch, a moment later.
    let mut rows = Value::Null;
    let sees_all = async || {
        rows = cli.ask_json(&["top"]).await;
        rows[0]["allocatable_cpu_milli"] == 6000 && rows[1]["raw_cpu_milli"] == 2000
    };
    until("n1 amplified and n2 there", sees_all).await;
    assert_eq!(rows.as_array().map(Vec::len), Some(2), "{rows}");

    let top = cli.ask(&["top", "-o", "wide"]).await;
    let (first, top) = top.split_once('\n').expect("lines");
    assert!(
        first.starts_with("warning: 1 of 2 managed nodes ") && first.ends_with(": n2"),
        "{first}"
    );
    let (second, top) = top.split_once('\n').expect("lines");
    assert!(second.starts_with("notice: no floor: "), "{second}");
    let top = cells(top);
    assert_eq!(top[0][..3], ["NODE", "MODE", "SEES"]);
    let (age, n1) = top[1].split_last().expect("cells");
    let expected = [
        "n1", "auto", "full,", "demo", "timing", "1500m", "1800m", "1.50", "-", "4000m", "6000m", "0m",
        "6000m", "2048Mi", "3072Mi", "1.00", "-", "8192Mi", "8192Mi", "0Mi", "8192Mi", "memory", "L1",
        "hold",
    ];
    assert_eq!(n1, expected);
    assert!(age.ends_with('s'), "{age}");
    assert_eq!(top[2][..6], ["n2", "auto", "-", "-", "-", "1.00"]);
    assert_eq!(top.len(), 3, "{top:?}");
    assert_eq!(
        cli.ask(&["top", "-o", "name", "--sort-by", "age"]).await,
        "node/n2\nnode/n1\n"
    );
    assert_eq!(
        cli.ask(&["top", "-o", "name", "-l", "!missing"]).await,
        "node/n1\nnode/n2\n"
    );
    assert_eq!(cli.ask(&["top", "-o", "name", "-l", "missing"]).await, "");

    let hints = cli.ask(&["hints", "--no-headers"]).await;
    let hints = cells(&hints);
    assert_eq!(hints.len(), 1, "one agent has reported: {hints:?}");
    assert_eq!(hints[0][..2], ["n1", hints[0][1]]);
    assert!(hints[0].contains(&"1.50"), "{hints:?}");
    let report = &cli.ask_json(&["hints", "n1"]).await[0];
    assert_eq!(
        (&report["node"], &report["seq"], &report["cpu"]["published_cents"]),
        (&"n1".into(), &7.into(), &150.into())
    );

    let uid = node.uid().expect("a UID");
    let page = cli.ask(&["explain", "node/n1"]).await;
    let page = page.splitn(3, '\n').last().expect("a page below what is wrong");
    assert!(
        page.starts_with("n1 offers 6,000m of 4,000m cpu (1.50). "),
        "{page}"
    );
    for line in [
        &*format!(
            "node n1, uid {uid}, 0 pods bound\nmode auto by the configuration file, floor at pod requests\n"
        ),
        "cpu: ratio 1.50, allocatable 4000m -> 6000m, bound 0m, free 6000m, used 1500m, peak 1800m",
        "memory: ratio 1.00, allocatable 8.0GiB -> 8.0GiB, bound 0B, free 8.0GiB, used 2.0GiB, peak 3.0GiB",
        "a fresh hint is applied (hint)",
        "allocatable is up to date",
    ] {
        assert!(page.contains(line), "{line:?} is not in {page}");
    }
    let page = cli.ask(&["node", "n1", "--why"]).await;
    for line in [
        "  baseline  4000m  raw: the kubelet's own allocatable",
        "a fresh hint is applied (hint)",
        "  C           4000m  physical capacity",
        "\nsignals\n",
    ] {
        assert!(page.contains(line), "{line:?} is not in {page}");
    }
    assert_eq!(
        completed(&stand, &cli, &["explain", ""]).await,
        ["n1", "n2", ":4"]
    );
    let flags = completed(&stand, &cli, &["top", "--sort"]).await;
    assert_eq!(flags, ["--sort-by\tOrder of the nodes", ":4"]);
    let versions = cli.ask_json(&["version"]).await;
    assert_eq!(versions["servers"][0]["skew"], "none", "{versions}");
    let explained = cli.ask_json(&["explain", "n1"]).await;
    let rules = explained["rules_cpu"].as_array().expect("rules");
    assert_eq!(rules[0]["milli"], 4000, "{explained}");
    assert_eq!(
        rules.last().expect("rules")["milli"],
        explained["allocatable_cpu_milli"]
    );
    let explained = cli.ask(&["explain", "n2"]).await;
    assert!(
        explained.contains("no agent has reported yet (no-hint)"),
        "{explained}"
    );
    assert!(
        explained
            .lines()
            .any(|line| line.ends_with("No agent has reported yet.")),
        "{explained}"
    );
    projected_ratio_of_mode_auto_is_a_metric(&stand, &webhook, &uid, &mut agent).await;
}

/// Node `n1` switches to mode `off` while its agent continues to report.
async fn projected_ratio_of_mode_auto_is_a_metric(
    stand: &Stand,
    webhook: &Webhook,
    uid: &str,
    agent: &mut ScriptedAgent,
) {
    stand.annotate("n1", names::MODE, "off").await;
    let mut seq = 7;
    until("the metric has what auto would give", async || {
        seq += 1;
        agent.report(&hint("n1", uid, seq, 150)).await.expect("an answer");
        let (_, body) = get(webhook.admin, "/metrics").await.expect("metrics");
        let text = String::from_utf8_lossy(&body).into_owned();
        let has = |line: &str| text.lines().any(|shown| shown == line);
        has(r#"headroom_webhook_would_ratio{pool="all",resource="cpu"} 1.5"#)
            && has(r#"headroom_webhook_would_ratio{pool="all",resource="memory"} 1"#)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_query_is_an_error_with_its_reason() {
    let stand = Stand::start().await;
    let webhook = stand.webhook("webhook-0", AUTO).await;
    let node = stand.create_node("n1", "4", "8Gi").await;
    let token = accounts::debug_token(&stand.client).await.expect("a token");
    let mut cli = Cli::new(&stand, &webhook, "person", &token);
    let unknown = "error: the webhook does not know node \"n9\"; see `kubectl get nodes`\n".to_owned();
    for question in [["explain", "n9"], ["hints", "n9"], ["top", "node/n9"]] {
        assert_eq!(cli.fail(&question).await, (Some(1), unknown.clone()));
    }
    let (code, reason) = cli.fail(&["nodes"]).await;
    assert!(code == Some(2) && reason.contains("'nodes'"), "{code:?} {reason}");

    // An agent's token is for the webhook, but its account has no right to ask.
    let foreign = Cli::new(&stand, &webhook, "agent", &stand.agent_token(&node).await);
    let (code, reason) = foreign.fail(&["hints"]).await;
    assert!(
        code == Some(1) && reason.contains("PermissionDenied"),
        "{code:?} {reason}"
    );

    cli.ca = stand.cluster.dir().join("nowhere.crt");
    let (code, reason) = cli.fail(&["hints"]).await;
    assert!(
        code == Some(1) && reason.contains("nowhere.crt"),
        "{code:?} {reason}"
    );
}
