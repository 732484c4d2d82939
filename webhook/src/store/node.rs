//! A Node with only the fields that this replica reads.

pub mod object;
mod own_condition;

pub use headroom_domain::selector::Labels;
use headroom_domain::{
    capacity::{NodeState, amount, written_ratios},
    hint::{HintQuery, Machine, Note},
    policy::Mode,
};
pub use own_condition::OwnCondition;

/// A Node as far as Headroom reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its UID: another Node of the same name has another one.
    pub uid: String,
    /// Its resource version, by which its states are ordered.
    pub version: u64,
    /// Its labels, by which policies select it.
    pub labels: Labels,
    /// What the capacity rules read.
    pub state: NodeState,
    /// The mode that its annotation asks for; `None` also where that is no mode.
    pub mode: Option<Mode>,
    /// True if its kubelet tells in a pod's status what it has set aside, as those from 1.33 on do.
    pub tells_allocated: bool,
    /// True while its condition `MemoryPressure` is: its kubelet reclaims memory by evicting pods.
    pub has_memory_pressure: bool,
    /// The conditions that the webhook writes.
    pub own_conditions: Vec<OwnCondition>,
}

/// What a Node in that state says of its machine; a capacity that cannot be read counts as not said.
pub fn machine(state: &NodeState, has_memory_pressure: bool) -> Machine {
    Machine {
        capacity: state
            .capacity
            .map(|resource, quantity| amount(resource, quantity.as_ref()?)),
        has_memory_pressure,
    }
}

impl Node {
    /// The question what hint counts for it.
    pub fn asked(&self) -> HintQuery<'_> {
        HintQuery {
            node: &self.name,
            uid: &self.uid,
            version: self.version,
            stored: self.state.annotations.hint.as_ref(),
            written: written_ratios(&self.state.annotations, &self.uid),
            nudged: None,
            machine: machine(&self.state, self.has_memory_pressure),
        }
    }

    /// The hint that its allocatable was last computed from, if it is of this Node.
    pub fn note(&self) -> Option<&Note> {
        self.state.annotations.note_of(&self.uid)
    }
}
