//! Sources that a replica follows: those that steps of served endpoints read, and those of the process itself.

use headroom_kit::gate::GateSet;

use crate::{
    admission::{
        endpoint::{AnyEndpoint, FailurePolicy, Family},
        endpoints,
    },
    store::sources::{self, Source},
};

/// Sources of nodes, which the process needs for hints, nudges and the sweep, unless only families without nodes are
/// served. Readiness and the lease depend on them.
pub static OF_NODES: [&Source; 3] = [&sources::NODES, &sources::PODS, &sources::SLO_CONFIG];

/// Sources of a family in addition to those that its steps read.
pub fn of_family(family: Family) -> &'static [&'static Source] {
    match family {
        Family::Nodes => &OF_NODES,
        Family::Koordinator | Family::Fluid => &[],
    }
}

/// Sources of nodes; none if no served family needs them.
pub(super) fn of_nodes(families: &[Family]) -> &'static [&'static Source] {
    if families.iter().any(|family| family.follows_nodes()) {
        &OF_NODES
    } else {
        &[]
    }
}

/// All that is wanted with these gates, each once, a source that shares a watch after the one whose watch it is.
pub(super) fn wanted(families: &[Family], gates: &GateSet) -> Vec<&'static Source> {
    let enabled = endpoints::served(families)
        .into_iter()
        .filter(|endpoint| endpoint.is_enabled(gates));
    let steps = enabled.flat_map(AnyEndpoint::steps);
    let read = steps
        .filter(|step| step.when.is_on(gates))
        .flat_map(|step| step.reads)
        .copied();
    let besides = families.iter().flat_map(|family| of_family(*family)).copied();
    let mut wanted: Vec<&'static Source> = of_nodes(families).to_vec();
    for source in besides.chain(read) {
        for source in source.shares.into_iter().chain([source]) {
            if !wanted.iter().any(|known| known.name == source.name) {
                wanted.push(source);
            }
        }
    }
    wanted
}

/// Sources of which one that is unknown fails calls of an endpoint that fails closed. Those of nodes count on their own.
pub(super) fn needed(families: &[Family], gates: &GateSet) -> Vec<&'static Source> {
    let fails_closed = |endpoint: &&'static dyn AnyEndpoint| {
        let mut entries = endpoint.declaration().entries.iter();
        endpoint.is_enabled(gates) && entries.any(|entry| entry.failure_policy == FailurePolicy::Fail)
    };
    let endpoints = endpoints::served(families).into_iter().filter(fails_closed);
    let steps = endpoints.flat_map(AnyEndpoint::steps);
    let read = steps
        .filter(|step| step.when.is_on(gates) && step.unknown.fails_calls())
        .flat_map(|step| step.reads)
        .copied();
    let mut needed: Vec<&'static Source> = Vec::new();
    for source in read {
        let is_listed = |others: &[&Source]| others.iter().any(|other| other.name == source.name);
        if !is_listed(&OF_NODES) && !is_listed(&needed) {
            needed.push(source);
        }
    }
    needed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(families: &[Family], gates: &str) -> Vec<&'static str> {
        let gates = GateSet::parse(endpoints::gates(), gates).unwrap();
        let wanted = wanted(families, &gates);
        wanted.iter().map(|source| source.name).collect()
    }

    #[test]
    fn a_family_that_is_not_served_has_no_source() {
        let of_nodes = ["nodes", "pods", "configmaps"];
        assert_eq!(names(&[Family::Nodes], ""), of_nodes);
        assert_eq!(names(&[Family::Nodes], "AllBeta=false"), of_nodes);
        let without_quotas =
            "ElasticMutatingWebhook=false,ElasticValidatingWebhook=false,PodValidatingWebhook=false";
        let both = names(&[Family::Nodes, Family::Koordinator], without_quotas);
        assert_eq!(both.get(..3).unwrap(), of_nodes);
        let of_profiles = ["clustercolocationprofiles", "namespaces", "priorityclasses"];
        assert_eq!(both.get(3..).unwrap(), of_profiles);
        let without = format!("PodMutatingWebhook=false,{without_quotas}");
        assert_eq!(names(&[Family::Nodes, Family::Koordinator], &without), of_nodes);
        let checked = "PodMutatingWebhook=false,ElasticMutatingWebhook=false,ElasticValidatingWebhook=false";
        assert_eq!(
            names(&[Family::Koordinator], checked).get(3..).unwrap(),
            ["limitranges", "elasticquotas", "pods-by-name"]
        );
        assert!(names(&[Family::Koordinator], "EnableQuotaAdmission=true").contains(&"quota-pods"));
        let quotas = "PodMutatingWebhook=false,ElasticMutatingWebhook=false";
        let of_quotas = names(&[Family::Koordinator], quotas);
        assert_eq!(
            of_quotas.get(3..).unwrap(),
            ["limitranges", "elasticquotas", "pods-by-name"]
        );
    }

    #[test]
    fn fluid_alone_follows_no_nodes() {
        let alone = names(&[Family::Fluid], "");
        assert_eq!(alone.first(), Some(&"persistentvolumeclaims"));
        assert!(
            OF_NODES.iter().all(|source| !alone.contains(&source.name)),
            "{alone:?}"
        );
        assert_eq!(alone.len(), 10);
        assert!(names(&[Family::Fluid], "FluidPodWebhook=false").is_empty());
        assert!(of_nodes(&[Family::Fluid]).is_empty());
        assert_eq!(of_nodes(&[Family::Fluid, Family::Nodes]).len(), OF_NODES.len());
        let gates = GateSet::parse(endpoints::gates(), "").unwrap();
        assert!(
            needed(&[Family::Nodes, Family::Koordinator], &gates)
                .iter()
                .all(|source| !alone.contains(&source.name)),
            "other families do not depend on Fluid's objects"
        );
    }

    #[test]
    fn sources_are_needed_whose_absence_fails_calls() {
        let names = |families: &[Family], gates: &str| -> Vec<&'static str> {
            let gates = GateSet::parse(endpoints::gates(), gates).unwrap();
            needed(families, &gates)
                .iter()
                .map(|source| source.name)
                .collect()
        };
        assert!(names(&[Family::Nodes], "").is_empty());
        let of_profiles = ["clustercolocationprofiles", "namespaces", "priorityclasses"];
        let of_quotas = ["elasticquotas", "pods-by-name"];
        assert_eq!(
            names(&[Family::Koordinator], ""),
            [&of_profiles[..], &of_quotas].concat()
        );
        let counted = names(&[Family::Koordinator], "EnableQuotaAdmission=true");
        assert!(
            counted.contains(&"quota-pods") && !counted.contains(&"limitranges"),
            "{counted:?}"
        );
        let pods = "ElasticMutatingWebhook=false,ElasticValidatingWebhook=false,PodMutatingWebhook=false";
        assert_eq!(names(&[Family::Koordinator], pods), ["elasticquotas"]);
    }

    #[test]
    fn a_gate_that_is_switched_on_wants_what_its_step_reads_and_the_watch_that_brings_it() {
        let families = [Family::Koordinator];
        let by_name = sources::PODS_BY_NAME.name;
        let without = "ElasticValidatingWebhook=false,PodValidatingWebhook=false";
        assert!(!names(&families, without).contains(&by_name));
        let with = names(&families, "BindingAdmissionWebhook=true");
        let at = |name: &str| with.iter().position(|other| *other == name).unwrap();
        assert!(at("pods") < at(by_name), "{with:?}");
        let rules = sources::LABEL_RULES.name;
        assert!(!with.contains(&rules), "its step is off");
        assert!(names(&families, "EnablePodEnhancedValidator=true").contains(&rules));
        let without = names(
            &families,
            "BindingAdmissionWebhook=true,PodValidatingWebhook=false,ElasticValidatingWebhook=false",
        );
        assert!(!without.contains(&by_name), "its endpoint is off");
    }
}
