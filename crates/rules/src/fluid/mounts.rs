//! Mounts of Datasets in containers: they must see a volume that a restarted client mounts again.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::Value;

use super::dataset::MountedDataset;

/// A volume of a Pod, as far as rules read it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Volume {
    /// Name by which containers mount it.
    pub name: Box<str>,
    persistent_volume_claim: Option<VolumeClaim>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct VolumeClaim {
    claim_name: Box<str>,
}

/// Names of the claims in the volumes of a Pod.
pub fn claims(volumes: &[Volume]) -> BTreeSet<Box<str>> {
    let claims = volumes.iter().filter_map(Volume::claim);
    claims.map(Into::into).collect()
}

/// Names of the volumes that contain a Dataset.
pub fn volumes_of<'v>(volumes: &'v [Volume], datasets: &[MountedDataset]) -> BTreeSet<&'v str> {
    let claims: BTreeSet<&str> = datasets.iter().map(|dataset| &*dataset.claim).collect();
    let of_dataset = |volume: &&Volume| volume.claim().is_some_and(|claim| claims.contains(claim));
    let volumes = volumes.iter().filter(of_dataset);
    volumes.map(|volume| &*volume.name).collect()
}

/// Sets the propagation of mounts of these volumes that have none. `containers` is the member of the specification.
pub fn propagate(containers: &mut Value, volumes: &BTreeSet<&str>) {
    let containers = containers.as_array_mut().into_iter().flatten();
    let mounts = containers
        .filter_map(|container| container.get_mut("volumeMounts")?.as_array_mut())
        .flatten();
    for mount in mounts.filter_map(Value::as_object_mut) {
        let name = mount.get("name").and_then(Value::as_str);
        let has_none = mount.get("mountPropagation").is_none_or(Value::is_null);
        if has_none && name.is_some_and(|name| volumes.contains(name)) {
            mount.insert("mountPropagation".to_owned(), "HostToContainer".into());
        }
    }
}

impl Volume {
    fn claim(&self) -> Option<&str> {
        let claim = self.persistent_volume_claim.as_ref();
        claim.map(|claim| &*claim.claim_name)
    }
}
