//! Tests of Pods in a small set of quotas, under Headroom's behaviour and under Koordinator's.

mod affinity;
mod amounts;

use std::{collections::BTreeMap, sync::Arc};

use headroom_domain::selector::Labels;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::{
    SWITCHES,
    quota::{BoundPods, Quota, QuotaTree},
    switch::{Compat, Switches},
};

const BOTH: [Compat; 2] = [Compat::Headroom, Compat::Upstream];

fn switches(compat: Compat) -> Switches {
    Switches::preset(SWITCHES, compat)
}

/// Quotas by namespace and name, and the owner of each listed namespace.
#[derive(Default)]
struct Quotas {
    quotas: BTreeMap<(String, String), Arc<Quota>>,
    by_namespace: BTreeMap<&'static str, (&'static str, &'static str)>,
}

impl QuotaTree for Quotas {
    fn by_name(&self, name: &str) -> Option<Arc<Quota>> {
        self.quotas.values().find(|quota| *quota.name == *name).cloned()
    }

    fn count_named(&self, name: &str) -> usize {
        self.quotas.values().filter(|quota| *quota.name == *name).count()
    }

    fn get(&self, namespace: &str, name: &str) -> Option<Arc<Quota>> {
        self.quotas.get(&(namespace.to_owned(), name.to_owned())).cloned()
    }

    fn visit_children(&self, _parent: &str, _visit: &mut dyn FnMut(&Quota)) {}

    fn owner(&self, namespace: &str) -> Option<Arc<Quota>> {
        let (own, name) = self.by_namespace.get(namespace)?;
        self.get(own, name)
    }

    fn is_leaving(&self, _quota: &Quota) -> bool {
        false
    }

    fn bound_pods(&self, _quota: &Quota) -> BoundPods {
        BoundPods::default()
    }
}

fn quotas() -> Quotas {
    let mut quotas = Quotas::default();
    for (namespace, name, is_parent, tree) in [
        ("q", "web", false, "t1"),
        ("q", "org", true, ""),
        ("nsq", "nsq", true, ""),
        ("q", "shared", false, "t2"),
        ("q", "sharedp", true, ""),
        ("q", "ns", false, "t1"),
        ("q", "koordinator-root-quota", true, ""),
    ] {
        let quota = Quota {
            namespace: namespace.into(),
            name: name.into(),
            is_parent,
            tree_id: tree.into(),
            ..Quota::default()
        };
        quotas
            .quotas
            .insert((namespace.to_owned(), name.to_owned()), Arc::new(quota));
    }
    quotas.by_namespace = [("n-a", ("q", "shared")), ("n-b", ("q", "sharedp"))].into();
    quotas
}

fn labels(labels: &[(&str, &str)]) -> Labels {
    let named = labels.iter().map(|(key, value)| {
        let key = format!("quota.scheduling.koordinator.sh/{key}");
        (key, (*value).to_owned())
    });
    named.collect()
}

const fn member<'p>(labels: &'p Labels, namespace: &'p str) -> Membership<'p> {
    Membership {
        labels,
        namespace,
        has_default: true,
    }
}

#[rstest]
#[case::label(&[("name", "web")], "d", true, "web")]
#[case::unknown_label(&[("name", "nope")], "nsq", true, "nope")]
#[case::label_wins(&[("name", "web")], "nsq", true, "web")]
#[case::empty_label(&[("name", "")], "nsq", true, "nsq")]
#[case::namespace(&[], "nsq", true, "nsq")]
#[case::named_elsewhere(&[], "ns", true, "koordinator-default-quota")]
#[case::listed(&[], "n-a", true, "shared")]
#[case::nothing(&[], "d", true, "koordinator-default-quota")]
#[case::no_default(&[], "nsq", false, "")]
#[case::no_default_labelled(&[("name", "org")], "nsq", false, "org")]
fn a_pod_belongs_to_the_quota_of_its_label_or_namespace(
    #[case] own: &[(&str, &str)],
    #[case] namespace: &str,
    #[case] has_default: bool,
    #[case] expected: &str,
) {
    let labels = labels(own);
    let membership = Membership {
        has_default,
        ..member(&labels, namespace)
    };
    assert_eq!(membership.quota(&quotas()), expected);
}

#[rstest]
#[case::label(&[("name", "web")], "d", true, "label")]
#[case::like_named(&[], "nsq", true, "like-named")]
#[case::listed(&[], "n-a", true, "listed")]
#[case::nothing(&[], "d", true, "default")]
#[case::no_default(&[], "nsq", false, "none")]
fn the_rule_that_assigned_a_quota_is_reported(
    #[case] own: &[(&str, &str)],
    #[case] namespace: &str,
    #[case] has_default: bool,
    #[case] expected: &str,
) {
    let labels = labels(own);
    let membership = Membership {
        has_default,
        ..member(&labels, namespace)
    };
    assert_eq!(membership.resolve(&quotas()).1.name(), expected);
}

#[test]
fn namespaces_count_once_and_only_for_their_own_quota() {
    let quotas = quotas();
    let listing = Quota {
        namespaces: ["n-a", "n-a", "nsq", "n-b"].map(Into::into).into(),
        ..(*quotas.by_name("shared").unwrap()).clone()
    };
    let names = |has_default| namespaces_of(&listing, has_default, &quotas);
    assert_eq!(names(true), ["n-a".into()] as [Box<str>; 1]);
    assert!(names(false).is_empty());
    let like_named = quotas.get("nsq", "nsq").unwrap();
    assert_eq!(
        namespaces_of(&like_named, true, &quotas),
        ["nsq".into()] as [Box<str>; 1]
    );
}

#[rstest]
#[case::one("web", Ok("web"))]
#[case::none("ghost", Err("elastic quota ghost not found"))]
#[case::two("twice", Err("more than one elastic quota twice found"))]
fn pods_are_compared_with_the_one_quota_of_a_name(#[case] name: &str, #[case] expected: Result<&str, &str>) {
    let mut quotas = quotas();
    for namespace in ["a", "b"] {
        let twice = Quota {
            namespace: namespace.into(),
            name: "twice".into(),
            ..Quota::default()
        };
        let key = (namespace.to_owned(), "twice".to_owned());
        quotas.quotas.insert(key, Arc::new(twice));
    }
    let found = evaluated(name, &quotas);
    let found = found
        .map(|quota| quota.name.to_string())
        .map_err(|error| error.to_string());
    assert_eq!(found, expected.map(str::to_owned).map_err(str::to_owned));
    assert!(is_limited(name) && !is_limited("koordinator-default-quota") && !is_limited(""));
}

/// Koordinator's text under both behaviours, or only Koordinator's if ours differs.
enum ExpectedText {
    Nothing,
    Both(&'static str),
    Koordinator(&'static str),
}

const ORG: &str = "pod can not be linked to a parentQuotaGroup,quota:org, pod:p";
const NSQ: &str = "pod can not be linked to a parentQuotaGroup,quota:nsq, pod:p";
const PREEMPTIBLE: &str = "Preemptible label is forbidden modify now.";

#[rstest]
#[case::p1(&[("name", "web")], None, "d", ExpectedText::Nothing)]
#[case::p2(&[("name", "org")], None, "d", ExpectedText::Both(ORG))]
#[case::p3(&[("name", "missing")], None, "d", ExpectedText::Nothing)]
#[case::p4(&[], None, "d", ExpectedText::Nothing)]
#[case::p5(&[], None, "nsq", ExpectedText::Both(NSQ))]
#[case::p6(&[("name", "web")], None, "nsq", ExpectedText::Nothing)]
#[case::p7(&[], None, "n-a", ExpectedText::Nothing)]
#[case::p8(&[], None, "n-b", ExpectedText::Both("pod can not be linked to a parentQuotaGroup,quota:sharedp, pod:p"))]
#[case::p9(&[("name", "koordinator-root-quota")], None, "d", ExpectedText::Both("pod can not be linked to a parentQuotaGroup,quota:koordinator-root-quota, pod:p"))]
#[case::p10(&[("preemptible", "false")], Some(&[][..]), "d", ExpectedText::Both(PREEMPTIBLE))]
#[case::p11(&[("preemptible", "")], Some(&[][..]), "d", ExpectedText::Nothing)]
#[case::p12(&[("name", "org")], Some(&[("name", "org")][..]), "d", ExpectedText::Koordinator(ORG))]
#[case::p13(&[("name", "batch")], Some(&[("name", "web")][..]), "d", ExpectedText::Nothing)]
#[case::moved_to_a_parent(&[("name", "org")], Some(&[("name", "web")][..]), "d", ExpectedText::Both(ORG))]
fn parents_take_no_pods(
    #[case] own: &[(&str, &str)],
    #[case] stored: Option<&[(&str, &str)]>,
    #[case] namespace: &str,
    #[case] expected_text: ExpectedText,
) {
    let (own, stored) = (labels(own), stored.map(labels));
    let stored = stored.as_ref().map(|stored| member(stored, namespace));
    for compat in BOTH {
        let text = |parents| {
            let found = check(
                "p",
                member(&own, namespace),
                stored,
                parents,
                &quotas(),
                &switches(compat),
            );
            found.map(|(text, _)| text)
        };
        let expected = match (&expected_text, compat) {
            (ExpectedText::Nothing, _) | (ExpectedText::Koordinator(_), Compat::Headroom) => None,
            (ExpectedText::Both(text) | ExpectedText::Koordinator(text), _) => Some((*text).to_owned()),
        };
        assert_eq!(text(ParentPods::Refused), expected, "{compat:?}");
        let whatever = expected.filter(|text| text == PREEMPTIBLE);
        assert_eq!(text(ParentPods::Taken), whatever, "{compat:?}");
    }
}

#[test]
fn without_a_default_only_a_label_makes_a_pod_one_of_a_parent() {
    let text = |own: &Labels| {
        let pod = Membership {
            has_default: false,
            ..member(own, "nsq")
        };
        let found = check(
            "p",
            pod,
            None,
            ParentPods::Refused,
            &quotas(),
            &Switches::default(),
        );
        found.map(|(text, error)| (text, error.field().to_owned()))
    };
    assert_eq!(text(&labels(&[])), None);
    let field = "metadata.labels[quota.scheduling.koordinator.sh/name]";
    assert_eq!(
        text(&labels(&[("name", "org")])),
        Some((ORG.to_owned(), field.to_owned()))
    );
}

#[rstest]
#[case::label(&[("name", "web")], "d", [Some("t1"); 2])]
#[case::named_like_the_namespace(&[], "ns", [Some("t1"); 2])]
#[case::listed(&[], "n-a", [Some("t2"); 2])]
#[case::no_tree(&[("name", "org")], "d", [Some(""); 2])]
#[case::unknown_label(&[("name", "ghost")], "n-a", [None, Some("t2")])]
#[case::nothing(&[], "d", [None; 2])]
fn the_tree_is_that_of_the_quota(
    #[case] own: &[(&str, &str)],
    #[case] namespace: &str,
    #[case] expected: [Option<&str>; 2],
) {
    let labels = labels(own);
    for (compat, expected) in BOTH.into_iter().zip(expected) {
        let quota = tree_quota(member(&labels, namespace), &quotas(), &switches(compat));
        assert_eq!(
            quota.as_ref().map(|quota| quota.tree_id.as_ref()),
            expected,
            "{compat:?}"
        );
    }
}

#[rstest]
#[case::whole(
    json!({"containers": [{"resources": {"requests": {"cpu": "2"}}}], "initContainers": [
        {"restartPolicy": "Always", "resources": {"requests": {"cpu": 1}}}, {"resources": {"requests": {"cpu": 5}}},
    ], "overhead": {"cpu": "250m"}}),
    "cpu=6250m"
)]
#[case::of_the_pod(
    json!({"containers": [{"resources": {"requests": {"cpu": 2, "memory": "1Gi"}}}], "resources": {"requests": {"cpu": 7}}}),
    "cpu=7,memory=1Gi"
)]
#[case::limits(json!({"containers": [{"resources": {"limits": {"cpu": 2}}}]}), "")]
#[case::negative(json!({"containers": [{"resources": {"requests": {"cpu": "-2"}}}]}), "")]
#[case::negative_beside_others(
    json!({"containers": [{"resources": {"requests": {"cpu": 3}}}, {"resources": {"requests": {"cpu": "-2"}}}], "initContainers": [
        {"restartPolicy": "Always", "resources": {"requests": {"cpu": "-1"}}},
    ], "overhead": {"cpu": "-1"}, "resources": {"requests": {"cpu": "-1"}}}),
    "cpu=3"
)]
#[case::zero_and_foreign(json!({"containers": [{"resources": {"requests": {"cpu": 0, "x": 1}}}]}), "")]
fn a_pod_costs_what_it_asks_for(#[case] spec: Value, #[case] expected: &str) {
    let quota = Quota {
        max: serde_json::from_value(json!({"cpu": 1, "memory": 1})).unwrap(),
        ..Quota::default()
    };
    let of_phase = |phase: &str| {
        let pod = json!({"spec": spec, "status": {"phase": phase}});
        let requested = requested(serde_json::from_value(pod).unwrap(), Transformation::None);
        cost(&requested, &quota).to_string()
    };
    assert_eq!(of_phase("Running"), expected);
    assert_eq!(
        (of_phase("Succeeded"), of_phase("Failed")),
        (String::new(), String::new())
    );
}

#[rstest]
#[case(Transformation::None, "cpu=2,memory=4Gi")]
#[case(Transformation::ByAnnotation, "acme.io/cpu=2k")]
fn resources_are_renamed_only_by_annotation(#[case] transformation: Transformation, #[case] expected: &str) {
    let quota = Quota {
        max: serde_json::from_value(json!({"cpu": 1, "memory": 1, "acme.io/cpu": "3k"})).unwrap(),
        ..Quota::default()
    };
    let pod = json!({
        "metadata": {"annotations": {REPLACE_RESOURCES: "cpu:acme.io/cpu,memory:"}},
        "spec": {"containers": [{"resources": {"requests": {"cpu": 2, "memory": "4Gi"}}}]},
    });
    let pod = serde_json::from_value(pod).unwrap();
    assert_eq!(
        cost(&requested(pod, transformation), &quota).to_string(),
        expected
    );
}
