//! Device resources of a Pod: what its containers ask for of GPUs is completed, so that scheduler and node read one form.
//!
//! The scheduler knows cores, memory and the number of cards, and no GPUs in percent. Devices are extended resources, of
//! which a limit must equal its request, so each amount is set in both.

pub mod check;
mod fill;

use headroom_domain::names;

use crate::{
    change::{Changes, ContainerChange},
    container::{ContainerList, Containers},
    switch::{Switch, Switches},
};

/// Whether device resources of init containers are completed.
pub static INIT_CONTAINERS: Switch = Switch {
    name: "DeviceInitContainers",
    default: true,
    row: "D-20, init containers",
    koordinator: "GPU resources of init containers, sidecars among them, stay as they are",
    about: "GPU resources of init containers and sidecars are completed as well",
    why: "the scheduler does not know `koordinator.sh/gpu`",
};

/// Whether the limit of a device counts as the request that is missing.
pub static FROM_LIMITS: Switch = Switch {
    name: "DeviceFromLimits",
    default: true,
    row: "D-20, limits",
    koordinator: "GPU resources in limits alone are not converted, and `koordinator.sh/gpu.shared` in limits alone is overwritten",
    about: "a GPU resource that only limits name is requested as well",
    why: "a limit without a request is a request of the same amount, as anywhere in Kubernetes",
};

/// A whole card, in percent.
const CARD: i128 = 100;

/// The resources of GPUs. A container that names one of them is completed.
const DEVICES: [&str; 5] = [
    names::GPU,
    names::GPU_CORE,
    names::GPU_MEMORY,
    names::GPU_MEMORY_RATIO,
    names::GPU_SHARED,
];

/// What changes in a Pod so that its device resources are complete.
///
/// Percent of GPUs become cores and memory of the same percentage. Without a number of cards there is one card, or one for
/// each 100 % where the percentage is a multiple of 100.
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
