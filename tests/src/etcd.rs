//! [`History`] collects every state of a Node from a watch of etcd itself, so no write can be hidden, merged or
//! reordered by the API server.
//!
//! ```no_run
//! # async fn example(cluster: &headroom_testbed::cluster::Cluster) {
//! use e2e::etcd::{History, assert_only};
//! use headroom_domain::resource::Resource;
//!
//! let mut history = History::follow(cluster).await;
//! // ... things happen to node n1, whose raw value is 4 CPUs and whose ratio is 1.5 ...
//! let states = history.new_revisions_of("n1").await;
//! assert_only(&states, Resource::Cpu, &[4000, 6000]);
//! # }
//! ```

mod wire;

use std::{
    collections::{BTreeMap, HashMap},
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use headroom_domain::{capacity::amount, quantity::Quantity, resource::Resource};
use headroom_testbed::cluster::Cluster;
use http::uri::PathAndQuery;
use hyper_util::rt::TokioIo;
use prost::Message;
use tokio::{net::UnixStream, sync::Notify, task::JoinSet, time::timeout};
use tonic::{
    Request,
    client::Grpc,
    transport::{Channel, Endpoint},
};
use tonic_prost::ProstCodec;

use crate::stand::HAPPENS_WITHIN;

/// Key range of Nodes in etcd.
const NODES: (&str, &str) = ("/registry/minions/", "/registry/minions0");

/// One state of a Node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revision {
    pub node: String,
    /// Revision of the store at the creation of the Node: another object of the same name has another one.
    pub created: i64,
    /// Number of writes of this Node since its creation; the first is 1.
    pub version: i64,
    pub allocatable: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
}

/// All states of Nodes since the start of the watch, beginning with the state at that time.
#[derive(Debug)]
pub struct History {
    channel: Channel,
    seen: Arc<RevisionLog>,
    told: HashMap<String, usize>,
    _watch: JoinSet<()>,
}

#[derive(Debug, Default)]
struct RevisionLog {
    states: Mutex<HashMap<String, Vec<Revision>>>,
    more: Notify,
}

impl Revision {
    /// Allocatable in milli-cores or bytes.
    pub fn amount(&self, resource: Resource) -> u64 {
        let text = self.allocatable.get(resource.name()).expect("allocatable");
        let quantity: Quantity = text.parse().expect("a quantity");
        amount(resource, &quantity).expect("an amount")
    }

    fn read(kv: &wire::KeyValue) -> Self {
        let envelope = kv.value.strip_prefix(wire::MAGIC).expect("stored as protobuf");
        let envelope = wire::Envelope::decode(envelope).expect("an envelope");
        let wire::StoredNode { metadata, status } =
            wire::StoredNode::decode(envelope.raw.as_slice()).expect("a Node");
        let wire::Metadata { name, annotations } = metadata.expect("metadata");
        let allocatable = status.unwrap_or_default().allocatable.into_iter();
        Self {
            node: name,
            created: kv.create_revision,
            version: kv.version,
            allocatable: allocatable.map(|(key, quantity)| (key, quantity.text)).collect(),
            annotations: annotations.into_iter().collect(),
        }
    }
}

impl History {
    /// Starts to follow all Nodes.
    pub async fn follow(cluster: &Cluster) -> Self {
        let channel = connect(cluster.etcd()).await;
        let (revision, now) = range(&channel).await;
        let seen = Arc::new(RevisionLog::default());
        seen.add(now);
        let mut watch = JoinSet::new();
        watch.spawn(follow(channel.clone(), revision + 1, Arc::clone(&seen)));
        Self {
            channel,
            seen,
            told: HashMap::new(),
            _watch: watch,
        }
    }

    /// States of a Node that were not returned before, up to now. Fails if one is missing.
    pub async fn new_revisions_of(&mut self, node: &str) -> Vec<Revision> {
        let (_, now) = range(&self.channel).await;
        let now = now.into_iter().find(|state| state.node == node);
        let caught_up = async {
            loop {
                let more = self.seen.more.notified();
                let states = self.seen.revisions(node);
                if now.as_ref().is_none_or(|now| is_reached(now, states.last())) {
                    return states;
                }
                more.await;
            }
        };
        let states = timeout(HAPPENS_WITHIN, caught_up)
            .await
            .expect("the watch goes on");
        assert_complete(&states);
        let told = self.told.entry(node.to_owned()).or_default();
        let news = states.get(*told..).expect("states only become more").to_vec();
        *told = states.len();
        news
    }

    /// Compacts etcd up to now: watches from an earlier revision fail.
    pub async fn compact(&self) {
        let (revision, _) = range(&self.channel).await;
        let request = wire::CompactionRequest {
            revision,
            physical: true,
        };
        let mut client = Grpc::new(self.channel.clone());
        client.ready().await.expect("etcd");
        let path = PathAndQuery::from_static(wire::COMPACT);
        let codec = ProstCodec::<_, wire::CompactionResponse>::default();
        let answer = client.unary(Request::new(request), path, codec).await;
        answer.expect("a compaction");
    }
}

impl RevisionLog {
    fn add(&self, states: impl IntoIterator<Item = Revision>) {
        let mut all = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        for state in states {
            all.entry(state.node.clone()).or_default().push(state);
        }
        drop(all);
        self.more.notify_waiters();
    }

    fn revisions(&self, node: &str) -> Vec<Revision> {
        let all = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(node).cloned().unwrap_or_default()
    }
}

/// Fails if a resource ever had an amount outside of `allowed`, in milli-cores or bytes.
#[track_caller]
pub fn assert_only(states: &[Revision], resource: Resource, allowed: &[u64]) {
    let unexpected_amounts = unexpected_amounts(states, resource, allowed);
    assert!(
        unexpected_amounts.is_empty(),
        "{unexpected_amounts:?}, which are none of {allowed:?}, in {states:#?}"
    );
}

/// Amounts of a resource outside of `allowed`, in milli-cores or bytes, in order.
pub fn unexpected_amounts(states: &[Revision], resource: Resource, allowed: &[u64]) -> Vec<u64> {
    let amounts = states.iter().map(|state| state.amount(resource));
    amounts.filter(|amount| !allowed.contains(amount)).collect()
}

/// Amounts of a resource, one for each change.
pub fn course(states: &[Revision], resource: Resource) -> Vec<u64> {
    let mut course: Vec<u64> = states.iter().map(|state| state.amount(resource)).collect();
    course.dedup();
    course
}

fn is_reached(now: &Revision, last: Option<&Revision>) -> bool {
    last.is_some_and(|last| (last.created, last.version) >= (now.created, now.version))
}

/// Checks the store's write counters of each key.
fn assert_complete(states: &[Revision]) {
    for pair in states.windows(2) {
        let [before, after] = pair else { continue };
        let expected = if before.created == after.created {
            before.version + 1
        } else {
            1
        };
        assert_eq!(after.version, expected, "a state is missing after {before:#?}");
    }
}

async fn connect(socket: PathBuf) -> Channel {
    let connector = tower::service_fn(move |_| {
        let socket = socket.clone();
        async move { UnixStream::connect(socket).await.map(TokioIo::new) }
    });
    Endpoint::from_static("http://etcd")
        .connect_with_connector(connector)
        .await
        .expect("connect to etcd")
}

/// The store's revision and all Nodes at that revision.
async fn range(channel: &Channel) -> (i64, Vec<Revision>) {
    let mut client = Grpc::new(channel.clone());
    client.ready().await.expect("etcd");
    let (key, range_end) = (NODES.0.into(), NODES.1.into());
    let request = Request::new(wire::RangeRequest { key, range_end });
    let path = PathAndQuery::from_static(wire::RANGE);
    let codec = ProstCodec::<_, wire::RangeResponse>::default();
    let answer = client
        .unary(request, path, codec)
        .await
        .expect("a range")
        .into_inner();
    let revision = answer.header.expect("a header").revision;
    (revision, answer.kvs.iter().map(Revision::read).collect())
}

/// Collects all states from a revision of the store on.
async fn follow(channel: Channel, start_revision: i64, seen: Arc<RevisionLog>) {
    let mut client = Grpc::new(channel);
    client.ready().await.expect("etcd");
    let create = wire::WatchCreate {
        key: NODES.0.into(),
        range_end: NODES.1.into(),
        start_revision,
    };
    let create = wire::WatchRequest { create: Some(create) };
    // The watch ends when its request stream ends.
    let requests = futures::StreamExt::chain(futures::stream::iter([create]), futures::stream::pending());
    let path = PathAndQuery::from_static(wire::WATCH);
    let codec = ProstCodec::<_, wire::WatchResponse>::default();
    let answer = client.streaming(Request::new(requests), path, codec).await;
    let mut answers = answer.expect("a watch").into_inner();
    // The stream ends with etcd.
    while let Ok(Some(answer)) = answers.message().await {
        assert!(!answer.canceled, "etcd ended the watch: {}", answer.cancel_reason);
        let puts = answer.events.iter().filter(|event| event.kind != wire::DELETE);
        seen.add(puts.filter_map(|event| event.kv.as_ref()).map(Revision::read));
    }
}
