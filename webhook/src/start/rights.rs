//! RBAC rights of the webhook for each configuration object: sources that steps read, and rights of the process
//! itself.

use std::collections::BTreeSet;

use headroom_domain::installation::Installation;

use super::wanted;
use crate::{
    admission::endpoint::{AnyEndpoint, ConfigurationObject, Family},
    control::{certificates, events, floor_check, lease, nudge, registration},
    hints::token_review,
    install::manifest::{self, Rights},
    store::access::Access,
};

/// Rights of a webhook that serves these endpoints, for each configuration object that has some. Those of nodes
/// include the rights of the process itself.
pub fn rights(installation: &Installation, endpoints: &[&dyn AnyEndpoint]) -> Vec<Rights> {
    let objects: BTreeSet<_> = endpoints
        .iter()
        .map(|endpoint| endpoint.declaration().configuration)
        .collect();
    let rights = objects
        .into_iter()
        .map(|object| manifest::rights(installation, object, endpoints, &besides(object)));
    rights.collect()
}

/// API access of the process in addition to the steps'.
fn besides(object: ConfigurationObject) -> Vec<Access> {
    let (followed, of_process) = match object {
        ConfigurationObject::Nodes => (
            wanted::of_family(Family::Nodes),
            [
                token_review::ACCESS,
                nudge::ACCESS,
                floor_check::ACCESS,
                lease::ACCESS,
                certificates::ACCESS,
                certificates::AUTHORITIES_ACCESS,
                events::writer::ACCESS,
            ]
            .concat(),
        ),
        // Pods are changed by the objects that the family's process follows.
        ConfigurationObject::Pods => (wanted::of_family(Family::Koordinator), Vec::new()),
        ConfigurationObject::Fluid => (wanted::of_family(Family::Fluid), Vec::new()),
        ConfigurationObject::Quotas => (&[][..], vec![events::writer::QUOTA_ACCESS]),
        ConfigurationObject::SloConfiguration => (&[][..], Vec::new()),
    };
    let followed = followed.iter().map(|source| source.access);
    followed
        .chain(of_process)
        .chain(registration::access(object))
        .collect()
}
