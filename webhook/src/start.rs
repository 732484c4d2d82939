//! Starts and stops the webhook process, each part in its order. The process is ready only when all parts work.
//!
//! ```text
//! configuration -> logs -> metrics -> admin port (not ready) -> certificates -> sources -> listeners -> self-call -> ready
//! ```

mod admission;
mod caches;
mod certificates;
mod client;
mod error;
pub mod flags;
mod followers;
mod observers;
mod parts;
mod readiness;
pub mod rights;
pub mod threads;
pub mod wanted;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use headroom_domain::{estimate::Profile, names};
use headroom_kit::{
    admin::{Admin, PartReadiness, Readiness},
    files,
    gate::GateSet,
    metric::{Catalogue, MetricError},
    serve::Listener,
    supervise::{Grace, Supervisor},
    tls::{self, ClientAuth},
};
use tokio::sync::watch;
use tracing::info;

pub use self::error::StartError;
use self::{
    caches::{CacheOptions, Caches},
    certificates::KeepInputs,
    observers::Observed,
    parts::CommonParts,
    readiness::KnownState,
};
use crate::{
    admission::{callers::CallerCheck, endpoint::Stores, endpoints, metrics as admission_metrics},
    args::Args,
    control::{
        certificates::CertificateState,
        events::{EventStores, ROWS, publisher::Publisher, writer::EventClient},
        lease::Contender,
        metrics as control_metrics,
        nudge::{self, Nudger, Restorer, StatusPatcher},
        quota_overshoot::QuotaOvershoots,
        sweep::Sweeper,
    },
    hints::{
        auth::Authenticator,
        metrics as hint_metrics, server,
        stream_context::{InstallState, SloCheck, StreamContext},
        streams::Streams,
        token_review,
    },
    store::{
        clock::Clock,
        cluster::{Cluster, Settings},
        configuration::{self, Amplification},
        metrics as store_metrics,
        pod_decisions::PodDecisions,
        quota_view::QuotaView,
        workload_table::WorkloadTable,
    },
};

/// Maximum time for tasks to end, requests in flight included.
const STOP_LIMIT: Duration = Duration::from_secs(25);
/// Divisor of the open-files limit: connections of the hint port may use this share.
const FILES_OF_HINTS: u64 = 2;

/// Runs the webhook until a signal ends it in order.
///
/// # Errors
/// It cannot start, or one of its tasks ended.
pub async fn run(args: Args) -> Result<(), StartError> {
    let written = configuration::load(args.config.as_deref())?;
    let features = flags::features(&args)?.shared();
    args.log.init()?;
    let files = files::raise_limit();
    tls::install_provider();
    let mut supervisor = Supervisor::new()?;
    let readiness = Readiness::new();
    let ready = ReadinessParts::new(&readiness);
    open_admin(&args, readiness.clone(), &mut supervisor).await?;
    features.load().warn_of_ignored_gates();

    let store = certificates::open(&args, &mut supervisor)?;
    let client = client::open(args.kubeconfig.as_deref())
        .await
        .map_err(StartError::Kube)?;
    let cluster = open_cluster(settings(&args, written, &features.load().gates), &mut supervisor);
    let options = CacheOptions::new(&args, &client, &features, readiness.clone());
    let Caches {
        stores,
        known,
        quotas,
        overshoots,
    } = caches::follow(options, &cluster, &mut supervisor).await;
    let callers = CallerCheck::new(&args.callers);
    let parts = CommonParts {
        client: &client,
        cluster: &cluster,
        store: &store,
        features: &features,
        readiness: &readiness,
        callers: &callers,
    };
    let observed = observers::observe(&args, &parts, &mut supervisor);
    let certificates = Arc::<CertificateState>::default();
    let events = event_stores(&stores, overshoots, &cluster, &certificates);
    let is_leader = lead(&args, &parts, (events, known), ready.caches, &mut supervisor);
    let streams = Arc::<Streams>::default();
    let inputs = KeepInputs {
        state: &certificates,
        streams: &streams,
        is_leader,
    };
    certificates::keep(&args, &parts, inputs, &mut supervisor);
    let served = ServedState {
        decisions: Arc::clone(&stores.decisions),
        quotas,
        observed,
        streams,
        certificates,
    };
    serve_hints(&args, files, &parts, served, &mut supervisor).await?;
    let _threads = admission::serve(&args, files, &parts, stores, ready.admission, &mut supervisor).await?;

    Ok(supervisor.run(grace(&args)).await?)
}

fn grace(args: &Args) -> Grace {
    Grace {
        linger: args.drain(),
        deadline: STOP_LIMIT,
    }
}

/// Node stores with their clock.
fn open_cluster(settings: Settings, supervisor: &mut Supervisor) -> Arc<Cluster> {
    let clock = Arc::new(Clock::new());
    let cluster = Arc::new(Cluster::new(settings, Arc::clone(&clock)));
    let stop = supervisor.shutdown().stopping().clone();
    supervisor.spawn("clock", async move { clock.keep(stop).await });
    cluster
}

fn event_stores(
    stores: &Stores,
    overshoots: Arc<QuotaOvershoots>,
    cluster: &Arc<Cluster>,
    certificates: &Arc<CertificateState>,
) -> EventStores {
    EventStores {
        profiles: Arc::clone(&stores.colocation.profiles),
        overshoots,
        cluster: Arc::clone(cluster),
        modes: Arc::default(),
        certificates: Arc::clone(certificates),
    }
}

/// Settings of the node stores, from flags and from the configuration file.
fn settings(args: &Args, file: Amplification, gates: &GateSet) -> Settings {
    Settings {
        file,
        missing_floor: flags::missing_floor(args),
        amplifies: endpoints::amplifies(gates),
        heartbeat_interval: args.heartbeat_interval(),
        denies_above_hint: args.deny_above_hint,
        installation: args.installation.get(),
    }
}

/// All metrics of the webhook.
///
/// # Errors
/// Two declarations contradict each other.
pub fn catalogue() -> Result<Catalogue, MetricError> {
    Catalogue::new(&[
        admission_metrics::METRICS,
        hint_metrics::METRICS,
        control_metrics::METRICS,
        store_metrics::METRICS,
    ])
}

/// Parts that decide readiness; all of them count from the start.
struct ReadinessParts {
    caches: PartReadiness,
    admission: PartReadiness,
}

impl ReadinessParts {
    fn new(readiness: &Readiness) -> Self {
        Self {
            caches: readiness.handle("caches"),
            admission: readiness.handle("admission"),
        }
    }
}

async fn open_admin(
    args: &Args,
    readiness: Readiness,
    supervisor: &mut Supervisor,
) -> Result<(), StartError> {
    let exporter = catalogue()?.install()?;
    info!(
        replica = args.replica_name,
        version = env!("CARGO_PKG_VERSION"),
        "starting"
    );
    let listener = args.admin.bind().await?;
    let admin = Admin::new(names::WEBHOOK_SERVICE, exporter, readiness);
    supervisor.spawn("admin", admin.serve(listener, supervisor.shutdown()));
    Ok(())
}

/// Contends for the lease while the stores are known, and sweeps and publishes Events while it is held. The lease
/// also tells whether another replica knows more than this one, for its readiness. Returns whether it is held.
fn lead(
    args: &Args,
    parts: &CommonParts<'_>,
    (events, known): (EventStores, KnownState),
    ready: PartReadiness,
    supervisor: &mut Supervisor,
) -> watch::Receiver<bool> {
    let CommonParts { client, cluster, .. } = *parts;
    let stop = supervisor.shutdown().stopping().clone();
    let installation = args.installation.get();
    let namespace = installation.namespace.as_str();
    let contender = Contender::new(
        client.clone(),
        namespace,
        &installation.lease(),
        &args.replica_name,
    );
    let api_server = nudge::StatusWriteClient::new(client.clone());
    let writer = Arc::new(api_server.clone());
    let patcher: Arc<dyn StatusPatcher> = if cluster.amplifies() {
        Arc::new(api_server)
    } else {
        Arc::new(Restorer::new(Arc::clone(cluster), api_server))
    };
    let sweeper = Sweeper::new(Arc::clone(cluster), patcher, writer, flags::rates(args));
    supervisor.spawn("sweep", sweeper.sweep(contender.is_holder(), stop.clone()));
    let event_writer = Arc::new(EventClient::new(client.clone(), &args.replica_name));
    let publisher = Publisher::new(ROWS, events, event_writer);
    supervisor.spawn("events", publisher.publish(contender.is_holder(), stop.clone()));
    let deciding = readiness::decide(ready, known.clone(), contender.elsewhere(), stop.clone());
    supervisor.spawn("readiness", deciding);
    let KnownState { nodes, unknown } = known;
    let is_leader = contender.is_holder();
    supervisor.spawn("lease", contender.contend(nodes, unknown, stop));
    is_leader
}

/// State for debug queries besides the cluster.
struct ServedState {
    /// The last reviews of pods.
    decisions: Arc<PodDecisions>,
    quotas: QuotaView,
    observed: Observed,
    streams: Arc<Streams>,
    certificates: Arc<CertificateState>,
}

/// Timing profiles whose hints are accepted.
fn profiles(args: &Args) -> Vec<Profile> {
    if args.allow_demo_timing {
        Profile::ALL.to_vec()
    } else {
        vec![Profile::Production]
    }
}

/// Opens the hint port. Debug queries see the features in force and the last reviews of pods.
async fn serve_hints(
    args: &Args,
    files: u64,
    parts: &CommonParts<'_>,
    served: ServedState,
    supervisor: &mut Supervisor,
) -> Result<(), StartError> {
    let CommonParts {
        client,
        cluster,
        store,
        ..
    } = *parts;
    let (features, callers) = (Arc::clone(parts.features), parts.callers.clone());
    let clients = args
        .hints_client_ca_file
        .clone()
        .map_or(ClientAuth::None, ClientAuth::Optional);
    let tls = tls::server_config(
        Arc::clone(store) as _,
        args.tls.tls_min_version,
        &clients,
        &["h2"],
    )?;
    let listener = Listener::bind(
        "hints",
        args.hints_addr,
        server::LIMITS.at_most(files / FILES_OF_HINTS),
    )
    .await?;
    let shutdown = supervisor.shutdown();
    let writer = Arc::new(nudge::StatusWriteClient::new(client.clone()));
    let shared = Arc::new(StreamContext {
        cluster: Arc::clone(cluster),
        authenticator: Arc::new(Authenticator::new(
            Arc::new(token_review::TokenReviewClient::new(client.clone())),
            &args.installation.get(),
        )),
        streams: served.streams,
        nudger: Arc::new(Nudger::new(Arc::clone(cluster), writer, flags::rates(args))),
        profiles: profiles(args),
        slo_check: SloCheck {
            config_map: args.installation.get().slo_config,
            settings: args.slo.settings(),
            switches: Arc::new(move || features.load().switches.clone()),
        },
        install: InstallState {
            registered: served.observed.registered,
            serving: Some(Arc::clone(store)),
            certificates: served.certificates,
            reachability: served.observed.reachability,
            missing_rights: served.observed.missing_rights,
            callers: Arc::new(move || callers.state()),
        },
        replica: args.replica_name.clone(),
        decisions: served.decisions,
        workloads: Arc::new(WorkloadTable::new(args.trust_by_workload, Instant::now())),
        quotas: served.quotas,
        shutdown: shutdown.clone(),
    });
    supervisor.spawn(
        "hints",
        server::serve(listener, tls, shared, args.grpc_reflection, shutdown),
    );
    Ok(())
}
