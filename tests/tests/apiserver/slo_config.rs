//! Tests of Koordinator's ConfigMap on a real API server, written by kubectl: the examples of
//! docs/slo-configuration.md are accepted, or refused with the documented answer; no other ConfigMap is sent to the
//! webhook.
#![expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]

use std::{
    io::Write as _,
    path::PathBuf,
    process::{Command, Output, Stdio},
};

use e2e::{
    slo_page::{Data, Mistake, SloPage},
    stand::{Stand, count, until},
};
use headroom_domain::names;
use headroom_testbed::{
    accounts,
    webhook::{GATES, Webhook},
};
use headroom_webhook::admission::endpoint::Family;
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::{Api, api::PostParams};
use serde_json::json;
use xtask::setup::controlplane::{self, Component};

const FAMILIES: [Family; 2] = [Family::Nodes, Family::Koordinator];
/// Text before the webhook's own.
const DENIED: &str = "admission webhook \"vconfigmap.koordinator.sh\" denied the request: ";

/// kubectl as an administrator calls it.
pub(crate) struct Kubectl {
    program: PathBuf,
    kubeconfig: PathBuf,
}

/// A stand with the namespace of the ConfigMap and a replica that checks it.
pub(crate) struct Checked {
    pub(crate) stand: Stand,
    pub(crate) webhook: Webhook,
    pub(crate) kubectl: Kubectl,
}

impl Checked {
    async fn start() -> Self {
        Self::with(&[]).await
    }

    /// With a replica that has these flags.
    pub(crate) async fn with(flags: &[&str]) -> Self {
        let stand = Stand::start().await;
        let created = accounts::create_namespace(&stand.client, names::SLO_CONFIG_NAMESPACE).await;
        created.expect("create the namespace");
        let gates = format!("{GATES},ConfigMapValidatingWebhook=true");
        let webhook = stand
            .serving_with("webhook-0", "{}", &FAMILIES, &gates, flags)
            .await;
        let kubectl = Kubectl::new(&stand);
        let invalid = config_map(names::SLO_CONFIG, &Data::from([colocation("bad")]));
        until("the ConfigMap reaches the webhook", async || {
            !kubectl.apply(&invalid, &["--dry-run=server"]).status.success()
        })
        .await;
        Self {
            stand,
            webhook,
            kubectl,
        }
    }

    fn config_maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.stand.client.clone(), names::SLO_CONFIG_NAMESPACE)
    }

    pub(crate) async fn create_node(&self, name: &str, labels: serde_json::Value) {
        let node = json!({"metadata": {"name": name, "labels": labels}});
        let node: Node = serde_json::from_value(node).expect("a Node");
        let created = self.stand.nodes().create(&PostParams::default(), &node).await;
        created.expect("create the node");
    }
}

impl Kubectl {
    pub(crate) fn new(stand: &Stand) -> Self {
        let programs = controlplane::ensure(&[Component::Kubectl]).expect("kubectl");
        Self {
            program: programs.into_values().next().expect("the program asked for").path,
            kubeconfig: stand.cluster.kubeconfig().to_owned(),
        }
    }

    pub(crate) fn run(&self, arguments: &[&str], input: &str) -> Output {
        let mut kubectl = Command::new(&self.program)
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .args(["--namespace", names::SLO_CONFIG_NAMESPACE])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("start kubectl");
        let mut stdin = kubectl.stdin.take().expect("its input");
        stdin.write_all(input.as_bytes()).expect("write to kubectl");
        drop(stdin);
        kubectl.wait_with_output().expect("wait for kubectl")
    }

    pub(crate) fn apply(&self, object: &str, flags: &[&str]) -> Output {
        self.run(&[&["apply", "--filename=-"], flags].concat(), object)
    }
}

fn colocation(text: &str) -> (String, String) {
    (names::COLOCATION_CONFIG.to_owned(), text.to_owned())
}

pub(crate) fn config_map(name: &str, data: &Data) -> String {
    let metadata = json!({"name": name, "namespace": names::SLO_CONFIG_NAMESPACE});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}).to_string()
}

/// Warnings and refusal as kubectl prints them and the page shows them.
pub(crate) fn answer(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stderr);
    let lines = text.lines().map(|line| match line.split_once(DENIED) {
        Some((_, message)) => format!("Error: {message}"),
        None => line.to_owned(),
    });
    lines.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn documented_example_is_accepted_and_ten_mistakes_give_ten_answers() {
    let checked = Checked::start().await;
    let page = SloPage::load();
    let apply = |data: &Data| {
        let object = config_map(names::SLO_CONFIG, data);
        checked.kubectl.apply(&object, &["--dry-run=server"])
    };
    let output = apply(&page.example);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(answer(&output), [""; 0]);
    assert_eq!(page.mistakes.len(), 10);
    for Mistake {
        title,
        data,
        answer: documented,
    } in &page.mistakes
    {
        let output = apply(data);
        let found = answer(&output);
        assert_eq!(found, *documented, "{title}");
        let is_refused = found.iter().any(|line| line.starts_with("Error: "));
        assert_eq!(output.status.success(), !is_refused, "{title}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_koordinators_config_map_is_checked_and_stored_versions_are_kept() {
    let mut checked = Checked::start().await;
    let page = SloPage::load();
    let config_maps = checked.config_maps();
    let output = checked
        .kubectl
        .apply(&config_map(names::SLO_CONFIG, &page.example), &[]);
    assert!(output.status.success(), "{output:?}");

    // A node that two entries would select, of which neither selector knows of the other.
    checked
        .create_node(
            "both",
            json!({"example.com/pool": "dense", "example.com/gpu": "true"}),
        )
        .await;
    let entries = r#"{"nodeConfigs":[
        {"name":"dense","nodeSelector":{"matchLabels":{"example.com/pool":"dense"}}},
        {"name":"gpu","nodeSelector":{"matchLabels":{"example.com/gpu":"true"}}}]}"#;
    let conflicting = config_map(names::SLO_CONFIG, &Data::from([colocation(entries)]));
    let refusal = r#"Error: ___{"reason":"ExistNodeConfict","message":{"config":"colocation-config","strategies":["dense","gpu"],"exampleNodes":["both"]}}___"#;
    let apply = |flags: &[&str]| {
        answer(
            &checked
                .kubectl
                .apply(&conflicting, &[&["--server-side"], flags].concat()),
        )
    };
    until("the replica has observed the node", async || {
        apply(&["--dry-run=server", "--force-conflicts"]).contains(&refusal.to_owned())
    })
    .await;
    assert!(apply(&["--force-conflicts"]).contains(&refusal.to_owned()));
    let stored = config_maps.get(names::SLO_CONFIG).await.expect("the ConfigMap");
    assert_eq!(stored.data.expect("data"), page.example);

    // Other ConfigMaps are not sent, also while no replica answers.
    let series = "headroom_webhook_reviews_total{endpoint=\"validate-configmap\"";
    let before = count(&checked.webhook, series).await;
    let other = config_map("other", &Data::from([colocation("bad")]));
    assert_eq!(answer(&checked.kubectl.apply(&other, &[])), [""; 0]);
    assert_eq!(count(&checked.webhook, series).await, before);
    assert!(before > 0, "the series is there");

    // Removing the key, or the ConfigMap, is no fault but gets a warning.
    let output = checked
        .kubectl
        .run(&["delete", "configmap", names::SLO_CONFIG], "");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(
        answer(&output),
        [
            "Warning: ConfigMap koordinator-system/slo-controller-config is removed: all nodes fall back to defaults"
        ]
    );

    checked.webhook.process.stop().expect("stop the webhook");
    let changed = config_map("other", &Data::from([colocation("worse")]));
    assert_eq!(answer(&checked.kubectl.apply(&changed, &[])), [""; 0]);
    let output = checked
        .kubectl
        .apply(&config_map(names::SLO_CONFIG, &page.example), &[]);
    assert!(!output.status.success(), "no webhook can check it: {output:?}");
}
