//! A real webhook replica: stores, informers, hint service, nudger, sweeper and admission on a pinned runtime,
//! assembled as in the webhook's process, with a client of the stand-in for the API server.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, OnceLock},
    time::Duration,
};

use anyhow::{Context as _, Result, anyhow};
use headroom_domain::{
    capacity::floor::HEARTBEAT_INTERVAL,
    estimate::Profile,
    installation::{ConfigMapName, Installation},
};
use headroom_kit::{
    files,
    metric::Exporter,
    serve::{Limits, Listener},
    supervise::Shutdown,
    tls::CertStore,
};
use headroom_rules::{slo, switch::Switches};
use headroom_webhook::{
    admission::endpoint::{Family, Stores},
    control::{
        entry_conflicts,
        nudge::{self, Nudger},
        rates::Rates,
        sweep::Sweeper,
    },
    hints::{
        auth::Authenticator,
        server,
        stream_context::{InstallState, SloCheck, StreamContext},
        streams::Streams,
        token_review,
    },
    start::{self, threads::Threads, wanted},
    store::{
        clock::Clock,
        cluster::{Cluster, Settings},
        configuration::Amplification,
        floor::MissingFloor,
        known::KnownSources,
        quota_view::QuotaView,
        sources::{Opened, Opening, SourceStores},
        workload_table::WorkloadTable,
    },
};
use kube::Client;
use rustls::ClientConfig;
use tokio::{
    runtime::{Handle, Runtime},
    sync::watch,
    time::{interval, sleep},
};

use super::{admission::AdmissionPort, agents::Port, api_client, api_server::ApiServer, pinning};
use crate::{
    review_router::router,
    served::server::{HTTP_1, client_tls, self_signed_store, server_tls},
};

/// ALPN protocol of the hint port.
const HTTP_2: &str = "h2";

/// Interval at which metrics are folded, as by the admin port.
const UPKEEP_EVERY: Duration = Duration::from_secs(5);
const STOP_LIMIT: Duration = Duration::from_secs(10);
/// Attempts to bind a port that the previous replica may still use.
const BIND_TRIES: u32 = 100;
const BIND_PAUSE: Duration = Duration::from_millis(50);

#[derive(Debug, Clone)]
pub(super) struct Setting {
    pub(super) cpu: u32,
    pub(super) load: Handle,
    pub(super) rates: Rates,
    pub(super) keys: Arc<Keys>,
}

/// A key pair and the TLS settings of its clients.
#[derive(Debug)]
pub(super) struct Keys {
    store: Arc<CertStore>,
    admission: Arc<ClientConfig>,
    hints: Arc<ClientConfig>,
}

#[derive(Debug)]
pub(super) struct Replica {
    pub(super) cluster: Arc<Cluster>,
    pub(super) admission: AdmissionPort,
    pub(super) hints: Port,
    runtime: Option<Runtime>,
    _threads: Threads,
    known: Vec<watch::Receiver<bool>>,
}

impl Keys {
    /// # Errors
    /// If the key pair cannot be written to a file.
    pub(super) fn new() -> Result<Arc<Self>> {
        let directory = tempfile::tempdir()?;
        Ok(Arc::new(Self {
            store: self_signed_store(directory.path())?,
            admission: client_tls(directory.path(), HTTP_1)?,
            hints: client_tls(directory.path(), HTTP_2)?,
        }))
    }
}

impl Replica {
    /// Starts a replica with this hint port, or any port for 0.
    ///
    /// # Errors
    /// If a port cannot be bound.
    pub(super) async fn start(
        setting: &Setting,
        api: &Arc<ApiServer>,
        hints: u16,
        is_secure: bool,
    ) -> Result<Self> {
        let runtime = pinning::runtime("replica", setting.cpu)?;
        let (of_setup, api) = (setting.clone(), Arc::clone(api));
        let parts = runtime.spawn(async move { set_up(&of_setup, &api, hints, is_secure).await });
        let Parts {
            cluster,
            known,
            admission,
            threads,
            hints,
        } = parts.await??;
        let keys = &setting.keys;
        let admission = AdmissionPort {
            address: admission,
            tls: Arc::clone(&keys.admission),
        };
        let tls = is_secure.then(|| Arc::clone(&keys.hints));
        Ok(Self {
            cluster,
            admission,
            hints: Port { address: hints, tls },
            runtime: Some(runtime),
            _threads: threads,
            known,
        })
    }

    /// Waits until its stores are listed.
    ///
    /// # Errors
    /// If a store is no longer followed.
    pub(super) async fn until_known(&mut self) -> Result<()> {
        for store in &mut self.known {
            store
                .wait_for(|is_known| *is_known)
                .await
                .context("a store is no longer followed")?;
        }
        Ok(())
    }

    /// Ends the replica immediately, with all of its connections.
    ///
    /// # Errors
    /// If the shutdown panics.
    pub(super) async fn kill(mut self) -> Result<()> {
        let Some(runtime) = self.runtime.take() else {
            return Ok(());
        };
        drop(self);
        Ok(tokio::task::spawn_blocking(move || runtime.shutdown_timeout(STOP_LIMIT)).await?)
    }
}

impl Drop for Replica {
    /// Without waiting: blocking is not allowed in async contexts.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

struct Parts {
    cluster: Arc<Cluster>,
    known: Vec<watch::Receiver<bool>>,
    admission: SocketAddr,
    threads: Threads,
    hints: SocketAddr,
}

async fn set_up(setting: &Setting, api: &Arc<ApiServer>, hints: u16, is_secure: bool) -> Result<Parts> {
    let Setting {
        load, rates, keys, ..
    } = setting;
    let shutdown = Shutdown::new();
    let stop = || shutdown.stopping().clone();
    tokio::spawn(upkeep(exporter()?));
    let client = api_client::client(api, load);
    let clock = Arc::new(Clock::new());
    let cluster = Arc::new(Cluster::new(settings(), Arc::clone(&clock)));
    let stop_clock = stop();
    tokio::spawn(async move { clock.keep(stop_clock).await });
    let known = follow(client.clone(), &cluster, &shutdown);
    tokio::spawn(entry_conflicts::detect(
        Arc::clone(&cluster),
        Switches::default,
        stop(),
    ));
    let writer = nudge::StatusWriteClient::new(client.clone());
    let (toucher, sweeps) = (Arc::new(writer.clone()), Arc::new(writer.clone()));
    let sweeper = Sweeper::new(Arc::clone(&cluster), toucher, sweeps, *rates);
    let stop_sweep = stop();
    tokio::spawn(async move {
        let (_leads_tx, leads) = watch::channel(true);
        sweeper.sweep(leads, stop_sweep).await;
    });
    let shared = Arc::new(StreamContext {
        cluster: Arc::clone(&cluster),
        authenticator: Arc::new(authenticator(client)),
        streams: Arc::new(Streams::default()),
        nudger: Arc::new(Nudger::new(Arc::clone(&cluster), Arc::new(writer), *rates)),
        profiles: Profile::ALL.to_vec(),
        slo_check: SloCheck {
            config_map: ConfigMapName::default(),
            settings: slo::Settings::default(),
            switches: Arc::new(Switches::default),
        },
        install: InstallState::default(),
        replica: String::new(),
        decisions: Arc::default(),
        workloads: Arc::new(WorkloadTable::new(false, std::time::Instant::now())),
        quotas: QuotaView::default(),
        shutdown: shutdown.clone(),
    });
    let hints = serve_hints(keys, shared, &shutdown, hints, is_secure).await?;
    let threads = Threads::new()?;
    let admission = serve_admission(keys, &cluster, &shutdown, &threads).await?;
    Ok(Parts {
        cluster,
        known,
        admission,
        threads,
        hints,
    })
}

fn settings() -> Settings {
    Settings {
        file: Amplification::default(),
        // The stand-in keeps the stored value while no replica answers.
        missing_floor: MissingFloor::Accepted,
        amplifies: true,
        heartbeat_interval: HEARTBEAT_INTERVAL,
        denies_above_hint: false,
        installation: Installation::default(),
    }
}

fn authenticator(client: Client) -> Authenticator {
    let reviews = token_review::TokenReviewClient::new(client);
    Authenticator::new(Arc::new(reviews), &Installation::default())
}

/// Follows the sources of nodes; returns for each whether it is listed.
fn follow(client: Client, cluster: &Arc<Cluster>, shutdown: &Shutdown) -> Vec<watch::Receiver<bool>> {
    let (nodes, pods, policies) = (&cluster.nodes, &cluster.pods, &cluster.policies);
    let known = KnownSources::default();
    let opening = Opening {
        client,
        config_namespace: ConfigMapName::default().namespace.to_string(),
        stores: SourceStores::new(
            Arc::clone(nodes),
            Arc::clone(pods),
            Arc::clone(policies),
            &known.signal(),
        ),
        stop: shutdown.stopping().clone(),
    };
    let opened = wanted::OF_NODES.map(|source| {
        let Opened { is_known, task, .. } = (source.open)(&opening);
        task.map(tokio::spawn);
        is_known
    });
    opened.into()
}

async fn serve_hints(
    keys: &Keys,
    shared: Arc<StreamContext>,
    shutdown: &Shutdown,
    port: u16,
    is_secure: bool,
) -> Result<SocketAddr> {
    let limits = server::LIMITS.at_most(files::raise_limit() / 2);
    let listener = bind("hints", port, limits).await?;
    let address = listener.address();
    let tls = is_secure
        .then(|| server_tls(Arc::clone(&keys.store), HTTP_2))
        .transpose()?;
    tokio::spawn(server::serve(listener, tls, shared, false, shutdown.clone()));
    Ok(address)
}

async fn serve_admission(
    keys: &Keys,
    cluster: &Arc<Cluster>,
    shutdown: &Shutdown,
    threads: &Threads,
) -> Result<SocketAddr> {
    let tls = server_tls(Arc::clone(&keys.store), HTTP_1)?;
    let listener = threads.run(bind("admission", 0, Limits::default())).await?;
    let address = listener.address();
    let router = router(&[Family::Nodes], "", Stores::of_nodes(Arc::clone(cluster) as _))?;
    let answer = move |request| {
        let router = router.clone();
        async move { router.respond(request).await }
    };
    let serving = listener.serve_http(Some(tls), shutdown.clone(), answer);
    threads.handle().spawn(serving);
    Ok(address)
}

/// Binds a port on loopback; the previous replica may not have released it yet.
async fn bind(name: &'static str, port: u16, limits: Limits) -> Result<Listener> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut bound = Listener::bind(name, address, limits).await;
    for _ in 0..BIND_TRIES {
        if bound.is_ok() {
            break;
        }
        sleep(BIND_PAUSE).await;
        bound = Listener::bind(name, address, limits).await;
    }
    Ok(bound?)
}

/// Metrics as in the webhook; all replicas of this process share one recorder.
fn exporter() -> Result<&'static Exporter> {
    static EXPORTER: OnceLock<Result<Exporter, String>> = OnceLock::new();
    let installed = EXPORTER.get_or_init(|| {
        let catalogue = start::catalogue().map_err(|error| error.to_string())?;
        catalogue.install().map_err(|error| error.to_string())
    });
    installed.as_ref().map_err(|error| anyhow!("{error}"))
}

async fn upkeep(exporter: &'static Exporter) {
    let mut ticks = interval(UPKEEP_EVERY);
    loop {
        ticks.tick().await;
        exporter.upkeep();
    }
}
