//! What the check is asked, and what it answers.

use headroom_domain::{field::Errors, selector::Labels};

/// The ConfigMap by name, as texts have it.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
}

/// What an administrator asks of the check.
#[derive(Debug, Clone, Copy, Default)]
pub struct CheckSettings {
    /// Whether each entry of a key needs a name of its own.
    pub needs_names: bool,
}

/// The nodes that there are. They are asked for only where a key has two entries.
pub trait Nodes {
    /// Visits each node once with its name and its labels, in any order.
    fn visit(&self, visitor: &mut dyn FnMut(&str, &Labels));
}

/// What is wrong with a version of the ConfigMap.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// Why it is refused, in the words in which Koordinator's clients know the first thing that is wrong; `None` if it is
    /// not refused.
    pub refusal: Option<String>,
    /// Everything that is wrong, with path, value and allowed range: what `refusal` says first, then the rest. Empty if
    /// it is not refused.
    pub errors: Errors,
    /// What is probably not meant, and yet no reason to refuse it.
    pub warnings: Vec<String>,
}
