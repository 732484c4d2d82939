//! Tests of the generated policies against golden files. Tests on a real API server cover their effects.

use super::*;
use crate::install::manifest::tests::checked;

fn golden(bound: &PolicyAndBinding) -> String {
    checked(&bound.policy) + "---\n" + &checked(&bound.binding)
}

#[test]
fn the_policies_are_the_golden_ones() {
    for bound in all(&Installation::default()) {
        insta::assert_snapshot!(bound.policy.metadata.name.clone().unwrap(), golden(&bound));
    }
}

#[test]
fn the_checks_are_the_golden_ones_and_never_about_status() {
    let Checks { policy, binding } = checks::checks(&Installation::default());
    insta::assert_snapshot!("headroom-checks", checked(&policy) + "---\n" + &checked(&binding));
    let rules = policy
        .spec
        .unwrap()
        .match_constraints
        .unwrap()
        .resource_rules
        .unwrap();
    let resources: Vec<_> = rules
        .into_iter()
        .flat_map(|rule| rule.resources.unwrap())
        .collect();
    assert_eq!(resources, ["nodes"]);
}

#[test]
fn a_binding_names_its_policy_and_nothing_is_refused() {
    for PolicyAndBinding { policy, binding } in all(&Installation::default()) {
        let spec = policy.spec.unwrap();
        assert_eq!(spec.failure_policy.as_deref(), Some("Ignore"));
        assert_eq!(spec.reinvocation_policy.as_deref(), Some("Never"));
        assert_eq!(binding.spec.unwrap().policy_name, policy.metadata.name);
    }
}

#[test]
fn a_second_installation_has_its_own_names_and_writes_with_its_own_user() {
    let second = Installation {
        namespace: "b".parse().unwrap(),
        suffix: "-b".parse().unwrap(),
        ..Installation::default()
    };
    let [revert, floor] = all(&second);
    for (bound, name) in [(revert, "headroom-annotations-b"), (floor, "headroom-floor-b")] {
        assert_eq!(bound.policy.metadata.name.as_deref(), Some(name));
        assert_eq!(bound.binding.spec.unwrap().policy_name.as_deref(), Some(name));
    }
    let Checks { policy, binding } = checks::checks(&second);
    assert_eq!(binding.spec.policy_name, "headroom-checks-b");
    let text = checked(&policy);
    let (theirs, ours) = (names::WEBHOOK_USER, second.webhook_user());
    assert!(text.contains(&ours) && !text.contains(theirs), "{text}");
}

#[test]
fn a_text_of_ours_needs_no_escapes() {
    let texts = names::PROTECTED.into_iter().chain([
        names::DOMAIN,
        names::MARKER,
        names::KUBELET_RAW,
        names::NODE_USER_PREFIX,
        names::NODES_GROUP,
    ]);
    for text in texts {
        assert!(!text.contains(['\'', '\\', '\n']), "{text}");
    }
}
