//! Pods and the room of their ElasticQuota on a real API server: many clients fill it exactly with one replica, whatever
//! dry runs, refusals behind us and a scheduler do; two replicas go past it by no more than what is on its way.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests panic: a returned error has no stack"
)]

use std::time::{Duration, Instant};

use e2e::{
    balancer::Balancer,
    custom_kinds::QUOTAS,
    namespaces,
    scheduler_double::SchedulerDouble,
    stand::{Stand, until},
};
use futures::{StreamExt as _, stream};
use headroom_domain::names;
use headroom_testbed::{
    accounts,
    cluster::ClusterOptions,
    webhook::{self, DEMO_TIMING, GATES, Served, Webhook},
};
use headroom_webhook::{admission::endpoint::Family, install::manifest::custom_kinds};
use k8s_openapi::{
    api::{
        core::v1::{Pod, ResourceQuota},
        scheduling::v1::PriorityClass,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api,
    api::{DynamicObject, ListParams, PostParams},
};
use rustix::process::Signal;
use serde_json::json;
use tokio::time::sleep;

/// The namespace of the pods.
const TEAM: &str = "team";
/// Pods that are created.
const PODS: usize = 200;
/// Pods that there is room for.
const ROOM: usize = 50;
/// Clients that create them.
const CLIENTS: usize = 20;
/// How long something admitted counts that is not stored, with some time to spare.
const FREE_AGAIN: Duration = Duration::from_secs(45);
/// A class of pods that a ResourceQuota refuses.
const REFUSED: &str = "refused";

/// A quota with room for [`ROOM`] pods, and replicas that keep it.
struct QuotaRoom {
    stand: Stand,
    pods: Api<Pod>,
    way: Balancer,
    replicas: Vec<Webhook>,
    served: Served,
}

impl QuotaRoom {
    async fn start(replicas: usize) -> Self {
        let stand = Stand::start_with(ClusterOptions::default()).await;
        let definitions: Api<CustomResourceDefinition> = Api::all(stand.client.clone());
        for definition in custom_kinds::definitions().expect("definitions") {
            let created = definitions.create(&PostParams::default(), &definition).await;
            created.expect("install the kind");
        }
        let pods = namespaces::create(&stand, TEAM).await;
        let served = Served {
            families: vec![Family::Nodes, Family::Koordinator],
            gates: format!("{GATES},EnableQuotaAdmission=true"),
            ..Served::default()
        };
        accounts::grant(&stand.client, &served.installation, &served.families)
            .await
            .expect("grant rights");
        let mut started = Vec::new();
        for number in 0..replicas {
            let options = stand
                .options_serving(&format!("webhook-{number}"), served.clone())
                .expect("kubeconfig");
            let replica = Webhook::start(&options.flags([DEMO_TIMING])).await;
            started.push(replica.expect("start the webhook"));
        }
        let way = Balancer::start().await;
        way.replace(started.iter().map(|replica| replica.admission));
        webhook::register(&stand.client, &way.url(), &started[0].ca, &served)
            .await
            .expect("register them");
        let room = Self {
            stand,
            pods,
            way,
            replicas: started,
            served,
        };
        room.create_quota("lab", ROOM).await;
        room.create_quota("none", 0).await;
        until("pods are compared with their quotas", async || {
            room.refuses(&pod("probe", "none", None)).await
        })
        .await;
        room
    }

    /// Starts the first replica anew.
    async fn start_again(&mut self) {
        let options = self
            .stand
            .options_serving("webhook-0", self.served.clone())
            .expect("kubeconfig");
        let replica = Webhook::start(&options.flags([DEMO_TIMING])).await;
        self.replicas.push(replica.expect("start the webhook"));
        self.way.replace([self.replicas[0].admission]);
        until("pods are compared with their quotas again", async || {
            self.refuses(&pod("probe", "none", None)).await
        })
        .await;
    }

    async fn create_quota(&self, name: &str, cpus: usize) {
        let quota = json!({
            "apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota",
            "metadata": {"name": name}, "spec": {"max": {"cpu": cpus}},
        });
        let quota: DynamicObject = serde_json::from_value(quota).expect("a quota");
        let quotas = QUOTAS.api(&self.stand, TEAM);
        until("the quota is created", async || {
            quotas.create(&PostParams::default(), &quota).await.is_ok() || quotas.get(name).await.is_ok()
        })
        .await;
    }

    async fn dry(&self, pod: &Pod) -> kube::Result<Pod> {
        let dry = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        self.pods.create(&dry, pod).await
    }

    async fn refuses(&self, pod: &Pod) -> bool {
        let refused = self.dry(pod).await;
        refused.is_err_and(|error| error.to_string().contains("exceeded quota: "))
    }

    /// Many clients create pods; every `refused`th is one that a ResourceQuota refuses.
    async fn fill(&self, prefix: &str, refused: Option<usize>) {
        let created = stream::iter(0..PODS).for_each_concurrent(CLIENTS, async |number| {
            let is_refused = refused.is_some_and(|every| number.is_multiple_of(every));
            let pod = pod(
                &format!("{prefix}-{number}"),
                "lab",
                is_refused.then_some(REFUSED),
            );
            if let Err(error) = self.pods.create(&PostParams::default(), &pod).await {
                let text = error.to_string();
                let is_down = text.contains("failed calling webhook");
                assert!(is_down || text.contains("exceeded quota: "), "{text}");
            }
        });
        created.await;
    }

    async fn stored(&self) -> usize {
        let params = ListParams::default().labels(&format!("{}=lab", names::QUOTA_NAME));
        self.pods.list(&params).await.expect("pods").items.len()
    }
}

fn pod(name: &str, quota: &str, class: Option<&str>) -> Pod {
    let container = json!({"name": "c", "image": "i", "resources": {"requests": {"cpu": 1}}});
    let mut pod = json!({
        "metadata": {"name": name, "labels": {names::QUOTA_NAME: quota}},
        "spec": {"containers": [container], "automountServiceAccountToken": false},
    });
    if let Some(class) = class {
        pod["spec"]["priorityClassName"] = class.into();
    }
    serde_json::from_value(pod).expect("a pod")
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_fill_a_quota_exactly_after_dry_runs_and_beside_a_scheduler() {
    let room = QuotaRoom::start(1).await;
    let scheduler =
        SchedulerDouble::start(&room.stand, "koord-scheduler", "koord-scheduler", "n1", TEAM).await;
    until("the scheduler writes", async || scheduler.quota_writes() > 0).await;
    let dry = stream::iter(0..1_000).for_each_concurrent(CLIENTS, async |number| {
        let pod = pod(&format!("dry-{number}"), "lab", None);
        room.dry(&pod).await.expect("a dry run leaves nothing");
    });
    dry.await;
    room.fill("p", None).await;
    assert_eq!(room.stored().await, ROOM);
    assert!(scheduler.quota_writes() > 2, "it wrote meanwhile");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_is_killed_knows_all_pods_when_it_is_back() {
    let mut room = QuotaRoom::start(1).await;
    let mut victim = room.replicas.remove(0);
    let killing = async {
        until("half of the room is taken", async || {
            room.stored().await >= ROOM / 2
        })
        .await;
        victim.process.signal(Signal::KILL).expect("kill the replica");
    };
    tokio::join!(room.fill("first", None), killing);
    let before = room.stored().await;
    assert!(before <= ROOM, "{before}");
    room.start_again().await;
    room.fill("then", None).await;
    let stored = room.stored().await;
    println!("{before} pods were let in before, {stored} then, with room for {ROOM}");
    assert_eq!(stored, ROOM);
}

#[tokio::test(flavor = "multi_thread")]
async fn room_that_somebody_else_refused_is_there_again() {
    let room = QuotaRoom::start(1).await;
    let class = json!({"metadata": {"name": REFUSED}, "value": 1});
    let class: PriorityClass = serde_json::from_value(class).expect("a class");
    let classes: Api<PriorityClass> = Api::all(room.stand.client.clone());
    classes
        .create(&PostParams::default(), &class)
        .await
        .expect("create the class");
    let selector = json!({"operator": "In", "scopeName": "PriorityClass", "values": [REFUSED]});
    let quota = json!({
        "metadata": {"name": "no-more"},
        "spec": {"hard": {"pods": "0"}, "scopeSelector": {"matchExpressions": [selector]}},
    });
    let quota: ResourceQuota = serde_json::from_value(quota).expect("a quota");
    let quotas: Api<ResourceQuota> = Api::namespaced(room.stand.client.clone(), TEAM);
    quotas
        .create(&PostParams::default(), &quota)
        .await
        .expect("create the quota");
    room.fill("first", Some(2)).await;
    let stored = room.stored().await;
    assert!(stored <= ROOM, "{stored}");
    let began = Instant::now();
    let mut round = 0;
    while room.stored().await < ROOM {
        assert!(began.elapsed() < FREE_AGAIN, "{} of {ROOM}", room.stored().await);
        sleep(Duration::from_secs(5)).await;
        round += 1;
        room.fill(&format!("again-{round}"), None).await;
    }
    assert_eq!(room.stored().await, ROOM);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_replicas_go_past_a_quota_by_what_is_on_its_way_at_most() {
    let room = QuotaRoom::start(2).await;
    room.fill("p", None).await;
    let stored = room.stored().await;
    println!("two replicas let in {stored} pods, with room for {ROOM}");
    // A replica knows what it let in itself; of the other it lacks what the clients have on their way.
    assert!((ROOM..=ROOM + CLIENTS).contains(&stored), "{stored} of {ROOM}");
}
