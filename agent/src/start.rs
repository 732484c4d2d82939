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
    start::source::Opened,
};

/// Queue of samples: two seconds. A sample that does not fit is missing from the current frame.
const SAMPLES: usize = 8;
/// Queue of directives.
const DIRECTIVES: usize = 16;
/// Interval at which the configuration file is read even without a change of its directory.
const CONFIG_POLL: Duration = Duration::from_secs(30);
/// Queue of pod requests from the debug socket.
const QUESTIONS: usize = 4;
/// Limit on the time that the agent takes to end; the final report uses most of it.
const END_LIMIT: Duration = Duration::from_secs(5);
/// No Service sends clients to the agent, so there is no time to linger.
const GRACE: Grace = Grace {
    linger: Duration::ZERO,
    deadline: END_LIMIT,
};

/// Parts of the agent that exist before its tasks start.
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

/// Runs the agent until SIGTERM or SIGINT.
///
/// # Errors
/// The agent cannot start, or a part of it fails.
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
            "--timing demo: durations are compressed; hint servers reject these reports unless they run with --allow-demo-timing"
        );
    }
    let files = Procfs::at(&args.proc_root, Path::new("/sys"));
    let identity = Identity {
        node: args.node_name.clone(),
        boot_id: files.boot_id().map_err(StartError::Boot)?,
    };
    let (gatherer, cpu_source) = open_source(&args, &settings, files)?;
    let decider = Decider::new(identity, cpu_source, args.timing.timing(), POLL);
    let (decider, store) = restore(decider, &args, &settings);
    // One thread is enough for four samples a second and a few streams, and saves memory.
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

/// Opens the source of CPU counters, then drops the capabilities that this needed.
fn open_source(args: &Args, settings: &Settings, files: Procfs) -> Result<(Gatherer, CpuSource), StartError> {
    let options = probe::Options {
        btf: settings.btf.clone(),
        program_stats: settings.program_stats,
        ..probe::Options::default()
    };
    let Opened {
        sampler,
        mut probe,
        cpu_source,
    } = source::open(settings.source, &options, files.clone())?;
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

/// Resumes from the last checkpoint, if there is one, and opens the store for the next. Without a usable folder the agent
/// starts and saves nothing.
fn restore(mut decider: Decider, args: &Args, settings: &Settings) -> (Decider, Option<Store>) {
    let log =
        |error| warn!(error = %chain(&error), "--checkpoint: nothing is saved until the agent restarts");
    let wall = checkpoint::wall();
    let open = |folder| Store::open(folder, wall).map_err(log).ok();
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
    let ends = PublishEnds {
        reports,
        directives_tx,
        streams_tx,
        settings_tx,
        file,
        levels,
    };
    publish(&mut supervisor, args, access, ends);
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

/// The other ends of the channels of the task `decide`.
struct Measuring {
    directives_tx: mpsc::Sender<Directive>,
    pods_tx: mpsc::Sender<PodsAsked>,
    reports: watch::Receiver<Option<Arc<NodeHint>>>,
    requests: StatusRequests,
}

/// Starts the sampling thread and the tasks `decide` and `checkpoint`.
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

/// The publisher's ends of the channels to the task `decide` and the status, and the configuration file.
struct PublishEnds {
    reports: watch::Receiver<Option<Arc<NodeHint>>>,
    directives_tx: mpsc::Sender<Directive>,
    streams_tx: watch::Sender<Vec<StreamStatus>>,
    settings_tx: watch::Sender<Settings>,
    file: File,
    levels: Levels,
}

/// Starts the tasks that report to the hint servers and follow the configuration file.
fn publish(supervisor: &mut Supervisor, args: Args, access: Access, ends: PublishEnds) {
    let PublishEnds {
        reports,
        directives_tx,
        streams_tx,
        settings_tx,
        file,
        levels,
    } = ends;
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

/// Parts that serve the agent's status, metrics and debug socket.
struct StatusPages {
    exporter: Exporter,
    readiness: Readiness,
    listener: Listener,
    socket: Option<Socket>,
    requests: StatusRequests,
    pods_tx: mpsc::Sender<PodsAsked>,
}

/// Starts the tasks of the admin port and the debug socket.
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
