//! Tests of the decisions, by the numbers of the cases of pods.

use super::*;
use crate::{SWITCHES, switch::Compat};

/// Lists of the test cases: `koord-scheduler` may bind, and the rule applies in all namespaces.
const EVERYWHERE: Lists<'static> = Lists {
    users: "koord-scheduler",
    namespaces: "*",
    excluded_namespaces: "kube-system",
    bypass_labels: "koordinator.sh/binding-admission-bypass",
    bypass_annotations: "",
};
const NO_MARKS: BTreeMap<String, String> = BTreeMap::new();
const UNMARKED: PodMetadata<'static> = PodMetadata {
    labels: &NO_MARKS,
    annotations: &NO_MARKS,
};
/// `kube-scheduler`, which is not listed, binds a pod without a bypass in `ns`.
const REQUEST: Request<'static> = Request {
    operation: "CREATE",
    resource: "pods",
    subresource: "binding",
    username: "kube-scheduler",
    namespace: "ns",
    pod: Some(UNMARKED),
};
const BOTH: [Compat; 2] = [Compat::Headroom, Compat::Upstream];

fn decided(request: &Request<'_>, lists: &Lists<'_>, compat: Compat) -> Decision {
    let switches = Switches::parse(SWITCHES, compat, "").unwrap();
    decide(request, &Settings::parse(lists, false), &switches)
}

/// Returns the decision, which must be the same with and without the switches.
fn decided_by_both(request: &Request<'_>, lists: &Lists<'_>) -> Decision {
    let [ours, koordinators] = BOTH.map(|compat| decided(request, lists, compat));
    assert_eq!(ours, koordinators, "{request:?}");
    ours
}

fn marks(key: &str, value: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(key.to_owned(), value.to_owned())])
}

#[test]
fn case_139_an_empty_user_list_turns_the_rule_off() {
    for users in ["", " , "] {
        let lists = Lists { users, ..EVERYWHERE };
        assert_eq!(decided_by_both(&REQUEST, &lists), Decision::NoUsers);
    }
}

#[test]
fn case_140_a_part_of_a_name_matches_only_in_koordinator() {
    let username = "system:serviceaccount:x:koord-scheduler";
    let request = Request { username, ..REQUEST };
    assert_eq!(
        decided(&request, &EVERYWHERE, Compat::Upstream),
        Decision::AllowedUser
    );
    assert_eq!(decided(&request, &EVERYWHERE, Compat::Headroom), Decision::Denied);
    let lists = Lists {
        users: "other, system:serviceaccount:x:koord-scheduler",
        ..EVERYWHERE
    };
    assert_eq!(decided_by_both(&request, &lists), Decision::AllowedUser);
}

#[test]
fn case_141_a_user_who_is_not_listed_is_denied() {
    let decision = decided_by_both(&REQUEST, &EVERYWHERE);
    assert_eq!(decision, Decision::Denied);
    assert!(!decision.is_allowed());
    assert_eq!(
        Decision::DENIAL,
        "binding denied: username is not in the allowed list"
    );
}

#[test]
fn case_142_an_excluded_namespace_beats_all_others() {
    let request = Request {
        namespace: "kube-system",
        ..REQUEST
    };
    for namespaces in ["*", "kube-system", ""] {
        let lists = Lists {
            namespaces,
            ..EVERYWHERE
        };
        assert_eq!(decided_by_both(&request, &lists), Decision::ExcludedNamespace);
    }
}

#[test]
fn case_143_the_rule_applies_only_in_listed_namespaces() {
    for (namespaces, decision) in [
        ("", Decision::NoNamespaces),
        ("other", Decision::OutOfScope),
        (" *", Decision::OutOfScope),
        ("*,x", Decision::OutOfScope),
        ("n", Decision::OutOfScope),
        ("x, ns", Decision::Denied),
    ] {
        let lists = Lists {
            namespaces,
            ..EVERYWHERE
        };
        assert_eq!(decided_by_both(&REQUEST, &lists), decision, "{namespaces:?}");
    }
}

#[test]
fn case_144_a_bypass_label_of_any_value_lets_any_user_bind() {
    for value in ["", "false", "true"] {
        let labels = marks("koordinator.sh/binding-admission-bypass", value);
        let pod = Some(PodMetadata {
            labels: &labels,
            annotations: &NO_MARKS,
        });
        let request = Request { pod, ..REQUEST };
        assert_eq!(decided_by_both(&request, &EVERYWHERE), Decision::BypassLabel);
    }
}

#[test]
fn a_bypass_annotation_lets_any_user_bind_but_a_label_of_that_name_does_not() {
    let lists = Lists {
        bypass_annotations: "a, b",
        ..EVERYWHERE
    };
    let marked = marks("b", "");
    for (labels, annotations, decision) in [
        (&NO_MARKS, &marked, Decision::BypassAnnotation),
        (&marked, &NO_MARKS, Decision::Denied),
    ] {
        let request = Request {
            pod: Some(PodMetadata { labels, annotations }),
            ..REQUEST
        };
        assert_eq!(decided_by_both(&request, &lists), decision);
    }
}

#[test]
fn case_145_a_pod_that_is_not_known_may_be_bound() {
    let request = Request { pod: None, ..REQUEST };
    assert_eq!(decided_by_both(&request, &EVERYWHERE), Decision::UnknownPod);
}

#[test]
fn case_146_a_dry_run_only_counts() {
    let settings = Settings::parse(&EVERYWHERE, true);
    let decision = decide(&REQUEST, &settings, &Switches::default());
    assert_eq!((decision, decision.metric()), (Decision::DryRun, Some("dry_run")));
    let request = Request { pod: None, ..REQUEST };
    assert_eq!(
        decide(&request, &settings, &Switches::default()),
        Decision::UnknownPod
    );
}

#[test]
fn case_147_a_name_that_contains_a_listed_one_is_denied_except_by_koordinator() {
    let request = Request {
        username: "evil-koord-scheduler-2",
        ..REQUEST
    };
    assert_eq!(decided(&request, &EVERYWHERE, Compat::Headroom), Decision::Denied);
    assert_eq!(
        decided(&request, &EVERYWHERE, Compat::Upstream),
        Decision::AllowedUser
    );
}

#[test]
fn case_148_requests_that_bind_no_pod_are_allowed() {
    for (operation, resource, subresource) in [
        ("UPDATE", "pods", "binding"),
        ("CREATE", "pods", ""),
        ("CREATE", "pods", "eviction"),
        ("create", "pods", "binding"),
        ("CREATE", "nodes", "binding"),
        ("UPDATE", "bindings", ""),
        ("CREATE", "bindings", "binding"),
    ] {
        let request = Request {
            operation,
            resource,
            subresource,
            ..REQUEST
        };
        assert_eq!(decided_by_both(&request, &EVERYWHERE), Decision::NoBinding);
    }
}

#[test]
fn bindings_are_checked_except_in_koordinator() {
    let request = Request {
        resource: "bindings",
        subresource: "",
        ..REQUEST
    };
    assert_eq!(decided(&request, &EVERYWHERE, Compat::Headroom), Decision::Denied);
    assert_eq!(
        decided(&request, &EVERYWHERE, Compat::Upstream),
        Decision::NoBinding
    );
}

#[test]
fn only_a_denial_is_not_allowed_and_each_word_counts_one_decision() {
    let denied = Decision::ALL
        .into_iter()
        .filter(|decision| !decision.is_allowed());
    assert_eq!(denied.collect::<Vec<_>>(), [Decision::Denied]);
    let words: Vec<_> = Decision::ALL.into_iter().filter_map(Decision::metric).collect();
    assert_eq!(
        words,
        [
            "allowed_username",
            "excluded_ns",
            "out_of_scope",
            "unknown_pod",
            "bypass_label",
            "bypass_annotation",
            "dry_run",
            "denied"
        ]
    );
}
