//! Rows for a cluster without Headroom: version, policies, permissions, nodes, Koordinator.

use std::collections::BTreeMap;

use super::{
    CheckRow, CheckSource, Messages, Severity,
    evidence::{Evidence, Machine},
    kubernetes_version::{KubernetesVersion, two_numbers},
};

/// First version whose bound tokens contain the node's name.
const NODE_BOUND_TOKENS: KubernetesVersion = KubernetesVersion { major: 1, minor: 30 };
/// First kernel on which the kernel programs load.
const FIRST_KERNEL: [u32; 2] = [5, 8];
/// Architectures for which agents are built.
const ARCHITECTURES: [&str; 1] = ["amd64"];
/// Operating system on which agents run.
const SYSTEM: &str = "linux";
/// CPU that an agent requests, in milli-cores, by the manifest.
const AGENT_MILLI: i64 = 50;
/// Limit of nodes that a message names.
const NAMED: usize = 3;

/// All rows, in the order of their findings.
pub static BEFORE: &[&CheckRow] = &[
    &RIGHTS_MISSING,
    &KUBERNETES_TOO_OLD,
    &NO_POLICIES,
    &ARCHITECTURE_UNKNOWN,
    &KERNEL_TOO_OLD,
    &NOT_LINUX,
    &NO_ROOM_FOR_AGENT,
    &KOORDINATOR_BESIDE,
    &FLUID_BESIDE,
];

static RIGHTS_MISSING: CheckRow = CheckRow {
    code: "rights-missing",
    severity: Severity::Error,
    source: CheckSource::ApiServer,
    about: "The user lacks permission to create a kind of object in the manifests.",
    fix: "Install as a cluster administrator.",
    find: |evidence| {
        let missing = evidence.missing_rights.as_ref().map_err(Clone::clone)?;
        let sentence = format!("the user lacks permission to create {}", missing.join(", "));
        Ok(if missing.is_empty() {
            Vec::new()
        } else {
            vec![sentence]
        })
    },
};

static KUBERNETES_TOO_OLD: CheckRow = CheckRow {
    code: "kubernetes-too-old",
    severity: Severity::Warning,
    source: CheckSource::ApiServer,
    about: "Tokens of API servers before 1.30 do not contain the name of the node.",
    fix: "Add the component before-1.30, and give agents client certificates.",
    find: |evidence| {
        let version = evidence.kubernetes.as_ref().map_err(Clone::clone)?;
        let sentence = format!(
            "Kubernetes {version} is older than {NODE_BOUND_TOKENS}: its tokens do not contain the agent's node name"
        );
        Ok(if *version < NODE_BOUND_TOKENS {
            vec![sentence]
        } else {
            Vec::new()
        })
    },
};

static NO_POLICIES: CheckRow = CheckRow {
    code: "no-mutating-policies",
    severity: Severity::Warning,
    source: CheckSource::ApiServer,
    about: "The API server does not serve MutatingAdmissionPolicy of admissionregistration.k8s.io/v1 (1.36), so it cannot keep the floor.",
    fix: "Add the component before-1.36, and read docs/floor.md before --accept-no-floor.",
    find: |evidence| {
        let has_policies = *evidence.has_policies.as_ref().map_err(Clone::clone)?;
        let sentence = "the API server does not serve MutatingAdmissionPolicy v1: modes guard and auto raise no node without --accept-no-floor";
        Ok(if has_policies {
            Vec::new()
        } else {
            vec![sentence.to_owned()]
        })
    },
};

static ARCHITECTURE_UNKNOWN: CheckRow = CheckRow {
    code: "architecture-unknown",
    severity: Severity::Warning,
    source: CheckSource::ApiServer,
    about: "A node has another architecture than amd64, for which the images are built. It gets no agent.",
    fix: "Nothing to do: the agents' DaemonSet selects amd64. Such nodes keep raw allocatable.",
    find: |evidence| {
        let is_other = |machine: &Machine| !ARCHITECTURES.contains(&machine.architecture.as_str());
        machines(evidence, is_other, |machine| {
            format!(
                "have architecture {}, for which no agent is built",
                machine.architecture
            )
        })
    },
};

static KERNEL_TOO_OLD: CheckRow = CheckRow {
    code: "kernel-too-old",
    severity: Severity::Warning,
    source: CheckSource::ApiServer,
    about: "The kernel programs need Linux 5.8. On an older kernel the agent only reads procfs: the ratio is at most 1.50, with twice the margin.",
    fix: "None needed; a newer kernel loads them. docs/compatibility.md lists kernels.",
    find: |evidence| {
        let is_old = |machine: &Machine| {
            machine.system == SYSTEM
                && two_numbers(&machine.kernel).is_some_and(|release| release < FIRST_KERNEL)
        };
        machines(evidence, is_old, |machine| {
            format!(
                "run Linux {}, which is older than 5.8: their agents only read procfs",
                machine.kernel
            )
        })
    },
};

static NOT_LINUX: CheckRow = CheckRow {
    code: "not-linux",
    severity: Severity::Notice,
    source: CheckSource::ApiServer,
    about: "Agents only run on Linux.",
    fix: "None needed: such a node keeps its raw allocatable.",
    find: |evidence| {
        let is_other = |machine: &Machine| machine.system != SYSTEM;
        machines(evidence, is_other, |machine| {
            format!("run {}: they get no agent", machine.system)
        })
    },
};

static NO_ROOM_FOR_AGENT: CheckRow = CheckRow {
    code: "no-room-for-agent",
    severity: Severity::Notice,
    source: CheckSource::ApiServer,
    about: "A node has less than the 50m of CPU free that its agent requests. The agent preempts no pod: it waits, and the node keeps its raw allocatable.",
    fix: "None needed: the agent starts when pods leave. To start it earlier, move a pod away, or lower the agent's request.",
    find: |evidence| {
        let all = evidence.free_cpu.as_ref().map_err(Clone::clone)?;
        let full: Vec<&str> = all
            .iter()
            .filter(|(_, free)| *free < AGENT_MILLI)
            .map(|(node, _)| node.as_str())
            .collect();
        Ok(if full.is_empty() {
            Vec::new()
        } else {
            vec![nodes(
                &full,
                all.len(),
                "have less than 50m of CPU free for an agent",
            )]
        })
    },
};

static KOORDINATOR_BESIDE: CheckRow = CheckRow {
    code: "koordinator-beside",
    severity: Severity::Notice,
    source: CheckSource::ApiServer,
    about: "Koordinator's webhook is registered. Headroom's node endpoints work next to it; pods, quotas and Reservations must be served by only one of the two.",
    fix: "Keep `--serve nodes`, or remove Koordinator's webhook entries for the endpoints that Headroom serves; docs/compatibility.md lists the differences.",
    find: |evidence| {
        let is_there = *evidence.has_koordinator.as_ref().map_err(Clone::clone)?;
        let sentence = "Koordinator's webhook is also registered in this cluster".to_owned();
        Ok(if is_there { vec![sentence] } else { Vec::new() })
    },
};

static FLUID_BESIDE: CheckRow = CheckRow {
    code: "fluid-beside",
    severity: Severity::Notice,
    source: CheckSource::ApiServer,
    about: "Fluid's own webhook places pods. With `--serve fluid` both webhooks would be called for pods that opted in.",
    fix: "Serve nodes without `--serve fluid`, or remove the entry fuse.serverful.fluid.io from Fluid's webhook configuration; docs/integrations.md describes how.",
    find: |evidence| {
        let is_there = *evidence.has_fluid.as_ref().map_err(Clone::clone)?;
        let sentence = "Fluid's webhook also places pods in this cluster".to_owned();
        Ok(if is_there { vec![sentence] } else { Vec::new() })
    },
};

/// One message for all machines with the same text.
fn machines(
    evidence: &Evidence,
    is_it: impl Fn(&Machine) -> bool,
    said: impl Fn(&Machine) -> String,
) -> Messages {
    let all = evidence.machines.as_ref().map_err(Clone::clone)?;
    let mut groups: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for machine in all.iter().filter(|machine| is_it(machine)) {
        groups.entry(said(machine)).or_default().push(&machine.node);
    }
    let sentences = groups
        .into_iter()
        .map(|(said, named)| nodes(&named, all.len(), &said));
    Ok(sentences.collect())
}

/// Sentence about some of `all` nodes, of which the first are named.
fn nodes(nodes: &[&str], all: usize, said: &str) -> String {
    let named: Vec<&str> = nodes.iter().copied().take(NAMED).collect();
    let more = match nodes.len() - named.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(
        "{} of {all} nodes {said}: {}{more}",
        nodes.len(),
        named.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::check::CheckReport;

    fn machine(node: &str) -> Machine {
        Machine {
            node: node.to_owned(),
            system: SYSTEM.to_owned(),
            architecture: "amd64".to_owned(),
            kernel: "6.1.0-13-amd64".to_owned(),
        }
    }

    fn fit() -> Evidence {
        Evidence {
            kubernetes: Ok(KubernetesVersion { major: 1, minor: 36 }),
            has_policies: Ok(true),
            missing_rights: Ok(Vec::new()),
            machines: Ok(vec![machine("a"), machine("b")]),
            has_koordinator: Ok(false),
            has_fluid: Ok(false),
            free_cpu: Ok(free([50, 5000])),
            ..Evidence::default()
        }
    }

    fn free<const N: usize>(milli: [i64; N]) -> Vec<(String, i64)> {
        let nodes = ["a", "b", "c", "d", "e"].into_iter().zip(milli);
        nodes.map(|(node, milli)| (node.to_owned(), milli)).collect()
    }

    #[test]
    fn the_agents_request_is_that_of_the_manifest() {
        let manifest = include_str!("../../../../deploy/kustomize/base/agent.yaml");
        assert!(manifest.contains(&format!("cpu: {AGENT_MILLI}m")));
    }

    fn with(change: impl Fn(&mut Machine)) -> Vec<Machine> {
        let mut machines = vec![
            machine("a"),
            machine("b"),
            machine("c"),
            machine("d"),
            machine("e"),
        ];
        machines.iter_mut().skip(1).for_each(change);
        machines
    }

    #[test]
    fn a_suitable_cluster_has_no_finding() {
        let report = CheckReport::new(BEFORE, &fit());
        assert_eq!(report.findings, []);
        assert_eq!(report.open, []);
    }

    #[rstest]
    #[case::rights(
        Evidence { missing_rights: Ok(vec!["namespaces".to_owned(), "daemonsets".to_owned()]), ..fit() },
        "rights-missing",
        "the user lacks permission to create namespaces, daemonsets"
    )]
    #[case::old(
        Evidence { kubernetes: Ok(KubernetesVersion { major: 1, minor: 29 }), ..fit() },
        "kubernetes-too-old",
        "Kubernetes 1.29 is older than 1.30: its tokens do not contain the agent's node name"
    )]
    #[case::policies(
        Evidence { has_policies: Ok(false), ..fit() },
        "no-mutating-policies",
        "the API server does not serve MutatingAdmissionPolicy v1: modes guard and auto raise no node without --accept-no-floor"
    )]
    #[case::architecture(
        Evidence { machines: Ok(with(|machine| machine.architecture = "riscv64".to_owned())), ..fit() },
        "architecture-unknown",
        "4 of 5 nodes have architecture riscv64, for which no agent is built: b, c, d and 1 more"
    )]
    #[case::kernel(
        Evidence { machines: Ok(with(|machine| machine.kernel = "5.4.0-1".to_owned())), ..fit() },
        "kernel-too-old",
        "4 of 5 nodes run Linux 5.4.0-1, which is older than 5.8: their agents only read procfs: b, c, d and 1 more"
    )]
    #[case::windows(
        Evidence {
            machines: Ok(with(|machine| {
                (machine.system, machine.kernel) = ("windows".to_owned(), "10.0.20348".to_owned());
            })),
            ..fit()
        },
        "not-linux",
        "4 of 5 nodes run windows: they get no agent: b, c, d and 1 more"
    )]
    #[case::full(
        Evidence { free_cpu: Ok(free([49, 50, 0, -100, 7])), ..fit() },
        "no-room-for-agent",
        "4 of 5 nodes have less than 50m of CPU free for an agent: a, c, d and 1 more"
    )]
    #[case::koordinator(
        Evidence { has_koordinator: Ok(true), ..fit() },
        "koordinator-beside",
        "Koordinator's webhook is also registered in this cluster"
    )]
    #[case::fluid(
        Evidence { has_fluid: Ok(true), ..fit() },
        "fluid-beside",
        "Fluid's webhook also places pods in this cluster"
    )]
    fn each_condition_is_found_by_its_row_only(
        #[case] evidence: Evidence,
        #[case] code: &str,
        #[case] sentence: &str,
    ) {
        let report = CheckReport::new(BEFORE, &evidence);
        let found: Vec<_> = report
            .findings
            .iter()
            .map(|found| (found.code, found.sentence.as_str()))
            .collect();
        assert_eq!(found, [(code, sentence)]);
    }

    #[test]
    fn unanswered_rows_are_undecided() {
        let evidence = Evidence::default();
        let report = CheckReport::new(BEFORE, &evidence);
        assert_eq!((report.findings.len(), report.open.len()), (0, BEFORE.len()));
    }

    #[test]
    fn the_minimum_kernel_is_no_finding() {
        let evidence = Evidence {
            machines: Ok(with(|machine| machine.kernel = "5.8.0".to_owned())),
            ..fit()
        };
        assert_eq!(CheckReport::new(BEFORE, &evidence).findings, []);
    }
}
