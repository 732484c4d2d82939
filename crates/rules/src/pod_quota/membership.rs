//! To which quota a Pod belongs: that of its label, or else the one of its namespace.

use std::{borrow::Cow, collections::BTreeSet, sync::Arc};

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

/// By which rule a Pod belongs to its quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MembershipRule {
    /// Its label names the quota.
    Label,
    /// The quota has namespace and name of the Pod's namespace.
    LikeNamed,
    /// The quota lists the Pod's namespace, before all others that do.
    Listed,
    /// No quota is for its namespace: it belongs to the default one.
    Default,
    /// It has no label, and a gate takes the other rules away.
    None,
}

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
        self.resolve(tree).0
    }

    /// The name of its quota, and the rule by which it is that one.
    pub fn resolve(&self, tree: &dyn QuotaTree) -> (Cow<'p, str>, MembershipRule) {
        if let Some(label) = self.label() {
            return (label.into(), MembershipRule::Label);
        }
        if !self.has_default {
            return ("".into(), MembershipRule::None);
        }
        if tree.get(self.namespace, self.namespace).is_some() {
            return (self.namespace.into(), MembershipRule::LikeNamed);
        }
        match tree.owner(self.namespace) {
            Some(quota) => (Cow::Owned(quota.name.to_string()), MembershipRule::Listed),
            None => (names::DEFAULT_QUOTA.into(), MembershipRule::Default),
        }
    }
}

impl MembershipRule {
    /// Every rule, the one that counts first before the others.
    pub const ALL: [Self; 5] = [
        Self::Label,
        Self::LikeNamed,
        Self::Listed,
        Self::Default,
        Self::None,
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Label => "label",
            Self::LikeNamed => "like-named",
            Self::Listed => "listed",
            Self::Default => "default",
            Self::None => "none",
        }
    }
}

/// The namespaces whose pods belong to a quota unless a label says otherwise, each once: those that it lists and the one of its
/// own name, as far as no other quota comes before it there.
pub fn namespaces_of(quota: &Quota, has_default: bool, tree: &dyn QuotaTree) -> Vec<Box<str>> {
    let labels = Labels::new();
    let is_own = |namespace: &str| {
        let unlabelled = Membership {
            labels: &labels,
            namespace,
            has_default,
        };
        unlabelled.quota(tree) == *quota.name
    };
    // A list may name one twice.
    let named: BTreeSet<&Box<str>> = quota.namespaces.iter().chain([&quota.name]).collect();
    let own = named.into_iter().filter(|namespace| is_own(namespace));
    own.cloned().collect()
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
