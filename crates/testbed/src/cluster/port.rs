//! A port on loopback that stays reserved for the API server while no process listens on it.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Context as _, Result};
use tokio::net::TcpSocket;

/// A reserved port. The socket is bound and never listens. With `SO_REUSEPORT` on both sides the API server listens beside
/// it, also after a restart. The kernel gives the number to nobody else who asks for a free port.
#[derive(Debug)]
pub(super) struct Port {
    number: u16,
    _socket: TcpSocket,
}

impl Port {
    /// Reserves a free port.
    pub(super) fn reserve() -> Result<Self> {
        let socket = TcpSocket::new_v4().context("make a socket")?;
        socket.set_reuseport(true).context("share a port")?;
        socket
            .bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
            .context("choose a free port")?;
        let number = socket.local_addr().context("ask for the chosen port")?.port();
        Ok(Self {
            number,
            _socket: socket,
        })
    }

    /// Its number.
    pub(super) fn number(&self) -> u16 {
        self.number
    }

    /// The address of an HTTPS server behind it.
    pub(super) fn url(&self) -> String {
        format!("https://{}:{}", Ipv4Addr::LOCALHOST, self.number)
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, net::TcpListener};

    use super::*;

    #[test]
    fn two_reservations_never_share_a_port() {
        let ports: Vec<Port> = (0..50).map(|_| Port::reserve().expect("port")).collect();
        assert_eq!(ports.iter().map(Port::number).collect::<BTreeSet<_>>().len(), 50);
    }

    #[test]
    fn no_stranger_can_take_a_reserved_port() {
        let port = Port::reserve().expect("port");
        assert!(TcpListener::bind((Ipv4Addr::LOCALHOST, port.number())).is_err());
    }
}
