//! The two resources that are amplified, CPU and memory, and `PerResource`: one value for each.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::names;

/// A resource that Headroom amplifies. CPU counts in milli-cores, memory in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resource {
    /// CPU, in milli-cores.
    Cpu,
    /// Memory, in bytes.
    Memory,
}

impl Resource {
    /// Both, in the order in which they are written.
    pub const ALL: [Self; 2] = [Self::Cpu, Self::Memory];

    /// Kubernetes' name of the resource.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpu => names::CPU,
            Self::Memory => names::MEMORY,
        }
    }

    /// The resource of that name; case-sensitive, as in Kubernetes.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|resource| resource.name() == name)
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One value for each resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash, Serialize, Deserialize)]
pub struct PerResource<T> {
    /// The value for CPU.
    pub cpu: T,
    /// The value for memory.
    pub memory: T,
}

impl<T> PerResource<T> {
    /// Makes the pair by asking for each resource.
    pub fn from_fn(mut value: impl FnMut(Resource) -> T) -> Self {
        Self {
            cpu: value(Resource::Cpu),
            memory: value(Resource::Memory),
        }
    }

    /// The value for `resource`.
    pub const fn get(&self, resource: Resource) -> &T {
        match resource {
            Resource::Cpu => &self.cpu,
            Resource::Memory => &self.memory,
        }
    }

    /// The value for `resource`, to change.
    pub const fn get_mut(&mut self, resource: Resource) -> &mut T {
        match resource {
            Resource::Cpu => &mut self.cpu,
            Resource::Memory => &mut self.memory,
        }
    }

    /// The pair with each value replaced.
    pub fn map<U>(&self, mut value: impl FnMut(Resource, &T) -> U) -> PerResource<U> {
        PerResource {
            cpu: value(Resource::Cpu, &self.cpu),
            memory: value(Resource::Memory, &self.memory),
        }
    }
}
