//! What a Pod costs its quota.

use headroom_domain::{
    amounts::Amounts,
    pod::{Pod, PodSpec, RequestBasis},
    quantity::Quantity,
};

use super::replacement;
use crate::{quota::Quota, switch::Switch};

/// Whether a Pod is compared with its quota when what it asks for grows.
pub static CHECKS_GROWTH: Switch = Switch {
    name: "QuotaChecksGrowth",
    default: true,
    row: "D-29, growth",
    koordinator: "a pod that asks for more than before is not compared with its quota again",
    about: "what a pod asks for beyond what it had is compared with its quota, in updates and resizes",
    why: "a small pod that is resized would get around every quota",
};

/// Whether resources are renamed by annotation before they are counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Transformation {
    /// They are counted as they are.
    #[default]
    None,
    /// The annotation counts, where a Pod has it.
    ByAnnotation,
}

/// What a Pod asks for, by resource; amounts of zero are left out. It is nothing once the Pod has ended.
///
/// It is what the specification asks for. Limits do not count, and the runtime's overhead does. A negative amount counts as
/// nothing: Kubernetes stores none.
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

/// Drops what would lower the sum of what others ask for: the Pod may be one that the API server has not checked.
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

/// What of it a quota limits, by any version of it that may be stored.
pub fn cost(requested: &Amounts, quota: &Quota) -> Amounts {
    requested.filtered(|name, _| quota.versions().any(|version| version.max.contains(name)))
}

/// What a Pod costs beyond what it did.
pub fn growth(cost: &Amounts, before: &Amounts) -> Amounts {
    let more = cost.iter().filter_map(|(name, amount)| {
        let before = before.get(name).unwrap_or(&Quantity::ZERO);
        // The difference of two amounts that are not negative is never beyond what a quantity holds.
        let more = amount.checked_sub(before)?;
        (more > Quantity::ZERO).then_some((name, more))
    });
    more.collect()
}

/// True once a Pod of this phase runs nothing any more.
pub fn has_ended(phase: Option<&str>) -> bool {
    matches!(phase, Some("Succeeded" | "Failed"))
}
