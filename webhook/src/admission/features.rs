//! [`Features`]: the gates and other switches in force, which may change while the webhook serves.

use std::sync::Arc;

use arc_swap::ArcSwap;
use headroom_kit::gate::GateSet;

use super::shadow::Shadow;

/// What is switched on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Features {
    /// The gates in force.
    pub gates: GateSet,
    /// The steps whose refusals are warnings.
    pub shadow: Shadow,
}

impl Features {
    /// These gates, and nothing in the shadow.
    pub fn with_gates(gates: GateSet) -> Self {
        Self {
            gates,
            shadow: Shadow::default(),
        }
    }

    /// For everybody who reads them while they may change.
    pub fn shared(self) -> Arc<ArcSwap<Self>> {
        Arc::new(ArcSwap::from_pointee(self))
    }
}
