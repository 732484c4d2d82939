//! Tests of rollouts and of a drain on full nodes, next to raw nodes in the same run: real scheduler, controllers and kubelets, scripted
//! agents.
#![expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]

use std::time::{Duration, Instant};

use e2e::{
    policy_install,
    stand::{Stand, allocatable, annotation, eager_kubelet, until},
    steady_agent::SteadyAgent,
};
use headroom_domain::{hint::Brake, names};
use headroom_testbed::cluster::{ClusterOptions, NodeOptions};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Event, Node, Pod},
};
use kube::{
    Api, ResourceExt as _,
    api::{EvictParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::json;

/// Nodes without amplification, and amplified ones.
const POOLS: [Pool; 2] = [
    Pool {
        name: "raw",
        nodes: ["raw-0", "raw-1"],
        replicas: 16,
    },
    Pool {
        name: "amplified",
        nodes: ["amplified-0", "amplified-1"],
        replicas: 24,
    },
];
/// Pods that fit a raw node of 4 CPUs.
const FIT_RAW: usize = 8;
/// Places hold at most half of the machine: a quarter of 24 pods of 500m leaves two nodes at once.
const CONFIG: &str = "amplification: {mode: auto, target: {cpu: 0.5}}";
/// Limit of the difference between both pools. The scheduler's retries start at 1 s.
const LATER: Duration = Duration::from_secs(10);

/// Nodes that one Deployment fills.
#[derive(Clone, Copy)]
struct Pool {
    name: &'static str,
    nodes: [&'static str; 2],
    replicas: usize,
}

#[tokio::test(flavor = "multi_thread")]
async fn rollout_of_full_nodes_ends_as_on_raw_nodes_and_a_drained_node_is_refilled() {
    let mut stand = Stand::start_with(ClusterOptions::full()).await;
    policy_install::install(&stand).await;
    let webhook = stand.webhook("webhook-0", CONFIG).await;
    stand.register(&webhook).await;
    start_nodes(&mut stand).await;
    let [raw, amplified] = POOLS;
    let mut agents = Vec::new();
    for node in raw.nodes {
        stand.annotate(node, names::MODE, "off").await;
    }
    for node in amplified.nodes {
        agents.push(SteadyAgent::start(&stand, &webhook, node, 150).await);
        stand
            .node_until(node, "amplified to 6", |node| allocatable(node, "cpu") == "6")
            .await;
    }
    for pool in POOLS {
        create(&stand, pool).await;
    }
    until("all nodes are full", async || {
        is_full(&stand, raw).await && is_full(&stand, amplified).await
    })
    .await;
    // The slack is used up: only the requests of pods keep allocatable.
    for agent in &agents {
        agent.set_ratio(100, Brake::Off);
    }
    for node in amplified.nodes {
        stand
            .node_until(node, "kept by its pods alone", |node| {
                annotation(node, names::MARKER).is_some_and(|marker| marker.contains("\"product\":\"4\""))
            })
            .await;
    }

    for pool in POOLS {
        let stamp = json!({"spec": {"template": {"metadata": {"annotations": {"restarted": "1"}}}}});
        deployments(&stand)
            .patch(pool.name, &PatchParams::default(), &Patch::Merge(stamp))
            .await
            .expect("restart the Deployment");
    }
    let [of_raw, of_amplified] = rolled(&stand).await;
    println!(
        "the rollout of 16 pods on raw nodes took {of_raw:?}, that of 24 pods on amplified ones {of_amplified:?}"
    );
    assert!(of_amplified <= of_raw * 3 / 2 + LATER);
    for node in amplified.nodes {
        let node = stand.nodes().get(node).await.expect("read the node");
        assert_eq!(allocatable(&node, "cpu"), "6");
    }

    drain(&stand).await;
    let events: Api<Event> = Api::default_namespaced(stand.client.clone());
    let events = events.list(&ListParams::default()).await.expect("list events");
    assert!(
        events
            .iter()
            .all(|event| event.reason.as_deref() != Some("Preempted"))
    );
}

/// Starts the nodes of both pools.
async fn start_nodes(stand: &mut Stand) {
    for pool in POOLS {
        for node in pool.nodes {
            let options = NodeOptions {
                reserved_cpu_milli: 0,
                ..eager_kubelet(node)
            };
            stand.cluster.start_node(options).await.expect("node");
            label(stand, node, pool.name).await;
        }
    }
}

/// Drains one node of each pool, whose other node is full, and lets pods return.
async fn drain(stand: &Stand) {
    let cordon = async |is_cordoned: bool| {
        for Pool {
            nodes: [_, drained], ..
        } in POOLS
        {
            let patch = json!({"spec": {"unschedulable": is_cordoned}});
            let patched = stand
                .nodes()
                .patch(drained, &PatchParams::default(), &Patch::Merge(patch))
                .await;
            patched.expect("cordon");
        }
    };
    cordon(true).await;
    for Pool {
        nodes: [_, drained], ..
    } in POOLS
    {
        for pod in pods_on(stand, drained).await {
            let evicted = pods(stand).evict(&pod.name_any(), &EvictParams::default()).await;
            evicted.expect("evict a pod");
        }
    }
    until("the nodes are empty", async || {
        let mut left = 0;
        for Pool {
            nodes: [_, drained], ..
        } in POOLS
        {
            left += pods_on(stand, drained).await.len();
        }
        left == 0
    })
    .await;
    for Pool {
        name,
        nodes: [full, _],
        replicas,
    } in POOLS
    {
        assert_eq!(pods_on(stand, full).await.len(), replicas / 2, "{name}");
    }
    cordon(false).await;
    // The drained node starts again at raw allocatable: its history ended with its pods.
    until("as many pods return as fit a raw node", async || {
        let mut is_back = true;
        for Pool {
            nodes: [_, drained], ..
        } in POOLS
        {
            is_back &= pods_on(stand, drained).await.len() >= FIT_RAW;
        }
        is_back
    })
    .await;
}

/// Time until the rollout of each pool was complete.
async fn rolled(stand: &Stand) -> [Duration; 2] {
    let began = Instant::now();
    let mut took: [Option<Duration>; 2] = [None; 2];
    until("both rollouts are complete", async || {
        for (pool, took) in POOLS.into_iter().zip(&mut took) {
            if took.is_none() && is_rolled(stand, pool).await {
                *took = Some(began.elapsed());
            }
        }
        took.iter().all(Option::is_some)
    })
    .await;
    took.map(|took| took.expect("a time"))
}

async fn label(stand: &Stand, node: &str, pool: &str) {
    let patch = json!({"metadata": {"labels": {"pool": pool}}});
    let nodes: Api<Node> = stand.nodes();
    nodes
        .patch(node, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .expect("label the node");
}

fn deployments(stand: &Stand) -> Api<Deployment> {
    Api::default_namespaced(stand.client.clone())
}

fn pods(stand: &Stand) -> Api<Pod> {
    Api::default_namespaced(stand.client.clone())
}

async fn create(stand: &Stand, pool: Pool) {
    let labels = json!({"app": pool.name});
    let deployment = json!({
        "metadata": {"name": pool.name},
        "spec": {
            "replicas": pool.replicas,
            "selector": {"matchLabels": labels},
            "strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "nodeSelector": {"pool": pool.name},
                    "terminationGracePeriodSeconds": 1,
                    "automountServiceAccountToken": false,
                    "containers": [{"name": "main", "image": "main", "resources": {"requests": {"cpu": "500m"}}}],
                },
            },
        },
    });
    let deployment = serde_json::from_value(deployment).expect("a Deployment");
    deployments(stand)
        .create(&PostParams::default(), &deployment)
        .await
        .expect("create a Deployment");
}

async fn pods_of(stand: &Stand, pool: Pool) -> Vec<Pod> {
    let labels = ListParams::default().labels(&format!("app={}", pool.name));
    pods(stand).list(&labels).await.expect("list pods").items
}

async fn pods_on(stand: &Stand, node: &str) -> Vec<Pod> {
    let mut all = pods(stand)
        .list(&ListParams::default())
        .await
        .expect("list pods")
        .items;
    all.retain(|pod| node_of(pod) == Some(node));
    all
}

fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

async fn is_full(stand: &Stand, pool: Pool) -> bool {
    let pods = pods_of(stand, pool).await;
    let running = pods.iter().filter(|pod| {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        phase == Some("Running")
    });
    running.count() == pool.replicas
}

/// True once all pods are those of the last revision, and available.
async fn is_rolled(stand: &Stand, pool: Pool) -> bool {
    let deployment = deployments(stand)
        .get(pool.name)
        .await
        .expect("read the Deployment");
    let replicas = i32::try_from(pool.replicas).ok();
    let Some(status) = deployment.status else {
        return false;
    };
    status.observed_generation == deployment.metadata.generation
        && [
            status.replicas,
            status.updated_replicas,
            status.available_replicas,
        ] == [replicas; 3]
}
