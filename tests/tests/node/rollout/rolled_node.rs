//! [`RolledNode`] is the product on a node whose pods of controllers request nearly all of it, and measures their rollouts.

use std::{
    collections::BTreeMap,
    io::Write as _,
    time::{Duration, Instant},
};

use e2e::product::{Changes, NODE, Product, ProductOptions, is_ready};
use headroom_domain::{names, resource::Resource};
use headroom_testbed::real_node::pods::{self, BUSYBOX};
use k8s_openapi::api::core::v1::Pod;
use kube::{ResourceExt, api::ListParams};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::product::workload::{cpu, requested};

/// Request of the pod of each controller, in milli-cores: less than 20 % of raw allocatable, and most of the slack of the node.
pub(crate) const REQUEST: u64 = 350;
/// Highest ratio, in hundredths: the node is full with few pods.
const HIGHEST: u64 = 110;
/// Highest use that is safe, in hundredths. Low: places hold at most the rest of the machine.
const TARGET: u64 = 60;
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Controllers whose pods are rolled out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Controller {
    DaemonSet,
    Deployment,
    StatefulSet,
}

/// Result of a rollout.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rollout {
    /// Longest time in which one pod was not bound while no other pod was ending.
    pub(crate) waited: Duration,
    /// True if the webhook recorded a place.
    pub(crate) had_place: bool,
}

/// A node whose pods request all of raw allocatable, and later all of the amplified one.
pub(crate) struct RolledNode {
    pub(crate) product: Product,
    /// Milli-cores.
    pub(crate) raw: u64,
}

impl RolledNode {
    /// A node in mode `static`, full at raw: these controllers with one pod each, after the `volumes` that they claim, and an idle pod.
    pub(crate) async fn raw(volumes: &[Value], controllers: &[(&str, Value)]) -> Self {
        let hundredths = |value: u64| format!("{}.{:02}", value / 100, value % 100);
        let configuration = format!(
            "amplification: {{bounds: {{cpu: {{max: {}}}}}, target: {{cpu: {}}}}}\n",
            hundredths(HIGHEST),
            hundredths(TARGET)
        );
        let changes = Changes {
            configuration: Some(configuration),
            ..Changes::default()
        };
        let product = Product::start(ProductOptions {
            changes,
            ..ProductOptions::default()
        })
        .await;
        let raw = cpu(&product.stored_node().await);
        let node = Self { product, raw };
        for volume in volumes {
            node.apply(volume);
        }
        for (name, object) in controllers {
            node.apply(object);
            node.product
                .until("its pod runs", async || {
                    node.pods_of(name).await.iter().any(is_ready)
                })
                .await;
        }
        node.fill("first", raw).await;
        node
    }

    /// Applies an object with kubectl.
    pub(crate) fn apply(&self, object: &Value) {
        let mut file = tempfile::NamedTempFile::new().expect("make a file");
        file.write_all(object.to_string().as_bytes())
            .expect("write a file");
        self.kubectl(&["apply", "-f", file.path().to_str().expect("a path in UTF-8")]);
    }

    /// Amplifies the node, fills it, and keeps one CPU busy: the slack of the other pods does not make up for one that leaves.
    pub(crate) async fn amplify(&self) {
        self.product.annotate(names::MODE, "auto").await;
        let full = self.raw * HIGHEST / 100;
        self.product
            .until_idle("the node is amplified to its bound", async || {
                cpu(&self.product.stored_node().await) >= full
            })
            .await;
        self.fill("second", full).await;
        let busy = pods::burner("busy", 1, &Value::Null).expect("a pod");
        pods::run(&self.product.pods(), &busy).await.expect("run a pod");
        let least = i64::try_from(REQUEST).expect("a number");
        self.product
            .status_until("the agent has measured the load", |status| {
                status
                    .resource(Resource::Cpu)
                    .is_some_and(|cpu| cpu.slack < least)
            })
            .await;
    }

    /// Runs an idle pod that requests all of this total that other pods leave.
    async fn fill(&self, name: &str, total: u64) {
        let request = total - requested(&self.product).await;
        let pod = pods::idle(name, &json!({"requests": {"cpu": format!("{request}m")}})).expect("a pod");
        pods::run(&self.product.pods(), &pod).await.expect("run a pod");
    }

    /// Pods of a controller of that name.
    pub(crate) async fn pods_of(&self, name: &str) -> Vec<Pod> {
        let labels = ListParams::default().labels(&format!("app={name}"));
        self.product.pods().list(&labels).await.expect("list pods").items
    }

    /// Runs kubectl, which must succeed.
    pub(crate) fn kubectl(&self, arguments: &[&str]) {
        let output = self.product.kubectl(arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
    }

    /// UIDs of the pods of a controller.
    pub(crate) async fn uids_of(&self, name: &str) -> Vec<String> {
        let pods = self.pods_of(name).await;
        pods.iter().filter_map(ResourceExt::uid).collect()
    }

    /// Rolls a controller out by running kubectl.
    pub(crate) async fn roll(&self, name: &str, arguments: &[&str]) -> Rollout {
        let old = self.uids_of(name).await;
        self.kubectl(arguments);
        self.until_rolled(name, &old).await
    }

    /// Waits until pods of a controller other than the old ones are Ready, and no others are left.
    pub(crate) async fn until_rolled(&self, name: &str, old: &[String]) -> Rollout {
        let began = Instant::now();
        let (mut waiting, mut had_place) = (BTreeMap::<String, Instant>::new(), false);
        let (mut waited, mut last) = (Duration::ZERO, String::new());
        self.product
            .until("the new pod is the only one, and Ready", async || {
                sleep(LOOK_EVERY).await;
                let pods = self.pods_of(name).await;
                let node = self.product.stored_node().await;
                had_place |= node
                    .annotations()
                    .get(names::MARKER)
                    .is_some_and(|marker| marker.contains("\"places\""));
                let is_ending = pods.iter().any(|pod| pod.metadata.deletion_timestamp.is_some());
                for pod in &pods {
                    let is_bound = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
                    if is_bound || is_ending {
                        waiting.remove(&pod.name_any());
                    } else {
                        let since = waiting.entry(pod.name_any()).or_insert_with(Instant::now);
                        waited = waited.max(since.elapsed());
                    }
                }
                let state = format!(
                    "allocatable {}m, requested {}m, {}",
                    cpu(&node),
                    requested(&self.product).await,
                    phases(&pods)
                );
                if state != last {
                    println!("{name} {:.1} s: {state}", began.elapsed().as_secs_f64());
                    last = state;
                }
                let is_new = |pod: &Pod| pod.uid().is_some_and(|uid| !old.contains(&uid));
                !pods.is_empty() && pods.iter().all(|pod| is_ready(pod) && is_new(pod))
            })
            .await;
        Rollout { waited, had_place }
    }

    /// Number of pods that the scheduler has preempted.
    pub(crate) async fn preempted(&self) -> usize {
        let events = self.product.events("default").await;
        events.iter().filter(|(reason, _)| reason == "Preempted").count()
    }
}

/// Phase of each pod, and whether it is being deleted.
fn phases(pods: &[Pod]) -> String {
    let phase = |pod: &Pod| {
        let phase = pod.status.as_ref().and_then(|status| status.phase.clone());
        let end = pod
            .metadata
            .deletion_timestamp
            .as_ref()
            .map_or("", |_| " and being deleted");
        format!("{} {}{end}", pod.name_any(), phase.unwrap_or_default())
    };
    pods.iter().map(phase).collect::<Vec<_>>().join(", ")
}

impl Controller {
    /// A controller of one pod that requests [`REQUEST`] and needs `grace` seconds to end.
    pub(crate) fn object(self, name: &str, grace: u32) -> Value {
        self.with_request(name, grace, REQUEST)
    }

    /// Like [`Self::object`], for a request in milli-cores.
    pub(crate) fn with_request(self, name: &str, grace: u32, milli: u64) -> Value {
        let labels = json!({"app": name});
        let mut spec = json!({
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "terminationGracePeriodSeconds": grace,
                    "automountServiceAccountToken": false,
                    "containers": [{
                        "name": "busybox",
                        "image": BUSYBOX,
                        // The init process of a container ignores SIGTERM.
                        "command": ["sh", "-c", "sleep 1000000"],
                        "resources": {"requests": {"cpu": format!("{milli}m")}},
                    }],
                },
            },
        });
        let kind = match self {
            Self::DaemonSet => "DaemonSet",
            Self::Deployment => {
                spec["strategy"] = json!({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}});
                "Deployment"
            }
            Self::StatefulSet => {
                spec["serviceName"] = name.into();
                spec["template"]["spec"]["containers"][0]["volumeMounts"] =
                    json!([{"name": "data", "mountPath": "/data"}]);
                spec["volumeClaimTemplates"] = json!([{
                    "metadata": {"name": "data"},
                    "spec": {
                        "accessModes": ["ReadWriteOnce"],
                        "storageClassName": "local",
                        "resources": {"requests": {"storage": "1Mi"}},
                    },
                }]);
                "StatefulSet"
            }
        };
        json!({
            "apiVersion": "apps/v1",
            "kind": kind,
            "metadata": {"name": name, "namespace": "default"},
            "spec": spec,
        })
    }
}

/// A volume in a directory of the node, for the claim of a StatefulSet.
pub(crate) fn local_volume(directory: &str) -> Value {
    let expression = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": [NODE]});
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "local-0"},
        "spec": {
            "capacity": {"storage": "1Mi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
            "local": {"path": directory},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}},
        },
    })
}
