//! Judges whether this replica is ready: unready until all sources of nodes were known once, and later while a source
//! is unknown here and another replica knows it. If no replica knows a source, one that answers other calls is better
//! than none.

use std::{collections::BTreeSet, time::Duration};

use headroom_kit::{admin::PartReadiness, supervise::Supervisor};
use tokio::{select, sync::watch, time::sleep};
use tokio_util::sync::CancellationToken;

use super::followers::WantedSources;
use crate::{
    control::lease::Elsewhere,
    store::{
        informer::UNKNOWN_AFTER,
        known::KnownSources,
        sources::{self, Source},
    },
};

/// Names of unknown sources, without which calls fail that fail closed.
pub(super) type UnknownSources = BTreeSet<&'static str>;

/// Interval at which the unknown sources are collected. Gates change which of them are needed.
const COLLECT_EVERY: Duration = Duration::from_millis(250);

/// State of the sources of this replica. Each part may change.
#[derive(Debug, Clone)]
pub(super) struct KnownState {
    /// True while all sources of nodes are known.
    pub(super) nodes: watch::Receiver<bool>,
    /// Unknown sources without which calls of pods fail.
    pub(super) unknown: watch::Receiver<UnknownSources>,
}

/// Starts to collect the needed sources that are unknown.
pub(super) fn track_unknown(
    wants: WantedSources,
    known: KnownSources,
    supervisor: &mut Supervisor,
) -> watch::Receiver<UnknownSources> {
    let (sender, receiver) = watch::channel(collect(&wants, &known));
    let stop = supervisor.shutdown().stopping().clone();
    supervisor.spawn("needed-sources", async move {
        loop {
            select! {
                () = stop.cancelled() => return,
                () = sleep(COLLECT_EVERY) => {}
            }
            let now = collect(&wants, &known);
            sender.send_if_modified(|before| std::mem::replace(before, now.clone()) != now);
        }
    });
    receiver
}

fn collect(wants: &WantedSources, known: &KnownSources) -> UnknownSources {
    let needed = wants.needed().into_iter();
    needed
        .filter(|source| !known.is_known(source))
        .map(|source| source.name)
        .collect()
}

/// Reports readiness until `stop` is cancelled.
pub(super) async fn decide(
    ready: PartReadiness,
    mut known: KnownState,
    mut elsewhere: watch::Receiver<Elsewhere>,
    stop: CancellationToken,
) {
    let mut were_known = false;
    loop {
        let are_known = *known.nodes.borrow_and_update();
        were_known |= are_known;
        let unknown = known.unknown.borrow_and_update().clone();
        let others = elsewhere.borrow_and_update().clone();
        // Nodes that were never known leave the first reason, "not ready yet".
        if were_known {
            match reason(are_known, &unknown, &others) {
                None => ready.ready(),
                Some(reason) => ready.not_ready(reason),
            }
        }
        select! {
            () = stop.cancelled() => return,
            Ok(()) = known.nodes.changed() => {}
            Ok(()) = known.unknown.changed() => {}
            Ok(()) = elsewhere.changed() => {}
        }
    }
}

/// Reason why another replica should answer; `None` if this one is as good.
fn reason(are_known: bool, unknown: &UnknownSources, elsewhere: &Elsewhere) -> Option<String> {
    let lacking: Vec<String> = match elsewhere {
        // For as long as one request takes.
        Elsewhere::NotRead if unknown.is_empty() => return None,
        Elsewhere::NotRead => return Some("the lease has not been read yet".to_owned()),
        Elsewhere::Nowhere => return None,
        Elsewhere::Held { .. } if !are_known => {
            return Some(format!(
                "no watch event from the API server for {UNKNOWN_AFTER:?}, while another replica receives them"
            ));
        }
        Elsewhere::Held { unknown: theirs } => {
            let lacking = unknown.iter().filter(|name| !theirs.contains(**name));
            lacking.map(|name| with_right(name)).collect()
        }
    };
    let text = || {
        format!(
            "not known, while another replica knows them: {}",
            lacking.join(", ")
        )
    };
    (!lacking.is_empty()).then(text)
}

/// A source with the right that following it needs: a missing one is the most frequent cause.
fn with_right(name: &str) -> String {
    let Some(Source { access, .. }) = sources::ALL.into_iter().find(|source| source.name == name) else {
        return name.to_owned();
    };
    let resource = match access.group {
        "" => access.resource.to_owned(),
        group => format!("{}.{group}", access.resource),
    };
    format!(
        "{name} (needs the right to {} {resource})",
        access.verbs.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use headroom_kit::admin::Readiness;
    use tokio::task::yield_now;
    use tokio_util::task::AbortOnDropHandle;

    use super::*;

    struct JudgedReplica {
        readiness: Readiness,
        are_known: watch::Sender<bool>,
        unknown: watch::Sender<UnknownSources>,
        elsewhere: watch::Sender<Elsewhere>,
        _deciding: AbortOnDropHandle<()>,
    }

    impl JudgedReplica {
        fn new(elsewhere: Elsewhere) -> Self {
            let readiness = Readiness::new();
            let (are_known, nodes) = watch::channel(false);
            let (unknown, needed) = watch::channel(UnknownSources::new());
            let (elsewhere, others) = watch::channel(elsewhere);
            let known = KnownState {
                nodes,
                unknown: needed,
            };
            let handle = readiness.handle("caches");
            let deciding = decide(handle, known, others, CancellationToken::new());
            Self {
                readiness,
                are_known,
                unknown,
                elsewhere,
                _deciding: AbortOnDropHandle::new(tokio::spawn(deciding)),
            }
        }

        async fn is_ready(&self) -> bool {
            for _ in 0..20 {
                yield_now().await;
            }
            self.readiness.is_ready()
        }
    }

    fn assume_held(unknown: &[&str]) -> Elsewhere {
        Elsewhere::Held {
            unknown: unknown.iter().map(|&name| name.to_owned()).collect(),
        }
    }

    #[tokio::test]
    async fn a_replica_with_unknown_stores_is_unready_only_while_another_knows_them() {
        let replica = JudgedReplica::new(assume_held(&[]));
        assert!(!replica.is_ready().await, "nothing is known yet");
        for (are_known, elsewhere, is_ready) in [
            (true, assume_held(&[]), true),
            (false, assume_held(&[]), false),
            (false, Elsewhere::Nowhere, true),
            (false, assume_held(&[]), false),
            (true, assume_held(&[]), true),
            (true, Elsewhere::Nowhere, true),
            (false, Elsewhere::Nowhere, true),
        ] {
            replica.are_known.send_replace(are_known);
            replica.elsewhere.send_replace(elsewhere.clone());
            assert_eq!(replica.is_ready().await, is_ready, "{are_known} {elsewhere:?}");
        }
    }

    #[tokio::test]
    async fn a_replica_that_was_never_filled_is_not_ready_because_it_is_alone() {
        let replica = JudgedReplica::new(Elsewhere::Nowhere);
        assert!(!replica.is_ready().await);
    }

    #[tokio::test]
    async fn an_unknown_source_of_pods_counts_while_another_replica_knows_it() {
        let replica = JudgedReplica::new(Elsewhere::NotRead);
        replica.are_known.send_replace(true);
        assert!(replica.is_ready().await, "nothing is missing");
        replica
            .unknown
            .send_replace(UnknownSources::from(["elasticquotas"]));
        for (elsewhere, is_ready) in [
            (Elsewhere::NotRead, false),
            (Elsewhere::Nowhere, true),
            (assume_held(&[]), false),
            (assume_held(&["namespaces"]), false),
            (assume_held(&["elasticquotas"]), true),
        ] {
            replica.elsewhere.send_replace(elsewhere.clone());
            assert_eq!(replica.is_ready().await, is_ready, "{elsewhere:?}");
        }
        replica.elsewhere.send_replace(assume_held(&[]));
        assert!(!replica.is_ready().await);
        let (_, state) = replica.readiness.checks().remove(0);
        let reason = state.unwrap_err();
        assert!(
            reason.contains("the right to get, list, watch elasticquotas.scheduling.sigs.k8s.io"),
            "{reason}"
        );
        replica.unknown.send_replace(UnknownSources::new());
        assert!(replica.is_ready().await);
    }
}
