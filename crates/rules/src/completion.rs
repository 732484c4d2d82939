//! Completes the requests of a pod: cpu and memory in the resources of its band, the annotation for the node's agent,
//! and devices. The webhook runs these as steps of `/mutate-pod`; offline they run one after the other.

use headroom_domain::{names, pod::ResourceRequirements, qos::Band};

use crate::{
    change::AnnotationChange,
    device,
    explain::Writer,
    extended,
    pod_object::PodObject,
    profile::{CreatedObject, ProfileRules, ProfileStop},
    switch::Switches,
    translate::{band, stated_band, translation},
};

const ANNOTATION: [&str; 3] = ["metadata", "annotations", names::EXTENDED_RESOURCE_SPEC];

/// Reasons why a pod is not completed.
#[derive(Debug, thiserror::Error)]
pub enum CompletionError<E: std::error::Error + 'static> {
    /// The pod cannot be read or written.
    #[error(transparent)]
    Object(E),
    /// A profile cannot be applied and ends the creation of the pod.
    #[error(transparent)]
    Profile(#[from] ProfileStop),
}

/// Converts cpu and memory of a batch or mid Pod's containers into the resources of its band. Pod-level resources stay,
/// with a warning: Kubernetes does not allow resources of a band there.
///
/// # Errors
/// The pod cannot be read or written.
pub fn translate<O: PodObject>(object: &mut O) -> Result<(), O::Error> {
    object.explain(|explanation| explanation.begin(Writer::Rule("translation of cpu and memory")));
    let Some(band) = band_of(object)?.filter(|band| matches!(band, Band::Mid | Band::Batch)) else {
        return Ok(());
    };
    let changes = translation(Some(band), &object.containers()?);
    object.change_containers(&changes)?;
    let of_pod: ResourceRequirements = object.read(&["spec", "resources"])?.unwrap_or_default();
    let has_native = [&of_pod.requests, &of_pod.limits]
        .iter()
        .any(|amounts| amounts.contains(names::CPU) || amounts.contains(names::MEMORY));
    if has_native {
        object.warn(format!(
            "spec.resources is unchanged: pod-level cpu and memory cannot be converted to {} resources",
            band.name()
        ));
    }
    Ok(())
}

/// Returns the band of the Pod. The whole Pod is read only if neither label nor priority decide.
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
    // The annotation is owned by the webhook: a value that is not a string is replaced as well.
    let current: Option<String> = object.read(&ANNOTATION).unwrap_or_default();
    match extended::annotation(&containers, current.as_deref(), switches) {
        AnnotationChange::Keep => {}
        AnnotationChange::Set(text) => object.set(&ANNOTATION, text)?,
        AnnotationChange::Remove => object.remove(&ANNOTATION),
    }
    Ok(())
}

/// Completes the GPU requests of containers.
///
/// # Errors
/// The pod cannot be read or written.
pub fn fill_devices<O: PodObject>(object: &mut O, switches: &Switches) -> Result<(), O::Error> {
    object.explain(|explanation| explanation.begin(Writer::Rule("completion of devices")));
    let changes = device::changes(&object.containers()?, switches);
    object.change_containers(&changes)
}

/// Applies the same changes to a new pod as `/mutate-pod` with default gates.
///
/// # Errors
/// The pod cannot be read or written, or a profile ends its creation.
pub fn complete<O: PodObject>(
    object: &mut O,
    created: &CreatedObject<'_>,
    rules: ProfileRules<'_>,
) -> Result<(), CompletionError<O::Error>>
where
    O::Error: std::error::Error + 'static,
{
    let review = rules.review(created, object)?;
    if review.translation.applies() {
        translate(object).map_err(CompletionError::Object)?;
    }
    annotate(object, rules.switches).map_err(CompletionError::Object)?;
    fill_devices(object, rules.switches).map_err(CompletionError::Object)
}
