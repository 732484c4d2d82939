//! Translates cpu and memory of a Pod to which a profile was applied.

use headroom_domain::{names, pod::Pod, qos::Band};
use headroom_kit::gate::Gate;
use headroom_rules::translate::{Translation, band, translation};

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
    let read = |source| StepError::Read {
        field: "the pod".to_owned(),
        source,
    };
    let pod: Pod = draft.read(&[]).map_err(read)?.unwrap_or_default();
    let band = band(&pod);
    let Translation { containers, overhead } =
        translation(band, &super::super::containers(draft)?, &pod.spec.overhead);
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
    let of_pod = pod.spec.resources.unwrap_or_default();
    let has_native = [&of_pod.requests, &of_pod.limits]
        .iter()
        .any(|amounts| amounts.contains(names::CPU) || amounts.contains(names::MEMORY));
    if let Some(band) = band.filter(|band| has_native && matches!(band, Band::Mid | Band::Batch)) {
        draft.warn(format!(
            "spec.resources stays as it is: cpu and memory of a pod as a whole are not taken out of what {} pods have",
            band.name()
        ));
    }
    Ok(())
}
