//! [`Presence`]: whether the API server has a kind of objects at all, and the question to it whether it has.

use std::time::Duration;

use kube::{Client, Error};
use tokio::time::timeout;

/// How long the API server may take to name the kinds of a group.
pub(super) const DISCOVERY_LIMIT: Duration = Duration::from_secs(10);

/// Whether the API server has a kind of objects at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// Built into Kubernetes.
    Always,
    /// Defined by a CustomResourceDefinition that a cluster may lack; then there are no objects.
    Custom {
        /// API group.
        group: &'static str,
        /// API version.
        version: &'static str,
    },
}

/// Whether the API server names the resource, in plural, among those of the group's version. `None` if it does not answer
/// within [`DISCOVERY_LIMIT`].
///
/// # Errors
/// Any answer but a list, or that there is no such group.
pub(super) async fn is_served(
    client: &Client,
    group: &str,
    version: &str,
    plural: &str,
) -> Result<Option<bool>, Error> {
    let name = format!("{group}/{version}");
    let Ok(answer) = timeout(DISCOVERY_LIMIT, client.list_api_group_resources(&name)).await else {
        return Ok(None);
    };
    match answer {
        Ok(list) => Ok(Some(
            list.resources.iter().any(|resource| resource.name == plural),
        )),
        Err(Error::Api(status)) if status.code == 404 => Ok(Some(false)),
        Err(error) => Err(error),
    }
}
