//! [`Family`]: endpoints of the webhook that an installation serves together.

/// Endpoints that the webhook serves together; `--serve` selects families.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// Admission of Nodes: amplification of allocatable.
    Nodes,
    /// Admission of pods, reservations, quotas and configuration as Koordinator's webhook does it.
    Koordinator,
    /// Placement of pods near the data of Fluid, as Fluid's webhook does it.
    Fluid,
}

impl Family {
    /// All families, in the order in which help and error texts list them.
    pub const ALL: [Self; 3] = [Self::Nodes, Self::Koordinator, Self::Fluid];

    /// True if the process follows nodes, their pods and Koordinator's ConfigMap for it, whatever its steps read.
    pub const fn follows_nodes(self) -> bool {
        match self {
            Self::Nodes | Self::Koordinator => true,
            Self::Fluid => false,
        }
    }

    /// Its name in the value of `--serve`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nodes => "nodes",
            Self::Koordinator => "koordinator",
            Self::Fluid => "fluid",
        }
    }
}
