//! Services for the node and its pods on this machine's end of the node's network: a relay to the API server, which listens on
//! loopback only, and the cluster's DNS.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    sync::mpsc,
    thread::{self, JoinHandle},
};

use anyhow::{Context as _, Result};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream, UdpSocket},
    runtime::Builder,
    select,
    sync::oneshot,
};

use super::dns::Dns;
use crate::cluster::client_of;

/// Port of the relay: the manifests' network policies permit it, as it is kubeadm's port of API servers.
pub(super) const API_PORT: u16 = 6443;
const DNS_PORT: u16 = 53;

/// The services, in a thread of their own: a test may block its async runtime.
#[derive(Debug)]
pub(super) struct Gateway {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Gateway {
    /// Starts both services at this address. They run until drop.
    pub(super) fn start(address: Ipv4Addr, api_server: SocketAddr, kubeconfig: &Path) -> Result<Self> {
        let kubeconfig = kubeconfig.to_owned();
        let (started_tx, started) = mpsc::channel();
        let (stop, stopped) = oneshot::channel();
        let thread = thread::spawn(move || {
            let outcome = Builder::new_current_thread()
                .enable_all()
                .build()
                .context("start the async runtime of the gateway")
                .and_then(|runtime| {
                    let services = runtime.block_on(bind(address, &kubeconfig))?;
                    Ok((runtime, services))
                });
            match outcome {
                Ok((runtime, (relay, dns))) => {
                    started_tx.send(Ok(())).ok();
                    runtime.block_on(async {
                        select! {
                            () = relay_to(relay, api_server) => {}
                            () = dns.serve() => {}
                            _ = stopped => {}
                        }
                    });
                }
                Err(error) => {
                    started_tx.send(Err(error)).ok();
                }
            }
        });
        started.recv().context("the gateway panicked")??;
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

async fn bind(address: Ipv4Addr, kubeconfig: &Path) -> Result<(TcpListener, Dns)> {
    let relay = TcpListener::bind((address, API_PORT))
        .await
        .with_context(|| format!("listen on {address}:{API_PORT} for the API server"))?;
    let dns = UdpSocket::bind((address, DNS_PORT))
        .await
        .with_context(|| format!("listen on {address}:{DNS_PORT} for DNS"))?;
    Ok((relay, Dns::new(dns, client_of(kubeconfig).await?)))
}

impl Drop for Gateway {
    fn drop(&mut self) {
        drop(self.stop.take());
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::warn!("the gateway of a node panicked");
        }
    }
}

/// Connects each client to the API server. A connection that the API server refuses ends, as without the relay.
async fn relay_to(listener: TcpListener, api_server: SocketAddr) {
    loop {
        match listener.accept().await {
            Ok((mut client, _)) => {
                tokio::spawn(async move {
                    let server = TcpStream::connect(api_server).await;
                    if let Ok(mut server) = server {
                        // Either side may reset the connection.
                        copy_bidirectional(&mut client, &mut server).await.ok();
                    }
                });
            }
            Err(error) => tracing::warn!(%error, "the relay to the API server cannot accept a connection"),
        }
    }
}
