//! Description of one quota: its place in the tree, its namespaces, its faults and the verdict on new pods.

use std::collections::BTreeSet;

use headroom_domain::{amounts::Amounts, names, selector::Labels};
use headroom_proto::v1alpha1::{ExplainedQuota, QuotaNamespace};
use headroom_rules::{
    pod_quota::Membership,
    quota::{
        Quota, QuotaTree, removal, stored,
        tree::{AncestorPath, ancestor_path},
    },
};

use super::{
    status::{self, count},
    verdict::{NewPod, evaluate},
};
use crate::store::{
    lookup::QuotaLookup as _,
    quota_request::PodName,
    quota_view::{QuotaBehaviour, QuotaView},
};

/// Maximum number of namespaces in an answer.
const MOST_NAMESPACES: usize = 100;
/// Maximum length of an annotation in an answer, in bytes.
const LONGEST_NOTED: usize = 1_024;

/// A quota as it is now.
pub(super) fn explain_quota(view: &QuotaView, quota: &Quota, behaviour: &QuotaBehaviour) -> ExplainedQuota {
    let mut explained = ExplainedQuota {
        status: Some(status::quota_status(view, quota, behaviour)),
        uid: view
            .quotas
            .index
            .uid(&quota.key())
            .unwrap_or_default()
            .to_string(),
        verdict: Some(evaluate(
            view,
            behaviour,
            &labelled(quota, behaviour, &label(quota)),
        )),
        noted: noted(view, quota),
        ..ExplainedQuota::default()
    };
    view.quotas
        .visit_tree(&mut |tree| add_places(&mut explained, quota, behaviour, tree));
    explained
}

fn label(quota: &Quota) -> Labels {
    Labels::from([(names::QUOTA_NAME.to_owned(), quota.name.to_string())])
}

/// A pod with the name of the quota in its label, which asks for nothing yet.
fn labelled<'p>(quota: &'p Quota, behaviour: &QuotaBehaviour, labels: &'p Labels) -> NewPod<'p> {
    NewPod {
        pod: PodName {
            namespace: quota.namespace.clone(),
            name: Box::default(),
        },
        membership: Membership {
            labels,
            namespace: &quota.namespace,
            has_default: behaviour.has_default,
        },
        requested: Amounts::default(),
    }
}

/// Adds the facts that follow from the other quotas.
fn add_places(
    explained: &mut ExplainedQuota,
    quota: &Quota,
    behaviour: &QuotaBehaviour,
    tree: &dyn QuotaTree,
) {
    let AncestorPath { names, end } = ancestor_path(quota, tree);
    explained.above = names.iter().map(ToString::to_string).collect();
    end.name().clone_into(&mut explained.way_end);
    explained.children = count(removal::children(quota, tree));
    explained.of_the_name = count(tree.count_named(&quota.name));
    explained.faults = stored::check(quota, tree, behaviour.rules).into_sentences();
    let namespaces = namespaces(quota, behaviour, tree);
    let left_out = namespaces.len().saturating_sub(MOST_NAMESPACES);
    explained.namespaces_left_out = u32::try_from(left_out).unwrap_or(u32::MAX);
    explained.namespaces = namespaces.into_iter().take(MOST_NAMESPACES).collect();
}

/// The namespaces that it lists, and that of its name if its pods are the quota's.
fn namespaces(quota: &Quota, behaviour: &QuotaBehaviour, tree: &dyn QuotaTree) -> Vec<QuotaNamespace> {
    let labels = Labels::new();
    let listed: BTreeSet<&str> = quota.namespaces.iter().map(|name| &**name).collect();
    let all: BTreeSet<&str> = listed.iter().copied().chain([&*quota.name]).collect();
    let places = all.into_iter().map(|namespace| {
        let unlabelled = Membership {
            labels: &labels,
            namespace,
            has_default: behaviour.has_default,
        };
        let (name, rule) = unlabelled.resolve(tree);
        QuotaNamespace {
            namespace: namespace.to_owned(),
            counts: *name == *quota.name,
            quota: name.into_owned(),
            rule: rule.name().to_owned(),
        }
    });
    places
        .filter(|place| place.counts || listed.contains(place.namespace.as_str()))
        .collect()
}

fn noted(view: &QuotaView, quota: &Quota) -> String {
    let noted = view.quotas.noted_use(&quota.key());
    let end = noted.floor_char_boundary(LONGEST_NOTED);
    noted.get(..end).unwrap_or_default().to_owned()
}
