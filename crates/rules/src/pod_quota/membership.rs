//! The quota of a Pod: from its label, or otherwise from its namespace.

use std::{borrow::Cow, collections::BTreeSet, sync::Arc};

use headroom_domain::{names, selector::Labels};

use crate::{
    quota::{Quota, QuotaTree},
    switch::{Switch, Switches},
};

/// Switch: a label that names no existing quota leaves a Pod without a tree.
pub static TREE_BY_LABEL: Switch = Switch {
    name: "QuotaTreeByLabel",
    default: true,
    row: "D-19, labels",
    koordinator: "a pod whose label names a missing quota gets the nodes of its namespace's quota tree",
    about: "a pod whose label names a missing quota belongs to no tree",
    why: "the label determines the quota, which may be created later",
};

/// Rule that assigned a Pod to its quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MembershipRule {
    /// The label of the Pod names the quota.
    Label,
    /// The quota has the Pod's namespace as its namespace and name.
    LikeNamed,
    /// The quota is the first that lists the Pod's namespace.
    Listed,
    /// No quota covers the namespace: the default quota applies.
    Default,
    /// The Pod has no label, and a gate disables the other rules.
    None,
}

/// Fields of a Pod that determine its quota.
#[derive(Debug, Clone, Copy)]
pub struct Membership<'p> {
    /// Labels of the Pod, including the quota label.
    pub labels: &'p Labels,
    /// Namespace of the Pod, for the default rules.
    pub namespace: &'p str,
    /// True if a Pod without a label belongs to the quota of its namespace or to the default quota.
    pub has_default: bool,
}

impl<'p> Membership<'p> {
    /// Quota name in the label; the quota may not exist.
    pub fn label(&self) -> Option<&'p str> {
        let label = self.labels.get(names::QUOTA_NAME).map(String::as_str);
        label.filter(|label| !label.is_empty())
    }

    /// Name of the quota; empty if there is none. The scheduler uses the same rules.
    pub fn quota(&self, tree: &dyn QuotaTree) -> Cow<'p, str> {
        self.resolve(tree).0
    }

    /// Name of the quota, with the rule that determined it.
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
    /// Every rule, in evaluation order.
    pub const ALL: [Self; 5] = [
        Self::Label,
        Self::LikeNamed,
        Self::Listed,
        Self::Default,
        Self::None,
    ];

    /// Name in output and JSON.
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

/// Namespaces whose pods belong to a quota by default, each once: the listed namespaces and the one with the quota's
/// name, unless another quota takes precedence there.
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
    // A list may contain a namespace twice.
    let named: BTreeSet<&Box<str>> = quota.namespaces.iter().chain([&quota.name]).collect();
    let own = named.into_iter().filter(|namespace| is_own(namespace));
    own.cloned().collect()
}

/// Quota whose tree a new Pod belongs to: the first with the name in its label, else the one named like its
/// namespace, else the one that lists its namespace.
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
