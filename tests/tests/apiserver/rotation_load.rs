//! Rotations of the CA under load: two API servers and a Go client call two replicas behind one address, and each replica
//! restarts while a rotation runs. No call fails.
//!
//! With `HEADROOM_SOAK` set in the environment the Go client makes 1,000 calls a second for at least a minute, and two rotations
//! follow each other; otherwise 100 calls a second during one rotation.
#![expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use e2e::{
    admission::review,
    balancer::Balancer,
    node_writer,
    stand::{Stand, until},
};
use headroom_domain::names;
use headroom_testbed::{
    cluster::ClusterOptions,
    policies,
    webhook::{Webhook, register_without_bundle},
};
use k8s_openapi::api::{
    admissionregistration::v1::MutatingWebhookConfiguration,
    core::v1::{ConfigMap, Node, Secret},
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{Patch, PatchParams, PostParams},
};
use rustix::process::Signal;
use serde::Deserialize;
use serde_json::json;
use tokio::{
    sync::watch,
    task::{JoinHandle, JoinSet, spawn_blocking},
    time::sleep,
};
use xtask::setup::controlplane::{self, Component};

/// Flags that shorten the waits of a rotation.
const FAST: [&str; 3] = ["--allow-demo-timing", "--rotation-wait-seconds", "2"];

/// ClientLoad of the Go client.
struct ClientLoad {
    rate: u32,
    seconds: u32,
    rotations: u32,
}

/// Printed by `callload`.
#[derive(Debug, Deserialize)]
struct CallLoadResult {
    sent: u32,
    failed: u32,
    errors: serde_json::Value,
}

fn load() -> ClientLoad {
    if env::var_os("HEADROOM_SOAK").is_some() {
        ClientLoad {
            rate: 1000,
            seconds: 120,
            rotations: 2,
        }
    } else {
        ClientLoad {
            rate: 100,
            seconds: 30,
            rotations: 1,
        }
    }
}

/// Two managed replicas behind one address.
struct ManagedReplicas {
    running: [Webhook; 2],
    service: Balancer,
}

async fn managed(stand: &Stand, name: &str) -> Webhook {
    let options = stand.webhook_options(name, "{}").managed().flags(FAST);
    Webhook::start(&options).await.expect("start the webhook")
}

impl ManagedReplicas {
    async fn start(stand: &Stand) -> Self {
        let running = [
            managed(stand, "webhook-0").await,
            managed(stand, "webhook-1").await,
        ];
        let service = Balancer::start().await;
        service.replace(running.iter().map(|replica| replica.admission));
        Self { running, service }
    }

    /// Ends a replica as a kubelet does, and starts it again.
    async fn restart(&mut self, stand: &Stand, is_first: bool) {
        let [first, second] = &mut self.running;
        let (replica, other, name) = if is_first {
            (first, second, "webhook-0")
        } else {
            (second, first, "webhook-1")
        };
        self.service.replace([other.admission]);
        let ended = &mut replica.process;
        ended.signal(Signal::TERM).expect("end a replica");
        until("the replica has ended", async || {
            ended.status().expect("its status").is_some()
        })
        .await;
        *replica = managed(stand, name).await;
        self.service
            .replace(self.running.iter().map(|replica| replica.admission));
    }
}

/// The policies for the webhook's own writes, and the agents' ConfigMap: a rotation waits until it has the bundle.
async fn install(stand: &Stand) {
    policies::put_own_writes(&stand.client).await.expect("policies");
    let config_maps: Api<ConfigMap> = Api::namespaced(stand.client.clone(), names::AGENT_NAMESPACE);
    let config_map = json!({"metadata": {"name": names::AUTHORITIES_CONFIG_MAP}});
    let config_map = serde_json::from_value(config_map).expect("a ConfigMap");
    let created = config_maps.create(&PostParams::default(), &config_map).await;
    created.expect("the ConfigMap");
}

fn secrets(stand: &Stand) -> Api<Secret> {
    Api::namespaced(stand.client.clone(), names::NAMESPACE)
}

async fn state(stand: &Stand) -> String {
    let secret = secrets(stand).get(names::CERTIFICATES_SECRET).await;
    secret.expect("the Secret").annotations()["headroom.sh/rotation-state"].clone()
}

async fn until_state(stand: &Stand, wanted: &str) {
    until(wanted, async || state(stand).await == wanted).await;
}

async fn demand(stand: &Stand, reason: &str) {
    let patch = Patch::Merge(json!({"metadata": {"annotations": {"headroom.sh/rotate": reason}}}));
    secrets(stand)
        .patch(names::CERTIFICATES_SECRET, &PatchParams::default(), &patch)
        .await
        .expect("annotate the Secret");
}

/// Bundle of the nodes' entry; `None` until it is there.
async fn bundle(client: &Client) -> Option<Vec<u8>> {
    let configurations: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let configuration = configurations.get(names::WEBHOOK_CONFIGURATION).await.ok()?;
    let entry = configuration.webhooks?.into_iter().next()?;
    Some(entry.client_config.ca_bundle?.0)
}

/// Keeps a file equal to the stored bundle, as an API server keeps its clients.
fn follow_bundle(client: Client, file: PathBuf) -> JoinHandle<()> {
    tokio::spawn(async move {
        loop {
            if let Some(bundle) = bundle(&client).await {
                let fresh = file.with_extension("new");
                fs::write(&fresh, bundle).expect("write the bundle");
                fs::rename(&fresh, &file).expect("replace the bundle");
            }
            sleep(Duration::from_millis(100)).await;
        }
    })
}

/// Runs the Go client to its end.
fn call(program: PathBuf, url: &str, folder: &Path, load: &ClientLoad) -> JoinHandle<CallLoadResult> {
    let mut command = Command::new(program);
    command
        .args(["-url", &format!("{url}/mutate-node-status")])
        .arg("-ca")
        .arg(folder.join("bundle.pem"))
        .arg("-review")
        .arg(folder.join("review.json"))
        .args([
            "-rate",
            &load.rate.to_string(),
            "-seconds",
            &load.seconds.to_string(),
        ])
        .stderr(Stdio::inherit());
    spawn_blocking(move || {
        let output = command.output().expect("run callload");
        assert!(output.status.success(), "callload fails");
        serde_json::from_slice(&output.stdout).expect("its result")
    })
}

/// Rotates the CA that many times; each replica restarts once in each rotation.
async fn rotate(stand: &Stand, replicas: &mut ManagedReplicas, rotations: u32) {
    for rotation in 0..rotations {
        let before = bundle(&stand.client).await.expect("a bundle");
        demand(stand, &format!("rotation {rotation}")).await;
        until_state(stand, "next-published").await;
        replicas.restart(stand, true).await;
        until("the state after it", async || {
            state(stand).await != "next-published"
        })
        .await;
        replicas.restart(stand, false).await;
        until_state(stand, "stable").await;
        until("the old CA is retired", async || {
            bundle(&stand.client)
                .await
                .is_some_and(|bundle| bundle.len() <= before.len() + 8 && bundle != before)
        })
        .await;
    }
}

/// Writes the review and the bundle for the Go client.
async fn write_inputs(stand: &Stand, folder: &Path) {
    let node = serde_json::to_value(stand.nodes().get("n1").await.expect("the node")).expect("JSON");
    fs::write(folder.join("review.json"), review(&node, &node)).expect("write the review");
    let bundle = bundle(&stand.client).await.expect("a bundle");
    fs::write(folder.join("bundle.pem"), bundle).expect("write the bundle");
}

#[tokio::test(flavor = "multi_thread")]
async fn rotations_and_restarts_fail_no_call_of_two_api_servers_and_of_a_go_client() {
    let load = load();
    let built = spawn_blocking(|| controlplane::ensure(&[Component::CallLoad]).expect("build callload"));
    let program = built.await.expect("its path")[&Component::CallLoad].path.clone();
    let mut stand = Stand::start_with(ClusterOptions::default()).await;
    install(&stand).await;
    let second = stand
        .cluster
        .start_second_apiserver()
        .await
        .expect("a second API server");
    let mut replicas = ManagedReplicas::start(&stand).await;
    register_without_bundle(
        &stand.client,
        &replicas.service.url(),
        &replicas.running[0].served,
    )
    .await
    .expect("register");
    let servers = [(stand.client.clone(), "n1"), (second, "n2")];
    for (client, name) in &servers {
        stand.create_node(name, "4", "8Gi").await;
        stand.annotate_ratio(name, 150).await;
        let nodes: Api<Node> = Api::all(client.clone());
        node_writer::until_amplified(&nodes, name).await;
    }

    let folder = stand.cluster.dir().to_owned();
    write_inputs(&stand, &folder).await;
    let following = follow_bundle(stand.client.clone(), folder.join("bundle.pem"));
    let (stop_tx, stop) = watch::channel(false);
    let mut writers = JoinSet::new();
    for (client, name) in servers {
        writers.spawn(node_writer::write(Api::all(client), name, stop.clone()));
    }
    let calls = call(program, &replicas.service.url(), &folder, &load);

    rotate(&stand, &mut replicas, load.rotations).await;
    let calls = calls.await.expect("the Go client");
    stop_tx.send_replace(true);
    following.abort();
    let mut writes = 0;
    while let Some(written) = writers.join_next().await {
        writes += written.expect("no write fails");
    }
    println!("{writes} writes through two API servers; {calls:?}");
    assert_eq!(
        (calls.failed, calls.sent),
        (0, load.rate * load.seconds),
        "{calls:?}"
    );
    assert!(
        calls.errors.as_object().is_some_and(serde_json::Map::is_empty),
        "{calls:?}"
    );
    assert!(writes > 200, "{writes} writes are no load");
}
