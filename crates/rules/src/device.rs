//! Device resources of a Pod: GPU requests of its containers are completed, so that scheduler and node read one form.
//!
//! The scheduler knows GPU cores, GPU memory and the number of cards, but not `koordinator.sh/gpu` in percent.
//! Devices are extended resources, whose limit must equal the request, so each amount is set in both.

pub mod check;
mod fill;

use headroom_domain::names;

use crate::{
    change::{Changes, ContainerChange},
    container::{ContainerList, Containers},
    switch::{Switch, Switches},
};

/// Switch: device resources of init containers are completed.
pub static INIT_CONTAINERS: Switch = Switch {
    name: "DeviceInitContainers",
    default: true,
    row: "D-20, init containers",
    koordinator: "GPU resources of init containers and sidecars stay unchanged",
    about: "GPU resources of init containers and sidecars are completed as well",
    why: "the scheduler does not know `koordinator.sh/gpu`",
};

/// Switch: the limit of a device replaces a missing request.
pub static FROM_LIMITS: Switch = Switch {
    name: "DeviceFromLimits",
    default: true,
    row: "D-20, limits",
    koordinator: "GPU resources that appear only in limits are not converted, and `koordinator.sh/gpu.shared` that appears only in limits is overwritten",
    about: "a GPU resource that appears only in limits is also requested",
    why: "a limit without a request means a request of the same amount, as everywhere in Kubernetes",
};

/// One whole card, in percent.
const CARD: i128 = 100;

/// GPU resources. A container with any of them is completed.
const DEVICES: [&str; 5] = [
    names::GPU,
    names::GPU_CORE,
    names::GPU_MEMORY,
    names::GPU_MEMORY_RATIO,
    names::GPU_SHARED,
];

/// Computes the changes that complete the device resources of a Pod.
///
/// A GPU percentage becomes cores and memory of the same percentage. Without a number of cards, the number is 1, or
/// one per 100 % if the percentage is a multiple of 100.
pub fn changes(containers: &Containers, switches: &Switches) -> Changes {
    let is_from_limits = switches.is_on(&FROM_LIMITS);
    let lists = ContainerList::ALL.into_iter().filter(|list| match list {
        ContainerList::Init => switches.is_on(&INIT_CONTAINERS),
        ContainerList::Main => true,
    });
    lists
        .flat_map(|list| {
            let containers = containers.list(list).iter().enumerate();
            containers.filter_map(move |(index, container)| {
                let filled = fill::filled(&container.resources, is_from_limits)?;
                ContainerChange::between(list, index, &container.resources, &filled)
            })
        })
        .collect()
}

#[cfg(test)]
mod tests;
