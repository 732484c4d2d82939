//! Simulated agents: each keeps a stream to the replica, and reports periodically and immediately on a brake. An
//! agent that loses its stream reconnects with the back-off of real agents.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::Result;
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use headroom_domain::names;
use headroom_kit::tls::client::server_name;
use headroom_proto::v1alpha1 as proto;
use proto::{Directive, HintReport, directive::Kind};
use rustls::ClientConfig;
use serde_json::json;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpSocket,
    runtime::Handle,
    select,
    sync::Notify,
    time::{Instant, interval_at, sleep, timeout},
};
use tokio_rustls::TlsConnector;

use super::{
    grpc_stream::{BufferedStream, Event},
    objects::{MEMORY, RAW_CPU_MILLI, node_name, node_uid, pod_uid},
};
use crate::served::server::LOCALHOST;

/// Published CPU ratio of each agent, in cents.
pub(super) const PUBLISHED: u32 = 110;
/// Limit for connecting with handshake. Waits between attempts are random, from zero to a limit that doubles from the
/// first to the last. All values are those of real agents.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
const FIRST_WAIT: Duration = Duration::from_millis(100);
const LAST_WAIT: Duration = Duration::from_secs(30);
const METHOD: &str = "/headroom.v1alpha1.Hints/Report";
/// Level of the brake L3 (stop).
const STOP: u8 = 3;

/// Hint port of the replica.
#[derive(Debug, Clone)]
pub(super) struct Port {
    pub(super) address: SocketAddr,
    /// Client settings, or `None` for plain TCP.
    pub(super) tls: Option<Arc<ClientConfig>>,
}

#[derive(Debug)]
pub(super) struct Agents {
    each: Vec<Agent>,
    report_every: Duration,
    port: Mutex<Option<Port>>,
    pods_per_node: usize,
    /// Agents with an open stream on which a report was accepted.
    reporting: AtomicUsize,
    refused: AtomicUsize,
}

#[derive(Debug, Default)]
struct Agent {
    brake: AtomicU8,
    changed: Notify,
    /// True once the replica has accepted a report on the open stream.
    is_accepted: AtomicBool,
}

/// State of an agent that outlives its streams.
#[derive(Debug)]
struct AgentState {
    seq: u64,
    generation: u64,
    reports: tokio::time::Interval,
}

impl Agents {
    /// Starts one agent per node; agents connect once a port is set.
    pub(super) fn start(nodes: usize, pods: usize, report_every: Duration, load: &Handle) -> Arc<Self> {
        let agents = Arc::new(Self {
            each: (0..nodes).map(|_| Agent::default()).collect(),
            report_every,
            port: Mutex::default(),
            pods_per_node: pods.div_ceil(nodes),
            reporting: AtomicUsize::new(0),
            refused: AtomicUsize::new(0),
        });
        for node in 0..nodes {
            load.spawn(Arc::clone(&agents).run(node));
        }
        agents
    }

    /// Sets the port for later connections.
    pub(super) fn set_port(&self, port: Option<Port>) {
        *self.port.lock().unwrap_or_else(PoisonError::into_inner) = port;
    }

    /// Number of agents with an accepted report on their open stream.
    pub(super) fn reporting(&self) -> usize {
        self.reporting.load(Ordering::Relaxed)
    }

    pub(super) fn refused(&self) -> usize {
        self.refused.load(Ordering::Relaxed)
    }

    /// Starts or releases a brake of one agent, which reports immediately.
    pub(super) fn brake(&self, node: usize, is_braked: bool) {
        if let Some(agent) = self.each.get(node) {
            agent
                .brake
                .store(if is_braked { STOP } else { 0 }, Ordering::Relaxed);
            agent.changed.notify_one();
        }
    }

    /// Keeps a stream open until the runtime ends.
    async fn run(self: Arc<Self>, node: usize) {
        let Some(agent) = self.each.get(node) else { return };
        let phase = Instant::now() + rand::random_range(Duration::ZERO..self.report_every);
        let mut state = AgentState {
            seq: 0,
            generation: 0,
            reports: interval_at(phase, self.report_every),
        };
        let mut limit = FIRST_WAIT;
        loop {
            let began = Instant::now();
            let port = self.port.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if let Some(port) = port {
                // The agent reconnects after any error; the case counts accepted reports.
                drop(self.attempt(node, agent, &port, &mut state).await);
            }
            if agent.is_accepted.swap(false, Ordering::Relaxed) {
                self.reporting.fetch_sub(1, Ordering::Relaxed);
            }
            if began.elapsed() >= LAST_WAIT {
                limit = FIRST_WAIT;
            }
            sleep(rand::random_range(Duration::ZERO..=limit)).await;
            limit = (limit * 2).min(LAST_WAIT);
        }
    }

    async fn attempt(&self, node: usize, agent: &Agent, port: &Port, state: &mut AgentState) -> Result<()> {
        let connecting = async {
            let socket = TcpSocket::new_v4()?;
            socket.bind(address_of(node)?)?;
            let tcp = socket.connect(port.address).await?;
            tcp.set_nodelay(true)?;
            anyhow::Ok(tcp)
        };
        let Some(tls) = &port.tls else {
            let tcp = timeout(CONNECT_LIMIT, connecting).await??;
            return self.stream(node, agent, tcp, state).await;
        };
        let name = server_name(LOCALHOST)?;
        // Boxed: the future of an agent without TLS stays small.
        let securing = Box::pin(async {
            anyhow::Ok(
                TlsConnector::from(Arc::clone(tls))
                    .connect(name, connecting.await?)
                    .await?,
            )
        });
        let stream = timeout(CONNECT_LIMIT, securing).await??;
        Box::pin(self.stream(node, agent, stream, state)).await
    }

    async fn stream<S>(&self, node: usize, agent: &Agent, stream: S, state: &mut AgentState) -> Result<()>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let mut wire = BufferedStream::open(stream, METHOD, &token(node)).await?;
        while wire.receive::<Directive>().await? != Event::Opened {}
        self.report(node, agent, &mut wire, state).await?;
        loop {
            select! {
                event = wire.receive::<Directive>() => if let Event::Message(Directive { kind: Some(kind) }) = event? {
                    self.apply(agent, kind, state);
                },
                _ = state.reports.tick() => self.report(node, agent, &mut wire, state).await?,
                () = agent.changed.notified() => self.report(node, agent, &mut wire, state).await?,
            }
        }
    }

    async fn report<S>(
        &self,
        node: usize,
        agent: &Agent,
        wire: &mut BufferedStream<S>,
        state: &mut AgentState,
    ) -> Result<()>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        state.seq += 1;
        let brake = agent.brake.load(Ordering::Relaxed);
        let pods = (0..self.pods_per_node).map(|pod| node + pod * self.each.len());
        wire.send(&report(node, pods, brake, state)).await
    }

    fn apply(&self, agent: &Agent, kind: Kind, state: &mut AgentState) {
        match kind {
            Kind::Ack(ack) if ack.verdict() == proto::Verdict::Accepted => {
                if !agent.is_accepted.swap(true, Ordering::Relaxed) {
                    self.reporting.fetch_add(1, Ordering::Relaxed);
                }
            }
            Kind::Ack(_) => {
                self.refused.fetch_add(1, Ordering::Relaxed);
            }
            Kind::Pods(pods) => state.generation = state.generation.max(pods.generation),
            Kind::Policy(_) | Kind::Workloads(_) => {}
        }
    }
}

/// Source address of an agent: the server limits connections per client address.
fn address_of(node: usize) -> Result<SocketAddr> {
    let number = u32::try_from(node)? + 1;
    let address = Ipv4Addr::from_bits(Ipv4Addr::new(127, 1, 0, 0).to_bits() + number);
    Ok((address, 0).into())
}

fn report(node: usize, pods: impl Iterator<Item = usize>, brake: u8, state: &AgentState) -> HintReport {
    let resource = |name: &str, capacity: u64, published: u32, brake: u8| proto::Resource {
        name: name.to_owned(),
        capacity,
        usage: capacity / 3,
        peak_p0: capacity / 3,
        predicted_peak: capacity * 2 / 5,
        warm_requests: capacity / 2,
        published_cents: published,
        target_cents: published,
        coverage_ppm: 1_000_000,
        margin_ppm: 150_000,
        brake: brake.into(),
        reasons: vec!["slack".to_owned()],
        ..proto::Resource::default()
    };
    let trust = |pod| proto::Trust {
        pod_uid: pod_uid(pod),
        cpu_ppm: 1_000_000,
        memory_ppm: 1_000_000,
        exclusive_cpus_milli: 0,
    };
    HintReport {
        node: node_name(node),
        node_uid: node_uid(node),
        boot_id: format!("{node:08x}-7f0b-4a53-9f7e-0d8e8f0f2a11"),
        seq: state.seq,
        primary: true,
        pods_generation: state.generation,
        mode: proto::Mode::Full.into(),
        timing: proto::Timing::Demo.into(),
        draining: false,
        resources: vec![
            resource("cpu", RAW_CPU_MILLI, PUBLISHED, brake),
            resource("memory", MEMORY, 100, 0),
        ],
        trust: pods.map(trust).collect(),
        steal_ppm: 0,
        signals: Vec::new(),
        past: None,
        frame_use: None,
    }
}

/// A token as long as those that kubelets project; the token review reads the node number at its end.
fn token(node: usize) -> String {
    let claims = json!({
        "aud": [names::TOKEN_AUDIENCE], "exp": 4_000_000_000_u64, "iat": 1_790_000_000_u64, "iss": "https://kubernetes.default.svc",
        "kubernetes.io": {"namespace": names::AGENT_NAMESPACE, "node": {"name": node_name(node), "uid": node_uid(node)}},
        "sub": format!("system:serviceaccount:{}:{}", names::AGENT_NAMESPACE, names::AGENT_SERVICE_ACCOUNT),
    });
    let claims = BASE64_URL_SAFE_NO_PAD.encode(claims.to_string());
    format!("eyJhbGciOiJSUzI1NiJ9.{claims}.{}-{node}", "s".repeat(330))
}

/// Node number at the end of a token.
pub(super) fn node_of_token(token: &str) -> Option<usize> {
    token.rsplit('-').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use headroom_domain::hint::{Brake, NodeHint};

    use super::*;

    #[tokio::test]
    async fn reports_are_valid() {
        let state = AgentState {
            seq: 3,
            generation: 7,
            reports: interval_at(Instant::now(), Duration::from_secs(15)),
        };
        let hint = NodeHint::try_from(report(5, 0..30, STOP, &state)).unwrap();
        assert_eq!((hint.seq, hint.pods_generation, hint.trust.len()), (3, 7, 30));
        assert_eq!(hint.resources.cpu.brake, Brake::Stop);
        assert_eq!(hint.resources.memory.brake, Brake::Off);
    }

    #[test]
    fn every_agent_has_its_own_address_and_token() {
        assert_eq!(address_of(0).unwrap().to_string(), "127.1.0.1:0");
        assert_eq!(address_of(4_999).unwrap().to_string(), "127.1.19.136:0");
        assert_eq!(node_of_token(&token(4_999)), Some(4_999));
    }
}
