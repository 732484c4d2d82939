//! Assembles the agent from its parts, runs it, and ends it in order.
//!
//! ```text
//! thread "accounts" -> thread "sample": Gatherer -> samples -> task "decide" -> newest report -> task "publish" -> hint servers
//!                                                                   ^-- directives ------------------'
//! ```

mod access;
mod error;
mod reload;
mod settle;
pub mod source;
mod tasks;

use std::{
    collections::BTreeSet,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use headroom_domain::{
    estimate::Profile,
    hint::{Beginning, NodeHint},
};
use headroom_kit::{
    admin::{self, Admin, Readiness},
    log::{self, Levels, chain},
    metric::{Catalogue, Exporter},
    serve::Listener,
    supervise::{Grace, Supervisor},
    tls::install_provider,
};
use tokio::{
    runtime,
    sync::{mpsc, watch},
};
use tracing::{info, warn};

pub use self::error::StartError;
use self::{
    access::access,
    reload::Changeable,
    settle::settle,
    tasks::{DecideEnds, decide, lock, sample},
};
use crate::{
    args::Args,
    config::{self, File, Settings},
    decide::{Decider, Identity},
    gather::{Gatherer, POLL},
    kernel::{
        cpu_source::CpuSource,
        heap, privilege,
        probe::{self, Probe},
        supervisor::{Limits, Watch},
    },
    local::{
        checkpoint::{self, Loaded, Store},
        debug::{Debug, PodsAsked, Socket},
        gauges,
        status::{self, StatusRequests, StreamStatus},
    },
    metrics,
    publish::{self, Access, Directive, Publisher},
    sample::{clock::Clocks, cpus::CpuSet, procfs::Procfs},
    start::{source as sense, source::Opened},
};

/// Samples that may wait to be taken: two seconds. What is lost beyond is missing in the frame under way.
const SAMPLES: usize = 8;
/// Directives that may wait to be taken.
const DIRECTIVES: usize = 16;
/// The configuration file is read this often, whether or not its directory seems to have changed.
const CONFIG_POLL: Duration = Duration::from_secs(30);
/// Questions about pods that may wait to be answered.
const QUESTIONS: usize = 4;
/// How long the agent may take to end; the last report has most of it.
const END_LIMIT: Duration = Duration::from_secs(5);
/// Nobody is sent to the agent, so there is nobody to wait for.
const GRACE: Grace = Grace {
    linger: Duration::ZERO,
    deadline: END_LIMIT,
};

/// Where the parts of the agent meet.
struct Parts {
    exporter: Exporter,
    access: Access,
    decider: Decider,
    gatherer: Gatherer,
    store: Option<Store>,
    socket: Option<Socket>,
    file: File,
    levels: Levels,
}

/// Runs the agent until a signal ends it.
///
/// # Errors
/// It cannot start, or a part of it fails.
pub fn run(args: Args) -> Result<(), StartError> {
    heap::bound();
    let file = config::load(args.config.as_deref())?;
    let settings = Settings::resolve(&args, &file);
    let levels = log::init(args.log.log_format, &settings.log_filter)?;
    install_provider();
    let exporter = Catalogue::new(&metrics::LISTS)?.install()?;
    let access = access(&args)?;
    let socket = Socket::open(&args.debug_socket);
    info!(node = args.node_name, timing = %args.timing, "starting");
    if args.timing == Profile::Demo {
        warn!(
            "durations are compressed for a demonstration; hint servers refuse such reports without --allow-demo-timing"
        );
    }
    let files = Procfs::at(&args.proc_root, Path::new("/sys"));
    let identity = Identity {
        node: args.node_name.clone(),
        boot_id: files.boot_id().map_err(StartError::Boot)?,
    };
    let (gatherer, cpu_source) = sense(&args, &settings, files)?;
    let decider = Decider::new(identity, cpu_source, args.timing.timing(), POLL);
    let (decider, store) = remember(decider, &args, &settings);
    // One thread is enough for four samples a second and a few streams, and keeps the agent small.
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(StartError::Runtime)?;
    runtime.block_on(serve(
        args,
        Parts {
            exporter,
            access,
            decider,
            gatherer,
            store,
            socket,
            file,
            levels,
        },
    ))
}

/// Opens the source of CPU counters, and gives up what that took.
fn sense(args: &Args, settings: &Settings, files: Procfs) -> Result<(Gatherer, CpuSource), StartError> {
    let options = probe::Options {
        btf: settings.btf.clone(),
        program_stats: settings.program_stats,
        ..probe::Options::default()
    };
    let Opened {
        sampler,
        mut probe,
        cpu_source,
    } = sense::open(settings.source, &options, files.clone())?;
    privilege::give_up(|| probe.as_mut().is_none_or(Probe::can_count));
    let timing = args.timing.timing();
    let gatherer = Gatherer {
        sampler,
        probe,
        watch: Watch::default(),
        limits: Limits::from_timing(&timing),
        has_program_stats: settings.program_stats,
        files,
        cgroup_root: args.cgroup_root.clone(),
        timing,
    };
    Ok((gatherer, cpu_source))
}

/// Goes on from the last checkpoint, if there is one, and says where the next go. A folder that cannot be had costs
/// memory, not the start.
fn remember(mut decider: Decider, args: &Args, settings: &Settings) -> (Decider, Option<Store>) {
    let tell =
        |error| warn!(error = %chain(&error), "--checkpoint: nothing is saved until the agent is restarted");
    let wall = checkpoint::wall();
    let open = |folder| Store::open(folder, wall).map_err(tell).ok();
    let mut store = args.checkpoint.as_deref().and_then(open);
    let (at, owner) = (Clocks::read(), decider.owner());
    let loaded = store
        .as_mut()
        .map(|store| store.load(&owner, |record| decider.resume(record, at, wall)));
    match loaded {
        None => decider.begin(at, Beginning::NotSaved),
        Some(Loaded::Nothing) => decider.begin(at, Beginning::NothingSaved),
        Some(Loaded::Unusable) => decider.begin(at, Beginning::Unusable),
        Some(Loaded::Resumed(())) => {}
    }
    decider.adopt(settings);
    (decider, store)
}

async fn serve(args: Args, parts: Parts) -> Result<(), StartError> {
    let Parts {
        exporter,
        access,
        decider,
        gatherer,
        store,
        socket,
        file,
        levels,
    } = parts;
    let mut supervisor = Supervisor::new()?;
    let listener = Listener::bind("admin", args.admin.admin_addr, admin::LIMITS).await?;
    info!(address = %listener.address(), "admin port is open");

    let (streams_tx, streams) = watch::channel(Vec::new());
    let (settings_tx, settings) = watch::channel(Settings::resolve(&args, &file));
    let readiness = Readiness::new();
    let is_sampling = readiness.handle("sampling");
    let Measuring {
        directives_tx,
        pods_tx,
        reports,
        requests,
    } = measure(
        &mut supervisor,
        gatherer,
        (decider, store),
        settings,
        streams,
        is_sampling,
    )?;
    let heard = Heard {
        reports,
        directives_tx,
        streams_tx,
        settings_tx,
        file,
        levels,
    };
    report(&mut supervisor, args, access, heard);
    let shown = StatusPages {
        exporter,
        readiness,
        listener,
        socket,
        requests,
        pods_tx,
    };
    show(&mut supervisor, shown);
    let stopping = supervisor.shutdown().stopping().clone();
    supervisor.spawn("settle", settle(stopping));
    supervisor.run(GRACE).await?;
    Ok(())
}

/// The other ends of the channels of who decides.
struct Measuring {
    directives_tx: mpsc::Sender<Directive>,
    pods_tx: mpsc::Sender<PodsAsked>,
    reports: watch::Receiver<Option<Arc<NodeHint>>>,
    requests: StatusRequests,
}

/// Samples, and decides what the samples come to.
fn measure(
    supervisor: &mut Supervisor,
    gatherer: Gatherer,
    (decider, store): (Decider, Option<Store>),
    settings: watch::Receiver<Settings>,
    streams: watch::Receiver<Vec<StreamStatus>>,
    is_sampling: admin::PartReadiness,
) -> Result<Measuring, StartError> {
    let (samples_tx, samples) = mpsc::channel(SAMPLES);
    let (directives_tx, directives) = mpsc::channel(DIRECTIVES);
    let (pods_tx, pods) = mpsc::channel(QUESTIONS);
    let (reports_tx, reports) = watch::channel(None);
    let (changes_tx, changes) = watch::channel(());
    let decider = Arc::new(Mutex::new(decider));
    let shown = Arc::clone(&decider);
    let requests = StatusRequests::new(move || lock(&shown).status(), changes, streams);
    let (exclusive_tx, exclusive) = watch::channel(CpuSet::default());
    let records_tx = store.map(|store| {
        let (records_tx, records) = watch::channel(None);
        supervisor.spawn("checkpoint", checkpoint::keep(store, records));
        records_tx
    });
    let ends = DecideEnds {
        samples,
        directives,
        pods,
        settings,
        records_tx,
        reports_tx,
        changes_tx,
        exclusive_tx,
    };
    let shutdown = supervisor.shutdown();
    let stopping = || shutdown.stopping().clone();
    supervisor.spawn("sample", sample(gatherer, samples_tx, exclusive, stopping())?);
    supervisor.spawn("decide", decide(decider, ends, is_sampling, stopping()));
    Ok(Measuring {
        directives_tx,
        pods_tx,
        reports,
        requests,
    })
}

/// The publisher's ends of the channels to who decides and who shows.
struct Heard {
    reports: watch::Receiver<Option<Arc<NodeHint>>>,
    directives_tx: mpsc::Sender<Directive>,
    streams_tx: watch::Sender<Vec<StreamStatus>>,
    settings_tx: watch::Sender<Settings>,
    file: File,
    levels: Levels,
}

/// Reports to the hint servers that flags and file name, and follows the file.
fn report(supervisor: &mut Supervisor, args: Args, access: Access, heard: Heard) {
    let Heard {
        reports,
        directives_tx,
        streams_tx,
        settings_tx,
        file,
        levels,
    } = heard;
    let settings = Settings::resolve(&args, &file);
    let stopping = supervisor.shutdown().stopping().clone();
    let (addresses_tx, addresses) = watch::channel(BTreeSet::new());
    let (servers_tx, servers) = watch::channel(settings.webhook_addr);
    let (fanout_tx, fanout) = watch::channel(settings.publish_fanout);
    let resolving = publish::resolve(servers, addresses_tx, stopping.clone());
    supervisor.spawn("resolve", resolving);
    let ends = publish::Ends {
        reports,
        fanout,
        addresses,
        directives: directives_tx,
        streams: streams_tx,
    };
    let publisher = Publisher::new(args.node_name.clone(), access, ends, stopping.clone());
    supervisor.spawn("publish", publisher.run());
    if let Some(path) = args.config.clone() {
        let parts = Changeable {
            levels,
            servers_tx,
            fanout_tx,
            settings_tx,
        };
        supervisor.spawn("config", reload::follow((path, file), args, parts, stopping));
    }
}

/// What the agent is looked at by.
struct StatusPages {
    exporter: Exporter,
    readiness: Readiness,
    listener: Listener,
    socket: Option<Socket>,
    requests: StatusRequests,
    pods_tx: mpsc::Sender<PodsAsked>,
}

/// Opens the admin port and the debug socket to whoever asks.
fn show(supervisor: &mut Supervisor, shown: StatusPages) {
    let StatusPages {
        exporter,
        readiness,
        listener,
        socket,
        requests,
        pods_tx,
    } = shown;
    let shutdown = supervisor.shutdown();
    if let Some(socket) = socket {
        let debug = Debug {
            requests: requests.clone(),
            pods: pods_tx,
            stopping: shutdown.stopping().clone(),
        };
        supervisor.spawn("debug", debug.serve(socket));
    }
    let counted = requests.clone();
    let admin = Admin::new("agent", exporter, readiness)
        .before_metrics(move || gauges::show(&counted.clone().now()))
        .local_json(status::PATH, move || requests.clone().now());
    supervisor.spawn("admin", admin.serve(listener, shutdown));
}
