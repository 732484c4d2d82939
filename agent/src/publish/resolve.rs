//! Resolves the addresses of the hint servers every ten seconds, and immediately when other servers are configured:
//! replicas change behind one DNS name.

use std::{collections::BTreeSet, net::SocketAddr, time::Duration};

use headroom_kit::log::chain;
use tokio::{
    net::lookup_host,
    select,
    sync::watch,
    time::{MissedTickBehavior, interval},
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::args::ServerAddress;

const EVERY: Duration = Duration::from_secs(10);

/// A name and its last addresses.
#[derive(Debug)]
struct ResolvedName {
    server: ServerAddress,
    last: BTreeSet<SocketAddr>,
    is_failing: bool,
}

/// Resolves all names every ten seconds, and immediately after a change of the configuration, until `stop`; sends the
/// addresses when they change. A name that does not resolve keeps its addresses: a failing DNS server must not end
/// streams.
pub async fn resolve(
    mut servers: watch::Receiver<Vec<ServerAddress>>,
    found: watch::Sender<BTreeSet<SocketAddr>>,
    stop: CancellationToken,
) {
    let mut names = Vec::new();
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let lookups = async {
        loop {
            select! {
                _ = ticks.tick() => {}
                Ok(()) = servers.changed() => {}
            }
            names = chosen(names, &servers.borrow_and_update());
            for name in &mut names {
                name.resolve().await;
            }
            let all = names.iter().flat_map(|name| name.last.iter().copied()).collect();
            found.send_if_modified(|known| {
                let is_new = *known != all;
                *known = all;
                is_new
            });
        }
    };
    select! {
        () = stop.cancelled() => {}
        () = lookups => {}
    }
}

/// These servers; the names that stay keep the addresses they had.
fn chosen(known: Vec<ResolvedName>, servers: &[ServerAddress]) -> Vec<ResolvedName> {
    let mut known = known;
    let name = |server: &ServerAddress| {
        let at = known.iter().position(|name| name.server == *server);
        at.map_or_else(|| ResolvedName::new(server.clone()), |at| known.swap_remove(at))
    };
    servers.iter().map(name).collect()
}

impl ResolvedName {
    const fn new(server: ServerAddress) -> Self {
        Self {
            server,
            last: BTreeSet::new(),
            is_failing: false,
        }
    }

    async fn resolve(&mut self) {
        let answer = lookup_host((self.server.host.as_str(), self.server.port)).await;
        self.apply(answer.map(Iterator::collect));
    }

    fn apply(&mut self, answer: std::io::Result<BTreeSet<SocketAddr>>) {
        let problem = match answer {
            Ok(addresses) if !addresses.is_empty() => {
                (self.last, self.is_failing) = (addresses, false);
                return;
            }
            Ok(_) => "no addresses".to_owned(),
            Err(error) => chain(&error).to_string(),
        };
        let Self {
            server,
            last,
            is_failing,
        } = self;
        if *is_failing {
            debug!(%server, error = problem, kept = last.len(), "still could not resolve");
        } else {
            warn!(%server, error = problem, kept = last.len(), "could not resolve; keeping the earlier addresses");
        }
        *is_failing = true;
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[tokio::test]
    async fn an_address_resolves_to_itself() {
        let (found, mut seen) = watch::channel(BTreeSet::new());
        let stop = CancellationToken::new();
        let servers = vec!["127.0.0.1:7".parse().unwrap(), "[::1]:8".parse().unwrap()];
        let (servers_tx, servers) = watch::channel(servers);
        let task = tokio::spawn(resolve(servers, found, stop.clone()));
        let all = seen.wait_for(|all| !all.is_empty()).await.unwrap().clone();
        assert_eq!(
            all,
            BTreeSet::from(["127.0.0.1:7".parse().unwrap(), "[::1]:8".parse().unwrap()])
        );
        servers_tx.send_replace(vec!["[::1]:9".parse().unwrap()]);
        let other = BTreeSet::from(["[::1]:9".parse().unwrap()]);
        seen.wait_for(|all| *all == other).await.unwrap();
        stop.cancel();
        task.await.unwrap();
    }

    #[test]
    fn a_name_that_stays_keeps_its_addresses() {
        let mut name = ResolvedName::new("a.svc".parse().unwrap());
        name.apply(Ok(BTreeSet::from([SocketAddr::from(([10, 0, 0, 1], 9444))])));
        let names = chosen(vec![name], &["b.svc".parse().unwrap(), "a.svc".parse().unwrap()]);
        let known: Vec<_> = names.iter().map(|name| name.last.len()).collect();
        assert_eq!(known, [0, 1]);
    }

    #[test]
    fn a_name_that_is_not_found_keeps_its_addresses() {
        let mut name = ResolvedName::new("a.svc".parse().unwrap());
        let addresses = BTreeSet::from([SocketAddr::from(([10, 0, 0, 1], 9444))]);
        name.apply(Ok(addresses.clone()));
        name.apply(Err(io::Error::other("NXDOMAIN")));
        assert_eq!((&name.last, name.is_failing), (&addresses, true));
        name.apply(Ok(BTreeSet::new()));
        assert_eq!((&name.last, name.is_failing), (&addresses, true));
        let moved = BTreeSet::from([SocketAddr::from(([10, 0, 0, 2], 9444))]);
        name.apply(Ok(moved.clone()));
        assert_eq!((&name.last, name.is_failing), (&moved, false));
    }
}
