//! Pods belong to quotas at the ends of the tree, and a Pod stays as preemptible as it was created.

use headroom_domain::{
    field::{Error, Path},
    names,
    selector::Labels,
};

use super::Membership;
use crate::{
    quota::QuotaTree,
    slo::decode::shortened,
    switch::{Switch, Switches},
};

/// Whether a stored Pod is asked for its quota only when that changes.
pub static PARENT_ON_CHANGE: Switch = Switch {
    name: "QuotaParentOnChange",
    default: true,
    row: "quotas, parents",
    koordinator: "every update of a pod whose quota has become a parent is refused, the removal of its finalizers as well",
    about: "an update is refused if it moves the pod to a quota that is a parent",
    why: "a quota becomes a parent after its pods were created, and those must be able to end",
};

/// Whether quotas with quotas below them take pods.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ParentPods {
    /// They take none.
    #[default]
    Refused,
    /// They take pods as well.
    Taken,
}

/// What is wrong with the quota of a Pod: Koordinator's words, and the field.
///
/// `stored` is the stored Pod of an update.
pub fn check(
    name: &str,
    pod: Membership<'_>,
    stored: Option<Membership<'_>>,
    parents: ParentPods,
    tree: &dyn QuotaTree,
    switches: &Switches,
) -> Option<(String, Error)> {
    let label = |key: &str| Path::new("metadata").child("labels").key(key);
    let preemptible = |labels: &Labels| labels.get(names::QUOTA_PREEMPTIBLE).cloned().unwrap_or_default();
    if let Some(stored) = stored {
        let value = preemptible(pod.labels);
        if value != preemptible(stored.labels) {
            let text = "Preemptible label is forbidden modify now.".to_owned();
            let path = label(names::QUOTA_PREEMPTIBLE);
            return Some((
                text,
                Error::invalid(&path, shortened(&value), "field is immutable"),
            ));
        }
    }
    if parents == ParentPods::Taken {
        return None;
    }
    let named = pod.quota(tree);
    if switches.is_on(&PARENT_ON_CHANGE) && stored.is_some_and(|stored| stored.quota(tree) == named) {
        return None;
    }
    // One that is not known counts as the default quota.
    if [names::DEFAULT_QUOTA, ""].contains(&named.as_ref()) {
        return None;
    }
    let quota = tree.by_name(&named)?;
    quota.is_parent.then(|| {
        let quota = shortened(&named);
        let text = format!(
            "pod can not be linked to a parentQuotaGroup,quota:{quota}, pod:{}",
            shortened(name)
        );
        let detail = "is the name of a quota with quotas below it, which takes no pods";
        (text, Error::invalid(&label(names::QUOTA_NAME), quota, detail))
    })
}
