//! Checks that Pods belong to leaf quotas, and that the preemptible label of a Pod does not change.

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

/// Switch: the quota of a stored Pod is checked only when it changes.
pub static PARENT_ON_CHANGE: Switch = Switch {
    name: "QuotaParentOnChange",
    default: true,
    row: "quotas, parents",
    koordinator: "every update of a pod whose quota has become a parent is refused, including the removal of its finalizers",
    about: "an update is refused only if it moves the pod to a parent quota",
    why: "a quota may become a parent after its pods were created, and those pods must be able to end",
};

/// Rule for pods in parent quotas.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ParentPods {
    /// Parent quotas accept no pods.
    #[default]
    Refused,
    /// Parent quotas accept pods like leaf quotas.
    Taken,
}

/// Returns the faults in the quota of a Pod: Koordinator's message, and the field.
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
    // An unknown quota counts as the default quota.
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
        let detail = "is the name of a parent quota, which accepts no pods";
        (text, Error::invalid(&label(names::QUOTA_NAME), quota, detail))
    })
}
