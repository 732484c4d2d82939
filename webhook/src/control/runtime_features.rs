//! Applies the gates and switches of Koordinator's ConfigMap while the webhook serves: those of its key `feature-gates`
//! over those of the flags. A text that is wrong changes nothing.

use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::{select, sync::watch};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::metrics::FEATURE_VERSIONS;
use crate::admission::{
    endpoint::{AnyEndpoint, Family},
    endpoints,
    features::{FeatureError, Features},
};

/// Follows the text until `stop` is cancelled. While it is unknown, the last features stay in force.
pub async fn follow(
    mut texts: watch::Receiver<Option<String>>,
    features: Arc<ArcSwap<Features>>,
    stop: CancellationToken,
) {
    let flags = features.load_full();
    loop {
        let text = texts.borrow_and_update().clone();
        if let Some(text) = text {
            apply(&text, &flags, &features);
        }
        select! {
            () = stop.cancelled() => return,
            changed = texts.changed() => if changed.is_err() {
                return stop.cancelled().await;
            }
        }
    }
}

/// Puts a text in force, unless it is wrong.
fn apply(text: &str, flags: &Features, features: &ArcSwap<Features>) {
    match parse(text, flags) {
        Ok(wanted) => {
            if **features.load() != wanted {
                wanted.warn_of_ignored_gates();
                info!(text, "feature gates and switches of the ConfigMap are in force");
                features.store(Arc::new(wanted));
            }
            FEATURE_VERSIONS.with(["accepted"]).increment(1);
        }
        Err(error) => {
            FEATURE_VERSIONS.with(["refused"]).increment(1);
            warn!(%error, "refused the ConfigMap's feature gates and switches as a whole; the last good ones stay \
             in force");
        }
    }
}

/// The gates of node amplification decide which loops run, and those of counted pods how sums are kept, so they are for the
/// flags alone.
fn parse(text: &str, flags: &Features) -> Result<Features, FeatureError> {
    let nodes = endpoints::served(&[Family::Nodes]);
    let of_nodes = nodes.into_iter().flat_map(<dyn AnyEndpoint>::gates);
    flags.with(
        text,
        of_nodes.chain(endpoints::quota_behaviour::quota_start_gates()),
    )
}

#[cfg(test)]
mod tests {
    use headroom_kit::gate::{Gate, GateSet};
    use tokio::task::yield_now;
    use tokio_util::task::AbortOnDropHandle;

    use super::*;

    fn gate(name: &str) -> &'static Gate {
        endpoints::gates().find(|gate| gate.name == name).unwrap()
    }

    #[test]
    fn gates_of_counted_pods_are_for_the_flags_alone() {
        let flags = Features::with_gates(GateSet::parse(endpoints::gates(), "").unwrap());
        let refused = parse("ElasticQuotaIgnorePodOverhead=true", &flags).unwrap_err();
        assert_eq!(refused, FeatureError::AtStart("ElasticQuotaIgnorePodOverhead"));
        let accepted = parse("PriorityTransformer=true", &flags).unwrap();
        assert!(
            accepted.gates.enabled(gate("PriorityTransformer")),
            "without effect"
        );
    }

    #[tokio::test]
    async fn a_good_text_is_in_force_and_a_wrong_one_leaves_the_last_good_one() {
        let features = Features::with_gates(GateSet::parse(endpoints::gates(), "").unwrap()).shared();
        let (texts_tx, texts) = watch::channel(None);
        let following = follow(texts, Arc::clone(&features), CancellationToken::new());
        let _following = AbortOnDropHandle::new(tokio::spawn(following));
        let binding = gate("BindingAdmissionWebhook");
        for (text, is_on) in [
            (None, false),
            (Some("BindingAdmissionWebhook=true"), true),
            (Some("BindingAdmissionWebhok=false"), true),
            (
                Some("NodeMutatingWebhook=false,BindingAdmissionWebhook=false"),
                true,
            ),
            (None, true),
            (Some(""), false),
        ] {
            texts_tx.send_replace(text.map(str::to_owned));
            for _ in 0..10 {
                yield_now().await;
            }
            let gates = features.load().gates.clone();
            assert_eq!(gates.enabled(binding), is_on, "{text:?}");
            assert!(gates.enabled(gate("NodeMutatingWebhook")), "{text:?}");
        }
    }
}
