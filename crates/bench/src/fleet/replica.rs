//! A real webhook replica: stores, informers, hint service, nudger, sweeper and admission on a runtime of its own. They
//! are assembled as in the webhook's process, with a client of the stand-in for the API server.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, OnceLock},
    time::{Duration, SystemTime},
};

use anyhow::{Context as _, Result, anyhow};
use headroom_domain::{
    capacity::floor::HEARTBEAT_INTERVAL,
    estimate::Profile,
    installation::{ConfigMapName, Installation},
};
use headroom_kit::{
    files,
    gate::GateSet,
    metric::Exporter,
    serve::{Limits, Listener},
    supervise::Shutdown,
    tls::{self, CertStore, ClientAuth, MinVersion, client::client_config, self_signed, server_config},
};
use headroom_rules::{slo, switch::Switches};
use headroom_webhook::{
    admission::{
        endpoint::{Family, Stores},
        endpoints,
        features::Features,
        router::{self, Router},
    },
    args,
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
    },
};
use kube::Client;
use rustls::ClientConfig;
use tokio::{
    runtime::{Handle, Runtime},
    sync::watch,
    time::{interval, sleep},
};

use super::{LOCALHOST, admission::AdmissionPort, agents::Port, api_client, api_server::ApiServer, pinning};

/// How often metrics are folded, as the admin port does.
const UPKEEP_EVERY: Duration = Duration::from_secs(5);
/// How long threads may take to end.
const STOP_LIMIT: Duration = Duration::from_secs(10);
/// How long a port may stay taken by the replica before.
const BIND_TRIES: u32 = 100;
const BIND_PAUSE: Duration = Duration::from_millis(50);

/// What every replica is started with.
#[derive(Debug, Clone)]
pub(super) struct Setting {
    /// Its CPU.
    pub(super) cpu: u32,
    /// Where the stand-ins run.
    pub(super) load: Handle,
    /// How fast it may write.
    pub(super) rates: Rates,
    /// Its key pair.
    pub(super) keys: Arc<Keys>,
}

/// A key pair, and who trusts it.
#[derive(Debug)]
pub(super) struct Keys {
    store: Arc<CertStore>,
    admission: Arc<ClientConfig>,
    hints: Arc<ClientConfig>,
}

/// One replica.
#[derive(Debug)]
pub(super) struct Replica {
    /// Its stores.
    pub(super) cluster: Arc<Cluster>,
    /// Its admission port.
    pub(super) admission: AdmissionPort,
    /// Its hint port.
    pub(super) hints: Port,
    runtime: Option<Runtime>,
    /// Those of admission.
    _threads: Threads,
    known: Vec<watch::Receiver<bool>>,
}

impl Keys {
    /// A new pair.
    ///
    /// # Errors
    /// If it cannot be written to a file.
    pub(super) fn new() -> Result<Arc<Self>> {
        tls::install_provider();
        let directory = tempfile::tempdir()?;
        let files = self_signed::ensure(directory.path(), &[LOCALHOST.to_owned()], SystemTime::now())?;
        let ca = directory.path().join(self_signed::CA_CERT);
        Ok(Arc::new(Self {
            store: CertStore::load("bench", files, SystemTime::now())?,
            admission: client_config(&ca, None, &["http/1.1"])?,
            hints: client_config(&ca, None, &["h2"])?,
        }))
    }
}

impl Replica {
    /// Starts one whose hint port is that, or any with 0, with or without TLS.
    ///
    /// # Errors
    /// If a port cannot be had.
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

    /// Waits until its stores are known.
    ///
    /// # Errors
    /// If nobody follows one of them any more.
    pub(super) async fn until_known(&mut self) -> Result<()> {
        for store in &mut self.known {
            store
                .wait_for(|is_known| *is_known)
                .await
                .context("a store is not followed")?;
        }
        Ok(())
    }

    /// Ends it at once, with all of its connections.
    ///
    /// # Errors
    /// If that panics.
    pub(super) async fn kill(mut self) -> Result<()> {
        let Some(runtime) = self.runtime.take() else {
            return Ok(());
        };
        drop(self);
        Ok(tokio::task::spawn_blocking(move || runtime.shutdown_timeout(STOP_LIMIT)).await?)
    }
}

impl Drop for Replica {
    /// Without waiting, which is not allowed where this may happen.
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
    let settings = Settings {
        file: Amplification::default(),
        // The stand-in keeps what is stored while no replica answers.
        missing_floor: MissingFloor::Accepted,
        amplifies: true,
        heartbeat_interval: HEARTBEAT_INTERVAL,
        denies_above_hint: false,
        installation: Installation::default(),
    };
    let cluster = Arc::new(Cluster::new(settings, Arc::clone(&clock)));
    let stop_clock = stop();
    tokio::spawn(async move { clock.keep(stop_clock).await });
    let known = follow(client.clone(), &cluster, &shutdown);
    tokio::spawn(entry_conflicts::detect(Arc::clone(&cluster), stop()));
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

/// Asks that API server about each token.
fn authenticator(client: Client) -> Authenticator {
    let reviews = token_review::TokenReviewClient::new(client);
    Authenticator::new(Arc::new(reviews), &Installation::default())
}

/// Follows the sources of nodes; what is returned says of each whether it is known.
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
        .then(|| {
            server_config(
                Arc::clone(&keys.store) as _,
                MinVersion::Tls12,
                &ClientAuth::None,
                &["h2"],
            )
        })
        .transpose()?;
    tokio::spawn(server::serve(listener, tls, shared, shutdown.clone()));
    Ok(address)
}

async fn serve_admission(
    keys: &Keys,
    cluster: &Arc<Cluster>,
    shutdown: &Shutdown,
    threads: &Threads,
) -> Result<SocketAddr> {
    let tls = server_config(
        Arc::clone(&keys.store) as _,
        MinVersion::Tls12,
        &ClientAuth::None,
        &["http/1.1"],
    )?;
    let listener = threads.run(bind("admission", 0, Limits::default())).await?;
    let address = listener.address();
    let router = Router::new(router::Options {
        endpoints: endpoints::served(&[Family::Nodes]),
        features: Features::with_gates(GateSet::parse(endpoints::gates(), "")?).shared(),
        stores: Stores::of_nodes(Arc::clone(cluster) as _),
        limits: router::Limits::default(),
        log_sample: args::LOG_SAMPLE,
    });
    let answer = move |request| {
        let router = router.clone();
        async move { router.respond(request).await }
    };
    let serving = listener.serve_http(Some(tls), shutdown.clone(), answer);
    threads.handle().spawn(serving);
    Ok(address)
}

/// Binds a port on loopback; the replica before may not have given it back yet.
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

/// Metrics as the webhook has them; there is one recorder for all replicas of this process.
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
