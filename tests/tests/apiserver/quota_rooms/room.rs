//! [`QuotaRoom`]: quotas with room for some pods, replicas that keep them, and clients that fill them.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests panic: a returned error has no stack"
)]

use std::time::Duration;

use e2e::{
    balancer::Balancer,
    custom_kinds::QUOTAS,
    namespaces,
    stand::{Stand, until},
};
use futures::{StreamExt as _, stream};
use headroom_domain::names;
use headroom_testbed::{
    accounts,
    cluster::ClusterOptions,
    webhook::{self, DEMO_TIMING, GATES, Served, Webhook},
};
use headroom_webhook::admission::endpoint::Family;
use k8s_openapi::api::{
    core::v1::{Pod, ResourceQuota, ResourceQuotaStatus},
    scheduling::v1::PriorityClass,
};
use kube::{
    Api,
    api::{DynamicObject, ListParams, PostParams},
};
use serde_json::json;
use tokio::sync::watch;

/// The namespace of the pods.
pub(crate) const TEAM: &str = "team";
/// Number of tries of each setting, each with a quota of its own.
pub(crate) const RUNS: usize = 3;
/// Pods that are created in a run.
pub(crate) const PODS: usize = 200;
/// Pods that there is room for.
pub(crate) const ROOM: usize = 50;
pub(crate) const CLIENTS: usize = 20;
/// Maximum time for which an admission by an unverified caller counts that is not stored.
pub(crate) const FREE_AGAIN: Duration = Duration::from_secs(5);
/// A class of pods that a ResourceQuota refuses.
pub(crate) const REFUSED: &str = "refused";

/// Quotas with room for [`ROOM`] pods each, and replicas that keep them.
pub(crate) struct QuotaRoom {
    pub(crate) stand: Stand,
    pub(crate) pods: Api<Pod>,
    way: Balancer,
    pub(crate) replicas: Vec<Webhook>,
    served: Served,
    /// Number of created pods.
    pub(crate) created: watch::Sender<usize>,
}

impl QuotaRoom {
    pub(crate) async fn start(replicas: usize) -> Self {
        Self::start_with(replicas, ClusterOptions::default(), &[]).await
    }

    /// Starts with further flags of the replicas.
    pub(crate) async fn start_with(replicas: usize, options: ClusterOptions, flags: &[String]) -> Self {
        let has_controllers = options.has_controllers;
        let stand = Stand::start_with(options).await;
        stand.install_kinds().await;
        let pods = if has_controllers {
            namespaces::create_alone(&stand, TEAM).await
        } else {
            namespaces::create(&stand, TEAM).await
        };
        let served = Served {
            families: vec![Family::Nodes, Family::Koordinator],
            gates: format!("{GATES},EnableQuotaAdmission=true"),
            ..Served::default()
        };
        accounts::grant(&stand.client, &served.installation, &served.families)
            .await
            .expect("grant rights");
        let flags: Vec<String> = flags.iter().cloned().chain([DEMO_TIMING.to_owned()]).collect();
        let mut started = Vec::new();
        for number in 0..replicas {
            let options = stand
                .options_serving(&format!("webhook-{number}"), served.clone())
                .expect("kubeconfig");
            let replica = Webhook::start(&options.flags(flags.clone())).await;
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
            created: watch::Sender::new(0),
        };
        for run in 0..RUNS {
            room.create_quota(&quota_of(run)).await;
        }
        room.wait_until_kept().await;
        room
    }

    /// Waits until all replicas know all quotas and pods.
    async fn wait_until_kept(&self) {
        for run in 0..RUNS {
            let too_large = pod("probe", run, &(ROOM + 1).to_string(), None);
            until("pods are compared with their quotas", async || {
                for _ in 0..2 * self.replicas.len() {
                    if !self.refuses(&too_large).await {
                        return false;
                    }
                }
                true
            })
            .await;
        }
    }

    /// Restarts the first replica.
    pub(crate) async fn start_again(&mut self) {
        let options = self
            .stand
            .options_serving("webhook-0", self.served.clone())
            .expect("kubeconfig");
        let replica = Webhook::start(&options.flags([DEMO_TIMING])).await;
        self.replicas.push(replica.expect("start the webhook"));
        self.way.replace([self.replicas[0].admission]);
        self.wait_until_kept().await;
    }

    async fn create_quota(&self, name: &str) {
        let quota = json!({
            "apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota",
            "metadata": {"name": name}, "spec": {"max": {"cpu": ROOM}},
        });
        let quota: DynamicObject = serde_json::from_value(quota).expect("a quota");
        let quotas = QUOTAS.api(&self.stand, TEAM);
        until("the quota is created", async || {
            quotas.create(&PostParams::default(), &quota).await.is_ok() || quotas.get(name).await.is_ok()
        })
        .await;
    }

    pub(crate) async fn dry(&self, pod: &Pod) -> kube::Result<Pod> {
        let dry = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        self.pods.create(&dry, pod).await
    }

    pub(crate) async fn refuses(&self, pod: &Pod) -> bool {
        let refused = self.dry(pod).await;
        refused.is_err_and(|error| error.to_string().contains("exceeded quota: "))
    }

    /// Many clients create pods of the quota of that run; every `refused`th is one that a ResourceQuota refuses.
    pub(crate) async fn fill(&self, run: usize, prefix: &str, refused: Option<usize>) {
        let created = stream::iter(0..PODS).for_each_concurrent(CLIENTS, async |number| {
            let is_refused = refused.is_some_and(|every| number.is_multiple_of(every));
            let name = format!("{prefix}-{run}-{number}");
            let pod = pod(&name, run, "1", is_refused.then_some(REFUSED));
            match self.pods.create(&PostParams::default(), &pod).await {
                Ok(_) => self.created.send_modify(|created| *created += 1),
                Err(error) => {
                    let text = error.to_string();
                    let is_down = text.contains("failed calling webhook");
                    assert!(is_down || text.contains("exceeded quota: "), "{text}");
                }
            }
        });
        created.await;
    }

    pub(crate) async fn stored(&self, run: usize) -> usize {
        let params = ListParams::default().labels(&format!("{}={}", names::QUOTA_NAME, quota_of(run)));
        self.pods.list(&params).await.expect("pods").items.len()
    }

    /// A class, and a ResourceQuota that refuses all pods of it after us.
    pub(crate) async fn refuse_class(&self) {
        let class = json!({"metadata": {"name": REFUSED}, "value": 1});
        let class: PriorityClass = serde_json::from_value(class).expect("a class");
        let classes: Api<PriorityClass> = Api::all(self.stand.client.clone());
        let created = classes.create(&PostParams::default(), &class).await;
        created.expect("create the class");
        let selector = json!({"operator": "In", "scopeName": "PriorityClass", "values": [REFUSED]});
        let quota = json!({
            "metadata": {"name": "no-more"},
            "spec": {"hard": {"pods": "0"}, "scopeSelector": {"matchExpressions": [selector]}},
        });
        let quota: ResourceQuota = serde_json::from_value(quota).expect("a quota");
        let quotas: Api<ResourceQuota> = Api::namespaced(self.stand.client.clone(), TEAM);
        let created = quotas.create(&PostParams::default(), &quota).await;
        let mut quota = created.expect("create the quota");
        // No controller runs here that would write the status.
        let hard = quota.spec.as_ref().and_then(|spec| spec.hard.clone());
        quota.status = Some(ResourceQuotaStatus {
            used: hard.clone(),
            hard,
        });
        let replaced = quotas
            .replace_status("no-more", &PostParams::default(), &quota)
            .await;
        replaced.expect("write the quota's status");
        until("the ResourceQuota refuses", async || {
            let refused = self.dry(&pod("probe", 0, "1", Some(REFUSED))).await;
            refused.is_err_and(|error| error.to_string().contains("exceeded quota: no-more"))
        })
        .await;
    }
}

/// The quota of a run.
pub(crate) fn quota_of(run: usize) -> String {
    format!("lab-{run}")
}

/// A Pod of the quota of that run.
pub(crate) fn pod(name: &str, run: usize, cpus: &str, class: Option<&str>) -> Pod {
    let container = json!({"name": "c", "image": "i", "resources": {"requests": {"cpu": cpus}}});
    let mut pod = json!({
        "metadata": {"name": name, "labels": {names::QUOTA_NAME: quota_of(run)}},
        "spec": {"containers": [container], "automountServiceAccountToken": false},
    });
    if let Some(class) = class {
        pod["spec"]["priorityClassName"] = class.into();
    }
    serde_json::from_value(pod).expect("a pod")
}
