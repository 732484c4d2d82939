//! [`Path`]: where in an object a field is, as Kubernetes writes it.

use std::fmt;

/// A path such as `spec.containers[0].resources.limits[cpu]`. Names are not escaped, so one with dots looks like several.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path(String);

impl Path {
    /// The path of a member of the object itself.
    pub fn new(name: &str) -> Self {
        Self(name.to_owned())
    }

    /// The path of a member of this object.
    pub fn child(&self, name: &str) -> Self {
        Self(format!("{self}.{name}"))
    }

    /// The path of an element of this list, counted from 0.
    pub fn index(&self, index: usize) -> Self {
        Self(format!("{self}[{index}]"))
    }

    /// The path of an entry of this map.
    pub fn key(&self, key: &str) -> Self {
        Self(format!("{self}[{key}]"))
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
