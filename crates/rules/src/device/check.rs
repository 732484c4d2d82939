//! Checks GPU requests of a Pod's containers: percent or cards but not both, in amounts that cards can provide.
//!
//! Only requests are checked: devices are extended resources, whose limit must equal the request.

use headroom_domain::{
    amounts::Amounts,
    field::{Error, Errors, Path},
    names,
    pod::PodSpec,
    quantity::Quantity,
};

use super::CARD;
use crate::{
    container::ContainerList,
    pod_check::new_faults,
    switch::{Switch, Switches},
};

/// Switch: init containers are checked.
pub static CHECKS_INIT_CONTAINERS: Switch = Switch {
    name: "DeviceChecksInitContainers",
    default: true,
    row: "D-21, init containers",
    koordinator: "GPU requests of init containers and sidecars are not checked",
    about: "GPU requests of init containers and sidecars are checked as well",
    why: "they get the same devices",
};

/// Switch: at most 100 % of each card may be requested.
pub static CHECKS_CARDS: Switch = Switch {
    name: "DeviceChecksCards",
    default: true,
    row: "D-21, cards",
    koordinator: "`gpu-core` and `gpu-memory-ratio` may be more than 100 for each card of `gpu.shared`",
    about: "`gpu-core` and `gpu-memory-ratio` are at most 100 for each card of `gpu.shared`",
    why: "a card has at most 100, so the pod could never run",
};

/// Switch: a fault names the container's index.
pub static INDICES: Switch = Switch {
    name: "DeviceNamesContainers",
    default: false,
    row: "D-22",
    koordinator: "a fault has the path `pod.spec.containers[*]`, and equal faults of several containers are merged",
    about: "a fault has the path of its container, such as `pod.spec.containers[0]`",
    why: "Koordinator does not name the container, but clients may match its text",
};

/// Returns the faults of a Pod's devices and, in an update, of its changes to the stored one.
pub fn check(spec: &PodSpec, stored: Option<&PodSpec>, switches: &Switches) -> Errors {
    let stored_faults = stored.map(|stored| move || faults(stored, switches));
    new_faults(faults(spec, switches), stored_faults, switches)
}

fn faults(spec: &PodSpec, switches: &Switches) -> Errors {
    let mut lists = vec![(ContainerList::Main, &spec.containers)];
    if switches.is_on(&CHECKS_INIT_CONTAINERS) {
        lists.push((ContainerList::Init, &spec.init_containers));
    }
    let mut errors = Errors::default();
    for (list, containers) in lists {
        for (index, container) in containers.iter().enumerate() {
            let requests = &container.resources.requests;
            let devices = (requests.get(names::GPU), requests.get(names::GPU_SHARED));
            if devices != (None, None) {
                let path = path(list, index, switches);
                errors.extend(of_container(devices, requests, &path, switches));
            }
        }
    }
    errors
}

fn path(list: ContainerList, index: usize, switches: &Switches) -> Path {
    let list = Path::new("pod.spec").child(list.name());
    let container = if switches.is_on(&INDICES) {
        list.index(index)
    } else {
        list.key("*")
    };
    container.child("resources.requests")
}

/// Returns the faults of one container with GPU requests.
fn of_container(
    devices: (Option<&Quantity>, Option<&Quantity>),
    requests: &Amounts,
    path: &Path,
    switches: &Switches,
) -> Vec<Error> {
    match devices {
        (Some(_), Some(_)) => {
            let detail = "Forbidden declare GPU and GPU share at same time";
            vec![Error::forbidden(path, detail)]
        }
        (Some(percent), None) => of_percent(percent, path).into_iter().collect(),
        (None, Some(cards)) => of_cards(cards, requests, path, switches),
        (None, None) => Vec::new(),
    }
}

fn of_percent(percent: &Quantity, path: &Path) -> Option<Error> {
    let detail = match percent.whole() {
        0 => "the requested GPU must be greater than zero",
        whole if whole > CARD && whole % CARD != 0 => "the requested GPU must be percentage of 100",
        _ => return None,
    };
    Some(Error::invalid(path, percent.to_string(), detail))
}

fn of_cards(cards: &Quantity, requests: &Amounts, path: &Path, switches: &Switches) -> Vec<Error> {
    let amount = |name: &str| requests.get(name).copied().unwrap_or(Quantity::ZERO);
    let mut errors = Vec::new();
    let number = cards.whole();
    if number == 0 {
        let detail = "the requested GPU must be greater than zero";
        errors.push(Error::invalid(path, cards.to_string(), detail));
    }
    if !amount(names::HUAWEI_NPU_CORE).is_zero() {
        return errors;
    }
    let ratio = amount(names::GPU_MEMORY_RATIO);
    match (amount(names::GPU_MEMORY).is_zero(), ratio.is_zero()) {
        (true, true) => errors.push(Error::forbidden(
            path,
            "GPU memory and GPU memory ratio all is zero",
        )),
        (false, false) => errors.push(Error::forbidden(
            path,
            "declare GPU memory and GPU memory ratio at same time",
        )),
        (true, false) | (false, true) => {}
    }
    let shares = [("gpuCore", amount(names::GPU_CORE)), ("gpuMemoryRatio", ratio)];
    for (word, share) in shares {
        let detail = match share.whole().checked_rem(number) {
            // Without cards, no card is shared.
            None => continue,
            Some(0)
                if share.whole() <= number.max(0).saturating_mul(CARD) || !switches.is_on(&CHECKS_CARDS) =>
            {
                continue;
            }
            Some(0) => format!("the requested {word} must be at most {CARD} for each GPU"),
            Some(_) => format!("the requested {word} must multiple of shared"),
        };
        errors.push(Error::invalid(path, share.to_string(), &detail));
    }
    errors
}

#[cfg(test)]
mod tests;
