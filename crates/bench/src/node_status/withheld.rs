//! Measures reviews at a steady rate, alone and while other connections withhold or trickle their bodies.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use futures::future::try_join_all;
use headroom_webhook::admission::router::Router;
use hyper::body::Bytes;
use rustix::process::{Resource, getrlimit, setrlimit};
use rustls::ClientConfig;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    task::JoinSet,
    time::{interval, sleep_until},
};
use tokio_rustls::client::TlsStream;

use crate::{
    served::{
        client::{connect, post, secure},
        server::{HTTP_1, Server, client_tls},
    },
    statistics::ascending,
};

/// Number of connections with slow bodies, and of their requests.
#[derive(Debug, Clone, Copy)]
pub(super) struct SlowConnections {
    /// Connections that send the request's head only.
    pub(super) withheld: usize,
    /// Connections that send the head and the first byte of the body.
    pub(super) trickled: usize,
    /// Number of times that all of them send a request.
    pub(super) waves: usize,
}

/// The server waits 600 ms for a body; reviews are counted in the second half of each wave.
pub(super) const SLOW: SlowConnections = SlowConnections {
    withheld: 2_000,
    trickled: 256,
    waves: 6,
};
pub(super) const PER_SECOND: u32 = 200;
/// Connections of the counted reviews.
const GOOD: u32 = 8;
/// Time for the heads, and time for the counted reviews.
const HALF: Duration = Duration::from_millis(290);
/// Connections that are opened concurrently.
const AT_A_TIME: usize = 32;

struct Target {
    address: SocketAddr,
    client: Arc<ClientConfig>,
}

pub(super) struct Latencies {
    /// Latency of each review without slow connections, ascending.
    pub(super) alone_ms: Vec<f64>,
    pub(super) crowded_ms: Vec<f64>,
    pub(super) refused: usize,
}

/// Serves `router` and sends `body` with and without slow connections.
pub(super) async fn run(
    router: Router,
    path: &'static str,
    body: Bytes,
    slow: SlowConnections,
) -> Result<Latencies> {
    // This process holds both ends of each connection.
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit)?;
    let directory = tempfile::tempdir()?;
    let server = Server::start(router, directory.path()).await?;
    let target = Target {
        address: server.address,
        client: client_tls(directory.path(), HTTP_1)?,
    };
    let found = both(&target, path, &body, slow).await;
    server.stop().await?;
    found
}

async fn both(server: &Target, path: &'static str, body: &Bytes, slow: SlowConnections) -> Result<Latencies> {
    let (mut alone_ms, mut crowded_ms) = (Vec::new(), Vec::new());
    for _ in 0..slow.waves {
        alone_ms.extend(steady(server, path, body, Instant::now()).await?);
    }
    for _ in 0..slow.waves {
        let connections = idle_connections(server, path, slow).await?;
        let begin = Instant::now();
        let withholding = tokio::spawn(withhold(connections, slow, path, body.len(), begin));
        crowded_ms.extend(steady(server, path, body, begin + HALF).await?);
        withholding.await??;
    }
    let mut refused = 0;
    let mut answered = |times: Vec<Option<f64>>| {
        refused += times.iter().filter(|time| time.is_none()).count();
        ascending(times.into_iter().flatten())
    };
    let (alone_ms, crowded_ms) = (answered(alone_ms), answered(crowded_ms));
    Ok(Latencies {
        alone_ms,
        crowded_ms,
        refused,
    })
}

/// Sends reviews at a steady rate for [`HALF`] from `begin` on. Latencies in milliseconds from the due time; `None`
/// for a refused review.
async fn steady(
    server: &Target,
    path: &'static str,
    body: &Bytes,
    begin: Instant,
) -> Result<Vec<Option<f64>>> {
    let mut clients = JoinSet::new();
    for number in 0..GOOD {
        let mut sender = connect(server.address, &server.client).await?;
        let body = body.clone();
        let first = begin + Duration::from_secs(1) * number / PER_SECOND;
        clients.spawn(async move {
            let mut times = Vec::new();
            let mut due = first;
            while due < begin + HALF {
                sleep_until(due.into()).await;
                let is_answered = post(&mut sender, path, body.clone()).await?;
                times.push(is_answered.then(|| due.elapsed().as_secs_f64() * 1e3));
                due += Duration::from_secs(1) * GOOD / PER_SECOND;
            }
            anyhow::Ok(times)
        });
    }
    let mut all = Vec::new();
    while let Some(times) = clients.join_next().await {
        all.extend(times??);
    }
    Ok(all)
}

/// Connections with one answered request, so that the server keeps them open while idle.
async fn idle_connections(
    server: &Target,
    path: &str,
    slow: SlowConnections,
) -> Result<Vec<TlsStream<TcpStream>>> {
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    let one = || async {
        let mut stream = secure(server.address, &server.client).await?;
        stream.write_all(request.as_bytes()).await?;
        stream.flush().await?;
        let read = stream.read(&mut [0; 1024]).await?;
        ensure!(read > 0, "the server closed an idle connection");
        anyhow::Ok(stream)
    };
    let mut streams = Vec::new();
    let all = slow.withheld + slow.trickled;
    while streams.len() < all {
        streams.extend(try_join_all((0..AT_A_TIME).map(|_| one())).await?);
    }
    streams.truncate(all);
    Ok(streams)
}

/// Sends the heads within [`HALF`], then nothing; ends when the server has closed all connections.
async fn withhold(
    streams: Vec<TlsStream<TcpStream>>,
    slow: SlowConnections,
    path: &'static str,
    length: usize,
    begin: Instant,
) -> Result<()> {
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    );
    let mut ticks = interval(Duration::from_millis(1));
    let (all, mut waiting) = (streams.len(), JoinSet::new());
    for (number, mut stream) in streams.into_iter().enumerate() {
        while begin.elapsed().as_micros() * (all as u128) < HALF.as_micros() * number as u128 {
            ticks.tick().await;
        }
        stream.write_all(head.as_bytes()).await?;
        if number.is_multiple_of(all / slow.trickled) {
            stream.write_all(b"{").await?;
        }
        stream.flush().await?;
        waiting.spawn(async move {
            let mut answer = Vec::new();
            // An error ends the connection too.
            drop(stream.read_to_end(&mut answer).await);
            answer
        });
    }
    for answer in waiting.join_all().await {
        let is_cut = answer.is_empty() || answer.starts_with(b"HTTP/1.1 408 ");
        ensure!(
            is_cut,
            "expected 408 or a closed connection for a withheld body, got {}",
            String::from_utf8_lossy(&answer)
        );
    }
    Ok(())
}
