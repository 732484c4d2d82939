//! QoS classes and priority bands of a Pod: allowed combinations, required requests, and fields that must not change.

use headroom_domain::{
    field::{Error, Errors, Path},
    names,
    pod::{PodSpec, PodStatus, RequestBasis, requests},
    qos::{Band, Class, Matrix},
    selector::Labels,
};

use crate::{
    pod_check::new_faults,
    switch::{Switch, Switches},
};

/// Switch: a Pod without a band may be given one.
pub static FIRST_BAND: Switch = Switch {
    name: "ColocationFirstBand",
    default: true,
    row: "D-26",
    koordinator: "the label `koordinator.sh/priority-class` cannot be added to a pod whose priority is in no band",
    about: "the label may give a band to a pod that has none, once",
    why: "the label exists to classify running pods",
};

/// Switch: each QoS class has its own bands.
pub static STRICT_MATRIX: Switch = Switch {
    name: "ColocationStrictMatrix",
    default: false,
    row: "D-27",
    koordinator: "LSR is allowed with prod only, BE with every band except prod, and the other classes with any band or none",
    about: "LSE and LSR are allowed with prod only, LS with prod or mid, BE with mid, batch or free, SYSTEM with no band",
    why: "the meaning of the other pairs is not documented, but clusters use them",
};

/// Maximum number of characters of a label value in a message; Kubernetes allows 63.
const LONGEST_VALUE: usize = 64;

/// Parts of a Pod that the rule checks.
#[derive(Debug, Clone, Copy)]
pub struct ColocatedPod<'a> {
    /// Labels of the Pod, including class and band.
    pub labels: &'a Labels,
    /// Desired state of the Pod.
    pub spec: &'a PodSpec,
}

/// Rule for changes of the label `koordinator.sh/priority`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubPriority {
    /// The label must not change.
    Stays,
    /// The label may change in an update.
    MayChange,
}

/// Returns the faults of a Pod and, in an update, of its changes to the stored one.
pub fn check(
    pod: ColocatedPod<'_>,
    stored: Option<ColocatedPod<'_>>,
    sub_priority: SubPriority,
    switches: &Switches,
) -> Errors {
    let mut errors = Errors::default();
    if let Some(stored) = stored {
        errors.extend(changes(pod, stored, sub_priority, switches));
    }
    let matrix = if switches.is_on(&STRICT_MATRIX) {
        Matrix::Strict
    } else {
        Matrix::Koordinator
    };
    let stored_faults = stored.map(|stored| move || faults(stored, matrix));
    errors.extend(new_faults(faults(pod, matrix), stored_faults, switches));
    errors
}

impl ColocatedPod<'_> {
    fn label(&self, name: &str) -> Option<&str> {
        self.labels.get(name).map(String::as_str)
    }

    fn class(&self) -> Option<Class> {
        Class::raw(self.label(names::QOS_CLASS))
    }

    fn band(&self) -> Option<Band> {
        Band::raw(self.label(names::PRIORITY_CLASS), self.spec.priority)
    }

    fn sub_priority(&self) -> &str {
        self.label(names::SUB_PRIORITY).unwrap_or_default()
    }
}

/// Returns the faults of forbidden changes in an update.
fn changes(
    pod: ColocatedPod<'_>,
    stored: ColocatedPod<'_>,
    sub_priority: SubPriority,
    switches: &Switches,
) -> Errors {
    let mut errors = Errors::default();
    let class = pod.class();
    if class != stored.class() {
        errors.push(immutable(&label_path(names::QOS_CLASS), class_name(class)));
    }
    let (band, stored_band) = (pod.band(), stored.band());
    let is_first = stored_band.is_none() && switches.is_on(&FIRST_BAND);
    if band != stored_band && !is_first {
        errors.push(immutable(&Path::new("spec").child("priority"), band_name(band)));
    }
    let value = pod.sub_priority();
    if sub_priority == SubPriority::Stays && value != stored.sub_priority() {
        let shown: String = value.chars().take(LONGEST_VALUE).collect();
        errors.push(immutable(&label_path(names::SUB_PRIORITY), &shown));
    }
    errors
}

/// Returns the faults of a Pod, new or updated.
fn faults(pod: ColocatedPod<'_>, matrix: Matrix) -> Errors {
    let mut errors = Errors::default();
    let (class, band) = (pod.class(), pod.band());
    let requested = requests(pod.spec, &PodStatus::default(), RequestBasis::Spec);
    let amount = |name: &str| requested.get(name).filter(|amount| !amount.is_zero());
    let is_of_batch = [names::BATCH_CPU, names::BATCH_MEMORY]
        .into_iter()
        .any(|name| amount(name).is_some());
    if is_of_batch && class != Some(Class::Be) {
        errors.push(Error::required(
            &label_path(names::QOS_CLASS),
            "must specify koordinator QoS BE with koordinator colocation resources",
        ));
    }
    if !matrix.accepts(class, band) {
        let detail = format!(
            "{}={} and priorityClass={} cannot be used in combination",
            names::QOS_CLASS,
            class_name(class),
            band_name(band)
        );
        errors.push(Error::forbidden(&Path::new("Pod"), &detail));
    }
    if matches!(class, Some(Class::Lsr | Class::Lse)) {
        let path = Path::new("pod.spec.containers[*].resources.requests");
        match amount(names::CPU) {
            None => errors.push(Error::required(&path, "LSR Pod must declare the requested CPUs")),
            // Both round away from zero, so a fraction of a millicore that fills a CPU counts as one.
            Some(cpu) if cpu.whole().saturating_mul(1000) != cpu.whole_milli() => {
                let detail = "the requested CPUs of LSR Pod must be integer";
                errors.push(Error::invalid(&path, cpu.to_string(), detail));
            }
            Some(_) => {}
        }
    }
    errors
}

fn immutable(path: &Path, value: &str) -> Error {
    Error::invalid(path, value, "field is immutable")
}

fn label_path(name: &str) -> Path {
    Path::new("labels").child(name)
}

fn class_name(class: Option<Class>) -> &'static str {
    class.map_or("", Class::name)
}

fn band_name(band: Option<Band>) -> &'static str {
    band.map_or("", Band::name)
}

#[cfg(test)]
mod tests;
