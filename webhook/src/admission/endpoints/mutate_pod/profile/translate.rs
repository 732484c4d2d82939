//! Translates cpu and memory of a Pod to which a profile was applied.

use headroom_domain::{amounts::Amounts, names, pod::ResourceRequirements, qos::Band};
use headroom_kit::gate::Gate;
use headroom_rules::translate::{Translation, band, stated_band, translation};
use serde::de::DeserializeOwned;

use crate::admission::{
    draft::{Draft, Fields as _},
    error::StepError,
};

/// Switches the translation off.
pub(in crate::admission::endpoints::mutate_pod) static SKIPPED: Gate = Gate::negative(
    "ColocationProfileSkipMutatingResources",
    "Leaves cpu and memory of pods as they are, whatever profile is applied.",
);

/// Turns cpu and memory of a batch or mid Pod into the resources of its band. Those of the Pod as a whole stay, with a
/// warning: no resource of a band can stand there.
pub(super) fn translate(draft: &mut Draft<'_>) -> Result<(), StepError> {
    let Some(band) = band_of(draft)?.filter(|band| matches!(band, Band::Mid | Band::Batch)) else {
        return Ok(());
    };
    let overhead: Amounts = read(draft, &["spec", "overhead"])?;
    let Translation { containers, overhead } =
        translation(Some(band), &super::super::containers(draft)?, &overhead);
    for list in containers.lists() {
        draft.rewrite(&["spec", list.name()], |value| {
            containers.apply(list, value).map_err(StepError::from)
        })?;
    }
    if !overhead.is_empty() {
        draft.rewrite(&["spec", "overhead"], |value| {
            overhead.write(value, "spec.overhead").map_err(StepError::from)
        })?;
    }
    let of_pod: ResourceRequirements = read(draft, &["spec", "resources"])?;
    let has_native = [&of_pod.requests, &of_pod.limits]
        .iter()
        .any(|amounts| amounts.contains(names::CPU) || amounts.contains(names::MEMORY));
    if has_native {
        draft.warn(format!(
            "spec.resources stays as it is: cpu and memory of a pod as a whole are not taken out of what {} pods have",
            band.name()
        ));
    }
    Ok(())
}

/// The band of the Pod. All of it is read only where neither label nor priority tell.
fn band_of(draft: &Draft<'_>) -> Result<Option<Band>, StepError> {
    let labels = read(draft, &["metadata", "labels"])?;
    let priority = read(draft, &["spec", "priority"])?;
    match stated_band(&labels, priority) {
        Some(band) => Ok(Some(band)),
        None => Ok(band(&read(draft, &[])?)),
    }
}

fn read<T: DeserializeOwned + Default>(draft: &Draft<'_>, path: &[&str]) -> Result<T, StepError> {
    let value = draft.read(path).map_err(|source| StepError::Read {
        field: if path.is_empty() {
            "the pod".to_owned()
        } else {
            path.join(".")
        },
        source,
    })?;
    Ok(value.unwrap_or_default())
}
