//! Tests of `kubectl headroom config` against a real webhook: without a file it uses the ConfigMap of the API server,
//! its verdict on a version equals the API server's answer, and the pages' commands run as printed.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests panic: a returned error has no stack"
)]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Output,
};

use e2e::{console, shell::Shell, slo_commands::SloCommands, slo_page::Data, stand::until};
use headroom_domain::names;
use headroom_testbed::accounts;
use serde_json::{Value, json};

use crate::{
    cli::Cli,
    slo_config::{Checked, answer, config_map},
};

/// Entries for nodes of a pool and for those with GPUs.
const STORED: &str = r#"{"enable":true,"degradeTimeMinutes":20,"nodeConfigs":[
    {"name":"dense","nodeSelector":{"matchLabels":{"pool":"dense"}},"degradeTimeMinutes":5}]}"#;
const NEW: &str = r#"{"enable":true,"degradeTimeMinutes":30,"nodeConfigs":[
    {"name":"dense","nodeSelector":{"matchLabels":{"pool":"dense"}},"degradeTimeMinutes":6}]}"#;
const CONFLICTING: &str = r#"{"nodeConfigs":[
    {"name":"dense","nodeSelector":{"matchLabels":{"pool":"dense"}}},
    {"name":"gpu","nodeSelector":{"matchLabels":{"gpu":"true"}}}]}"#;
const UNNAMED: &str = r#"{"nodeConfigs":[{"nodeSelector":{"matchLabels":{"pool":"dense"}}}]}"#;
/// A threshold without its counterpart, which is compared with defaults unless a switch is off.
const PAIR: &str = r#"{"clusterStrategy":{"memoryEvictThresholdPercent":70}}"#;

/// Stand with nodes, and a command for a user with the viewer role.
struct Asked {
    checked: Checked,
    cli: Cli,
}

impl Asked {
    async fn start() -> Self {
        let checked = Checked::with(&["--node-strategy-name-need-check=true"]).await;
        for (name, labels) in [
            ("worker-1", json!({"pool": "dense"})),
            ("worker-2", json!({})),
            ("worker-3", json!({"pool": "dense", "gpu": "true"})),
        ] {
            checked.create_node(name, labels).await;
        }
        let token = accounts::debug_token(&checked.stand.client)
            .await
            .expect("a token");
        let cli = Cli::new(&checked.stand, &checked.webhook, "person", &token);
        let asked = Self { checked, cli };
        until("the webhook knows the nodes", async || {
            let output = asked.cli.run(&["config", "explain", "worker-3"]).await;
            output.status.success()
        })
        .await;
        asked
    }

    fn file(&self, name: &str, data: &Data) -> PathBuf {
        let file = self.checked.stand.cluster.dir().join(name);
        fs::write(&file, config_map(names::SLO_CONFIG, data)).expect("write");
        file
    }

    /// Stores a version, and waits until the webhook knows it.
    async fn store(&self, data: &Data) {
        let object = config_map(names::SLO_CONFIG, data);
        let output = self
            .checked
            .kubectl
            .apply(&object, &["--server-side", "--force-conflicts"]);
        assert!(output.status.success(), "{output:?}");
        let file = self.file("stored.json", data);
        until("the webhook knows the stored version", async || {
            self.diff(&file.display().to_string()).await["keys"] == json!([])
        })
        .await;
    }

    async fn diff(&self, file: &str) -> Value {
        self.cli.ask_json(&["config", "diff", file]).await
    }

    /// Output of the command for a version, and the API server's answer to it.
    async fn check(&self, data: &Data) -> [Option<String>; 2] {
        let file = self.file("new.json", data).display().to_string();
        let output = self
            .cli
            .run(&["config", "check", &file, "--online", "-o", "json"])
            .await;
        let verdict: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let refusal = verdict["refusal"].as_str().map(str::to_owned);
        assert_eq!(output.status.code(), Some(i32::from(refusal.is_some())));
        assert_eq!(verdict["nodes"], 3);
        let flags = ["--dry-run=server", "--server-side", "--force-conflicts"];
        let object = config_map(names::SLO_CONFIG, data);
        let lines = answer(&self.checked.kubectl.apply(&object, &flags));
        let error = lines.iter().find_map(|line| line.strip_prefix("Error: "));
        [refusal, error.map(str::to_owned)]
    }
}

fn data<const N: usize>(texts: [(&str, &str); N]) -> Data {
    texts.map(|(key, text)| (key.to_owned(), text.to_owned())).into()
}

/// The value of a member with its origin.
fn value(explained: &Value, member: &str) -> String {
    let values = explained["keys"][0]["values"].as_array().expect("values");
    let found = values
        .iter()
        .find(|value| value["member"] == member)
        .expect("the member");
    format!(
        "{} {}",
        found["value"],
        found["from"].as_str().expect("an origin")
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn stored_configuration_is_explained_and_compared() {
    let asked = Asked::start().await;
    let explain = async |node: &str| {
        let words = ["config", "explain", node, "--key", names::COLOCATION_CONFIG];
        let explained = asked.cli.ask_json(&words).await;
        value(&explained, "degradeTimeMinutes")
    };
    assert_eq!(explain("worker-1").await, "15 default", "nothing is stored");
    asked.store(&data([(names::COLOCATION_CONFIG, STORED)])).await;
    assert_eq!(explain("worker-1").await, "5 entry \"dense\"");
    assert_eq!(explain("worker-2").await, "20 cluster");

    let folder = tempfile::tempdir().expect("a folder");
    let new = data([(names::COLOCATION_CONFIG, NEW)]);
    fs::write(
        folder.path().join("new.yaml"),
        config_map(names::SLO_CONFIG, &new),
    )
    .expect("write");
    let kubeconfig = asked.checked.stand.cluster.kubeconfig();
    let shell = asked.cli.shell(folder.path(), kubeconfig).await;
    let commands = console::page_commands("docs/koordinator.md", "kubectl headroom config ");
    let [check, explain_one, diff] = commands.as_slice() else {
        panic!("{commands:#?}")
    };
    let text = shell.printed(check).await;
    assert!(text.starts_with("accepted: "), "{text}");
    let text = shell.printed(explain_one).await;
    assert!(
        text.starts_with("node worker-1\n") && text.contains(" entry \"dense\"\n"),
        "{text}"
    );
    assert_eq!(
        shell.printed(diff).await,
        "colocation-config\n  2 nodes: worker-1, worker-3\n    degradeTimeMinutes: 5 minutes (entry \"dense\") -> 6 minutes \
         (entry \"dense\")\n  1 node: worker-2\n    degradeTimeMinutes: 20 minutes (cluster) -> 30 minutes (cluster)\n"
    );
    let (code, complaint) = asked.cli.fail(&["config", "explain", "gone"]).await;
    assert_eq!(code, Some(1));
    assert_eq!(
        complaint,
        "error: the webhook does not know node \"gone\"; see `kubectl get nodes`\n"
    );

    let output = asked
        .checked
        .kubectl
        .run(&["delete", "configmap", names::SLO_CONFIG], "");
    assert!(output.status.success(), "{output:?}");
    until("the webhook knows that nothing is stored", async || {
        explain("worker-1").await == "15 default"
    })
    .await;
}

#[tokio::test]
async fn page_commands_print_the_documented_output_in_a_shell() {
    let page = SloCommands::load();
    let folder = tempfile::tempdir().expect("a folder");
    page.write_files(folder.path());
    // They ask no cluster.
    let shell = Shell::with_plugin(folder.path(), Path::new("/dev/null")).await;
    for (command, shown) in &page.commands {
        let Output { status, stdout, .. } = shell.run(command).await;
        assert_eq!(String::from_utf8(stdout).expect("text"), *shown, "{command}");
        assert_eq!(status.success(), !shown.starts_with("refused: "), "{command}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn version_is_checked_with_the_webhooks_settings() {
    let asked = Asked::start().await;
    for (text, reason) in [
        (CONFLICTING, Some("\"exampleNodes\":[\"worker-3\"]")),
        (UNNAMED, Some("nodeConfig Name need!")),
        (NEW, None),
    ] {
        let [printed, answered] = asked.check(&data([(names::COLOCATION_CONFIG, text)])).await;
        assert_eq!(printed, answered);
        let is_as_expected = match (&printed, reason) {
            (None, None) => true,
            (Some(printed), Some(reason)) => printed.contains(reason),
            (None, Some(_)) | (Some(_), None) => false,
        };
        assert!(is_as_expected, "{printed:?}");
    }
    // Switches of the stored version are in force.
    let pair = data([(names::RESOURCE_THRESHOLD_CONFIG, PAIR)]);
    assert_eq!(asked.check(&pair).await, [None, None]);
    asked
        .store(&data([(names::FEATURE_GATES, "SloPairsUseDefaults=false")]))
        .await;
    until("the webhook has the switch", async || {
        let [printed, answered] = asked.check(&pair).await;
        printed.is_some() && printed == answered
    })
    .await;
}
