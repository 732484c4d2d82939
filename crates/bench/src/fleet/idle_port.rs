//! `IdlePort`: accepts the agents' streams before the first replica starts, and discards their reports. The memory of
//! the process meanwhile is that of the stand-ins with all agents connected.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use anyhow::Result;
use tokio::{
    io::AsyncWriteExt as _,
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

use super::grpc_stream;

/// Buffer size; shared by all connections.
const READ: usize = 16 << 10;

/// Closes all connections on drop.
#[derive(Debug)]
pub(super) struct IdlePort {
    address: SocketAddr,
    reporting: Arc<AtomicUsize>,
    _serving: JoinSet<()>,
}

impl IdlePort {
    /// Listens on loopback.
    ///
    /// # Errors
    /// If the port cannot be opened.
    pub(super) async fn open() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let reporting = Arc::new(AtomicUsize::new(0));
        let mut serving = JoinSet::new();
        serving.spawn(serve(listener, Arc::clone(&reporting)));
        Ok(Self {
            address,
            reporting,
            _serving: serving,
        })
    }

    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Connections that sent data after their stream was accepted.
    pub(super) fn reporting(&self) -> usize {
        self.reporting.load(Ordering::Relaxed)
    }
}

async fn serve(listener: TcpListener, reporting: Arc<AtomicUsize>) {
    let mut connections = JoinSet::new();
    loop {
        if let Ok((stream, _)) = listener.accept().await {
            let reporting = Arc::clone(&reporting);
            // Each connection ends with its agent.
            connections.spawn(async move { drop(read(stream, &reporting).await) });
        }
    }
}

async fn read(mut stream: TcpStream, reporting: &AtomicUsize) -> Result<()> {
    stream.readable().await?;
    stream.write_all(&grpc_stream::acceptance()?).await?;
    // The request's head arrives first, in one piece.
    let mut pieces = 0_usize;
    loop {
        stream.readable().await?;
        match stream.try_read(&mut [0; READ]) {
            Ok(0) => return Ok(()),
            Ok(_) => pieces += 1,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
        if pieces == 2 {
            reporting.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::{
        runtime::Handle,
        time::{sleep, timeout},
    };

    use super::*;
    use crate::fleet::agents::{Agents, Port};

    #[tokio::test]
    async fn agents_connect_and_report() {
        let port = IdlePort::open().await.unwrap();
        let agents = Agents::start(3, 9, Duration::from_millis(50), &Handle::current());
        agents.set_port(Some(Port {
            address: port.address(),
            tls: None,
        }));
        let all_report = async {
            while port.reporting() < 3 {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(Duration::from_secs(30), all_report).await.unwrap();
        assert_eq!(agents.reporting(), 0, "no report is acknowledged");
    }
}
