//! [`Followers`]: follows the sources that the gates in force want, and no others, for as long as the process runs.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use futures::FutureExt as _;
use headroom_kit::{
    admin::{PartReadiness, Readiness},
    supervise::TaskError,
};
use tokio::{
    select,
    sync::watch,
    task::JoinSet,
    time::{MissedTickBehavior, interval},
};
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::wanted::{needed, wanted};
use crate::{
    admission::{endpoint::Family, features::Features},
    store::{
        known::KnownSources,
        sources::{self, Opened, Opening, Source},
    },
};

/// Interval of the check of gates, which may add or remove sources.
const GATES_EVERY: Duration = Duration::from_secs(1);

/// Inputs that select the sources to follow.
#[derive(Clone)]
pub(super) struct WantedSources {
    pub(super) families: Vec<Family>,
    /// They may change while the process runs.
    pub(super) features: Arc<ArcSwap<Features>>,
}

/// The sources that are followed.
pub(super) struct Followers {
    wants: WantedSources,
    opening: Opening,
    known: KnownSources,
    readiness: Readiness,
    /// Ends each source that is followed, and each that is ending, by its name: it is opened again only when it has ended.
    followed: BTreeMap<&'static str, CancellationToken>,
    /// Gives the name of a source that has ended.
    running: JoinSet<&'static str>,
}

impl WantedSources {
    fn now(&self) -> Vec<&'static Source> {
        wanted(&self.families, &self.features.load().gates)
    }

    /// Sources without which calls fail.
    pub(super) fn needed(&self) -> Vec<&'static Source> {
        needed(&self.families, &self.features.load().gates)
    }
}

impl Followers {
    /// Starts without any source.
    pub(super) fn new(
        wants: WantedSources,
        opening: Opening,
        known: KnownSources,
        readiness: Readiness,
    ) -> Self {
        Self {
            wants,
            opening,
            known,
            readiness,
            followed: BTreeMap::new(),
            running: JoinSet::new(),
        }
    }

    /// Follows them until `stop` is cancelled, and adds or removes sources as gates change.
    pub(super) async fn keep(mut self) -> Result<(), TaskError> {
        let stop = self.opening.stop.clone();
        let mut ticks = interval(GATES_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            select! {
                () = stop.cancelled() => break,
                // A follower of a source ends when the token is cancelled, or by a defect.
                Some(ended) = self.running.join_next() => {
                    self.followed.remove(ended?);
                }
                _ = ticks.tick() => self.follow_wanted(),
            }
        }
        while let Some(ended) = self.running.join_next().await {
            ended?;
        }
        Ok(())
    }

    /// Starts to follow newly wanted sources, and ends those that are no longer wanted.
    pub(super) fn follow_wanted(&mut self) {
        let wanted = self.wants.now();
        for source in sources::ALL {
            let is_wanted = wanted.iter().any(|other| other.name == source.name);
            if !is_wanted && source.close.is_some() && self.known.is_followed(source) {
                self.close(source);
            }
        }
        for source in wanted {
            if !self.followed.contains_key(source.name) {
                self.open(source);
            }
        }
    }

    /// Ends its task. It counts as unknown from now on.
    fn close(&mut self, source: &'static Source) {
        info!(
            source = source.name,
            "no feature gate needs this source any more: not followed from now on"
        );
        self.known.forget(source);
        if let Some(stop) = self.followed.get(source.name) {
            stop.cancel();
        }
    }

    fn open(&mut self, source: &'static Source) {
        info!(source = source.name, "following");
        let process_stop = self.opening.stop.clone();
        let opening = Opening {
            stop: process_stop.child_token(),
            ..self.opening.clone()
        };
        let Opened {
            is_known,
            last_activity,
            task,
        } = (source.open)(&opening);
        self.known.record(source, is_known.clone());
        if let Some(last_activity) = last_activity {
            self.known.record_signs(source, last_activity);
        }
        let Opening { stop, stores, .. } = opening;
        self.followed.insert(source.name, stop.clone());
        let task = task.unwrap_or_else(|| stop.clone().cancelled_owned().boxed());
        let line = self.readiness.note(source.name);
        self.running.spawn(async move {
            tokio::join!(task, show(&line, is_known, stop));
            // Requests in flight are answered from the stores until the process ends.
            if let Some(close) = source.close.filter(|_| !process_stop.is_cancelled()) {
                close(&stores);
                line.withdraw();
            }
            source.name
        });
    }
}

/// Shows the known state of a source until `stop` is cancelled.
async fn show(line: &PartReadiness, mut is_known: watch::Receiver<bool>, stop: CancellationToken) {
    loop {
        if *is_known.borrow_and_update() {
            line.ready();
        } else {
            line.not_ready("not known, or not known any more");
        }
        select! {
            () = stop.cancelled() => return,
            // A follower of a source ends when the token is cancelled.
            Ok(()) = is_known.changed() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use headroom_kit::gate::GateSet;
    use kube::{Client, Config};
    use tokio::time::sleep;

    use super::*;
    use crate::{
        admission::endpoints,
        store::{
            cluster::tests::cluster,
            sources::{PODS_BY_NAME, SourceStores},
        },
    };

    fn features(gates: &str) -> Features {
        Features::with_gates(GateSet::parse(endpoints::gates(), gates).unwrap())
    }

    /// A client whose API server never answers.
    fn client() -> Client {
        Client::try_from(Config::new("http://127.0.0.1:1".parse().unwrap())).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_source_is_followed_while_a_gate_wants_it() {
        let cluster = cluster([], []);
        let (known, readiness) = (KnownSources::default(), Readiness::new());
        let stores = SourceStores::new(
            Arc::clone(&cluster.nodes),
            Arc::clone(&cluster.pods),
            Arc::clone(&cluster.policies),
            &known.signal(),
        );
        let by_name = Arc::clone(&stores.pods.by_name);
        let stop = CancellationToken::new();
        let opening = Opening {
            client: client(),
            config_namespace: "koordinator-system".to_owned(),
            stores,
            stop: stop.clone(),
        };
        let wants = WantedSources {
            families: vec![Family::Nodes, Family::Koordinator],
            features: features("ElasticValidatingWebhook=false,PodValidatingWebhook=false").shared(),
        };
        let in_force = Arc::clone(&wants.features);
        let followers = Followers::new(wants, opening, known.clone(), readiness.clone());
        let keeping = tokio::spawn(followers.keep());
        for (gates, is_wanted) in [
            ("PodValidatingWebhook=false", false),
            ("", true),
            ("PodValidatingWebhook=false", false),
            ("BindingAdmissionWebhook=true", true),
        ] {
            let gates = [gates, "ElasticValidatingWebhook=false"].map(str::to_owned);
            let gates = gates
                .into_iter()
                .filter(|list| !list.is_empty())
                .collect::<Vec<_>>()
                .join(",");
            in_force.store(Arc::new(features(&gates)));
            sleep(GATES_EVERY * 3).await;
            assert_eq!(known.is_followed(&PODS_BY_NAME), is_wanted, "{gates}");
            assert_eq!(by_name.listing().is_some(), is_wanted, "{gates}");
            let is_shown = readiness
                .notes()
                .iter()
                .any(|(name, _)| *name == PODS_BY_NAME.name);
            assert_eq!(is_shown, is_wanted, "{gates}");
            assert!(known.is_followed(&sources::PODS), "its watch is that of nodes");
        }
        stop.cancel();
        keeping.await.unwrap().unwrap();
        assert!(by_name.listing().is_some(), "requests in flight still read it");
    }
}
