//! The sum over the containers of a pod, and the states of its containers by name.

use std::borrow::Cow;

use super::{Container, ContainerStatus, PodSpec, PodStatus, ResourceList};

/// The larger of what the containers have together and what starting them needs, by resource.
///
/// `amounts` are those of a container that may be resized in place. A plain init container is not: it ends before the
/// next begins, so it counts as its spec asks, beside the sidecars so far.
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
            // What the sidecars have of other resources counted when they were added.
            for (name, asked) in container.resources.requests.iter() {
                let beside = sidecars.get(name);
                at_start.raise(name, beside.map_or(asked, |sidecars| R::sum(asked, sidecars)));
            }
        }
    }
    total.raise_all(&at_start);
    total
}

/// Raises the resources of `of` to the amounts of `list`.
fn raise_to<R: ResourceList>(raised: &mut R, list: &R, of: &R) {
    for (name, _) in of.iter() {
        if let Some(amount) = list.get(name) {
            raised.raise(name, amount);
        }
    }
}

/// So many states are searched one after the other, which is faster than sorting them first.
const FEW_STATUSES: usize = 16;

/// The states of a pod's containers, init containers included. Of two with one name the first counts.
pub(super) enum Statuses<'a, R> {
    /// As the status has them.
    Few(&'a PodStatus<R>),
    /// By name.
    Sorted(Vec<&'a ContainerStatus<R>>),
}

impl<'a, R> Statuses<'a, R> {
    /// The states that a status has.
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

    /// The state of a container.
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
