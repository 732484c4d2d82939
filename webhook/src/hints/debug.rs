//! gRPC debug service for users: shows this replica's data on each node and the reasons of its decision,
//! Koordinator's ConfigMap with the settings of its check, and the last reviews of pods.

mod installation;
mod pod_decisions;
mod slo_config;

use std::{sync::Arc, time::Duration};

use headroom_domain::{capacity::amount, hint::Freshness, resource::PerResource};
use headroom_kit::serve::Hold;
use headroom_proto::v1alpha1::{
    self as wire, GetInstallationRequest, GetInstallationResponse, GetSloConfigRequest, GetSloConfigResponse,
    ListNodeLabelsRequest, ListNodeLabelsResponse, ListNodesRequest, ListNodesResponse,
    ListPodDecisionsRequest, ListPodDecisionsResponse, NodeStatus, debug_server,
};
use tokio::{
    select,
    sync::mpsc,
    time::{Instant, sleep_until},
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use super::{
    StreamError,
    auth::{Caller, REVIEW_EVERY},
    debug_access::DebugAccess,
};
use crate::{
    control::time_slices::Slices,
    hints::stream_context::StreamContext,
    store::{node::Node, pods::NodePods, policies::Refused},
};

/// Least time between two answers of a watch.
const WATCH_EVERY: Duration = Duration::from_secs(1);
/// Of the time between two answers of a watch, the part that making them may take, as a divisor.
const WATCH_SHARE: u32 = 4;
/// The size from which on a page has no room for another node, in bytes: with the largest node of all, which has the longest
/// report, it stays below the 4 MiB that clients take.
const PAGE_BYTES: usize = 1 << 20;

/// One message of a watch.
type WatchMessage = Result<ListNodesResponse, Status>;

#[derive(Clone)]
pub struct Debug {
    shared: Arc<StreamContext>,
    access: DebugAccess,
}

struct DebugWatch {
    shared: Arc<StreamContext>,
    caller: Caller,
    node: String,
    after: String,
    answers: mpsc::Sender<WatchMessage>,
    _hold: Option<Hold>,
}

impl Debug {
    pub fn new(shared: Arc<StreamContext>) -> Self {
        Self {
            access: DebugAccess::new(Arc::clone(&shared)),
            shared,
        }
    }
}

#[tonic::async_trait]
impl debug_server::Debug for Debug {
    type WatchNodesStream = ReceiverStream<WatchMessage>;

    async fn list_nodes(
        &self,
        request: Request<ListNodesRequest>,
    ) -> Result<Response<ListNodesResponse>, Status> {
        let _admitted = self.access.admit(&request).await?;
        let ListNodesRequest { node, after } = request.into_inner();
        Ok(Response::new(page(&self.shared, &node, &after).await))
    }

    async fn watch_nodes(
        &self,
        request: Request<ListNodesRequest>,
    ) -> Result<Response<Self::WatchNodesStream>, Status> {
        let (caller, hold) = self.access.admit(&request).await?;
        let (answers_tx, answers) = mpsc::channel(1);
        let ListNodesRequest { node, after } = request.into_inner();
        let watch = DebugWatch {
            shared: Arc::clone(&self.shared),
            caller,
            node,
            after,
            answers: answers_tx,
            _hold: hold,
        };
        tokio::spawn(watch.run());
        Ok(Response::new(ReceiverStream::new(answers)))
    }

    async fn get_slo_config(
        &self,
        request: Request<GetSloConfigRequest>,
    ) -> Result<Response<GetSloConfigResponse>, Status> {
        let _admitted = self.access.admit(&request).await?;
        Ok(Response::new(slo_config::config(&self.shared)))
    }

    async fn list_node_labels(
        &self,
        request: Request<ListNodeLabelsRequest>,
    ) -> Result<Response<ListNodeLabelsResponse>, Status> {
        let _admitted = self.access.admit(&request).await?;
        let ListNodeLabelsRequest { after, node } = request.into_inner();
        Ok(Response::new(
            slo_config::labels(&self.shared, &node, &after).await,
        ))
    }

    async fn list_pod_decisions(
        &self,
        request: Request<ListPodDecisionsRequest>,
    ) -> Result<Response<ListPodDecisionsResponse>, Status> {
        let _admitted = self.access.admit(&request).await?;
        let ListPodDecisionsRequest { namespace, name } = request.into_inner();

        Ok(Response::new(pod_decisions::of_pod(
            &self.shared,
            &namespace,
            &name,
        )))
    }

    async fn get_installation(
        &self,
        request: Request<GetInstallationRequest>,
    ) -> Result<Response<GetInstallationResponse>, Status> {
        let _admitted = self.access.admit(&request).await?;
        Ok(Response::new(installation::state(&self.shared).await))
    }
}

impl DebugWatch {
    async fn run(self) {
        let end = select! {
            () = self.shared.shutdown.draining().cancelled() => Some(StreamError::ShuttingDown),
            () = self.answers.closed() => None,
            error = self.answer() => Some(error),
        };
        if let Some(error) = end {
            // A client that does not read the last answer does not read the error either.
            let _is_told = self.answers.try_send(Err(error.into())).is_ok();
        }
    }

    async fn send_all(&self) -> Result<(), mpsc::error::SendError<WatchMessage>> {
        let mut after = self.after.clone();
        loop {
            let page = page(&self.shared, &self.node, &after).await;
            after.clone_from(&page.next);
            self.answers.send(Ok(page)).await?;
            if after.is_empty() {
                return Ok(());
            }
        }
    }

    async fn answer(&self) -> StreamError {
        let cluster = &self.shared.cluster;
        let mut changes = if self.node.is_empty() {
            cluster.changes.follow_all()
        } else {
            cluster.changes.follow(&self.node)
        };
        let mut reviewed = Instant::now();
        loop {
            changes.mark_unchanged();
            let began = Instant::now();
            if self.send_all().await.is_err() {
                // The client has disconnected; the other branch ends the stream.
                std::future::pending::<()>().await;
            }
            sleep_until(began + WATCH_EVERY.max(began.elapsed() * WATCH_SHARE)).await;
            // The cluster owns the sender, and this task holds the cluster; without it there would be nothing to
            // send.
            if changes.changed().await.is_err() {
                return StreamError::ShuttingDown;
            }
            if reviewed.elapsed() >= REVIEW_EVERY {
                match self.shared.authenticator.may_debug(&self.caller).await {
                    Ok(()) | Err(StreamError::Unchecked(_) | StreamError::TooMany) => {
                        reviewed = Instant::now();
                    }
                    Err(error) => return error,
                }
            }
        }
    }
}

/// State of one node, or of the page of nodes after `after`, by name.
async fn page(shared: &StreamContext, node: &str, after: &str) -> ListNodesResponse {
    let nodes = &shared.cluster.nodes;
    if !node.is_empty() {
        let nodes = nodes.get(node).iter().map(|node| status(shared, node)).collect();
        let next = String::new();
        return ListNodesResponse { nodes, next };
    }
    let (mut page, mut bytes) = (ListNodesResponse::default(), 0);
    let mut slices = Slices::begin();
    for node in nodes.all().iter().filter(|node| node.name.as_str() > after) {
        if bytes >= PAGE_BYTES {
            page.next = page
                .nodes
                .last()
                .map_or_else(String::new, |last| last.name.clone());
            break;
        }
        let status = status(shared, node);
        bytes += status.bytes();
        page.nodes.push(status);
        slices.rest().await;
    }
    page
}

fn status(shared: &StreamContext, node: &Node) -> NodeStatus {
    let cluster = &shared.cluster;
    let (in_force, refused) = (cluster.policy(node), cluster.policies.refused());
    let now = cluster.now();
    let hint = cluster
        .hints
        .get(&node.name, now)
        .filter(|(hint, _)| hint.node_uid == node.uid);
    let (decision, found) = cluster.preview(node, now);
    let standing = found.map(|found| match found.freshness {
        Freshness::Fresh => "fresh",
        Freshness::Hold => "hold",
        Freshness::Stop => "stop",
    });
    let age = hint.as_ref().map(|(_, age)| *age).unwrap_or_default();
    let bound = cluster.pods.has_synced().then(|| {
        let count = |bound: &NodePods| (bound.sum(), u32::try_from(bound.pods.len()).unwrap_or(u32::MAX));
        cluster.pods.with_node(&node.name, count)
    });
    let places = cluster
        .pods
        .with_node(&node.name, |bound| open_places(bound, now));
    let rules = decision
        .outcomes
        .map(|_, outcome| outcome.rules().into_iter().map(wire::Rule::from).collect());
    let allocatable = &node.state.allocatable;
    let allocatable = PerResource::from_fn(|resource| amount(resource, allocatable.get(resource).as_ref()?));
    NodeStatus {
        name: node.name.clone(),
        uid: node.uid.clone(),
        policy: in_force.map(|in_force| wire::PolicyInForce::from_domain(&in_force, &shared.profiles)),
        hint: hint.map(|(hint, _)| wire::HintReport::without_trust(&hint)),
        hint_age_ms: u64::try_from(age.as_millis()).unwrap_or(u64::MAX),
        hint_standing: standing.unwrap_or_default().to_owned(),
        raw: amounts(node.raw_allocatable()),
        allocatable: amounts(allocatable),
        bound: bound.map(|(requests, _)| requests.into()),
        pods: bound.map(|(_, pods)| pods).unwrap_or_default(),
        policy_refused: refused.map_or_else(String::new, |Refused { version, reason }| {
            format!("version {version}: {reason}")
        }),
        floor_trouble: cluster.floor.trouble().unwrap_or_default(),
        rules_cpu: rules.cpu,
        rules_memory: rules.memory,
        would_be: cluster
            .projected_allocatable(node, now)
            .and_then(|would| amounts(would.allocatable)),
        places,
    }
}

fn open_places(bound: &NodePods, now: Duration) -> Vec<wire::OpenPlace> {
    let open = bound.places.open_at(now);
    open.map(|place| wire::OpenPlace {
        owner: place.owner.to_string(),
        kind: place.kind.name().to_owned(),
        amounts: Some(place.amounts.into()),
        closes_in_ms: u64::try_from(place.closes_at.saturating_sub(now).as_millis()).unwrap_or(u64::MAX),
    })
    .collect()
}

/// Amounts of both resources; unset if neither is known.
fn amounts(known: PerResource<Option<u64>>) -> Option<wire::Amounts> {
    let PerResource { cpu, memory } = known;
    (cpu.is_some() || memory.is_some()).then(|| {
        PerResource {
            cpu: cpu.unwrap_or_default(),
            memory: memory.unwrap_or_default(),
        }
        .into()
    })
}
