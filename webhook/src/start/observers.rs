//! Starts the observers of a replica: they watch for faults of the installation and of the objects, and write only
//! metrics and state for debug queries.

use std::sync::Arc;

use headroom_kit::supervise::Supervisor;
use kube::Client;

use super::{flags, parts::CommonParts, rights};
use crate::{
    admission::endpoints,
    args::Args,
    control::{
        entry_conflicts, floor_check,
        own_rights::{self, MissingRights},
        projected_ratio,
        reachability::{self, ProbeOptions, ReachabilityState},
        registration::{self, LastFaults, Registration},
        runtime_features,
    },
    store::kubelet_usage,
};

/// State of the installation that the observers keep current.
pub(super) struct Observed {
    /// Faults of the webhook configurations.
    pub(super) registered: LastFaults,
    pub(super) reachability: Arc<ReachabilityState>,
    pub(super) missing_rights: MissingRights,
}

/// Starts the observers: switches in the ConfigMap, nodes with conflicting entries, use, the floor, the webhook
/// configurations, the way from the API server to a replica, and the rights of our own account.
pub(super) fn observe(args: &Args, parts: &CommonParts<'_>, supervisor: &mut Supervisor) -> Observed {
    let CommonParts {
        client,
        cluster,
        features,
        ..
    } = *parts;
    let stop = supervisor.shutdown().stopping().clone();
    supervisor.spawn("features", {
        let gates = cluster.policies.feature_gates();
        runtime_features::follow(gates, Arc::clone(features), stop.clone())
    });
    let in_force = Arc::clone(features);
    let switches = move || in_force.load().switches.clone();
    let conflicts = entry_conflicts::detect(Arc::clone(cluster), switches, stop.clone());
    supervisor.spawn("conflicts", conflicts);
    let asked = kubelet_usage::follow(client.clone(), Arc::clone(cluster), stop.clone());
    supervisor.spawn("use", asked);
    let projected = projected_ratio::follow(Arc::clone(cluster), flags::pool_label(args), stop.clone());
    supervisor.spawn("projected-ratio", projected);
    let floor = Arc::clone(&cluster.floor);
    supervisor.spawn("floor", floor_check::follow(client.clone(), floor, stop));
    Observed {
        registered: compare_registration(args, parts, supervisor),
        reachability: probe(parts, supervisor),
        missing_rights: review_rights(args, client, supervisor),
    }
}

fn compare_registration(args: &Args, parts: &CommonParts<'_>, supervisor: &mut Supervisor) -> LastFaults {
    let registration = Registration::new(
        &args.installation.get(),
        &endpoints::served(&args.serve),
        Arc::clone(parts.features),
        &flags::address(args),
        Arc::clone(parts.store),
    );
    let registered = LastFaults::default();
    let stop = supervisor.shutdown().stopping().clone();
    supervisor.spawn(
        "registration",
        registration::follow(parts.client.clone(), registration, Arc::clone(&registered), stop),
    );
    registered
}

fn probe(parts: &CommonParts<'_>, supervisor: &mut Supervisor) -> Arc<ReachabilityState> {
    let state = Arc::<ReachabilityState>::default();
    let (cluster, features) = (Arc::clone(parts.cluster), Arc::clone(parts.features));
    let callers = parts.callers.clone();
    let options = ProbeOptions {
        client: parts.client.clone(),
        node: Box::new(move || {
            let is_on = endpoints::amplifies(&features.load().gates);
            is_on.then(|| cluster.nodes.any_name()).flatten()
        }),
        on_verified: Box::new(move || callers.observe_verified()),
        state: Arc::clone(&state),
        note: parts.readiness.note("reachability"),
    };
    let stop = supervisor.shutdown().stopping().clone();
    supervisor.spawn("reachability", reachability::follow(options, stop));
    state
}

fn review_rights(args: &Args, client: &Client, supervisor: &mut Supervisor) -> MissingRights {
    let missing = MissingRights::default();
    let rights = rights::rights(&args.installation.get(), &endpoints::served(&args.serve));
    let stop = supervisor.shutdown().stopping().clone();
    let review = own_rights::follow(client.clone(), rights, Arc::clone(&missing), stop);
    supervisor.spawn("own-rights", review);
    missing
}
