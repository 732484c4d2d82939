//! Sums over the containers of a pod, and looks up container statuses by name.

use std::borrow::Cow;

use super::{Container, ContainerStatus, PodSpec, PodStatus, ResourceList};

/// Per resource, the larger of the sum of all app containers and sidecars and the need of the init phase.
///
/// `amounts` returns the amounts of a container that can be resized in place. A plain init container cannot: it ends
/// before the next one starts, so its spec counts, in addition to the sidecars before it.
pub(super) fn total<'a, R: ResourceList, L>(
    spec: &'a PodSpec<R, L>,
    amounts: impl Fn(&'a Container<R, L>) -> Cow<'a, R>,
) -> R {
    let mut total = R::default();
    for container in &spec.containers {
        total.add(&amounts(container));
    }
    let mut sidecars = R::default();
    let mut at_start = R::default();
    for container in &spec.init_containers {
        if container.is_sidecar() {
            let added = amounts(container);
            total.add(&added);
            sidecars.add(&added);
            raise_to(&mut at_start, &sidecars, &added);
        } else {
            // Other resources of the sidecars were counted when each sidecar was added.
            for (name, asked) in container.resources.requests.iter() {
                let beside = sidecars.get(name);
                at_start.raise(name, beside.map_or(asked, |sidecars| R::sum(asked, sidecars)));
            }
        }
    }
    total.raise_all(&at_start);
    total
}

/// Raises the resources named in `of` to the amounts of `list`.
fn raise_to<R: ResourceList>(raised: &mut R, list: &R, of: &R) {
    for (name, _) in of.iter() {
        if let Some(amount) = list.get(name) {
            raised.raise(name, amount);
        }
    }
}

/// Up to this number, statuses are searched linearly, which is faster than sorting them.
const FEW_STATUSES: usize = 16;

/// Statuses of a pod's containers and init containers. The first of two with one name counts.
pub(super) enum Statuses<'a, R> {
    /// Unsorted, as in the status.
    Few(&'a PodStatus<R>),
    /// Sorted by name, for binary search.
    Sorted(Vec<&'a ContainerStatus<R>>),
}

impl<'a, R> Statuses<'a, R> {
    /// Collects all container statuses of a pod status.
    pub(super) fn new(status: &'a PodStatus<R>) -> Self {
        let count = status
            .container_statuses
            .len()
            .saturating_add(status.init_container_statuses.len());
        if count <= FEW_STATUSES {
            return Self::Few(status);
        }
        let mut statuses: Vec<_> = all(status).collect();
        statuses.sort_by(|one, other| one.name.cmp(&other.name));
        Self::Sorted(statuses)
    }

    /// Status of the container of that name.
    pub(super) fn get(&self, name: &str) -> Option<&'a ContainerStatus<R>> {
        match self {
            Self::Few(status) => all(status).find(|status| status.name == name),
            Self::Sorted(statuses) => {
                let first = statuses.partition_point(|status| *status.name < *name);
                statuses.get(first).copied().filter(|status| status.name == name)
            }
        }
    }
}

fn all<R>(status: &PodStatus<R>) -> impl Iterator<Item = &ContainerStatus<R>> {
    status
        .container_statuses
        .iter()
        .chain(&status.init_container_statuses)
}
