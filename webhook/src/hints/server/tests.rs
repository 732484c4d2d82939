//! Tests of the hint port over real TLS: reports, directives and the ends of streams.

use std::{net::SocketAddr, path::PathBuf, time::SystemTime};

use futures::future::BoxFuture;
use headroom_domain::{
    estimate::Profile,
    hint::NodeHint,
    installation::{ConfigMapName, Installation},
};
use headroom_kit::tls::{self, CertStore, ClientAuth, Files, client, self_signed};
use headroom_proto::v1alpha1::{
    Ack, Directive, HintReport, Pods, Policy, Verdict, debug_client::DebugClient, directive::Kind,
    hints_client::HintsClient,
};
use headroom_rules::{
    SWITCHES, slo,
    switch::{Compat, Switches},
};
use serde_json::Value;
use tempfile::TempDir;
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, timeout},
};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::task::AbortOnDropHandle;
use tonic::{
    Code, Request, Status, Streaming,
    transport::{Channel, Endpoint},
};

use super::*;
use crate::{
    control::{
        nudge::{Nudge, NudgeError, Nudger, StatusWriter},
        rates::Rates,
        registration::LastFaults,
    },
    hints::{
        auth::{
            Authenticator,
            tests::{FakeReviewer, agent_token},
        },
        stream_context::{InstallState, SloCheck},
        streams::Streams,
    },
    store::{
        cluster::{
            Cluster,
            tests::{amplified, cluster, pod, published},
        },
        informer::Store as _,
        pod_decisions::PodDecisions,
        quota_view::QuotaView,
        workload_table::WorkloadTable,
    },
};

mod connection_limits;
mod credentials;
mod debug_service;
mod installation;
mod pod_decisions;
mod quotas;
mod reports;
mod slo_config;
mod workloads;

/// Longer than anything here takes on a busy machine.
const SOON: Duration = Duration::from_secs(30);

/// Records the writes that it is asked for.
struct HintWriteRecorder(mpsc::UnboundedSender<(String, String)>);

impl StatusWriter for HintWriteRecorder {
    fn write_hint<'a>(&'a self, node: &'a str, nudge: &'a Nudge) -> BoxFuture<'a, Result<u64, NudgeError>> {
        self.0.send((node.to_owned(), nudge.note.clone())).unwrap();
        Box::pin(async { Ok(0) })
    }
}

/// A hint port on loopback with node `n1` and pod `a` (1 CPU, generation 5) behind it.
struct Site {
    cluster: Arc<Cluster>,
    decisions: Arc<PodDecisions>,
    registered: LastFaults,
    quotas: QuotaView,
    address: SocketAddr,
    place: TempDir,
    shutdown: Shutdown,
    writes: mpsc::UnboundedReceiver<(String, String)>,
    _serving: AbortOnDropHandle<Result<(), ServerError>>,
}

/// A table of a replica that is old enough to send profiles.
fn old_workloads() -> Arc<WorkloadTable> {
    let began = std::time::Instant::now().checked_sub(Duration::from_secs(600));
    Arc::new(WorkloadTable::new(true, began.unwrap()))
}

impl Site {
    async fn new() -> Self {
        Self::with(vec![Profile::Production], ClientAuth::None).await
    }

    async fn with(profiles: Vec<Profile>, clients: ClientAuth) -> Self {
        Self::within(LIMITS, profiles, clients).await
    }

    async fn within(limits: Limits, profiles: Vec<Profile>, clients: ClientAuth) -> Self {
        let place = tempfile::tempdir().unwrap();
        let (now, names) = (SystemTime::now(), ["localhost".to_owned()]);
        let files = self_signed::ensure(place.path(), &names, now).unwrap();
        let store = CertStore::load("test", files, now).unwrap();
        let tls =
            tls::server_config(Arc::clone(&store) as _, tls::MinVersion::Tls12, &clients, &["h2"]).unwrap();
        let listener = Listener::bind("hints", ([127, 0, 0, 1], 0).into(), limits)
            .await
            .unwrap();
        let address = listener.address();
        let cluster = Arc::new(cluster([amplified(3, "4800m", 120)], [pod("a", 5, "1")]));
        let decisions = Arc::new(PodDecisions::default());
        let quotas = quotas::view();
        let registered = LastFaults::default();
        let (writes_tx, writes) = mpsc::unbounded_channel();
        let shutdown = Shutdown::new();
        let shared = Arc::new(StreamContext {
            cluster: Arc::clone(&cluster),
            authenticator: Arc::new(Authenticator::new(
                Arc::new(FakeReviewer::default()),
                &Installation::default(),
            )),
            streams: Arc::new(Streams::default()),
            nudger: Arc::new(Nudger::new(
                Arc::clone(&cluster),
                Arc::new(HintWriteRecorder(writes_tx)),
                Rates::DEFAULT,
            )),
            profiles,
            slo_check: SloCheck {
                config_map: ConfigMapName::default(),
                settings: slo::Settings::default(),
                switches: Arc::new(|| Switches::preset(SWITCHES, Compat::Headroom)),
            },
            install: InstallState {
                registered: Arc::clone(&registered),
                serving: Some(Arc::clone(&store)),
                ..InstallState::default()
            },
            replica: "webhook-a".to_owned(),
            decisions: Arc::clone(&decisions),
            workloads: old_workloads(),
            quotas: quotas.clone(),
            shutdown: shutdown.clone(),
        });
        let serving =
            AbortOnDropHandle::new(tokio::spawn(serve(listener, tls, shared, true, shutdown.clone())));
        Self {
            cluster,
            decisions,
            registered,
            quotas,
            address,
            place,
            shutdown,
            writes,
            _serving: serving,
        }
    }

    async fn channel(&self, identity: Option<&Files>) -> Channel {
        let ca = self.place.path().join(self_signed::CA_CERT);
        let tls = client::client_config(&ca, identity, &["h2"]).unwrap();
        let connector = client::Connector::new(tls, client::server_name("localhost").unwrap(), SOON);
        let endpoint = Endpoint::from_shared(format!("http://{}", self.address)).unwrap();
        endpoint.connect_with_connector(connector).await.unwrap()
    }

    /// A stream with a token that the reviewer knows by that name.
    async fn open(&self, name: &str) -> Result<StreamClient, Status> {
        StreamClient::open(self.channel(None).await, Some(&agent_token(name))).await
    }

    fn apply_pod(&self, pod: Value) {
        self.cluster.pods.apply(serde_json::from_value(pod).unwrap());
    }

    fn delete_pod(&self, pod: Value) {
        self.cluster.pods.delete(serde_json::from_value(pod).unwrap());
    }
}

/// An agent's end of a stream.
#[derive(Debug)]
struct StreamClient {
    reports: mpsc::Sender<HintReport>,
    directives: Streaming<Directive>,
}

impl StreamClient {
    async fn open(channel: Channel, token: Option<&str>) -> Result<Self, Status> {
        let (reports, reports_rx) = mpsc::channel(1);
        let request = authorized(ReceiverStream::new(reports_rx), token);
        let directives = HintsClient::new(channel).report(request).await?.into_inner();
        Ok(Self { reports, directives })
    }

    async fn next(&mut self) -> Result<Option<Kind>, Status> {
        let directive = timeout(SOON, self.directives.message())
            .await
            .expect("a directive or an end")?;
        Ok(directive.map(|directive| directive.kind.unwrap()))
    }

    async fn report(&mut self, report: impl Into<HintReport>) -> Ack {
        self.reports.send(report.into()).await.unwrap();
        loop {
            if let Kind::Ack(ack) = self.next().await.unwrap().unwrap() {
                return ack;
            }
        }
    }

    async fn pods(&mut self) -> Pods {
        loop {
            if let Kind::Pods(pods) = self.next().await.unwrap().unwrap() {
                return pods;
            }
        }
    }

    async fn policy(&mut self) -> Policy {
        loop {
            if let Kind::Policy(policy) = self.next().await.unwrap().unwrap() {
                return policy;
            }
        }
    }

    /// Status at the end of the stream; earlier messages are skipped.
    async fn end(&mut self) -> Status {
        loop {
            match self.next().await {
                Ok(Some(_)) => {}
                Ok(None) => return Status::ok("closed"),
                Err(status) => return status,
            }
        }
    }
}

fn authorized<T>(message: T, token: Option<&str>) -> Request<T> {
    let mut request = Request::new(message);
    if let Some(token) = token {
        request
            .metadata_mut()
            .insert("authorization", format!("Bearer {token}").parse().unwrap());
    }
    request
}

/// A question of the client that the reviewer knows by that name.
fn asked_by<T>(message: T, name: Option<&str>) -> Request<T> {
    authorized(message, name.map(agent_token).as_deref())
}

/// A report of `n1` on the newest pods, not on the primary stream.
fn report(seq: u64, cents: u32) -> HintReport {
    HintReport {
        primary: false,
        pods_generation: u64::MAX,
        ..HintReport::from(&published(seq, cents))
    }
}
