//! A hint server without a cluster, for tests and benches of the agent: the real protocol over TLS. It sends the same pods to
//! every agent, accepts every report, and passes reports to the caller.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    thread,
    time::{Duration, SystemTime},
};

use anyhow::{Context as _, Result};
use headroom_agent::sample::procfs::Procfs;
use headroom_domain::installation::Installation;
use headroom_kit::{
    serve::{GrpcLimits, Limits, Listener},
    supervise::Shutdown,
    tls::{CertStore, ClientAuth, MinVersion, self_signed, server_config},
};
use headroom_proto::v1alpha1::{
    Ack, Amounts, Directive, HintReport, Pods, Verdict,
    directive::Kind,
    hints_server::{Hints, HintsServer},
};
use tokio::{
    runtime::{self, Runtime},
    sync::mpsc,
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming, service::Routes};
use tower::Service as _;

/// A report, and the token of its stream.
#[derive(Debug, Clone)]
pub struct ReceivedReport {
    /// Bearer token, if the request had one.
    pub token: Option<String>,
    pub report: HintReport,
}

/// A running server. Dropping it ends it at once, as a power failure would.
#[derive(Debug)]
pub struct HintServer {
    pub address: SocketAddr,
    /// CA file of its certificate, in PEM.
    pub ca: PathBuf,
    pub reports: mpsc::UnboundedReceiver<ReceivedReport>,
    /// A runtime of its own, so that connections end with the server.
    runtime: Option<Runtime>,
}

#[derive(Clone)]
struct Service {
    pods: Pods,
    reports: mpsc::UnboundedSender<ReceivedReport>,
}

impl HintServer {
    /// Starts a server at an address, with its certificate in `folder`, that sends `pods` to every agent.
    ///
    /// # Errors
    /// If the certificate cannot be created, or the address is not available.
    pub async fn start(address: SocketAddr, folder: &Path, pods: Pods) -> Result<Self> {
        let name = Installation::default().hints_host();
        let now = SystemTime::now();
        let files = self_signed::ensure(folder, &[name], now)?;
        let certificate = CertStore::load("hints", files, now)?;
        let tls = server_config(certificate, MinVersion::default(), &ClientAuth::None, &["h2"])?;
        let (reports_tx, reports) = mpsc::unbounded_channel();
        let runtime = runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .context("make a runtime")?;
        let listener = runtime.spawn(Listener::bind("hints", address, Limits::default()));
        let listener = listener.await??;
        let address = listener.address();
        let service = HintsServer::new(Service {
            pods,
            reports: reports_tx,
        });
        runtime.spawn(async move {
            let routes = Routes::new(service);
            let answer = move |request| {
                let mut routes = routes.clone();
                async move { routes.call(request).await.unwrap_or_else(|never| match never {}) }
            };
            listener
                .serve_grpc(GrpcLimits::DEFAULT, tls, Shutdown::new(), answer)
                .await;
        });
        Ok(Self {
            address,
            ca: folder.join(self_signed::CA_CERT),
            reports,
            runtime: Some(runtime),
        })
    }
}

impl HintServer {
    /// Blocks the server for `length`, like a stopped process: connections stay open without answers.
    pub fn stall(&self, length: Duration) {
        if let Some(runtime) = &self.runtime {
            // The runtime has one thread, which also polls the sockets.
            runtime.spawn(async move { thread::sleep(length) });
        }
    }
}

impl Drop for HintServer {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

#[tonic::async_trait]
impl Hints for Service {
    type ReportStream = ReceiverStream<Result<Directive, Status>>;

    async fn report(
        &self,
        request: Request<Streaming<HintReport>>,
    ) -> Result<Response<Self::ReportStream>, Status> {
        let header = request
            .metadata()
            .get("authorization")
            .and_then(|value| value.to_str().ok());
        let token = header
            .and_then(|header| header.strip_prefix("Bearer "))
            .map(ToOwned::to_owned);
        let (directives_tx, directives) = mpsc::channel(16);
        let Self {
            pods,
            reports: reports_tx,
        } = self.clone();
        tokio::spawn(async move {
            let directive = |kind| Ok(Directive { kind: Some(kind) });
            // Sending fails if the agent has disconnected; its stream of reports ends then, too.
            directives_tx.send(directive(Kind::Pods(pods))).await.ok();
            let mut reports = request.into_inner();
            while let Ok(Some(report)) = reports.message().await {
                let ack = Ack {
                    seq: report.seq,
                    verdict: Verdict::Accepted.into(),
                    reason: String::new(),
                };
                reports_tx
                    .send(ReceivedReport {
                        token: token.clone(),
                        report,
                    })
                    .ok();
                directives_tx.send(directive(Kind::Ack(ack))).await.ok();
            }
        });
        Ok(Response::new(ReceiverStream::new(directives)))
    }
}

/// A pod list without pods, for a Node with the capacity of this machine.
///
/// # Errors
/// If the machine's files cannot be read.
pub fn this_machine() -> Result<Pods> {
    let files = Procfs::default();
    let amounts = Amounts {
        cpu_milli: u64::from(files.online()?.count()) * 1000,
        memory_bytes: files.meminfo()?.total,
    };
    Ok(Pods {
        generation: 1,
        node_uid: "8c7a5d0e-0000-4000-8000-000000000001".to_owned(),
        capacity: Some(amounts),
        raw_allocatable: Some(amounts),
        pods: Vec::new(),
        memory_pressure: false,
        admitted: None,
    })
}
