//! Cost of a Pod in its quota.

use headroom_domain::{
    amounts::Amounts,
    pod::{Pod, PodSpec, RequestBasis},
    quantity::Quantity,
};

use super::replacement;
use crate::{quota::Quota, switch::Switch};

/// Switch: a Pod whose requests grow is compared with its quota.
pub static CHECKS_GROWTH: Switch = Switch {
    name: "QuotaChecksGrowth",
    default: true,
    row: "D-29, growth",
    koordinator: "a stored pod whose requests grow is not compared with its quota again",
    about: "the growth of a pod's requests in updates and resizes is compared with its quota",
    why: "otherwise a small pod could exceed its quota by a resize",
};

/// Handling of the annotation that renames resources.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Transformation {
    /// Resources are counted under their own names.
    #[default]
    None,
    /// The annotation is applied to Pods that have it.
    ByAnnotation,
}

/// Amounts that a Pod requests, by resource; zero amounts are omitted. An ended Pod requests nothing.
///
/// Requests of the specification and the runtime's overhead count; limits do not. A negative amount counts as zero:
/// Kubernetes stores none.
pub fn requested(mut pod: Pod, transformation: Transformation) -> Amounts {
    if has_ended(pod.status.phase.as_deref()) {
        return Amounts::default();
    }
    drop_negative(&mut pod.spec);
    if transformation == Transformation::ByAnnotation
        && let Some(annotation) = pod.metadata.annotations.get(replacement::REPLACE_RESOURCES)
    {
        replacement::replace(&mut pod.spec, annotation);
    }
    let requests = pod.requests(RequestBasis::Spec);
    requests.filtered(|_, amount| !amount.is_zero())
}

/// Drops negative amounts, which would lower the sum of others' requests: the API server may not have checked the Pod
/// yet.
fn drop_negative(spec: &mut PodSpec) {
    let containers = spec.containers.iter_mut().chain(&mut spec.init_containers);
    let lists = containers.map(|container| &mut container.resources.requests);
    let of_pod = spec.resources.iter_mut().map(|resources| &mut resources.requests);
    for amounts in lists.chain([&mut spec.overhead]).chain(of_pod) {
        if amounts.iter().any(|(_, amount)| amount.is_negative()) {
            *amounts = amounts.filtered(|_, amount| !amount.is_negative());
        }
    }
}

/// Amounts of `requested` that the quota limits in any version that may be stored.
pub fn cost(requested: &Amounts, quota: &Quota) -> Amounts {
    requested.filtered(|name, _| quota.versions().any(|version| version.max.contains(name)))
}

/// Amounts by which the cost of a Pod grows.
pub fn growth(cost: &Amounts, before: &Amounts) -> Amounts {
    let more = cost.iter().filter_map(|(name, amount)| {
        let before = before.get(name).unwrap_or(&Quantity::ZERO);
        // The difference of two non-negative amounts always fits a quantity.
        let more = amount.checked_sub(before)?;
        (more > Quantity::ZERO).then_some((name, more))
    });
    more.collect()
}

/// Returns true if a Pod in this phase has ended.
pub fn has_ended(phase: Option<&str>) -> bool {
    matches!(phase, Some("Succeeded" | "Failed"))
}
