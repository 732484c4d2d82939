//! Clients that load the webhook's own server stack with keep-alive requests over TLS, on loopback.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use http::{Request, StatusCode, header::CONTENT_TYPE};
use http_body_util::{BodyExt as _, Full};
use hyper::{body::Bytes, client::conn::http1::SendRequest};
use tokio::{task::JoinSet, time::sleep_until};

use crate::served::{Process, client::connect};

/// Connections, each with one request in flight.
pub(crate) const CONNECTIONS: usize = 8;
/// How long the load is on before anything counts.
const WARM_UP: Duration = Duration::from_secs(1);
/// How long it counts.
const MEASURED: Duration = Duration::from_secs(5);

/// What the clients saw, and what it took.
pub(crate) struct ClientLoad {
    /// Time of each request, ascending.
    pub(crate) latencies_ms: Vec<f64>,
    /// Answers per second over all connections.
    pub(crate) per_second: f64,
    /// CPU time of the server for each answer, in microseconds.
    pub(crate) cpu_us: f64,
}

/// Asks `server` that from all connections, one request after the other.
pub(crate) async fn run(server: &Process, path: &'static str, body: &Bytes) -> Result<ClientLoad> {
    let mut clients = JoinSet::new();
    let (begin, answered) = (Instant::now() + WARM_UP, Arc::new(AtomicU64::new(0)));
    for _ in 0..CONNECTIONS {
        let sender = connect(server.address, &server.client).await?;
        clients.spawn(ask(sender, path, body.clone(), begin, Arc::clone(&answered)));
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
    latencies_ms.sort_by(f64::total_cmp);
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52 requests")]
    let (timed, answered) = (latencies_ms.len() as f64, (answered - answered_before) as f64);
    Ok(ClientLoad {
        latencies_ms,
        per_second: timed / MEASURED.as_secs_f64(),
        cpu_us: cpu.saturating_sub(cpu_before).as_secs_f64() * 1e6 / answered,
    })
}

/// Asks until the time is over; the latencies of what was answered within it, in milliseconds.
async fn ask(
    mut sender: SendRequest<Full<Bytes>>,
    path: &'static str,
    body: Bytes,
    begin: Instant,
    answered: Arc<AtomicU64>,
) -> Result<Vec<f64>> {
    let mut latencies_ms = Vec::new();
    loop {
        let request = Request::post(path)
            .header(http::header::HOST, "localhost")
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(body.clone()))?;
        let sent = Instant::now();
        sender.ready().await?;
        let response = sender.send_request(request).await.context("no answer")?;
        ensure!(
            response.status() == StatusCode::OK,
            "answered {}",
            response.status()
        );
        let answer = response.into_body().collect().await?;
        let received = Instant::now();
        answered.fetch_add(1, Ordering::Relaxed);
        ensure!(!answer.to_bytes().is_empty(), "an empty answer");
        if received >= begin + MEASURED {
            return Ok(latencies_ms);
        }
        if sent >= begin {
            latencies_ms.push((received - sent).as_secs_f64() * 1e3);
        }
    }
}
