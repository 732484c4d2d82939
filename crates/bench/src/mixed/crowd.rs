//! Connections whose bodies come a byte a second: each waits until the server gives it up, and comes again.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::{Result, ensure};
use rustls::ClientConfig;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    task::JoinSet,
    time::{Instant, sleep_until, timeout, timeout_at},
};

use crate::served::{Process, client::secure};

/// Between two bytes.
const PAUSE: Duration = Duration::from_secs(1);
/// Over which the first connections come. Were they all given up at once, all would come again at once, and handshakes would be
/// measured.
const SPREAD: Duration = Duration::from_secs(1);
/// What the head announces.
const ANNOUNCED: usize = 80_000;

/// Trickles bodies until `end` over that many connections, which ask the paths in turn. How many bodies were given up.
///
/// # Errors
/// If the server cannot be reached, or answers such a body with anything but 408.
pub(super) async fn run(
    server: &Process,
    paths: &[&'static str],
    connections: usize,
    end: Instant,
) -> Result<usize> {
    let mut clients = JoinSet::new();
    let each = SPREAD / u32::try_from(connections).unwrap_or(u32::MAX).max(1);
    let mut due = Instant::now();
    for path in paths.iter().copied().cycle().take(connections) {
        let (address, client) = (server.address, Arc::clone(&server.client));
        let comes = due;
        due += each;
        clients.spawn(async move {
            sleep_until(comes).await;
            let mut given_up = 0;
            while Instant::now() < end {
                let Ok(is_given_up) = timeout_at(end, trickle(address, &client, path)).await else {
                    break;
                };
                is_given_up?;
                given_up += 1;
            }
            anyhow::Ok(given_up)
        });
    }
    let mut given_up = 0;
    while let Some(own) = clients.join_next().await {
        given_up += own??;
    }
    Ok(given_up)
}

/// Sends a head and then a byte a second, until the server ends the connection.
async fn trickle(address: SocketAddr, client: &Arc<ClientConfig>, path: &str) -> Result<()> {
    let mut stream = secure(address, client).await?;
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {ANNOUNCED}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    let mut answer = Vec::new();
    loop {
        // A connection that is over takes no more bytes, and what it said is read below.
        let is_open = stream.write_all(b" ").await.is_ok() && stream.flush().await.is_ok();
        let read = timeout(PAUSE, stream.read_to_end(&mut answer)).await;
        if read.is_ok() || !is_open {
            break;
        }
    }
    ensure!(
        answer.is_empty() || answer.starts_with(b"HTTP/1.1 408 "),
        "a body that trickles was answered {}",
        String::from_utf8_lossy(&answer)
    );
    Ok(())
}
