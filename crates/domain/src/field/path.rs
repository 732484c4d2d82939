//! [`Path`]: path of a field in an object, in Kubernetes' notation.

use std::fmt;

/// A path such as `spec.containers[0].resources.limits[cpu]`. Names are not escaped, so a name with dots looks like
/// several.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path(String);

impl Path {
    /// Path of a top-level member.
    pub fn new(name: &str) -> Self {
        Self(name.to_owned())
    }

    /// Path of a member of this object.
    pub fn child(&self, name: &str) -> Self {
        Self(format!("{self}.{name}"))
    }

    /// Path of a list element; `index` counts from 0.
    pub fn index(&self, index: usize) -> Self {
        Self(format!("{self}[{index}]"))
    }

    /// Path of a map entry, as in `limits[cpu]`.
    pub fn key(&self, key: &str) -> Self {
        Self(format!("{self}[{key}]"))
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
