//! Rust copy of the floor policy: values that replace a kubelet's raw values while the webhook does not respond. The
//! policy itself is CEL; a test on a real API server compares the two case by case.

use std::time::Duration;

use super::Write;
use crate::{
    quantity::Quantity,
    resource::{PerResource, Resource},
};

/// Default time for which the webhook may leave the heartbeat of an amplified node unwritten.
pub const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(300);

/// Time for which the marker is valid after its renewal, by the kubelet's clock. The webhook renews it with each
/// heartbeat that is written; the policy never does.
pub const HOLDS_FOR: Duration = Duration::from_secs(3600);

/// Values that replace those of the node's own kubelet; `None` if the kubelet's value passes. The replacement is the
/// smaller of marker and stored value, because any user with the right to patch nodes can write a marker. If another
/// client has lowered the stored value below both, the kubelet's value passes. With mode `off` on the stored Node
/// (`is_off`) a value is replaced only if pods need it: an order to restore raw values works without the webhook.
/// `is_recent` returns true if the heartbeat in the marker and that of the write are less than [`HOLDS_FOR`] apart.
pub fn floored(
    write: &Write<'_>,
    is_off: bool,
    is_recent: impl FnOnce(&str) -> bool,
) -> PerResource<Option<Quantity>> {
    let marker = write.old.annotations.marker_of(write.uid);
    let marker = marker.filter(|marker| marker.at.as_deref().is_some_and(is_recent));
    let held = |resource: Resource| {
        let marker = marker.filter(|marker| !is_off || marker.is_from_pods(resource))?;
        let sent = (*write.new.allocatable.get(resource))?;
        let written = marker.quantity(resource)?;
        let stored = (*write.old.allocatable.get(resource))?;
        let is_lowered = stored < sent && stored < written;
        (sent == marker.raw_quantity(resource)? && !is_lowered).then(|| written.min(stored))
    };
    PerResource::from_fn(held)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::capacity::{Annotations, NodeState, Writer};

    const MARKER: &str = r#"{"at":"t0","cpu":"6","from":{"cpu":{"capacity":"4","raw":"4"},"memory":{"raw":"8Gi"}},"memory":"10Gi","uid":"u"}"#;

    fn sent(cpu: &str) -> NodeState {
        NodeState {
            allocatable: PerResource {
                cpu: Some(cpu.parse().unwrap()),
                memory: None,
            },
            ..NodeState::default()
        }
    }

    #[rstest]
    #[case::raw("u", "6", "4", true, Some("6"))]
    #[case::raw_written_otherwise("u", "6", "4000m", true, Some("6"))]
    #[case::less_is_stored("u", "5", "4", true, Some("5"))]
    #[case::more_is_stored("u", "7", "4", true, Some("6"))]
    #[case::lowered_by_hand("u", "3", "4", true, None)]
    #[case::lowered_to_raw("u", "4", "4", true, Some("4"))]
    #[case::another_value("u", "6", "5", true, None)]
    #[case::what_was_written("u", "6", "6", true, None)]
    #[case::too_long_ago("u", "6", "4", false, None)]
    #[case::of_another_node("v", "6", "4", true, None)]
    fn a_raw_value_is_replaced_by_its_amplified_value(
        #[case] uid: &str,
        #[case] stored: &str,
        #[case] cpu: &str,
        #[case] is_recent: bool,
        #[case] kept: Option<&str>,
    ) {
        let old = NodeState {
            annotations: Annotations {
                marker: Some(MARKER.into()),
                ..Annotations::default()
            },
            ..sent(stored)
        };
        let write = Write {
            uid,
            writer: Writer::Kubelet,
            old: &old,
            new: &sent(cpu),
        };
        let held = floored(&write, false, |at| at == "t0" && is_recent);
        assert_eq!(held.cpu, kept.map(|kept| kept.parse().unwrap()));
        assert_eq!(held.memory, None);
    }

    #[test]
    fn a_written_value_below_raw_is_kept_too() {
        let mut old = sent("3");
        old.annotations.marker = Some(MARKER.replace(r#""cpu":"6""#, r#""cpu":"3""#).into());
        let write = Write {
            uid: "u",
            writer: Writer::Kubelet,
            old: &old,
            new: &sent("4"),
        };
        assert_eq!(floored(&write, false, |_| true).cpu, old.allocatable.cpu);
    }

    #[test]
    fn mode_off_releases_values_that_no_pod_needs() {
        let mut old = sent("6");
        let held = |old: &NodeState, is_off| {
            let write = Write {
                uid: "u",
                writer: Writer::Kubelet,
                old,
                new: &sent("4"),
            };
            floored(&write, is_off, |_| true).cpu
        };
        old.annotations.marker = Some(MARKER.into());
        assert_eq!(held(&old, false), old.allocatable.cpu);
        assert_eq!(held(&old, true), None);
        // Pods raised the value above the product of the ratio.
        let by_pods = MARKER.replace(r#""raw":"4""#, r#""product":"4","raw":"4""#);
        old.annotations.marker = Some(by_pods.into());
        assert_eq!(held(&old, true), old.allocatable.cpu);
    }
}
