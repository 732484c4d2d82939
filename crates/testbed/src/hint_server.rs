//! A hint server without a cluster, for tests and benches of the agent: the real protocol over real TLS. It sends every
//! agent the same pods, accepts every report and hands the reports to the caller.

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
    serve::{Limits, Listener},
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
use tonic::{Request, Response, Status, Streaming, transport::Server};

/// A report and the token that its stream was opened with.
#[derive(Debug, Clone)]
pub struct Heard {
    /// The token, if one was shown.
    pub token: Option<String>,
    /// The report.
    pub report: HintReport,
}

/// A running server; it ends when dropped, as if its machine had lost power.
#[derive(Debug)]
pub struct HintServer {
    /// Its port.
    pub address: SocketAddr,
    /// The CA of its certificate.
    pub ca: PathBuf,
    /// What it hears.
    pub heard: mpsc::UnboundedReceiver<Heard>,
    /// Its own, so that connections end with it.
    runtime: Option<Runtime>,
}

#[derive(Clone)]
struct Service {
    pods: Pods,
    heard: mpsc::UnboundedSender<Heard>,
}

impl HintServer {
    /// Starts at an address, with its certificate in a folder, and tells every agent of these pods.
    ///
    /// # Errors
    /// If it cannot have a certificate or the address.
    pub async fn start(address: SocketAddr, folder: &Path, pods: Pods) -> Result<Self> {
        let name = Installation::default().hints_host();
        let now = SystemTime::now();
        let files = self_signed::ensure(folder, &[name], now)?;
        let certificate = CertStore::load("hints", files, now)?;
        let tls = server_config(certificate, MinVersion::default(), &ClientAuth::None, &["h2"])?;
        let (heard_tx, heard) = mpsc::unbounded_channel();
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
            heard: heard_tx,
        });
        runtime.spawn(async move {
            let incoming = listener.incoming(tls, &Shutdown::new());
            let served = Server::builder()
                .add_service(service)
                .serve_with_incoming(incoming)
                .await;
            if let Err(error) = served {
                tracing::warn!(%error, "the hint server ended");
            }
        });
        Ok(Self {
            address,
            ca: folder.join(self_signed::CA_CERT),
            heard,
            runtime: Some(runtime),
        })
    }
}

impl HintServer {
    /// Has it do nothing for so long, as a process that is stopped: its connections stay, and nobody answers.
    pub fn stall(&self, length: Duration) {
        if let Some(runtime) = &self.runtime {
            // The one thread of the runtime, which its sockets are waited for on as well.
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
        let Self { pods, heard } = self.clone();
        tokio::spawn(async move {
            let directive = |kind| Ok(Directive { kind: Some(kind) });
            // An agent that is gone hears nothing; its stream of reports ends as well.
            directives_tx.send(directive(Kind::Pods(pods))).await.ok();
            let mut reports = request.into_inner();
            while let Ok(Some(report)) = reports.message().await {
                let ack = Ack {
                    seq: report.seq,
                    verdict: Verdict::Accepted.into(),
                    reason: String::new(),
                };
                heard
                    .send(Heard {
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

/// The pods of a Node without any that has the capacity of this machine.
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
