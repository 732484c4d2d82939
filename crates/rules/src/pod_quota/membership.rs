//! To which quota a Pod belongs: that of its label, or else the one of its namespace.

use std::{borrow::Cow, sync::Arc};

use headroom_domain::{names, selector::Labels};

use crate::{
    quota::{Quota, QuotaTree},
    switch::{Switch, Switches},
};

/// Whether a label that names no quota leaves a Pod without a tree.
pub static TREE_BY_LABEL: Switch = Switch {
    name: "QuotaTreeByLabel",
    default: true,
    row: "D-19, labels",
    koordinator: "a pod whose label names no quota gets the nodes of the tree of its namespace's quota",
    about: "a pod whose label names no quota belongs to no tree",
    why: "the label says whose pod it is, and the quota may be about to be created",
};

/// What says to which quota a Pod belongs.
#[derive(Debug, Clone, Copy)]
pub struct Membership<'p> {
    /// Its labels.
    pub labels: &'p Labels,
    /// Its namespace.
    pub namespace: &'p str,
    /// Whether it belongs to a quota without a label: that of its namespace, or the default one.
    pub has_default: bool,
}

impl<'p> Membership<'p> {
    /// The quota that the label names, be there one of that name or not.
    pub fn label(&self) -> Option<&'p str> {
        let label = self.labels.get(names::QUOTA_NAME).map(String::as_str);
        label.filter(|label| !label.is_empty())
    }

    /// The name of its quota; empty if it belongs to none. The scheduler finds it in the same way.
    pub fn quota(&self, tree: &dyn QuotaTree) -> Cow<'p, str> {
        if let Some(label) = self.label() {
            return label.into();
        }
        if !self.has_default {
            return "".into();
        }
        if tree.get(self.namespace, self.namespace).is_some() {
            return self.namespace.into();
        }
        match tree.owner(self.namespace) {
            Some(quota) => Cow::Owned(quota.name.to_string()),
            None => names::DEFAULT_QUOTA.into(),
        }
    }
}

/// The quota whose tree a new Pod belongs to: the first of the name that its label has, or else of the name of its namespace,
/// or else the one that lists the namespace.
pub fn tree_quota(
    membership: Membership<'_>,
    tree: &dyn QuotaTree,
    switches: &Switches,
) -> Option<Arc<Quota>> {
    let label = membership.label();
    let name = label.unwrap_or(membership.namespace);
    if let Some(quota) = tree.by_name(name) {
        return Some(quota);
    }
    if label.is_some() && switches.is_on(&TREE_BY_LABEL) {
        return None;
    }
    tree.owner(membership.namespace)
}
