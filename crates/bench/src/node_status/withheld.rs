//! Measures reviews at a steady pace, alone and beside connections that withhold or trickle their bodies.

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

use crate::served::{
    client::{ask, connect, secure},
    server::{Server, client_of},
};

/// Who is there besides good clients.
#[derive(Debug, Clone, Copy)]
pub(super) struct Crowd {
    /// Connections that send a head and withhold the body.
    pub(super) withheld: usize,
    /// Connections that send the first byte of the body, too.
    pub(super) trickled: usize,
    /// How often all of them come.
    pub(super) waves: usize,
}

/// A body is waited for 600 ms, and in each wave the second half of that counts.
pub(super) const CROWD: Crowd = Crowd {
    withheld: 2_000,
    trickled: 256,
    waves: 6,
};
/// Good reviews a second.
pub(super) const PER_SECOND: u32 = 200;
/// Connections that they come over.
const GOOD: u32 = 8;
/// In which the heads are sent, and in which good reviews count.
const HALF: Duration = Duration::from_millis(290);
/// Connections that are made at a time.
const AT_A_TIME: usize = 32;

/// Where the server is and how clients verify it.
struct ServerEndpoint {
    address: SocketAddr,
    client: Arc<ClientConfig>,
}

/// What good clients saw.
pub(super) struct Latencies {
    /// Time of each review without anybody else, ascending.
    pub(super) alone_ms: Vec<f64>,
    /// Latencies connections that withhold.
    pub(super) crowded_ms: Vec<f64>,
    /// Good reviews that got no verdict.
    pub(super) refused: usize,
}

/// Serves `router` and asks it `body`.
pub(super) async fn run(router: Router, path: &'static str, body: Bytes, crowd: Crowd) -> Result<Latencies> {
    // Both ends of each connection are this process's.
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit)?;
    let directory = tempfile::tempdir()?;
    let server = Server::start(router, directory.path()).await?;
    let target = ServerEndpoint {
        address: server.address,
        client: client_of(directory.path())?,
    };
    let found = both(&target, path, &body, crowd).await;
    server.stop().await?;
    found
}

async fn both(server: &ServerEndpoint, path: &'static str, body: &Bytes, crowd: Crowd) -> Result<Latencies> {
    let (mut alone_ms, mut crowded_ms) = (Vec::new(), Vec::new());
    for _ in 0..crowd.waves {
        alone_ms.extend(steady(server, path, body, Instant::now()).await?);
    }
    for _ in 0..crowd.waves {
        let slow = idle_connections(server, path, crowd).await?;
        let begin = Instant::now();
        let withholding = tokio::spawn(withhold(slow, crowd, path, body.len(), begin));
        crowded_ms.extend(steady(server, path, body, begin + HALF).await?);
        withholding.await??;
    }
    let mut refused = 0;
    let mut answered = |times: Vec<Option<f64>>| {
        refused += times.iter().filter(|time| time.is_none()).count();
        let mut times: Vec<f64> = times.into_iter().flatten().collect();
        times.sort_by(f64::total_cmp);
        times
    };
    let (alone_ms, crowded_ms) = (answered(alone_ms), answered(crowded_ms));
    Ok(Latencies {
        alone_ms,
        crowded_ms,
        refused,
    })
}

/// Asks at a steady pace from `begin` on, for half a wave; the times in milliseconds, each from the moment at which
/// the review was due, or nothing for one that was refused.
async fn steady(
    server: &ServerEndpoint,
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
                let is_answered = ask(&mut sender, path, body.clone()).await?;
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

/// Connections that were answered once, so that they may be idle.
async fn idle_connections(
    server: &ServerEndpoint,
    path: &str,
    crowd: Crowd,
) -> Result<Vec<TlsStream<TcpStream>>> {
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    let one = || async {
        let mut stream = secure(server.address, &server.client).await?;
        stream.write_all(request.as_bytes()).await?;
        stream.flush().await?;
        let read = stream.read(&mut [0; 1024]).await?;
        ensure!(read > 0, "a connection was closed");
        anyhow::Ok(stream)
    };
    let mut streams = Vec::new();
    let all = crowd.withheld + crowd.trickled;
    while streams.len() < all {
        streams.extend(try_join_all((0..AT_A_TIME).map(|_| one())).await?);
    }
    streams.truncate(all);
    Ok(streams)
}

/// Sends heads over half a wave, then nothing more; ends when the server has given up on all of them.
async fn withhold(
    streams: Vec<TlsStream<TcpStream>>,
    crowd: Crowd,
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
        if number.is_multiple_of(all / crowd.trickled) {
            stream.write_all(b"{").await?;
        }
        stream.flush().await?;
        waiting.spawn(async move {
            let mut answer = Vec::new();
            // An end is an end, in whatever way.
            drop(stream.read_to_end(&mut answer).await);
            answer
        });
    }
    for answer in waiting.join_all().await {
        let is_cut = answer.is_empty() || answer.starts_with(b"HTTP/1.1 408 ");
        ensure!(
            is_cut,
            "a withheld body was answered {}",
            String::from_utf8_lossy(&answer)
        );
    }
    Ok(())
}
