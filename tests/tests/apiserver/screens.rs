//! Tests that docs/reference/screens.md shows what each command prints on terminals of 80 and 120 columns: all
//! commands run in a cluster with three nodes, and the page must contain the same output.
#![expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]

use std::{collections::BTreeSet, env, fs, process::Command};

use clap::CommandFactory as _;
use e2e::{
    agent::AgentNode,
    custom_kinds::{PROFILES, QUOTAS},
    namespaces, policy_install,
    prometheus::Prometheus,
    prometheus_samples::{DAYS, UNTIL, past},
    scripted_agent::{ScriptedAgent, hint},
    stand::{AUTO, Stand, allocatable, until},
    terminal::{Printed, Terminal},
    transcript::{Sameness, Transcript},
};
use headroom_domain::{
    hint::{Brake, Calibration, Highs, NodeHint, Progress},
    names,
    ratio::Cents,
};
use headroom_testbed::{
    accounts,
    cluster::ClusterOptions,
    webhook::{GATES, Webhook},
};
use headroom_webhook::admission::endpoint::Family;
use k8s_openapi::api::{
    core::v1::{ConfigMap, Node, Pod},
    scheduling::v1::PriorityClass,
};
use kube::{
    Api, ResourceExt as _,
    api::{DynamicObject, Patch, PatchParams, PostParams},
};
use kubectl_headroom::Args;
use serde_json::{Value, json};
use xtask::workspace;

/// With the value `write`, the test writes the page.
const SWITCH: &str = "HEADROOM_SCREENS";
const PAGE: &str = "docs/reference/screens.md";
const NARROW: Terminal = Terminal::with_columns(80);
const WIDE: Terminal = Terminal::with_columns(120);
const GIB: u64 = 1 << 30;
const TEAM: &str = "shop";

/// Commands without a screen, and why.
const WITHOUT: [(&str, &str); 3] = [
    (
        "uninstall",
        "its plan lists every object of an installation, which these programs are not",
    ),
    ("agent watch", "it prints a line for each period until Ctrl-C"),
    ("completions", "it prints a program for a shell"),
];

/// A version of Koordinator's ConfigMap that is stored, and a newer one that cannot be.
const STORED: &str = r#"{"enable":true,"degradeTimeMinutes":20,"nodeConfigs":[
    {"name":"dense","nodeSelector":{"matchLabels":{"pool":"dense"}},"degradeTimeMinutes":5}]}"#;
const NEWER: &str = r#"{"enable":true,"degradeTimeMinutes":30,"nodeConfigs":[
    {"name":"dense","nodeSelector":{"matchLabels":{"pool":"dense"}},"degradeTimeMinutes":6}]}"#;
const WRONG: &str = r#"{"enable":true,"cpuReclaimThresholdPercent":"65","degradeTimeMinute":5}"#;

/// The cluster and its clients.
struct ShownCluster {
    stand: Stand,
    webhook: Webhook,
    token: String,
    _agents: Vec<ScriptedAgent>,
    agent: AgentNode,
    prometheus: Prometheus,
    transcript: Transcript,
}

fn config_map(colocation: &str) -> Value {
    let metadata = json!({"name": names::SLO_CONFIG, "namespace": names::SLO_CONFIG_NAMESPACE});
    let data = json!({names::COLOCATION_CONFIG: colocation});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
}

fn profile() -> Value {
    json!({
        "selector": {"matchLabels": {"app": "web"}}, "qosClass": "BE", "priorityClassName": "koord-batch",
        "labels": {"team": TEAM},
    })
}

fn class() -> Value {
    json!({"metadata": {"name": "koord-batch"}, "value": 5_000})
}

fn pod(name: &str) -> Value {
    let resources = json!({"requests": {"cpu": "1", "memory": "1Gi"}});
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": TEAM, "labels": {"app": "web", names::QUOTA_NAME: "lab"}},
        "spec": {"containers": [{"name": "main", "image": "i", "resources": resources}]},
    })
}

/// Creates an object of a kind that the client knows.
async fn create<K>(api: &Api<K>, object: Value)
where
    K: Clone + std::fmt::Debug + serde::Serialize + serde::de::DeserializeOwned + Send + Sync,
{
    let object: K = serde_json::from_value(object).expect("an object");
    api.create(&PostParams::default(), &object)
        .await
        .expect("create it");
}

/// Kinds, profile, class, ConfigMap and quotas.
async fn install_koordinator(stand: &Stand) {
    stand.install_kinds().await;
    let namespace = accounts::create_namespace(&stand.client, names::SLO_CONFIG_NAMESPACE).await;
    namespace.expect("create the namespace");
    create::<PriorityClass>(&Api::all(stand.client.clone()), class()).await;
    let maps: Api<ConfigMap> = Api::namespaced(stand.client.clone(), names::SLO_CONFIG_NAMESPACE);
    create(&maps, config_map(STORED)).await;
    until("profiles can be created", async || {
        let object = json!({"metadata": {"name": "batch"}, "spec": profile()});
        let api = PROFILES.api(stand, "");
        let mut object: DynamicObject = serde_json::from_value(object).expect("a profile");
        object.types = Some(PROFILES.resource()).map(|resource| kube::api::TypeMeta {
            api_version: resource.api_version,
            kind: resource.kind,
        });
        api.create(&PostParams::default(), &object).await.is_ok() || api.get("batch").await.is_ok()
    })
    .await;
}

async fn create_quota(stand: &Stand, name: &str, labels: Value) {
    let quota = json!({
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota",
        "metadata": {"name": name, "labels": labels}, "spec": {"min": {"cpu": 2}, "max": {"cpu": 4}},
    });
    let quota: DynamicObject = serde_json::from_value(quota).expect("a quota");
    let quotas = QUOTAS.api(stand, TEAM);
    until("the quota is created", async || {
        quotas.create(&PostParams::default(), &quota).await.is_ok() || quotas.get(name).await.is_ok()
    })
    .await;
}

/// A pod that runs on a node and asks for 3 CPUs and 6 GiB.
async fn run_pod(stand: &Stand, node: &str) {
    let pods: Api<Pod> = Api::namespaced(stand.client.clone(), names::AGENT_NAMESPACE);
    let (name, resources) = (
        format!("of-{node}"),
        json!({"requests": {"cpu": "3", "memory": "6Gi"}}),
    );
    let object = json!({
        "metadata": {"name": name},
        "spec": {
            "nodeName": node,
            "serviceAccountName": names::AGENT_SERVICE_ACCOUNT,
            "automountServiceAccountToken": false,
            "containers": [{"name": "main", "image": "main", "resources": resources}],
        },
    });
    create(&pods, object).await;
    let status = json!({"status": {"phase": "Running"}});
    pods.patch_status(&name, &PatchParams::default(), &Patch::Merge(status))
        .await
        .expect("report the pod as running");
}

/// Report of an agent on a node of 4 CPUs and 8 GiB with that pod, in which each number follows from those before it.
fn measured(node: &str, node_uid: &str, brake: Brake) -> NodeHint {
    let mut report = hint(node, node_uid, 7, 132);
    let margin = Calibration {
        accumulator_ppm: 100_000,
        is_latched: false,
    };
    let cpu = &mut report.resources.cpu;
    (cpu.capacity, cpu.usage, cpu.warm_requests) = (4_000, 900, 2_800);
    (cpu.peak, cpu.predicted_peak) = (1_000, 1_100);
    let memory = &mut report.resources.memory;
    (memory.capacity, memory.usage, memory.warm_requests) = (8 * GIB, 2 * GIB, 5 * GIB);
    (memory.peak, memory.predicted_peak) = (2_684_354_560, 2_952_790_016);
    (memory.target, memory.published) = (Cents(118), Cents(115));
    memory.reasons = vec!["rising".to_owned()];
    if brake != Brake::Off {
        memory.brake = brake;
        memory.reasons = vec!["memory-pressure".to_owned()];
    }
    for part in [&mut report.resources.cpu, &mut report.resources.memory] {
        (part.coverage_ppm, part.margin_ppm) = (1_000_000, margin.accumulator_ppm);
        part.calibration = Some(margin);
        (part.peak_age_frames, part.highs) = (
            36,
            Some(Highs {
                highest: part.peak,
                last: part.usage,
                climb: 0,
            }),
        );
        part.progress = Some(Progress {
            stepped: part.published,
            agreeing_frames: 2,
        });
    }
    report
}

/// The stream of a node's agent.
async fn reporting(stand: &Stand, webhook: &Webhook, node: &Node, brake: Brake) -> ScriptedAgent {
    let mut report = measured(&node.name_any(), &node.uid().expect("a UID"), brake);
    let mut agent = stand.agent(node, webhook).await;
    agent.report(&report).await.expect("an answer");
    let listed = agent.pods_until(|listed| listed.pods.len() == 1).await;
    report.pods_generation = listed.expect("pods").generation;
    report.seq += 1;
    agent.report(&report).await.expect("an answer");
    agent
}

impl ShownCluster {
    async fn start() -> Self {
        let stand = Stand::start_with(ClusterOptions::default()).await;
        policy_install::install(&stand).await;
        install_koordinator(&stand).await;
        let pods = namespaces::create(&stand, TEAM).await;
        let gates = format!("{GATES},EnableQuotaAdmission=true,ConfigMapValidatingWebhook=true");
        let families = [Family::Nodes, Family::Koordinator];
        let webhook = stand.serving("webhook-0", AUTO, &families, &gates).await;
        create_quota(&stand, "dept", json!({names::QUOTA_IS_PARENT: "true"})).await;
        create_quota(&stand, "lab", json!({names::QUOTA_PARENT: "dept"})).await;
        let mut agents = Vec::new();
        for (name, mode, brake) in [
            ("worker-1", "auto", Brake::Off),
            ("worker-2", "guard", Brake::Hold),
        ] {
            stand.create_node(name, "4", "8Gi").await;
            run_pod(&stand, name).await;
            stand.annotate_ratio(name, 150).await;
            let node = stand.annotate(name, names::MODE, mode).await;
            agents.push(reporting(&stand, &webhook, &node, brake).await);
            let is_amplified = |node: &Node| allocatable(node, "cpu") == "5280m";
            stand.node_until(name, "amplified by 1.32", is_amplified).await;
        }
        stand.create_node("worker-3", "2", "4Gi").await;
        stand.create_node("worker-4", "4", "8Gi").await;
        run_pod(&stand, "worker-4").await;
        let watched = stand.annotate("worker-4", names::MODE, "static").await;
        agents.push(reporting(&stand, &webhook, &watched, Brake::Off).await);
        until("the pod is created with its profile", async || {
            let pod: Pod = serde_json::from_value(pod("web-0")).expect("a pod");
            pods.create(&PostParams::default(), &pod).await.is_ok()
        })
        .await;
        let token = accounts::debug_token(&stand.client).await.expect("a token");
        let shown = Self {
            token,
            webhook,
            _agents: agents,
            agent: AgentNode::start().await,
            prometheus: Prometheus::over(past()).await,
            transcript: Transcript::default(),
            stand,
        };
        shown.write_files();
        shown
    }

    /// The files that commands are given.
    fn write_files(&self) {
        let dir = self.stand.cluster.dir();
        let cluster = json!({"apiVersion": "v1", "kind": "List", "items": [
            {"apiVersion": "config.koordinator.sh/v1alpha1", "kind": "ClusterColocationProfile",
             "metadata": {"name": "batch"}, "spec": profile()},
            {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "koord-batch"}, "value": 5_000},
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TEAM}},
        ]});
        for (name, object) in [
            ("new.yaml", config_map(NEWER)),
            ("wrong.yaml", config_map(WRONG)),
            ("pod.yaml", pod("web-1")),
            ("cluster.yaml", cluster),
        ] {
            fs::write(dir.join(name), object.to_string()).expect("write");
        }
        headroom_testbed::agent::write_secret(&dir.join("token"), &self.token).expect("write");
    }

    /// Runs a command on both terminals as a user types it; the flags in `besides` give the cluster's address.
    fn show(&mut self, line: &str, sameness: Sameness, besides: &[&str]) {
        let ask = |terminal: Terminal| -> Printed {
            let dir = self.stand.cluster.dir();
            let mut command = Command::new(&self.stand.programs.cli);
            command.env_clear().current_dir(dir);
            command.args(line.split(' ')).args(besides);
            let mut printed = terminal.run(command);
            // Values that a user's command line does not have.
            for (own, shown) in [
                (self.prometheus.url.as_str(), "http://127.0.0.1:9090"),
                (&self.webhook.hints.to_string(), "127.0.0.1:9444"),
            ] {
                printed.text = printed.text.replace(own, shown);
            }
            printed
        };
        let screens = [ask(NARROW), ask(WIDE)];
        self.transcript
            .add(&format!("kubectl headroom {line}"), sameness, screens);
    }

    /// A terminal has colours, unless the variable of all programs is set.
    fn assert_colours(&self, flags: &[&str]) {
        for (no_color, is_styled) in [(None, true), (Some("1"), false), (Some(""), true)] {
            let mut command = Command::new(&self.stand.programs.cli);
            command.env_clear().current_dir(self.stand.cluster.dir());
            command.envs(no_color.map(|value| ("NO_COLOR", value)));
            command.arg("top").args(flags);
            assert_eq!(NARROW.run(command).is_styled, is_styled, "NO_COLOR={no_color:?}");
        }
    }

    fn show_all(&mut self) {
        let (hints, ca) = (
            self.webhook.hints.to_string(),
            self.webhook.ca.display().to_string(),
        );
        let kubeconfig = self.stand.cluster.kubeconfig().display().to_string();
        let debug = ["--addr", &hints, "--ca-file", &ca, "--token-file", "token"];
        self.assert_colours(&debug);
        for line in [
            "top",
            "top -o wide",
            "explain worker-1",
            "explain worker-2",
            "explain worker-4",
            "explain worker-1 --why",
            "hints",
            "config check wrong.yaml",
            "config check new.yaml",
            "config explain worker-1",
            "config diff new.yaml",
            "pod explain shop/web-0",
            "pod explain -f pod.yaml --profiles cluster.yaml",
            "quota tree --usage",
            "quota explain lab",
            "reasons hint-held",
            "version",
            "check",
        ] {
            let is_offline = ["config check", "pod explain -f", "reasons"]
                .iter()
                .any(|start| line.starts_with(start));
            self.show(line, Sameness::Figures, if is_offline { &[] } else { &debug });
        }
        self.show("check --pre", Sameness::Figures, &["--kubeconfig", &kubeconfig]);
        let prometheus = self.prometheus.url.clone();
        let (last, days) = (UNTIL.to_string(), DAYS.to_string());
        let past = [
            "--prometheus",
            &prometheus,
            "--until",
            &last,
            "--days",
            &days,
            "--pool-label",
            "label_pool",
        ];
        self.show("advise", Sameness::Figures, &past);
        let socket = self.agent.socket().display().to_string();
        for line in ["agent status", "agent signals", "agent pods", "agent histogram"] {
            self.show(line, Sameness::Rows, &["--socket", &socket]);
        }
        self.show(
            "off --now --node worker-2",
            Sameness::Figures,
            &["--kubeconfig", &kubeconfig],
        );
        self.show("off --now", Sameness::Figures, &["--kubeconfig", &kubeconfig]);
    }
}

/// The commands that do something, as typed.
fn commands() -> BTreeSet<String> {
    fn below(command: &clap::Command, path: &str, found: &mut BTreeSet<String>) {
        for deeper in command
            .get_subcommands()
            .filter(|deeper| deeper.get_name() != "help")
        {
            let path = format!("{path} {}", deeper.get_name()).trim().to_owned();
            if deeper.has_subcommands() {
                below(deeper, &path, found);
            } else {
                found.insert(path);
            }
        }
    }
    let mut found = BTreeSet::new();
    below(&Args::command(), "", &mut found);
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn screens_page_equals_the_output_of_each_command() {
    let mut shown = ShownCluster::start().await;
    let mut agent = shown.agent.agent("procfs").await;
    agent
        .status_until("it measures", |status| status.mode == "PROC")
        .await;
    tokio::task::block_in_place(|| shown.show_all());
    let page = shown.transcript.page();
    for command in commands() {
        let has_screen = page.contains(&format!("`kubectl headroom {command}"));
        let is_left_out = WITHOUT.iter().any(|(without, _)| *without == command);
        assert!(has_screen != is_left_out, "{command}");
    }
    let file = workspace::root().join(PAGE);
    if env::var(SWITCH).is_ok_and(|word| word == "write") {
        fs::write(file, page).expect("write the page");
        return;
    }
    let kept = fs::read_to_string(file).expect(PAGE);
    let [kept, now] = [&kept, &page].map(|page| shown.transcript.lasting(page));
    for (line, (kept, now)) in kept.iter().zip(&now).enumerate() {
        assert_eq!(
            kept,
            now,
            "line {} of {PAGE}; {SWITCH}=write writes it again",
            line + 1
        );
    }
    assert_eq!(kept.len(), now.len(), "{PAGE} is cut");
}
