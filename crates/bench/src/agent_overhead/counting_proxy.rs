//! `CountingProxy`: a TCP proxy between agent and hint server that counts every byte in both directions.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use anyhow::{Context as _, Result};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    task::JoinSet,
};

const CHUNK: usize = 16 << 10;

/// Closes its connections on drop.
#[derive(Debug)]
pub(super) struct CountingProxy {
    pub(super) address: SocketAddr,
    counts: Arc<ByteCounts>,
    _accept: JoinSet<()>,
}

/// Bytes of TCP payload so far: TLS included, TCP and IP headers excluded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Carried {
    /// From the agent to the server.
    pub(super) up: u64,
    /// From the server to the agent.
    pub(super) down: u64,
}

#[derive(Debug, Default)]
struct ByteCounts {
    up: AtomicU64,
    down: AtomicU64,
}

impl CountingProxy {
    pub(super) async fn open(server: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .context("cannot listen on loopback")?;
        let address = listener.local_addr().context("cannot read the port")?;
        let counts = Arc::<ByteCounts>::default();
        let mut accept = JoinSet::new();
        accept.spawn(carry_all(listener, server, Arc::clone(&counts)));
        Ok(Self {
            address,
            counts,
            _accept: accept,
        })
    }

    pub(super) fn carried(&self) -> Carried {
        let ByteCounts { up, down } = &*self.counts;
        Carried {
            up: up.load(Relaxed),
            down: down.load(Relaxed),
        }
    }
}

async fn carry_all(listener: TcpListener, server: SocketAddr, counts: Arc<ByteCounts>) {
    let mut connections = JoinSet::new();
    while let Ok((agent, _)) = listener.accept().await {
        let counts = Arc::clone(&counts);
        connections.spawn(async move {
            // The agent notices a closed connection and reconnects.
            let Ok(server) = TcpStream::connect(server).await else {
                return;
            };
            let ((from_agent, to_agent), (from_server, to_server)) =
                (agent.into_split(), server.into_split());
            let up = carry(from_agent, to_server, &counts.up);
            let down = carry(from_server, to_agent, &counts.down);
            tokio::join!(up, down);
        });
    }
}

/// Forwards one direction until its end.
async fn carry(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, count: &AtomicU64) {
    let mut chunk = vec![0; CHUNK];
    while let Ok(length @ 1..) = from.read(&mut chunk).await {
        let Some(read) = chunk.get(..length) else { return };
        if to.write_all(read).await.is_err() {
            return;
        }
        count.fetch_add(length as u64, Relaxed);
    }
    // Fails only if the other side has already closed the connection.
    to.shutdown().await.ok();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn bytes_arrive_and_are_counted_each_way() {
        let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let proxy = CountingProxy::open(server.local_addr().unwrap()).await.unwrap();
        let mut agent = TcpStream::connect(proxy.address).await.unwrap();
        let (mut accepted, _) = server.accept().await.unwrap();

        let report = vec![7; 100_000];
        agent.write_all(&report).await.unwrap();
        agent.shutdown().await.unwrap();
        let mut received = Vec::new();
        accepted.read_to_end(&mut received).await.unwrap();
        assert_eq!(received, report);
        accepted.write_all(b"accepted").await.unwrap();
        drop(accepted);
        let mut answer = Vec::new();
        agent.read_to_end(&mut answer).await.unwrap();
        assert_eq!(answer, b"accepted");
        assert_eq!(proxy.carried(), Carried { up: 100_000, down: 8 });
    }
}
