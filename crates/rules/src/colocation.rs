//! QoS classes and priority bands of a Pod: which go together, what they ask for, and that they stay.

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

/// Whether a Pod without a band may be given one.
pub static FIRST_BAND: Switch = Switch {
    name: "ColocationFirstBand",
    default: true,
    row: "D-26",
    koordinator: "the label `koordinator.sh/priority-class` cannot be added to a pod whose priority is in no band",
    about: "a pod without a band may be given one by that label, once",
    why: "the label is there to class pods that run already",
};

/// Whether each QoS class has bands of its own.
pub static STRICT_MATRIX: Switch = Switch {
    name: "ColocationStrictMatrix",
    default: false,
    row: "D-27",
    koordinator: "LSR goes with prod alone, BE with all but prod, and the other classes with any band and none",
    about: "LSE and LSR go with prod alone, LS with prod or mid, BE with mid, batch or free, SYSTEM with none",
    why: "what the other pairs mean is nowhere said; they are in use all the same",
};

/// The most characters of a label's value in a text; Kubernetes takes 63.
const LONGEST_VALUE: usize = 64;

/// The parts of a Pod that are judged.
#[derive(Debug, Clone, Copy)]
pub struct ColocatedPod<'a> {
    /// Its labels.
    pub labels: &'a Labels,
    /// Its desired state.
    pub spec: &'a PodSpec,
}

/// Whether the label `koordinator.sh/priority` must stay as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubPriority {
    /// It must.
    Stays,
    /// It may change.
    MayChange,
}

/// What is wrong with a Pod, and with what an update of the stored one changes.
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

/// What an update changes and may not.
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

/// What is wrong with a Pod, whether it is new or not.
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
            // Both round away from zero, so a fraction of a milli-core that fills a CPU counts as one.
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
