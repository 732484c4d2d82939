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

/// Switch: labels name no built-in quota.
pub static GUARDS_BUILT_IN: Switch = Switch {
    name: "QuotaGuardsBuiltIn",
    default: false,
    row: "quotas, built-in",
    koordinator: "a pod may name the default, the system or the root quota in its label, and so leave the limits of the quota of its namespace",
    about: "a pod may not be created with such a label, nor get one; pods that belong to these quotas by namespace or by default are not affected",
    why: "these quotas have no limits unless an administrator sets some",
};

/// Quotas that Koordinator's scheduler creates.
const BUILT_IN: [&str; 3] = [names::DEFAULT_QUOTA, names::SYSTEM_QUOTA, names::ROOT_QUOTA];

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
    let joins = |quota: &&str| {
        let is_new = stored.is_none_or(|stored| stored.label() != Some(quota));
        is_new && BUILT_IN.contains(quota) && switches.is_on(&GUARDS_BUILT_IN)
    };
    if let Some(quota) = pod.label().filter(joins) {
        let text = format!(
            "pod may not join the built-in quota {quota} by its label, pod: {}",
            shortened(name)
        );
        let detail = "is the name of a built-in quota, which QuotaGuardsBuiltIn keeps closed";
        return Some((text, Error::invalid(&label(names::QUOTA_NAME), quota, detail)));
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
