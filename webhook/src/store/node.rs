//! A Node with only the fields that this replica reads.

pub mod object;
mod own_condition;

pub use headroom_domain::selector::Labels;
use headroom_domain::{
    capacity::{NodeState, amount, recorded_raw, written_ratios},
    hint::{HintQuery, Machine, Note},
    policy::Mode,
    resource::{PerResource, Resource},
};
pub use own_condition::OwnCondition;

/// A Node as far as Headroom reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub name: String,
    /// Its UID: another Node of the same name has another one.
    pub uid: String,
    /// Its resource version, by which its states are ordered.
    pub version: u64,
    /// Its labels, by which policies select it.
    pub labels: Labels,
    /// State that the capacity rules read.
    pub state: NodeState,
    /// The mode that its annotation asks for; `None` also where that is no mode.
    pub mode: Option<Mode>,
    /// True if its kubelet reports reservations in pod statuses, as those from 1.33 on do.
    pub tells_allocated: bool,
    /// True while its condition `MemoryPressure` is: its kubelet reclaims memory by evicting pods.
    pub has_memory_pressure: bool,
    /// The conditions that the webhook writes.
    pub own_conditions: Vec<OwnCondition>,
}

/// Machine that a Node in this state describes; an unreadable capacity counts as missing.
pub fn machine(state: &NodeState, has_memory_pressure: bool) -> Machine {
    Machine {
        capacity: state
            .capacity
            .map(|resource, quantity| amount(resource, quantity.as_ref()?)),
        has_memory_pressure,
    }
}

impl Node {
    /// Query for the hint that counts for it.
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

    /// Capacity in milli-cores and bytes; `None` where the Node states no amount or one that cannot be read.
    pub fn capacity(&self) -> PerResource<Option<u64>> {
        let capacity = &self.state.capacity;
        PerResource::from_fn(|resource| amount(resource, capacity.get(resource).as_ref()?))
    }

    /// Raw allocatable in milli-cores and bytes: the recorded value, or the current allocatable of a Node without a marker.
    pub fn raw_allocatable(&self) -> PerResource<Option<u64>> {
        let recorded = recorded_raw(&self.state, &self.uid);
        let is_marked = self.state.annotations.marker.is_some();
        PerResource::from_fn(|resource: Resource| {
            recorded.get(resource).or_else(|| {
                let allocatable = self.state.allocatable.get(resource).as_ref();
                amount(resource, allocatable.filter(|_| !is_marked)?)
            })
        })
    }

    /// The hint that its allocatable was last computed from, if it is of this Node.
    pub fn note(&self) -> Option<&Note> {
        self.state.annotations.note_of(&self.uid)
    }
}
