//! [`Presence`]: whether the API server has a kind of objects at all, and the question to it whether it has.

use std::time::Duration;

use kube::{Client, Error};
use tokio::time::timeout;

/// Timeout of a discovery request for the resources of a group.
pub(super) const DISCOVERY_LIMIT: Duration = Duration::from_secs(10);

/// Presence of a resource in the API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    Always,
    /// Defined by a CustomResourceDefinition that a cluster may lack; then there are no objects.
    Custom {
        group: &'static str,
        version: &'static str,
    },
}

/// True if discovery lists the resource, in plural, for the group's version. `None` if the API server does not answer
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
