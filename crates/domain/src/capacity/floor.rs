//! What the floor policy keeps of a kubelet's write while no webhook answers: its rules in Rust. The policy itself is
//! CEL; a test on a real API server compares the two case by case.

use std::time::Duration;

use super::{Write, marker::Marker};
use crate::{
    quantity::Quantity,
    resource::{PerResource, Resource},
};

/// How long the marker holds after it was renewed, by the clock of the kubelet. The webhook renews it with each
/// heartbeat that is written; the policy never does.
pub const HOLDS_FOR: Duration = Duration::from_secs(3600);

/// The values that stand in for what the node's own kubelet sends; `None` where its own value passes. `is_recent`
/// says whether the heartbeat in the marker and that of the write are less than [`HOLDS_FOR`] apart.
pub fn held(write: &Write<'_>, is_recent: impl FnOnce(&str) -> bool) -> PerResource<Option<Quantity>> {
    let marker = Marker::parse(write.old.annotations.marker.as_deref(), Some(write.uid))
        .filter(|marker| marker.at.as_deref().is_some_and(is_recent));
    let held = |resource: Resource| {
        let marker = marker.as_ref()?;
        let sent = (*write.new.allocatable.get(resource))?;
        let written = marker.quantity(resource)?;
        (sent == marker.raw_quantity(resource)?).then_some(written)
    };
    PerResource::from_fn(held)
}
