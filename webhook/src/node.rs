//! What this replica knows of Node objects, and how it asks the API server to have one decided anew.

pub mod conflicts;
pub mod contest;
pub mod metrics;
pub mod nudge;
pub mod object;
pub mod sweep;
pub mod usage;
pub mod watch;
pub mod writers;

use std::{collections::BTreeMap, time::Duration};

use headroom_domain::{
    capacity::{State, amount, written_ratios},
    hint::{Asked, Machine, Note},
    policy::Mode,
};

const SECOND: Duration = Duration::from_secs(1);

/// The labels of a Node.
pub type Labels = BTreeMap<String, String>;

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
    pub state: State,
    /// The mode that its annotation asks for; `None` also where that is no mode.
    pub mode: Option<Mode>,
    /// True if its kubelet tells in a pod's status what it has set aside, as those from 1.33 on do.
    pub tells_allocated: bool,
    /// True while its condition `MemoryPressure` is: its kubelet reclaims memory by evicting pods.
    pub has_memory_pressure: bool,
}

/// How fast nodes are asked to be decided anew, all together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rates {
    /// Nudges that lower or record a brake, a second.
    pub lower: u32,
    /// Nodes that may rise, in percent of all a second; at least one.
    pub rise_percent: u32,
    /// Nodes that the sweep may lower or repair, a second.
    pub sweep: u32,
}

impl Rates {
    /// Unless flags say otherwise.
    pub const DEFAULT: Self = Self {
        lower: 500,
        rise_percent: 1,
        sweep: 50,
    };

    /// The time between two nudges that lower.
    fn lower_every(&self) -> Duration {
        SECOND / self.lower.max(1)
    }

    /// The time between two rises where there are so many nodes.
    fn rise_every(&self, nodes: usize) -> Duration {
        let nodes = u32::try_from(nodes).unwrap_or(u32::MAX);
        SECOND / (nodes.saturating_mul(self.rise_percent) / 100).max(1)
    }
}

/// What a Node in that state says of its machine; a capacity that cannot be read counts as not said.
pub(crate) fn machine(state: &State, has_memory_pressure: bool) -> Machine {
    Machine {
        capacity: state
            .capacity
            .map(|resource, quantity| amount(resource, quantity.as_ref()?)),
        has_memory_pressure,
    }
}

impl Node {
    /// The question what hint counts for it.
    pub fn asked(&self) -> Asked<'_> {
        Asked {
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
