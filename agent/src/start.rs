//! Puts the agent together, runs it and ends it in order.
//!
//! ```text
//! thread "sample": Gatherer -> samples -> task "decide" -> newest report -> task "publish" -> hint servers
//!                                              ^-- directives ------------------'
//! ```

use std::{collections::BTreeSet, io, path::Path, sync::Arc, thread, time::Duration};

use headroom_domain::{estimate::Profile, hint::NodeHint};
use headroom_kit::{
    admin::{self, Admin, Readiness},
    log::LogError,
    metric::{Catalogue, Exporter, MetricError},
    serve::{Listener, ServeError},
    supervise::{Grace, SuperviseError, Supervisor},
    tls::{TlsError, client, install_provider},
};
use tokio::{
    runtime, select,
    sync::{mpsc, oneshot, watch},
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::{
    args::{Args, Credential},
    decide::{Decider, Identity},
    gather::{Gatherer, POLL, Sample},
    metrics, probe,
    publish::{self, Access, Directive, Publisher},
    sample::{SampleError, procfs::Procfs},
    sense::{self, Opened, SenseError},
    status::{self, Status},
};

/// Samples that may wait to be taken: two seconds.
const SAMPLES: usize = 8;
/// Directives that may wait to be taken.
const DIRECTIVES: usize = 16;
/// How long the agent may take to end; the last report has most of it.
const END_LIMIT: Duration = Duration::from_secs(5);

/// Why the agent does not start, or ends by itself.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Logging cannot begin.
    #[error("cannot log")]
    Log(#[from] LogError),
    /// The metrics contradict each other.
    #[error("cannot count")]
    Metrics(#[from] MetricError),
    /// A file or name that a flag gives cannot be used.
    #[error("{flag}")]
    Flag {
        /// The flag.
        flag: &'static str,
        /// What is wrong with it.
        #[source]
        source: TlsError,
    },
    /// This boot cannot be told from another.
    #[error("cannot tell which boot this is")]
    Boot(#[source] SampleError),
    /// Nothing can be measured.
    #[error(transparent)]
    Sense(#[from] SenseError),
    /// Threads or timers cannot be had.
    #[error("cannot start the runtime")]
    Runtime(#[source] io::Error),
    /// The admin port cannot be bound.
    #[error("--admin-addr")]
    Admin(#[from] ServeError),
    /// A part of the agent came to its end.
    #[error(transparent)]
    Supervise(#[from] SuperviseError),
}

/// The sampling thread is gone.
#[derive(Debug, thiserror::Error)]
#[error("the sampling thread panicked")]
struct Panicked;

/// Where the parts of the agent meet.
struct Parts {
    exporter: Exporter,
    access: Access,
    decider: Decider,
    gatherer: Gatherer,
}

/// Runs the agent until a signal ends it.
///
/// # Errors
/// It cannot start, or a part of it fails.
pub fn run(args: Args) -> Result<(), StartError> {
    args.log.init()?;
    install_provider();
    let exporter = Catalogue::new(&[metrics::METRICS])?.install()?;
    let access = access(&args)?;
    let timing = args.timing.timing();
    info!(node = args.node_name, timing = %args.timing, "starting");
    if args.timing == Profile::Demo {
        warn!("durations are compressed to be shown; hint servers refuse such reports unless told otherwise");
    }
    let files = Procfs::at(&args.proc_root, Path::new("/sys"));
    let identity = Identity {
        node: args.node_name.clone(),
        boot_id: files.boot_id().map_err(StartError::Boot)?,
    };
    let options = probe::Options {
        program_stats: args.program_stats,
        ..probe::Options::default()
    };
    let Opened {
        sampler,
        probe,
        senses,
    } = sense::open(args.source, &options, files.clone())?;
    let gatherer = Gatherer {
        sampler,
        probe,
        has_program_stats: args.program_stats,
        files,
        cgroup_root: args.cgroup_root.clone(),
        timing,
    };
    let decider = Decider::new(identity, senses, timing, POLL);
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
        },
    ))
}

/// Checks what the flags say about hint servers, so that a mistake shows at once and not at the first connect.
fn access(args: &Args) -> Result<Access, StartError> {
    let at = |flag| move |source| StartError::Flag { flag, source };
    let credential = args.credential();
    client::client_config(&args.ca_file, None, &[]).map_err(at("--ca-file"))?;
    match &credential {
        Credential::Token(path) => {
            let read = std::fs::read_to_string(path);
            read.map_err(|source| TlsError::Read {
                path: path.clone(),
                source,
            })
            .map_err(at("--token-file"))?;
        }
        Credential::Certificate(files) => {
            client::client_config(&args.ca_file, Some(files), &[]).map_err(at("--client-cert-file"))?;
        }
    }
    let server_name = client::server_name(&args.webhook_server_name).map_err(at("--webhook-server-name"))?;
    Ok(Access {
        server_name,
        ca_file: args.ca_file.clone(),
        credential,
    })
}

async fn serve(args: Args, parts: Parts) -> Result<(), StartError> {
    let Parts {
        exporter,
        access,
        decider,
        gatherer,
    } = parts;
    let mut supervisor = Supervisor::new()?;
    let shutdown = supervisor.shutdown();
    let stopping = || shutdown.stopping().clone();
    let listener = Listener::bind("admin", args.admin.admin_addr, admin::LIMITS).await?;
    info!(address = %listener.address(), "admin port is open");

    let (samples_tx, samples) = mpsc::channel(SAMPLES);
    let (directives_tx, directives) = mpsc::channel(DIRECTIVES);
    let (reports_tx, reports) = watch::channel(None);
    let (addresses_tx, addresses) = watch::channel(BTreeSet::new());
    let (streams_tx, streams) = watch::channel(Vec::new());
    let (status_tx, status) = watch::channel(decider.status());
    let readiness = Readiness::new();

    supervisor.spawn("sample", sample(gatherer, samples_tx, stopping())?);
    let is_sampling = readiness.handle("sampling");
    let ends = DecideEnds {
        samples,
        directives,
        reports_tx,
        status_tx,
    };
    supervisor.spawn("decide", decide(decider, ends, is_sampling, stopping()));
    supervisor.spawn(
        "resolve",
        publish::resolve(args.webhook_addr, addresses_tx, stopping()),
    );
    let ends = publish::Ends {
        reports,
        addresses,
        directives: directives_tx,
        streams: streams_tx,
    };
    let publisher = Publisher::new(args.node_name, args.publish_fanout, access, ends, stopping());
    supervisor.spawn("publish", publisher.run());
    let page = move || Status {
        streams: streams.borrow().clone(),
        ..status.borrow().clone()
    };
    let admin = Admin::new("agent", exporter, readiness).json(status::PATH, page);
    supervisor.spawn("admin", admin.serve(listener, shutdown.clone()));

    // Nobody is sent to the agent, so there is nobody to wait for.
    supervisor
        .run(Grace {
            linger: Duration::ZERO,
            deadline: END_LIMIT,
        })
        .await?;
    Ok(())
}

/// Starts the sampling thread; the future ends when the thread does.
fn sample(
    gatherer: Gatherer,
    samples_tx: mpsc::Sender<Sample>,
    stopping: CancellationToken,
) -> Result<impl Future<Output = Result<(), Panicked>>, StartError> {
    let (ended_tx, ended) = oneshot::channel();
    let body = move || {
        gatherer.run(&samples_tx, &stopping);
        // The receiver is dropped only when the process is ending anyway.
        let _is_heard = ended_tx.send(()).is_ok();
    };
    thread::Builder::new()
        .name("sample".to_owned())
        .spawn(body)
        .map_err(StartError::Runtime)?;
    Ok(async { ended.await.map_err(|_dropped| Panicked) })
}

/// The ends of the channels of who decides.
struct DecideEnds {
    samples: mpsc::Receiver<Sample>,
    directives: mpsc::Receiver<Directive>,
    reports_tx: watch::Sender<Option<Arc<NodeHint>>>,
    status_tx: watch::Sender<Status>,
}

/// Decides until the end; the last report says that it is the last.
async fn decide(
    mut decider: Decider,
    ends: DecideEnds,
    is_sampling: admin::Handle,
    stopping: CancellationToken,
) {
    let DecideEnds {
        mut samples,
        mut directives,
        reports_tx,
        status_tx,
    } = ends;
    loop {
        select! {
            Some(sample) = samples.recv() => {
                decider.take(sample);
                is_sampling.ready();
            }
            Some(directive) = directives.recv() => decider.direct(directive),
            () = stopping.cancelled() => break,
        }
        if let Some(report) = decider.report() {
            reports_tx.send_replace(Some(Arc::new(report)));
        }
        let status = decider.status();
        metrics::show(&status);
        status_tx.send_replace(status);
    }
    if let Some(report) = decider.farewell() {
        info!(seq = report.seq, "reporting for the last time");
        reports_tx.send_replace(Some(Arc::new(report)));
    }
}
