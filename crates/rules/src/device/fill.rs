//! Completes the device resources of one container.

use headroom_domain::{amounts::Amounts, names, quantity::Quantity};

use super::{CARD, DEVICES};
use crate::container::Resources;

/// Returns the resources with complete devices; `None` for a container without devices. `is_from_limits` lets a limit
/// replace a missing request.
pub(super) fn filled(resources: &Resources, is_from_limits: bool) -> Option<Resources> {
    let names_device = |amounts: &Amounts| DEVICES.iter().any(|device| amounts.contains(device));
    if !names_device(&resources.requests) && !names_device(&resources.limits) {
        return None;
    }
    let mut filled = resources.clone();
    if is_from_limits {
        let missing = resources.limits.only(&DEVICES);
        for (device, amount) in missing
            .iter()
            .filter(|(device, _)| !resources.requests.contains(device))
        {
            filled.requests.set(device, *amount);
        }
    }
    let has_cards = filled.requests.contains(names::GPU_SHARED);
    if let Some(percent) = filled.requests.get(names::GPU).map(Quantity::whole) {
        set_both(&mut filled, names::GPU_CORE, percent);
        set_both(&mut filled, names::GPU_MEMORY_RATIO, percent);
        filled.requests.remove(names::GPU);
        filled.limits.remove(names::GPU);
    }
    if !has_cards {
        let cards = cards(&filled.requests);
        set_both(&mut filled, names::GPU_SHARED, cards);
    }
    Some(filled)
}

/// Number of cards that the requested percentage fills: of memory, or otherwise of cores.
fn cards(requests: &Amounts) -> i128 {
    let percent = [names::GPU_MEMORY_RATIO, names::GPU_CORE]
        .into_iter()
        .find_map(|device| requests.get(device));
    match percent.map(Quantity::whole) {
        Some(percent) if percent > CARD && percent % CARD == 0 => percent / CARD,
        Some(_) | None => 1,
    }
}

fn set_both(resources: &mut Resources, device: &str, amount: i128) {
    for amounts in [&mut resources.requests, &mut resources.limits] {
        amounts.set(device, Quantity::from_whole(amount));
    }
}
