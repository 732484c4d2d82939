//! Addresses of the hint servers, asked for again and again: replicas come and go behind one name.

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

/// Time between two look-ups.
const EVERY: Duration = Duration::from_secs(10);

/// One name and what it last resolved to.
#[derive(Debug)]
struct Name {
    server: ServerAddress,
    last: BTreeSet<SocketAddr>,
    is_failing: bool,
}

/// Looks all names up every ten seconds and sends what they resolve to, until `stop`. A name that does not resolve
/// keeps the addresses it had: a DNS server in trouble must not take the streams down with it.
pub async fn resolve(
    servers: Vec<ServerAddress>,
    found: watch::Sender<BTreeSet<SocketAddr>>,
    stop: CancellationToken,
) {
    let mut names: Vec<_> = servers.into_iter().map(Name::new).collect();
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let lookups = async {
        loop {
            ticks.tick().await;
            for name in &mut names {
                name.look_up().await;
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

impl Name {
    const fn new(server: ServerAddress) -> Self {
        Self {
            server,
            last: BTreeSet::new(),
            is_failing: false,
        }
    }

    async fn look_up(&mut self) {
        let answer = lookup_host((self.server.host.as_str(), self.server.port)).await;
        self.take(answer.map(Iterator::collect));
    }

    fn take(&mut self, answer: std::io::Result<BTreeSet<SocketAddr>>) {
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
            debug!(%server, error = problem, kept = last.len(), "still cannot resolve");
        } else {
            warn!(%server, error = problem, kept = last.len(), "cannot resolve; keeping the addresses it had");
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
        let task = tokio::spawn(resolve(servers, found, stop.clone()));
        let all = seen.wait_for(|all| !all.is_empty()).await.unwrap().clone();
        assert_eq!(
            all,
            BTreeSet::from(["127.0.0.1:7".parse().unwrap(), "[::1]:8".parse().unwrap()])
        );
        stop.cancel();
        task.await.unwrap();
    }

    #[test]
    fn a_name_that_is_not_found_keeps_its_addresses() {
        let mut name = Name::new("a.svc".parse().unwrap());
        let addresses = BTreeSet::from([SocketAddr::from(([10, 0, 0, 1], 9444))]);
        name.take(Ok(addresses.clone()));
        name.take(Err(io::Error::other("NXDOMAIN")));
        assert_eq!((&name.last, name.is_failing), (&addresses, true));
        name.take(Ok(BTreeSet::new()));
        assert_eq!((&name.last, name.is_failing), (&addresses, true));
        let moved = BTreeSet::from([SocketAddr::from(([10, 0, 0, 2], 9444))]);
        name.take(Ok(moved.clone()));
        assert_eq!((&name.last, name.is_failing), (&moved, false));
    }
}
