//! Annotation with the names of a Pod's Datasets.

use std::collections::BTreeSet;

use super::dataset::MountedDataset;

/// Longest annotations of an object together, in bytes. Kubernetes refuses the Pod itself beyond that.
const LONGEST: usize = 256 << 10;

/// Names of the Datasets together with those of the annotation's present value, sorted; `None` if the present value is
/// longer than Kubernetes allows.
pub fn in_use(present: Option<&str>, datasets: &[MountedDataset]) -> Option<String> {
    if present.is_some_and(|present| present.len() > LONGEST) {
        return None;
    }
    let present = present.unwrap_or_default().split(',').map(str::trim);
    let mut names: BTreeSet<&str> = present.filter(|name| !name.is_empty()).collect();
    names.extend(datasets.iter().map(|dataset| &*dataset.name));
    Some(names.into_iter().collect::<Vec<_>>().join(","))
}
