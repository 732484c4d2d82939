//! `World`: the demo's Node and pods in the API server, kept current by watches.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures::{StreamExt as _, TryStreamExt as _};
use headroom_domain::{
    names,
    quantity::Quantity,
    ratio,
    resource::{PerResource, Resource},
};
use headroom_testbed::workload::deployment::ROLE;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::{
    Api, Client, ResourceExt as _,
    runtime::watcher::{self, watcher},
};
use tokio::task::JoinSet;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DemoPod {
    pub(super) uid: String,
    /// Role of its Deployment: `steady` or `waiting`.
    pub(super) role: String,
    pub(super) is_bound: bool,
    pub(super) is_running: bool,
    /// Sum of its CPU requests, in milli-cores.
    pub(super) cpu_milli: u64,
}

/// State of the Node in the API server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct NodeState {
    pub(super) is_ready: bool,
    pub(super) allocatable: PerResource<u64>,
    /// Raw allocatable from the annotation, else `status.allocatable`.
    pub(super) raw: PerResource<u64>,
    /// Ratio from the annotation in cents, 100 for resources without an entry.
    pub(super) ratio: PerResource<u64>,
    pub(super) resource_version: String,
}

#[derive(Debug, Clone, Default)]
pub(super) struct World {
    pub(super) node: NodeState,
    /// Revisions of the Node since the last call of [`Watches::now`].
    pub(super) revisions: Vec<NodeState>,
    /// Pods of the namespace, by name.
    pub(super) pods: BTreeMap<String, DemoPod>,
    /// Names of pods that the scheduler has rejected.
    pub(super) refused: BTreeSet<String>,
    /// First failure or deletion of a bound pod or the Node.
    pub(super) pod_failure: Option<String>,
}

/// The running watches and their state; dropping it ends them.
#[derive(Debug)]
pub(super) struct Watches {
    world: Arc<Mutex<World>>,
    _tasks: JoinSet<()>,
}

impl Watches {
    /// Starts to watch the Node, and pods and Events of the namespace.
    pub(super) fn start(client: &Client, node: &str, namespace: &str) -> Self {
        let world = Arc::new(Mutex::new(World::default()));
        let mut tasks = JoinSet::new();
        let nodes: Api<Node> = Api::all(client.clone());
        let only = watcher::Config::default().fields(&format!("metadata.name={node}"));
        tasks.spawn(follow(nodes, only, Arc::clone(&world), World::apply_node));
        let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
        tasks.spawn(follow(
            pods,
            watcher::Config::default(),
            Arc::clone(&world),
            World::apply_pod,
        ));
        let events: Api<Event> = Api::namespaced(client.clone(), namespace);
        let refused = watcher::Config::default().fields("reason=FailedScheduling");
        tasks.spawn(follow(events, refused, Arc::clone(&world), World::apply_event));
        Self { world, _tasks: tasks }
    }

    /// The present state. Each revision is returned only once.
    pub(super) fn now(&self) -> World {
        let mut world = self.lock();
        let now = world.clone();
        world.revisions.clear();
        now
    }

    fn lock(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Applies every change of one kind to the state. The watcher retries after errors.
async fn follow<K>(
    api: Api<K>,
    config: watcher::Config,
    world: Arc<Mutex<World>>,
    apply: fn(&mut World, &K, bool),
) where
    K: kube::Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned + Send + 'static,
{
    let mut events = watcher(api, config)
        .map_err(|error| tracing::debug!(%error, "watch failed"))
        .boxed();
    while let Some(event) = events.next().await {
        let Ok(event) = event else { continue };
        let mut world = world.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            watcher::Event::Apply(object) | watcher::Event::InitApply(object) => {
                apply(&mut world, &object, false);
            }
            watcher::Event::Delete(object) => apply(&mut world, &object, true),
            watcher::Event::Init | watcher::Event::InitDone => {}
        }
    }
}

impl World {
    fn apply_node(&mut self, node: &Node, is_deleted: bool) {
        if is_deleted {
            self.pod_failure
                .get_or_insert_with(|| "the node was deleted".to_owned());
            return;
        }
        let status = node.status.as_ref();
        let allocatable = PerResource::from_fn(|resource| {
            let quantity = status.and_then(|status| status.allocatable.as_ref()?.get(resource.name()));
            quantity
                .and_then(|quantity| amount(resource, &quantity.0))
                .unwrap_or_default()
        });
        let annotations = node.annotations();
        let raw: BTreeMap<String, String> = annotations
            .get(names::RAW_ALLOCATABLE)
            .and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default();
        let ratios = annotations
            .get(names::RATIO)
            .and_then(|text| ratio::parse_annotation(text).ok())
            .unwrap_or_default();
        let conditions = status.and_then(|status| status.conditions.as_ref());
        self.node = NodeState {
            is_ready: conditions.is_some_and(|all| {
                all.iter()
                    .any(|condition| condition.type_ == "Ready" && condition.status == "True")
            }),
            raw: PerResource::from_fn(|resource| {
                let saved = raw.get(resource.name()).and_then(|text| amount(resource, text));
                saved.unwrap_or(*allocatable.get(resource))
            }),
            ratio: ratios.map(|_, ratio| ratio.map_or(100, |ratio| u64::from(ratio.to_cents_floor().0))),
            allocatable,
            resource_version: node.resource_version().unwrap_or_default(),
        };
        self.revisions.push(self.node.clone());
    }

    fn apply_pod(&mut self, pod: &Pod, is_deleted: bool) {
        let name = pod.name_any();
        let phase = pod
            .status
            .as_ref()
            .and_then(|status| status.phase.as_deref())
            .unwrap_or_default();
        let is_bound = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
        let is_going = is_deleted || pod.metadata.deletion_timestamp.is_some();
        if is_bound && (phase == "Failed" || is_going) {
            self.pod_failure
                .get_or_insert_with(|| format!("bound pod {name} was deleted or failed ({phase})"));
        }
        if is_deleted {
            self.pods.remove(&name);
            return;
        }
        let requests = pod
            .spec
            .iter()
            .flat_map(|spec| &spec.containers)
            .filter_map(|container| {
                let requests = container.resources.as_ref()?.requests.as_ref()?;
                amount(Resource::Cpu, &requests.get(Resource::Cpu.name())?.0)
            });
        let seen = DemoPod {
            uid: pod.uid().unwrap_or_default(),
            role: pod.labels().get(ROLE).cloned().unwrap_or_default(),
            is_bound,
            is_running: phase == "Running",
            cpu_milli: requests.sum(),
        };
        self.pods.insert(name, seen);
    }

    fn apply_event(&mut self, event: &Event, _is_deleted: bool) {
        if let Some(name) = &event.involved_object.name {
            self.refused.insert(name.clone());
        }
    }

    pub(super) fn of_role<'a>(&'a self, role: &'a str) -> impl Iterator<Item = (&'a String, &'a DemoPod)> {
        self.pods.iter().filter(move |(_, pod)| pod.role == role)
    }
}

/// Parses a quantity into the resource's unit.
fn amount(resource: Resource, text: &str) -> Option<u64> {
    let quantity: Quantity = text.parse().ok()?;
    headroom_domain::capacity::amount(resource, &quantity)
}
