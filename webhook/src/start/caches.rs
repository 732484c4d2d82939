//! Fills the stores of this replica from the sources that it wants.

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use futures::future::select_all;
use headroom_domain::installation::ConfigMapName;
use headroom_kit::{admin::Readiness, supervise::Supervisor};
use headroom_rules::{binding, slo};
use kube::Client;
use tokio::{select, sync::watch, time::timeout};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::{
    followers::{Followers, WantedSources},
    readiness::{self, KnownState},
    wanted,
};
use crate::{
    admission::{
        endpoint::{Colocation, Family, PodQuotas, SloConfiguration, Stores},
        endpoints::quota_behaviour::{quota_behaviour, quota_counting},
        features::Features,
    },
    args::Args,
    control::quota_overshoot::{self, QuotaOvershoots},
    store::{
        cluster::Cluster,
        colocation::label_rules::WatchedRules,
        fluid::{FluidObjects, FluidSources, plugins::WatchedPlugins},
        known::KnownSources,
        quota::with_pods::{QuotasOfPods, QuotasWithPods},
        quota_pods::QuotaPods,
        quota_view::QuotaView,
        sources::{Opening, SourceStores},
    },
};

/// Maximum wait for the sources of nodes before the listeners open without them. Admission can answer while they are
/// unknown, and the API server may be waiting.
const CACHE_WAIT: Duration = Duration::from_secs(1);
/// Options that select the sources to follow, with their parameters.
pub(super) struct CacheOptions {
    pub(super) client: Client,
    pub(super) slo_config: ConfigMapName,
    /// Settings of the check of Koordinator's ConfigMap.
    pub(super) slo_settings: slo::Settings,
    pub(super) families: Vec<Family>,
    /// They may change, and want more, while the process runs.
    pub(super) features: Arc<ArcSwap<Features>>,
    pub(super) binding: binding::Settings,
    /// The ConfigMap with the labels that pods must have.
    pub(super) label_rules: ConfigMapName,
    /// Fluid's ConfigMap with the plugins for pods.
    pub(super) fluid_plugins: ConfigMapName,
    /// Has a line for each source.
    pub(super) readiness: Readiness,
}

impl CacheOptions {
    /// Options from the command line.
    pub(super) fn new(
        args: &Args,
        client: &Client,
        features: &Arc<ArcSwap<Features>>,
        readiness: Readiness,
    ) -> Self {
        Self {
            client: client.clone(),
            slo_config: args.installation.get().slo_config,
            slo_settings: args.slo.settings(),
            families: args.serve.clone(),
            features: Arc::clone(features),
            binding: args.binding.settings(),
            label_rules: args.label_rules.config_map(),
            fluid_plugins: args.fluid.config_map(),
            readiness,
        }
    }
}

/// Stores that are being filled.
pub(super) struct Caches {
    pub(super) stores: Stores,
    pub(super) known: KnownState,
    /// Quotas for readers that admit nothing.
    pub(super) quotas: QuotaView,
    /// The quotas above their limit.
    pub(super) overshoots: Arc<QuotaOvershoots>,
}

/// Starts to follow the wanted sources, and waits briefly for the sources of nodes.
pub(super) async fn follow(
    options: CacheOptions,
    cluster: &Arc<Cluster>,
    supervisor: &mut Supervisor,
) -> Caches {
    let known = KnownSources::default();
    let stores = source_stores(&options, cluster, &known);
    let binding = &options.binding;
    let bypasses = binding.bypass_labels.iter().chain(&binding.bypass_annotations);
    stores.pods.by_name.keep_keys(bypasses.cloned().collect());
    let quotas = Arc::new(QuotasWithPods {
        index: Arc::clone(&stores.quotas),
        pods: Arc::clone(&stores.pods.by_name),
    });
    let view = view_of_quotas(&stores, &quotas, known.clone(), Arc::clone(&options.features));
    let overshoots = detect_overshoots(&view, supervisor);
    let colocation = of_pods(&stores, &quotas, known.clone(), options.binding);
    let slo = SloConfiguration {
        config_map: options.slo_config.clone(),
        settings: options.slo_settings,
        nodes: Arc::clone(&cluster.nodes) as _,
    };
    let fluid = Arc::new(FluidObjects {
        sources: stores.fluid.clone(),
        known: known.clone(),
    });
    let opening = Opening {
        client: options.client,
        config_namespace: options.slo_config.namespace.to_string(),
        stores,
        stop: supervisor.shutdown().stopping().clone(),
    };
    let families = options.families.clone();
    let wants = WantedSources {
        families: options.families,
        features: options.features,
    };
    let unknown = readiness::track_unknown(wants.clone(), known.clone(), supervisor);
    let mut followers = Followers::new(wants, opening, known.clone(), options.readiness);
    followers.follow_wanted();
    supervisor.spawn("sources", followers.keep());
    let mut are_known = combine_nodes(&known, &families, supervisor);
    wait_until_known(&mut are_known).await;
    Caches {
        stores: Stores {
            nodes: Arc::clone(cluster) as _,
            colocation,
            slo,
            quotas,
            fluid,
            known,
            decisions: Arc::default(),
        },
        known: KnownState {
            nodes: are_known,
            unknown,
        },
        quotas: view,
        overshoots,
    }
}

/// Starts to combine the states of the sources of nodes: true while all are known.
fn combine_nodes(
    known: &KnownSources,
    families: &[Family],
    supervisor: &mut Supervisor,
) -> watch::Receiver<bool> {
    let of_nodes = wanted::of_nodes(families);
    let states = of_nodes.iter().filter_map(|source| known.subscribe(source));
    let (are_known_tx, are_known) = watch::channel(false);
    let stop = supervisor.shutdown().stopping().clone();
    supervisor.spawn("caches", combine(states.collect(), are_known_tx, stop));
    are_known
}

/// Empty stores under these options.
fn source_stores(options: &CacheOptions, cluster: &Cluster, known: &KnownSources) -> SourceStores {
    let arrivals = known.signal();
    SourceStores {
        fluid: FluidSources {
            plugins: Arc::new(WatchedPlugins::new(options.fluid_plugins.clone())),
            ..FluidSources::new(&arrivals)
        },
        label_rules: Arc::new(WatchedRules::new(options.label_rules.clone())),
        quota_pods: QuotaPods::new(quota_counting(&options.features.load()), known.signal()),
        ..SourceStores::new(
            Arc::clone(&cluster.nodes),
            Arc::clone(&cluster.pods),
            Arc::clone(&cluster.policies),
            &arrivals,
        )
    }
}

/// Gives the sources of nodes a moment to become known.
async fn wait_until_known(are_known: &mut watch::Receiver<bool>) {
    let filled = are_known.wait_for(|are_known| *are_known);
    if timeout(CACHE_WAIT, filled).await.is_err() {
        warn!(waited = ?CACHE_WAIT, "serving before nodes, pods and policies are known");
    }
}

/// Quotas for readers that admit nothing, under the features in force.
fn view_of_quotas(
    stores: &SourceStores,
    quotas: &Arc<QuotasWithPods>,
    known: KnownSources,
    features: Arc<ArcSwap<Features>>,
) -> QuotaView {
    QuotaView {
        quotas: Arc::clone(quotas),
        pod_usage: Arc::clone(&stores.quota_pods),
        known,
        behaviour: Arc::new(move || quota_behaviour(&features.load())),
    }
}

/// Quotas above their limit; the check starts here.
fn detect_overshoots(view: &QuotaView, supervisor: &mut Supervisor) -> Arc<QuotaOvershoots> {
    let overshoots = Arc::<QuotaOvershoots>::default();
    let stop = supervisor.shutdown().stopping().clone();
    let detecting = quota_overshoot::detect(view.clone(), Arc::clone(&overshoots), stop);
    supervisor.spawn("quota-limits", detecting);
    overshoots
}

/// Stores that the steps of pods read.
fn of_pods(
    stores: &SourceStores,
    quotas: &Arc<QuotasWithPods>,
    known: KnownSources,
    binding: binding::Settings,
) -> Colocation {
    Colocation {
        pods: Arc::clone(&stores.pods.by_name) as _,
        profiles: Arc::new(stores.profiles.clone()),
        label_rules: Arc::clone(&stores.label_rules) as _,
        limit_ranges: Arc::clone(&stores.limit_ranges) as _,
        quotas: PodQuotas {
            tree: Arc::new(QuotasOfPods(Arc::clone(quotas))),
            nodes: Arc::clone(&stores.quota_trees) as _,
            pod_usage: Arc::clone(&stores.quota_pods) as _,
            known,
        },
        binding,
    }
}

/// Reports the known state of each of them, until `stop` is cancelled. Without any, all are known.
async fn combine(
    mut each: Vec<watch::Receiver<bool>>,
    are_known: watch::Sender<bool>,
    stop: CancellationToken,
) {
    loop {
        // All are read: an unread one would count as changed immediately.
        let unknown = each
            .iter_mut()
            .filter_map(|store| (!*store.borrow_and_update()).then_some(()));
        let now = unknown.count() == 0;
        are_known.send_if_modified(|before| std::mem::replace(before, now) != now);
        if each.is_empty() {
            return stop.cancelled().await;
        }
        let changed = select_all(each.iter_mut().map(|store| Box::pin(store.changed())));
        select! {
            () = stop.cancelled() => return,
            (changed, ..) = changed => if changed.is_err() {
                // Every follower of a store ends when the token is cancelled.
                stop.cancelled().await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::yield_now;
    use tokio_util::task::AbortOnDropHandle;

    use super::*;

    async fn settle() {
        for _ in 0..20 {
            yield_now().await;
        }
    }

    #[tokio::test]
    async fn without_sources_of_nodes_all_are_known_at_once() {
        let (are_known_tx, are_known) = watch::channel(false);
        let stop = CancellationToken::new();
        let combining = tokio::spawn(combine(Vec::new(), are_known_tx, stop.clone()));
        settle().await;
        assert!(*are_known.borrow() && !combining.is_finished());
        stop.cancel();
        combining.await.unwrap();
    }

    #[tokio::test]
    async fn all_are_known_while_each_is() {
        let (one_tx, one) = watch::channel(false);
        let (other_tx, other) = watch::channel(true);
        let (are_known_tx, are_known) = watch::channel(false);
        let combining = combine(vec![one, other], are_known_tx, CancellationToken::new());
        let _combining = AbortOnDropHandle::new(tokio::spawn(combining));
        for (one, other, expected) in [(true, true, true), (true, false, false), (false, true, false)] {
            one_tx.send_replace(one);
            other_tx.send_replace(other);
            settle().await;
            assert_eq!(*are_known.borrow(), expected);
        }
    }
}
