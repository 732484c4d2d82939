//! A port on loopback that stays reserved for the API server while no process listens on it.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Context as _, Result};
use tokio::net::TcpSocket;

/// A reserved port. The socket is bound but never listens. With `SO_REUSEPORT` on both sockets, the API server can bind the same
/// port, also after a restart. The kernel does not assign the port to other processes.
#[derive(Debug)]
pub(super) struct Port {
    number: u16,
    _socket: TcpSocket,
}

impl Port {
    pub(super) fn reserve() -> Result<Self> {
        let socket = TcpSocket::new_v4().context("make a socket")?;
        socket.set_reuseport(true).context("share a port")?;
        socket
            .bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
            .context("choose a free port")?;
        let number = socket.local_addr().context("read the chosen port")?.port();
        Ok(Self {
            number,
            _socket: socket,
        })
    }

    pub(super) fn number(&self) -> u16 {
        self.number
    }

    pub(super) fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.number))
    }

    /// URL of an HTTPS server on the port.
    pub(super) fn url(&self) -> String {
        format!("https://{}:{}", Ipv4Addr::LOCALHOST, self.number)
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, net::TcpListener};

    use super::*;

    #[test]
    fn reserved_ports_are_unique() {
        let ports: Vec<Port> = (0..50).map(|_| Port::reserve().expect("port")).collect();
        assert_eq!(ports.iter().map(Port::number).collect::<BTreeSet<_>>().len(), 50);
    }

    #[test]
    fn reserved_port_cannot_be_bound_without_reuseport() {
        let port = Port::reserve().expect("port");
        assert!(TcpListener::bind((Ipv4Addr::LOCALHOST, port.number())).is_err());
    }
}
