//! Completes what a pod asks for: cpu and memory in the resources of its band, the annotation that the node's agent reads,
//! and devices. The webhook runs these as steps of `/mutate-pod`; offline they run one after the other.

use headroom_domain::{amounts::Amounts, names, pod::ResourceRequirements, qos::Band};

use crate::{
    change::AnnotationChange,
    device,
    explain::Writer,
    extended,
    pod_object::PodObject,
    profile::{Newcomer, ProfileRules, ProfileStop},
    switch::Switches,
    translate::{Translation, band, stated_band, translation},
};

const ANNOTATION: [&str; 3] = ["metadata", "annotations", names::EXTENDED_RESOURCE_SPEC];

/// Why a pod is not completed.
#[derive(Debug, thiserror::Error)]
pub enum CompletionError<E: std::error::Error + 'static> {
    /// It cannot be read or written.
    #[error(transparent)]
    Object(E),
    /// A profile ends its creation.
    #[error("colocation profile {:?} cannot be applied: {}", .0.profile, .0.reason)]
    Profile(ProfileStop),
}

/// Turns cpu and memory of a batch or mid Pod into the resources of its band. Those of the Pod as a whole stay, with a
/// warning: no resource of a band can stand there.
///
/// # Errors
/// The pod cannot be read or written.
pub fn translate<O: PodObject>(object: &mut O) -> Result<(), O::Error> {
    object.explain(|explanation| explanation.begin(Writer::Rule("translation of cpu and memory")));
    let Some(band) = band_of(object)?.filter(|band| matches!(band, Band::Mid | Band::Batch)) else {
        return Ok(());
    };
    let overhead: Amounts = object.read(&["spec", "overhead"])?.unwrap_or_default();
    let Translation { containers, overhead } = translation(Some(band), &object.containers()?, &overhead);
    object.change_containers(&containers)?;
    if !overhead.is_empty() {
        object.rewrite(&["spec", "overhead"], |value| {
            overhead.write(value, "spec.overhead")
        })?;
    }
    let of_pod: ResourceRequirements = object.read(&["spec", "resources"])?.unwrap_or_default();
    let has_native = [&of_pod.requests, &of_pod.limits]
        .iter()
        .any(|amounts| amounts.contains(names::CPU) || amounts.contains(names::MEMORY));
    if has_native {
        object.warn(format!(
            "spec.resources stays as it is: cpu and memory of a pod as a whole are not taken out of what {} pods have",
            band.name()
        ));
    }
    Ok(())
}

/// The band of the Pod. All of it is read only where neither label nor priority tell.
fn band_of<O: PodObject>(object: &O) -> Result<Option<Band>, O::Error> {
    let labels = object.read(&["metadata", "labels"])?.unwrap_or_default();
    let priority = object.read(&["spec", "priority"])?.unwrap_or_default();
    match stated_band(&labels, priority) {
        Some(band) => Ok(Some(band)),
        None => Ok(band(&object.read(&[])?.unwrap_or_default())),
    }
}

/// Writes the batch resources of containers into the annotation that the node's agent reads.
///
/// # Errors
/// The pod cannot be read or written.
pub fn annotate<O: PodObject>(object: &mut O, switches: &Switches) -> Result<(), O::Error> {
    object.explain(|explanation| explanation.begin(Writer::Rule("annotation of batch resources")));
    let containers = object.containers()?;
    // The annotation is the webhook's own: what is no text there is replaced as well.
    let current: Option<String> = object.read(&ANNOTATION).unwrap_or_default();
    match extended::annotation(&containers, current.as_deref(), switches) {
        AnnotationChange::Keep => {}
        AnnotationChange::Set(text) => object.set(&ANNOTATION, text)?,
        AnnotationChange::Remove => object.remove(&ANNOTATION),
    }
    Ok(())
}

/// Completes what containers ask for of GPUs.
///
/// # Errors
/// The pod cannot be read or written.
pub fn fill_devices<O: PodObject>(object: &mut O, switches: &Switches) -> Result<(), O::Error> {
    object.explain(|explanation| explanation.begin(Writer::Rule("completion of devices")));
    let changes = device::changes(&object.containers()?, switches);
    object.change_containers(&changes)
}

/// Makes of a new pod what `/mutate-pod` makes of it with its gates at their defaults.
///
/// # Errors
/// The pod cannot be read or written, or a profile ends its creation.
pub fn complete<O: PodObject>(
    object: &mut O,
    newcomer: &Newcomer<'_>,
    rules: ProfileRules<'_>,
) -> Result<(), CompletionError<O::Error>>
where
    O::Error: std::error::Error + 'static,
{
    let review = rules.review(newcomer, object).map_err(CompletionError::Profile)?;
    if review.wish.is_granted() {
        translate(object).map_err(CompletionError::Object)?;
    }
    annotate(object, rules.switches).map_err(CompletionError::Object)?;
    fill_devices(object, rules.switches).map_err(CompletionError::Object)
}
