//! [`ScriptedAgent`] is an agent with hints written by a test: protocol and credential are real, measurements are
//! not.

use std::{net::SocketAddr, path::Path, time::Duration};

use headroom_domain::{
    estimate::Profile,
    hint::{AgentMode, Brake, NodeHint, ResourceHint},
    installation::Installation,
    names,
    ratio::Cents,
    resource::PerResource,
};
use headroom_kit::tls::{Files, client};
use headroom_proto::v1alpha1::{
    Ack, Directive, HintReport, Pods, Policy, directive::Kind, hints_client::HintsClient,
};
use tokio::{sync::mpsc, time::timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{
    Request, Status, Streaming,
    transport::{self, Channel},
};

/// Limit for an answer of the server.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// A hint for a node, to be adapted by tests: no brake, the given ratio, and frames of one second, so that the ratio
/// rises by 5 cents per second.
pub fn hint(node: &str, node_uid: &str, seq: u64, cpu_cents: u32) -> NodeHint {
    let part = |cents| ResourceHint {
        published: Cents(cents),
        target: Cents(cents),
        ..ResourceHint::default()
    };
    NodeHint {
        node: node.to_owned(),
        node_uid: node_uid.to_owned(),
        boot_id: "5f0c6a3e-0000-4000-8000-000000000001".to_owned(),
        seq,
        is_primary: true,
        pods_generation: 0,
        sight: AgentMode::Full,
        timing: Profile::Demo,
        is_draining: false,
        resources: PerResource {
            cpu: ResourceHint {
                reasons: vec!["slack".to_owned()],
                brake: Brake::Off,
                ..part(cpu_cents)
            },
            memory: part(100),
        },
        trust: Vec::new(),
        steal_ppm: 0,
        signals: Vec::new(),
        past: None,
        frame_use: None,
    }
}

/// A channel to a hint port, verified against the CA as by an agent, with or without a client certificate.
///
/// # Errors
/// If the server does not accept the connection.
pub async fn channel(
    hints: SocketAddr,
    ca: &Path,
    identity: Option<&Files>,
) -> Result<Channel, transport::Error> {
    let tls = client::client_config(ca, identity, &["h2"]).expect("client settings");
    let name = Installation::default().hints_host();
    let server = client::server_name(&name).expect("server name");
    let connector = client::Connector::new(tls, server, ANSWER_WITHIN);
    let agent = format!("{}/{}", names::AGENT_USER_AGENT, env!("CARGO_PKG_VERSION"));
    let endpoint = Channel::from_shared(format!("http://{hints}")).expect("address");
    let endpoint = endpoint.user_agent(agent).expect("a header");
    endpoint.connect_with_connector(connector).await
}

#[derive(Debug)]
pub struct ScriptedAgent {
    reports_tx: mpsc::Sender<HintReport>,
    directives: Streaming<Directive>,
    /// The last received pod list.
    pub pods: Option<Pods>,
    pub policy: Option<Policy>,
}

impl ScriptedAgent {
    /// Opens a stream with a bearer token, or without a credential.
    ///
    /// # Errors
    /// The gRPC status of the refused stream.
    pub async fn open(hints: SocketAddr, ca: &Path, token: Option<&str>) -> Result<Self, Status> {
        let channel = channel(hints, ca, None).await.expect("connect to the hint port");
        Self::over(channel, token).await
    }

    /// Opens a stream like [`Self::open`] on an existing channel.
    ///
    /// # Errors
    /// Errors of [`Self::open`].
    pub async fn over(channel: Channel, token: Option<&str>) -> Result<Self, Status> {
        let (reports_tx, reports_rx) = mpsc::channel(16);
        let mut request = Request::new(ReceiverStream::new(reports_rx));
        if let Some(token) = token {
            let value = format!("Bearer {token}")
                .parse()
                .expect("a token is a header value");
            request.metadata_mut().insert("authorization", value);
        }
        let directives = timeout(ANSWER_WITHIN, HintsClient::new(channel).report(request))
            .await
            .expect("an answer")?
            .into_inner();
        Ok(Self {
            reports_tx,
            directives,
            pods: None,
            policy: None,
        })
    }

    /// Sends a report and waits for its acknowledgement; pod lists and policies received meanwhile are kept.
    ///
    /// # Errors
    /// The gRPC status with which the server ends the stream.
    pub async fn report(&mut self, report: impl Into<HintReport>) -> Result<Ack, Status> {
        let report = report.into();
        let seq = report.seq;
        // The reason of an ended stream is returned by the next read.
        self.reports_tx.send(report).await.ok();
        loop {
            match self.next().await? {
                Kind::Ack(ack) if ack.seq == seq => return Ok(ack),
                Kind::Ack(_) | Kind::Workloads(_) => {}
                Kind::Pods(pods) => self.pods = Some(pods),
                Kind::Policy(policy) => self.policy = Some(policy),
            }
        }
    }

    /// Waits for a pod list that satisfies the condition.
    ///
    /// # Errors
    /// The gRPC status with which the server ends the stream.
    pub async fn pods_until(&mut self, is_it: impl Fn(&Pods) -> bool) -> Result<Pods, Status> {
        loop {
            if let Some(pods) = self.pods.as_ref().filter(|pods| is_it(pods)) {
                return Ok(pods.clone());
            }
            match self.next().await? {
                Kind::Pods(pods) => self.pods = Some(pods),
                Kind::Policy(policy) => self.policy = Some(policy),
                Kind::Ack(_) | Kind::Workloads(_) => {}
            }
        }
    }

    /// Waits until the server ends the stream and returns its status; directives before that are ignored.
    pub async fn end(&mut self) -> Status {
        loop {
            if let Err(status) = self.next().await {
                return status;
            }
        }
    }

    async fn next(&mut self) -> Result<Kind, Status> {
        let next = timeout(ANSWER_WITHIN, self.directives.message())
            .await
            .expect("a directive in time")?;
        next.and_then(|directive| directive.kind)
            .ok_or_else(|| Status::aborted("the server closed the stream"))
    }
}
