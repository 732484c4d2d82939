//! State of the installation: registration, floor, certificate, nodes without recent reports, versions.

use std::time::SystemTime;

use headroom_domain::{hint::Freshness, policy::Mode};
use headroom_proto::v1alpha1::{
    CertificateStatus, EndpointRegistration, FloorStatus, GetInstallationResponse, ReachabilityStatus,
};

use crate::{
    control::{reachability::Reached, registration::RegistrationFault, time_slices::Slices},
    hints::stream_context::StreamContext,
    store::node::Node,
};

/// Silent nodes that are named.
const EXAMPLES: usize = 3;

pub(super) async fn state(shared: &StreamContext) -> GetInstallationResponse {
    let cluster = &shared.cluster;
    let nodes = cluster.nodes.all();
    let mut silent: Vec<&str> = Vec::new();
    let mut slices = Slices::begin();
    for node in &nodes {
        if is_silent(shared, node) {
            silent.push(&node.name);
        }
        slices.rest().await;
    }
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let versions = shared.streams.versions().into_iter();
    GetInstallationResponse {
        replica: shared.replica.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        endpoints: endpoints(shared),
        floor: Some(FloorStatus {
            trouble: cluster.floor.trouble().unwrap_or_default(),
            accepted: cluster.floor.is_accepted(),
        }),
        annotations_trouble: cluster.floor.annotations_trouble().unwrap_or_default(),
        certificate_left_s: shared.install.certificate_left_s(),
        has_synced: cluster.has_synced(),
        nodes: count(nodes.len()),
        silent_nodes: count(silent.len()),
        silent_examples: silent.into_iter().take(EXAMPLES).map(str::to_owned).collect(),
        agents_by_version: versions
            .map(|(version, agents)| (version.to_string(), agents))
            .collect(),
        callers: (shared.install.callers)().to_owned(),
        certificates: Some(certificates(shared)),
        reachability: Some(reachability(shared)),
        missing_rights: shared.install.missing_rights.load().to_vec(),
    }
}

fn reachability(shared: &StreamContext) -> ReachabilityStatus {
    match shared.install.reachability.reached() {
        Reached::Unknown => ReachabilityStatus::default(),
        Reached::Yes { at, is_verified } => ReachabilityStatus {
            answered_before_s: Some(at.elapsed().as_secs()),
            verified: is_verified,
            problem: String::new(),
        },
        Reached::No(problem) => ReachabilityStatus {
            problem,
            ..ReachabilityStatus::default()
        },
    }
}

fn certificates(shared: &StreamContext) -> CertificateStatus {
    let state = &shared.install.certificates;
    let step = state.step();
    let fingerprint = state.bundle().borrow().fingerprint.to_string();
    CertificateStatus {
        problems: state.problems(),
        rotation: step.map_or_else(String::new, |step| step.progress.state.name().to_owned()),
        ca_left_s: state.authority_left_s(SystemTime::now()),
        lagging_agents: if fingerprint.is_empty() {
            0
        } else {
            shared.streams.lagging(&fingerprint)
        },
        bundle_sha256: fingerprint,
    }
}

fn endpoints(shared: &StreamContext) -> Vec<EndpointRegistration> {
    let faults = shared.install.registered.load();
    let registrations = faults.iter().map(|(&endpoint, fault)| {
        let (text, missing) = fault.as_ref().map_or(
            (String::new(), false),
            |RegistrationFault { text, is_missing }| (text.clone(), *is_missing),
        );
        EndpointRegistration {
            endpoint: endpoint.to_owned(),
            fault: text,
            missing,
        }
    });
    registrations.collect()
}

/// True for a node that is to follow its agent's reports, where none counts any more.
fn is_silent(shared: &StreamContext, node: &Node) -> bool {
    let cluster = &shared.cluster;
    let follows = cluster
        .policy(node)
        .is_some_and(|in_force| matches!(in_force.policy.mode, Mode::Guard | Mode::Auto));
    if !follows {
        return false;
    }
    let (_decision, hint) = cluster.preview(node, cluster.now());
    hint.is_none_or(|hint| hint.freshness == Freshness::Stop)
}
