//! Loads a server with keep-alive requests over TLS, on loopback.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use http_body_util::Full;
use hyper::{body::Bytes, client::conn::http1::SendRequest};
use tokio::{task::JoinSet, time::sleep_until};

use crate::{
    served::{
        Process,
        client::{connect, post},
    },
    statistics::ascending,
};

/// Number of connections, each with one request in flight.
pub(crate) const CONNECTIONS: usize = 8;
/// Length of the load before the measured part.
const WARM_UP: Duration = Duration::from_secs(1);
const MEASURED: Duration = Duration::from_secs(5);

/// Results of the measured part.
pub(crate) struct ClientLoad {
    /// Time of each request, ascending.
    pub(crate) latencies_ms: Vec<f64>,
    /// Answers per second over all connections.
    pub(crate) per_second: f64,
    /// CPU time of the server per answer, in microseconds.
    pub(crate) cpu_us: f64,
}

/// Sends `body` on all connections, one request after another on each.
pub(crate) async fn run(server: &Process, path: &'static str, body: &Bytes) -> Result<ClientLoad> {
    let mut clients = JoinSet::new();
    let (begin, answered) = (Instant::now() + WARM_UP, Arc::new(AtomicU64::new(0)));
    for _ in 0..CONNECTIONS {
        let sender = connect(server.address, &server.client).await?;
        clients.spawn(post_repeatedly(
            sender,
            path,
            body.clone(),
            begin,
            Arc::clone(&answered),
        ));
    }
    let so_far = || anyhow::Ok((server.vitals()?.cpu, answered.load(Ordering::Relaxed)));
    sleep_until(begin.into()).await;
    let (cpu_before, answered_before) = so_far()?;
    sleep_until((begin + MEASURED).into()).await;
    let (cpu, answered) = so_far()?;
    let mut latencies_ms = Vec::new();
    while let Some(own) = clients.join_next().await {
        latencies_ms.extend(own??);
    }
    ensure!(
        latencies_ms.len() >= 100,
        "only {} requests were answered",
        latencies_ms.len()
    );
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52 requests")]
    let (timed, answered) = (latencies_ms.len() as f64, (answered - answered_before) as f64);
    Ok(ClientLoad {
        latencies_ms: ascending(latencies_ms),
        per_second: timed / MEASURED.as_secs_f64(),
        cpu_us: cpu.saturating_sub(cpu_before).as_secs_f64() * 1e6 / answered,
    })
}

/// Sends requests until the end of the measured part; returns the latencies of those within it, in milliseconds.
async fn post_repeatedly(
    mut sender: SendRequest<Full<Bytes>>,
    path: &'static str,
    body: Bytes,
    begin: Instant,
    answered: Arc<AtomicU64>,
) -> Result<Vec<f64>> {
    let mut latencies_ms = Vec::new();
    loop {
        let sent = Instant::now();
        let is_answered = post(&mut sender, path, body.clone()).await?;
        let received = Instant::now();
        ensure!(
            is_answered,
            "a review of {path} was not answered with 200 and a body"
        );
        answered.fetch_add(1, Ordering::Relaxed);
        if received >= begin + MEASURED {
            return Ok(latencies_ms);
        }
        if sent >= begin {
            latencies_ms.push((received - sent).as_secs_f64() * 1e3);
        }
    }
}
