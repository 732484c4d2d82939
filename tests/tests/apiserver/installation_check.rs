//! Tests of `kubectl headroom check` on a real API server, and of the problems printed above `top` and `explain`.
#![expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]

use std::{path::Path, process::Output};

use e2e::{
    console,
    people::{NODE, People},
    scripted_agent::{ScriptedAgent, hint},
    stand::{allocatable, until},
};
use headroom_domain::{hint::NodeHint, names};
use headroom_testbed::policies;
use k8s_openapi::api::{
    admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
    core::v1::Node,
};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, PostParams},
};
use serde_json::{Value, json};

/// Exit code, output and errors of a command.
async fn ended(people: &People, kubeconfig: &Path, command: &[&str]) -> (Option<i32>, String, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = people.run(kubeconfig, command).await;
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (status.code(), text(stdout), text(stderr))
}

/// A report that knows of all pods.
fn of_all_pods(uid: &str, seq: u64, cents: u32) -> NodeHint {
    NodeHint {
        pods_generation: u64::MAX,
        ..hint(NODE, uid, seq, cents)
    }
}

/// An agent of the node, which is amplified to 1.04.
async fn reporting(people: &People) -> (ScriptedAgent, String) {
    let node = people.stand.nodes().get(NODE).await.expect("read the node");
    let uid = node.uid().expect("a UID");
    let mut agent = people.stand.agent(&node, &people.webhook).await;
    agent.report(&of_all_pods(&uid, 1, 104)).await.expect("an answer");
    let amplified = |node: &Node| allocatable(node, "cpu") == "4160m";
    people.stand.node_until(NODE, "amplified", amplified).await;
    (agent, uid)
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_webhook_configuration_is_reported_first() {
    let people = People::start().await;
    policies::install(&people.stand.client)
        .await
        .expect("install the policies");
    people.grant("ann", names::VIEWER).await;
    let ann = people.kubeconfig("ann");
    let (mut agent, uid) = reporting(&people).await;
    until("nothing is wrong", async || {
        let (code, text, _) = ended(&people, &ann, &["check"]).await;
        code == Some(0) && text.starts_with("No problem found by ")
    })
    .await;
    assert!(people.ask(&ann, &["top", "--once"]).await.starts_with("NODE "));

    let configurations: Api<MutatingWebhookConfiguration> = Api::all(people.stand.client.clone());
    let deleted = configurations
        .delete(names::WEBHOOK_CONFIGURATION, &DeleteParams::default())
        .await;
    deleted.expect("delete the configuration");
    let (code, text, complaint) = ended(&people, &ann, &["check"]).await;
    assert_eq!(code, Some(1), "{text}{complaint}");
    assert!(
        text.starts_with("error not-registered: the API server does not call the webhook"),
        "{text}"
    );
    assert_eq!(complaint.lines().count(), 1, "{complaint}");

    let first = "error: the API server does not call the webhook for mutate-node-status: there is no entry \
                 mnode-status.koordinator.sh in configuration headroom-webhook\n";
    until("top prints it first", async || {
        people.ask(&ann, &["top", "--once"]).await.starts_with(first)
    })
    .await;
    agent.report(&of_all_pods(&uid, 2, 102)).await.expect("an answer");
    until("explain promises nothing", async || {
        let text = people.ask(&ann, &["explain", NODE]).await;
        assert!(
            text.starts_with(first) && !text.contains("the next status write updates it"),
            "{text}"
        );
        text.contains("; no write updates it until the API server calls the webhook")
    })
    .await;
    let (_, report, _) = ended(&people, &ann, &["check", "--json"]).await;
    let report: Value = serde_json::from_str(&report).expect("JSON");
    assert_eq!(report["findings"][0]["code"], "not-registered", "{report}");
    assert!(
        report["findings"][0]["mend"]
            .as_str()
            .is_some_and(|mend| !mend.is_empty()),
        "{report}"
    );

    delete_the_other(&people, &ann).await;
}

/// Deletes the configuration from which the CA is read: the webhook can no longer be verified.
async fn delete_the_other(people: &People, kubeconfig: &Path) {
    let configurations: Api<ValidatingWebhookConfiguration> = Api::all(people.stand.client.clone());
    let deleted = configurations
        .delete(names::WEBHOOK_CONFIGURATION, &DeleteParams::default())
        .await;
    deleted.expect("delete the other configuration");
    let (code, text, _) = ended(people, kubeconfig, &["check"]).await;
    assert!(
        code == Some(1) && text.contains("error not-registered: "),
        "{code:?} {text}"
    );
    let complaint = people.fail(kubeconfig, &["top", "--once"]).await;
    assert!(
        complaint.contains("MutatingWebhookConfiguration headroom-webhook does not exist"),
        "{complaint}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn undetermined_checks_exit_with_code_2() {
    let people = People::start().await;
    let stranger = people.kubeconfig("stranger");
    let (code, text, complaint) = ended(&people, &stranger, &["check"]).await;
    assert_eq!((code, text.as_str()), (Some(2), ""), "{complaint}");
    assert!(complaint.contains("the missing rule is "), "{complaint}");
    let (code, _, complaint) = ended(&people, &stranger, &["check", "--context", "none"]).await;
    assert_eq!(code, Some(2), "{complaint}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_is_checked_before_anything_is_installed() {
    let people = People::start().await;
    let admin = people.stand.cluster.kubeconfig();
    let commands = console::page_commands("docs/quick-start.md", "kubectl headroom check --pre");
    assert_eq!(commands.len(), 1, "{commands:#?}");
    let words: Vec<&str> = commands
        .iter()
        .flat_map(|command| command.split(' ').skip(2))
        .collect();
    let (code, text, complaint) = ended(&people, admin, &words).await;
    assert_eq!(code, Some(0), "{text}{complaint}");
    assert!(text.starts_with("No problem found by "), "{text}");

    let koordinator = json!({"metadata": {"name": names::KOORDINATOR_CONFIGURATION}, "webhooks": []});
    let configurations: Api<MutatingWebhookConfiguration> = Api::all(people.stand.client.clone());
    let object = serde_json::from_value(koordinator).expect("a configuration");
    configurations
        .create(&PostParams::default(), &object)
        .await
        .expect("create it");
    let (code, text, _) = ended(&people, admin, &["check", "--pre"]).await;
    assert!(
        code == Some(0) && text.starts_with("notice koordinator-beside: "),
        "{code:?} {text}"
    );

    people.grant("olga", names::OPERATOR).await;
    people.grant("ann", names::VIEWER).await;
    let (code, text, _) = ended(&people, &people.kubeconfig("olga"), &["check", "--pre"]).await;
    assert_eq!(code, Some(1), "{text}");
    assert!(
        text.contains("error rights-missing: the user lacks permission to create ")
            && text.matches("undecided").count() == 1
            && text.contains("undecided no-room-for-agent: cannot list the pods of all namespaces: "),
        "{text}"
    );
    let (_, text, _) = ended(&people, &people.kubeconfig("ann"), &["check", "--pre"]).await;
    assert!(
        text.contains("undecided kernel-too-old: cannot read the nodes: ")
            && text.contains("the missing rule is {apiGroups: [\"\"], resources: [nodes]"),
        "{text}"
    );
}
