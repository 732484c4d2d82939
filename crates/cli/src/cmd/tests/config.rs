//! Tests of `config`: files, data from the webhook, pages, exit codes.

use headroom_domain::names::{COLOCATION_CONFIG, SLO_CONFIG, SLO_CONFIG_NAMESPACE, SYSTEM_CONFIG};
use headroom_proto::v1alpha1::{NodeLabels, StoredSloConfig};
use insta::assert_snapshot;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;

/// Data of the webhook: the ConfigMap, and the labels of nodes.
pub(super) type SloState = Arc<Mutex<(GetSloConfigResponse, Vec<NodeLabels>, bool)>>;

const LABELS_PAGE: usize = 2;

/// The requested page of labels.
pub(super) fn page(asked: &ListNodeLabelsRequest, shown: &SloState) -> ListNodeLabelsResponse {
    let shown = shown.lock().unwrap();
    let (_, nodes, known) = &*shown;
    let is_wanted = |node: &&NodeLabels| asked.node.is_empty() || asked.node == node.name;
    let mut rest = nodes
        .iter()
        .filter(|node| node.name > asked.after && is_wanted(node));
    let nodes: Vec<_> = rest.by_ref().take(LABELS_PAGE).cloned().collect();
    let next = rest.next().and(nodes.last()).map(|last| last.name.clone());
    ListNodeLabelsResponse {
        next: next.unwrap_or_default(),
        nodes,
        known: *known,
    }
}

/// Sets a label of a node, and marks the nodes as synced.
pub(super) fn label(shown: &SloState, node: &str, key: &str, value: &str) {
    let mut shown = shown.lock().unwrap();
    shown.1.push(NodeLabels {
        name: node.to_owned(),
        labels: [(key.to_owned(), value.to_owned())].into(),
    });
    shown.1.sort_by(|one, other| one.name.cmp(&other.name));
    shown.2 = true;
}

const STORED: &str = r#"{"enable":true,"degradeTimeMinutes":20,"nodeConfigs":[
    {"name":"dense","nodeSelector":{"matchLabels":{"pool":"dense"}},"degradeTimeMinutes":5},
    {"name":"gpu","nodeSelector":{"matchLabels":{"gpu":"true"}},"cpuReclaimThresholdPercent":50}]}"#;
const NEW: &str = r#"{"enable":true,"degradeTimeMinutes":30,"metricAggregatePolicy":{"durations":["1m"]},"nodeConfigs":[
    {"name":"dense","nodeSelector":{"matchLabels":{"pool":"dense"}},"degradeTimeMinutes":6},
    {"nodeSelector":{"matchLabels":{"gpu":"true"}},"cpuReclaimThresholdPercent":70}]}"#;
const NODES: [(&str, &[(&str, &str)]); 6] = [
    ("n1", &[]),
    ("n2", &[("pool", "dense")]),
    ("n3", &[("gpu", "true")]),
    ("n4", &[]),
    ("n5", &[("pool", "dense"), ("gpu", "true")]),
    ("n6", &[]),
];

fn config_map(data: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": SLO_CONFIG, "namespace": SLO_CONFIG_NAMESPACE}, "data": data,
    })
}

fn node_objects() -> Value {
    let nodes = NODES.map(|(name, labels)| {
        let labels: std::collections::BTreeMap<_, _> = labels.iter().copied().collect();
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}})
    });
    json!({"apiVersion": "v1", "kind": "List", "items": nodes})
}

/// Files with versions and nodes; `FILE` in a command stands for the path of that file.
struct Files(TempDir);

impl Files {
    fn new() -> Self {
        let files = Self(tempfile::tempdir().unwrap());
        files.write(
            "old",
            &config_map(&json!({COLOCATION_CONFIG: STORED})).to_string(),
        );
        files.write("new", &config_map(&json!({COLOCATION_CONFIG: NEW})).to_string());
        files.write("nodes", &node_objects().to_string());
        files
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.path().join(name), text).unwrap();
    }

    fn words(&self, command: &str) -> Vec<String> {
        let word = |word: &str| match word.strip_prefix('@') {
            Some(name) => self.0.path().join(name).display().to_string(),
            None => word.to_owned(),
        };
        command.split(' ').map(word).collect()
    }

    /// Output and result of a command.
    async fn run(&self, command: &str) -> (String, Result<(), Error>) {
        let args = Args::try_parse_from(
            ["kubectl-headroom".to_owned()]
                .into_iter()
                .chain(self.words(command)),
        );
        printed(args.unwrap()).await
    }

    async fn ask(&self, command: &str) -> String {
        let (text, ended) = self.run(command).await;
        ended.unwrap();
        text
    }

    async fn fail(&self, command: &str) -> Error {
        let (text, ended) = self.run(command).await;
        assert_eq!(text, "");
        ended.unwrap_err()
    }
}

async fn printed(args: Args) -> (String, Result<(), Error>) {
    let mut out = Vec::new();
    let ended = run(args, &mut Screen::plain(&mut out)).await;
    (String::from_utf8(out).unwrap(), ended)
}

/// The error with its causes, without the folder of the files.
fn words(error: &Error, files: &Files) -> String {
    let folder = format!("{}/", files.0.path().display());
    headroom_kit::log::chain(error).to_string().replace(&folder, "")
}

#[tokio::test]
async fn a_version_is_accepted_or_refused_with_all_errors() {
    let files = Files::new();
    let accepted = files.ask("config check @new").await;
    assert_snapshot!(accepted);
    let wrong = json!({
        COLOCATION_CONFIG: r#"{"degradeTimeMinutes":0,"resourceDiffThreshold":2,"cpuReclaimTresholdPercent":1,
            "nodeConfigs":[{"name":"\u001b[2J","nodeSelector":{}}]}"#,
        SYSTEM_CONFIG: r#"{"clusterStrategy":{"totalNetworkBandwidth":"10Gbps"}}"#,
    });
    files.write("wrong", &config_map(&wrong).to_string());
    let (refused, ended) = files.run("config check @wrong").await;
    assert_snapshot!(refused);
    let error = ended.unwrap_err();
    assert_eq!(error.exit_code(), 1);
    assert_eq!(
        error.to_string(),
        "ConfigMap koordinator-system/slo-controller-config would be refused"
    );
    let (json, _) = files.run("config check @wrong -o json").await;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (&json["verdict"], &json["nodes"]),
        (&json!("refused"), &Value::Null)
    );
    assert_eq!(
        json["errors"][0]["field"],
        "data[colocation-config].nodeConfigs[0].nodeSelector"
    );
    assert_eq!(json["errors"].as_array().unwrap().len(), 4);
}

#[tokio::test]
async fn nodes_old_version_names_and_switches_affect_the_check() {
    let files = Files::new();
    let (refused, ended) = files.run("config check @new --nodes @nodes").await;
    assert!(
        refused.contains("all of them select existing nodes: n5"),
        "{refused}"
    );
    assert_eq!(ended.unwrap_err().exit_code(), 1);
    // Unchanged keys are not checked.
    let text = files.ask("config check @old --nodes @nodes --old @old").await;
    assert!(
        text.contains("accepted") && text.contains("changed keys only"),
        "{text}"
    );
    files.write("empty", &config_map(&Value::Null).to_string());
    let text = files.ask("config check @empty --old @old").await;
    assert!(
        text.contains("colocation-config was removed: defaults apply to all nodes"),
        "{text}"
    );

    for flag in ["--node-strategy-name-need-check=true", "--need-check=true"] {
        let (refused, _) = files.run(&format!("config check @new {flag}")).await;
        assert!(refused.contains("each entry needs a name"), "{refused}");
    }
    files
        .ask("config check @new --node-strategy-name-need-check=1")
        .await;

    let pair =
        json!({"resource-threshold-config": r#"{"clusterStrategy":{"memoryEvictThresholdPercent":70}}"#});
    files.write("pair", &config_map(&pair).to_string());
    files.ask("config check @pair").await;
    for flags in ["--compat upstream", "--switches SloPairsUseDefaults=false"] {
        let (refused, _) = files.run(&format!("config check @pair {flags}")).await;
        assert!(refused.contains("memoryEvictLowerPercent"), "{refused}");
    }
    files
        .ask("config check @pair --compat upstream --switches SloPairsUseDefaults=true")
        .await;
}

#[rstest]
#[case::no_file(
    "config check @missing",
    "cannot decide: cannot read missing: No such file or directory (os error 2)"
)]
#[case::other_objects(
    "config check @nodes",
    "cannot decide: nodes does not contain ConfigMap koordinator-system/slo-controller-config; it contains Node n1, Node n2, Node n3, Node n4, Node n5, 1 more"
)]
#[case::other_name(
    "config check @new --slo-config-name other",
    "cannot decide: new does not contain ConfigMap koordinator-system/other; it contains ConfigMap koordinator-system/slo-controller-config"
)]
#[case::no_nodes(
    "config check @new --nodes @old",
    "cannot decide: old contains no Node; it contains ConfigMap koordinator-system/slo-controller-config"
)]
#[case::switch(
    "config check @new --switches No=true",
    "cannot decide: unknown switch \"No\""
)]
#[case::not_yaml(
    "config check @bad",
    "cannot decide: bad is not YAML or JSON of Kubernetes objects: "
)]
#[case::not_text(
    "config check @number",
    "cannot decide: number: data[colocation-config] is not a string"
)]
#[case::twice(
    "config check @twice",
    "cannot decide: twice contains ConfigMap koordinator-system/slo-controller-config 2 times"
)]
#[tokio::test]
async fn unusable_input_is_undecided(#[case] command: &str, #[case] reason: &str) {
    let files = Files::new();
    files.write("bad", "a: [\n");
    files.write("number", &config_map(&json!({COLOCATION_CONFIG: 1})).to_string());
    let one = config_map(&json!({}));
    files.write("twice", &format!("{one}\n---\n{one}\n"));
    let error = files.fail(command).await;
    assert_eq!(error.exit_code(), 2);
    let words = words(&error, &files);
    assert!(words.starts_with(reason), "{words}");
}

#[tokio::test]
async fn a_node_is_explained() {
    let files = Files::new();
    let text = files
        .ask("config explain n5 -f @new --nodes @nodes --key colocation-config")
        .await;
    assert_snapshot!(text);
    let json = files
        .ask("config explain n3 -f @new --nodes @nodes -o json")
        .await;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["keys"].as_array().unwrap().len(), 8);
    let values = json["keys"][0]["values"].as_array().unwrap();
    let percent = values
        .iter()
        .find(|value| value["member"] == "cpuReclaimThresholdPercent");
    assert_eq!(
        percent.unwrap(),
        &json!({"member": "cpuReclaimThresholdPercent", "value": 70, "unit": "percent", "from": "entry nodeConfigs[1]"})
    );
    let error = files.fail("config explain n9 -f @new --nodes @nodes").await;
    assert_eq!(error.exit_code(), 1);
    assert_eq!(
        words(&error, &files),
        "node \"n9\" is not among the 6 nodes of nodes"
    );
    let wrong =
        Args::try_parse_from(["kubectl-headroom", "config", "explain", "n1", "--key", "system"]).unwrap_err();
    assert!(
        wrong.to_string().contains("known are colocation-config, "),
        "{wrong}"
    );
}

#[tokio::test]
async fn differences_are_grouped() {
    let files = Files::new();
    assert_snapshot!(files.ask("config diff @new --old @old --nodes @nodes").await);
    assert_eq!(
        files.ask("config diff @new --old @new --nodes @nodes").await,
        "no value changes on 6 nodes\n"
    );
    let json = files
        .ask("config diff @new --old @old --nodes @nodes -o json")
        .await;
    let json: Value = serde_json::from_str(&json).unwrap();
    let first = &json["keys"][0]["groups"][0];
    assert_eq!(first["first_nodes"], json!(["n1", "n4", "n6"]));
    assert_eq!(
        first["changes"][0]["after"],
        json!({"value": 30, "unit": "minutes", "from": "cluster"})
    );
    files.write("bad", &config_map(&json!({COLOCATION_CONFIG: "{"})).to_string());
    assert_eq!(
        files.ask("config diff @bad --old @old --nodes @nodes").await,
        "colocation-config\n  the new version is unreadable, so nodes keep their values: is not JSON:\n  \
         unexpected end of JSON input\n"
    );
}

#[tokio::test]
async fn five_thousand_nodes_are_compared_quickly() {
    let files = Files::new();
    let nodes = (0..5000).map(|node| {
        json!({"kind": "Node", "metadata": {"name": format!("n{node:04}"), "labels": {"pool": format!("p{}", node % 7)}}})
    });
    let list = json!({"kind": "List", "items": nodes.collect::<Value>()});
    files.write("nodes", &list.to_string());
    let began = std::time::Instant::now();
    let text = files.ask("config diff @new --old @old --nodes @nodes").await;
    assert!(text.contains("5000 nodes: n0000, n0001, n0002, ..."), "{text}");
    assert!(began.elapsed() < DEADLINE, "{:?}", began.elapsed());
}

/// A webhook with a stored version and nodes.
async fn showing() -> Running {
    let webhook = Running::start().await;
    let nodes = NODES.map(|(name, labels)| NodeLabels {
        name: name.to_owned(),
        labels: labels
            .iter()
            .map(|&(key, value)| (key.to_owned(), value.to_owned()))
            .collect(),
    });
    let stored = StoredSloConfig {
        resource_version: "7".to_owned(),
        data: [(COLOCATION_CONFIG.to_owned(), STORED.to_owned())].into(),
    };
    let config = GetSloConfigResponse {
        namespace: SLO_CONFIG_NAMESPACE.to_owned(),
        name: SLO_CONFIG.to_owned(),
        known: true,
        stored: Some(stored),
        needs_names: false,
        switches: [("SloFromTheFuture".to_owned(), true)].into(),
    };
    *webhook.slo.lock().unwrap() = (config, nodes.into(), true);
    webhook
}

#[tokio::test]
async fn data_without_a_file_is_fetched_from_the_webhook() {
    let (files, webhook) = (Files::new(), showing().await);
    for (online, offline) in [
        ("config explain n5", "config explain n5 -f @old --nodes @nodes"),
        ("config diff @new", "config diff @new --old @old --nodes @nodes"),
        (
            "config check @old --online",
            "config check @old --old @old --nodes @nodes",
        ),
    ] {
        let words = files.words(online);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        assert_eq!(
            webhook.ask(&words).await.unwrap(),
            files.ask(offline).await,
            "{online}"
        );
    }
    webhook.slo.lock().unwrap().0.needs_names = true;
    let words = files.words("config check @new --online");
    let args = |more: &[&str]| {
        let words = words.iter().map(String::as_str).chain(more.iter().copied());
        webhook.args(&words.collect::<Vec<_>>())
    };
    let (text, _) = printed(args(&[])).await;
    assert!(
        text.contains("each entry needs a name") && text.contains("nodes: 6"),
        "{text}"
    );
    let (text, _) = printed(args(&["--need-check=false"])).await;
    assert!(!text.contains("each entry needs a name"), "{text}");
    let pair =
        json!({"resource-threshold-config": r#"{"clusterStrategy":{"memoryEvictThresholdPercent":70}}"#});
    files.write("new", &config_map(&pair).to_string());
    let switches = [("SloPairsUseDefaults".to_owned(), false)];
    webhook.slo.lock().unwrap().0.switches = switches.into();
    let (text, _) = printed(args(&[])).await;
    assert!(text.contains("memoryEvictLowerPercent"), "{text}");
    let (text, _) = printed(args(&["--compat=headroom"])).await;
    assert!(text.starts_with("accepted"), "{text}");
}

#[tokio::test]
async fn data_that_the_webhook_lacks_is_an_error() {
    let webhook = showing().await;
    let explain = ["config", "explain", "n1"];
    webhook.slo.lock().unwrap().2 = false;
    let error = webhook.ask(&explain).await.unwrap_err();
    assert!(
        error.to_string().contains("does not know all nodes yet"),
        "{error}"
    );
    webhook.slo.lock().unwrap().0.known = false;
    let error = webhook.ask(&explain).await.unwrap_err();
    assert!(
        error
            .to_string()
            .contains("does not know the stored ConfigMap yet"),
        "{error}"
    );
    let other = ["config", "explain", "n1", "--slo-config-name", "other"];
    let error = webhook.ask(&other).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the webhook checks ConfigMap koordinator-system/slo-controller-config, not koordinator-system/other"
    );
    // Without a stored ConfigMap, defaults apply.
    {
        let mut shown = webhook.slo.lock().unwrap();
        (shown.0.known, shown.0.stored, shown.2) = (true, None, true);
    }
    let text = webhook.ask(&explain).await.unwrap();
    assert!(
        text.contains("degradeTimeMinutes") && !text.contains("cluster"),
        "{text}"
    );
}
