//! Rules for the writers of a Node's annotations, in Rust and as texts of refusals. The step `validate_node/writer`
//! applies them; the API server's own checks (`install/manifest/policies/checks.rs`) state the same rules.

use headroom_domain::names;

use crate::admission::review::User;

/// Permitted writer of annotations that only the webhook writes, for messages; `webhook` is its user.
pub fn by_us(webhook: &str) -> String {
    format!("only {webhook} writes it")
}

/// Permitted writers of annotations that users write, for messages.
pub const BY_PEOPLE: &str = "users write it";

/// Refusal of a kubelet's change, before the permitted writers.
pub const NOT_BY_KUBELETS: &str = "may not be set, changed or removed with a node's own credential";

/// Refusal of another user's change, before the permitted writers.
pub const NOT_BY_OTHERS: &str = "may not be set, changed or removed by other users";

/// Refusal of an unknown annotation under our prefix.
pub fn not_known() -> String {
    format!(
        "is not an annotation of Headroom; of {}* users write {}",
        names::DOMAIN,
        names::MODE
    )
}

/// Change of an annotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnnotationChange {
    /// It is set, or gets another value.
    Written,
    Removed,
}

/// Why `user` may not change the annotation of that key; `None` if it may. `webhook` is the user that the webhook is.
pub fn refusal(user: &User, webhook: &str, key: &str, change: AnnotationChange) -> Option<String> {
    let is_owned = names::OWNED.contains(&key);
    if user.name == webhook {
        return None;
    }
    if user.kubelet().is_some() {
        let is_peoples = names::STEERING.contains(&key);
        let who = if is_peoples {
            BY_PEOPLE.to_owned()
        } else {
            by_us(webhook)
        };
        let is_protected = is_owned || is_peoples || names::is_unknown(key);
        return is_protected.then(|| format!("{NOT_BY_KUBELETS}; {who}"));
    }
    match change {
        // Without it a node counts as never amplified: users release a node by removing it.
        AnnotationChange::Removed if key == names::MARKER => None,
        AnnotationChange::Removed if !is_owned => None,
        AnnotationChange::Written if names::is_unknown(key) => Some(not_known()),
        AnnotationChange::Written | AnnotationChange::Removed => {
            is_owned.then(|| format!("{NOT_BY_OTHERS}; {}", by_us(webhook)))
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const KUBELET: &str = "system:node:n1";
    const PERSON: &str = "kubernetes-admin";
    /// A user of the group of nodes that names no node.
    const SHARED: &str = "system:node";

    fn user(name: &str) -> User {
        let is_node = name.starts_with(SHARED);
        User {
            name: name.to_owned(),
            groups: is_node
                .then(|| names::NODES_GROUP.to_owned())
                .into_iter()
                .collect(),
        }
    }

    #[rstest]
    #[case::ratio(KUBELET, names::RATIO, [true, true])]
    #[case::mode(KUBELET, names::MODE, [true, true])]
    #[case::raw(KUBELET, names::RAW_ALLOCATABLE, [true, true])]
    #[case::marker(KUBELET, names::MARKER, [true, true])]
    #[case::misspelt(KUBELET, "headroom.sh/mdoe", [true, true])]
    #[case::others(KUBELET, "volumes.kubernetes.io/x", [false, false])]
    #[case::shared_ratio(SHARED, names::RATIO, [true, true])]
    #[case::shared_mode(SHARED, names::MODE, [true, true])]
    #[case::shared_marker(SHARED, names::MARKER, [true, true])]
    #[case::shared_others(SHARED, "volumes.kubernetes.io/x", [false, false])]
    #[case::ratio(PERSON, names::RATIO, [false, false])]
    #[case::mode(PERSON, names::MODE, [false, false])]
    #[case::raw(PERSON, names::RAW_ALLOCATABLE, [true, true])]
    #[case::hint(PERSON, names::HINT, [true, true])]
    #[case::static_ratio(PERSON, names::STATIC_RATIO, [true, true])]
    #[case::kubelet_raw(PERSON, names::KUBELET_RAW, [true, true])]
    #[case::marker(PERSON, names::MARKER, [true, false])]
    #[case::misspelt(PERSON, "headroom.sh/mdoe", [true, false])]
    #[case::others(PERSON, "node.koordinator.sh/x", [false, false])]
    #[case::ours(names::WEBHOOK_USER, names::MARKER, [false, false])]
    #[case::of_a_newer_version(names::WEBHOOK_USER, "headroom.sh/newer", [false, false])]
    fn who_may_write_and_remove(#[case] name: &str, #[case] key: &str, #[case] refused: [bool; 2]) {
        let is_refused = |change| refusal(&user(name), names::WEBHOOK_USER, key, change).is_some();
        assert_eq!(
            [AnnotationChange::Written, AnnotationChange::Removed].map(is_refused),
            refused
        );
    }

    #[test]
    fn a_refusal_says_who_may() {
        let why =
            |name, key| refusal(&user(name), names::WEBHOOK_USER, key, AnnotationChange::Written).unwrap();
        assert!(why(KUBELET, names::RATIO).ends_with("; users write it"));
        assert!(why(KUBELET, names::HINT).ends_with("headroom-system:headroom-webhook writes it"));
        assert!(why(PERSON, names::HINT).ends_with("headroom-system:headroom-webhook writes it"));
        assert!(why(PERSON, "headroom.sh/mdoe").ends_with("users write headroom.sh/mode"));
    }
}
