//! Services for the node and its pods, at the node's address: a relay to the API server, which listens on loopback of this machine
//! only, and the cluster's DNS.

use std::{
    fs::File,
    net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket},
    os::fd::AsFd as _,
    path::Path,
    sync::mpsc,
    thread::{self, JoinHandle},
};

use anyhow::{Context as _, Result};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tokio::{
    io::copy_bidirectional,
    net::TcpStream,
    runtime::{Builder, Runtime},
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

/// Sockets in the node's network.
struct Sockets {
    relay: TcpListener,
    dns: UdpSocket,
}

impl Gateway {
    /// Starts both services at this address in the network of the process. They run until drop, and keep the network until then.
    pub(super) fn start(
        process: u32,
        address: Ipv4Addr,
        api_server: SocketAddr,
        kubeconfig: &Path,
    ) -> Result<Self> {
        // Sockets stay in the network of the thread that creates them. The thread cannot return to this machine's network.
        let sockets = thread::spawn(move || Sockets::bind(process, address)).join();
        let sockets = sockets.ok().context("the thread of the sockets panicked")??;
        let kubeconfig = kubeconfig.to_owned();
        let (started_tx, started) = mpsc::channel();
        let (stop, stopped) = oneshot::channel();
        let thread = thread::spawn(move || match prepare(sockets, &kubeconfig) {
            Ok((runtime, relay, dns)) => {
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
        });
        started.recv().context("the gateway panicked")??;
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Sockets {
    /// Moves the thread to the network of the process.
    fn bind(process: u32, address: Ipv4Addr) -> Result<Self> {
        let network = File::open(format!("/proc/{process}/ns/net")).context("open the node's network")?;
        move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network))
            .context("enter the node's network")?;
        let relay = TcpListener::bind((address, API_PORT)).context("listen for clients of the API server")?;
        let dns = UdpSocket::bind((address, DNS_PORT)).context("listen for DNS queries")?;
        relay.set_nonblocking(true).context("share a socket")?;
        dns.set_nonblocking(true).context("share a socket")?;
        Ok(Self { relay, dns })
    }
}

fn prepare(sockets: Sockets, kubeconfig: &Path) -> Result<(Runtime, tokio::net::TcpListener, Dns)> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("start the async runtime of the gateway")?;
    let (relay, dns) = runtime.block_on(async {
        let relay = tokio::net::TcpListener::from_std(sockets.relay)?;
        let dns = tokio::net::UdpSocket::from_std(sockets.dns)?;
        anyhow::Ok((relay, Dns::new(dns, client_of(kubeconfig).await?)))
    })?;
    Ok((runtime, relay, dns))
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
async fn relay_to(listener: tokio::net::TcpListener, api_server: SocketAddr) {
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
