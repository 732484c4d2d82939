//! Inputs and result of the check.

use headroom_domain::{field::Errors, selector::Labels};

/// Namespace and name of the ConfigMap, for messages.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    /// Namespace of the ConfigMap, for Koordinator's messages.
    pub namespace: &'a str,
    /// Name of the ConfigMap, for Koordinator's messages.
    pub name: &'a str,
}

/// Settings of the check that administrators choose.
#[derive(Debug, Clone, Copy, Default)]
pub struct CheckSettings {
    /// True if each entry of a key needs a unique name.
    pub needs_names: bool,
}

/// Existing nodes. They are visited only for keys with two entries.
pub trait Nodes {
    /// Visits each node once with its name and labels, in any order.
    fn visit(&self, visitor: &mut dyn FnMut(&str, &Labels));
}

/// Result of checking a version of the ConfigMap.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// Refusal in Koordinator's words about the first fault; `None` if the version is accepted.
    pub refusal: Option<String>,
    /// All errors with path, value and allowed range: the one in `refusal` first, then the rest. Empty if the version
    /// is accepted.
    pub errors: Errors,
    /// Probable mistakes that are no reason for a refusal.
    pub warnings: Vec<String>,
}
