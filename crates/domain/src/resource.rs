//! [`Resource`]: the two amplified resources, CPU and memory, and [`PerResource`] with one value for each.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::names;

/// Resource that Headroom amplifies. CPU counts in milli-cores, memory in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resource {
    /// CPU time, measured in milli-cores.
    Cpu,
    /// Memory, measured in whole bytes.
    Memory,
}

impl Resource {
    /// Both resources, in the order in which they are written.
    pub const ALL: [Self; 2] = [Self::Cpu, Self::Memory];

    /// Kubernetes' name: `cpu` or `memory`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpu => names::CPU,
            Self::Memory => names::MEMORY,
        }
    }

    /// Resource of that name; case-sensitive, as in Kubernetes.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|resource| resource.name() == name)
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One value for CPU and one for memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash, Serialize, Deserialize)]
pub struct PerResource<T> {
    /// Value for CPU; amounts are in milli-cores.
    pub cpu: T,
    /// Value for memory; amounts are in bytes.
    pub memory: T,
}

impl<T> PerResource<T> {
    /// Calls `value` once for each resource.
    pub fn from_fn(mut value: impl FnMut(Resource) -> T) -> Self {
        Self {
            cpu: value(Resource::Cpu),
            memory: value(Resource::Memory),
        }
    }

    /// Reference to the value for `resource`.
    pub const fn get(&self, resource: Resource) -> &T {
        match resource {
            Resource::Cpu => &self.cpu,
            Resource::Memory => &self.memory,
        }
    }

    /// Mutable reference to the value for `resource`.
    pub const fn get_mut(&mut self, resource: Resource) -> &mut T {
        match resource {
            Resource::Cpu => &mut self.cpu,
            Resource::Memory => &mut self.memory,
        }
    }

    /// Applies `value` to each resource and its value.
    pub fn map<U>(&self, mut value: impl FnMut(Resource, &T) -> U) -> PerResource<U> {
        PerResource {
            cpu: value(Resource::Cpu, &self.cpu),
            memory: value(Resource::Memory, &self.memory),
        }
    }
}
