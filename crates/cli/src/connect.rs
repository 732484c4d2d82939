//! Client of the webhook's debug service, over TLS with a bearer token. Without --addr, the API server forwards the
//! port of a
//! webhook pod.

mod api_server;
mod bound_requests;
mod counted_pod;
mod credentials;
mod evidence;
mod forwarded;
mod kubeconfig;
mod proxy;
mod quotas;
mod replicas;
mod route;
mod slo_config;
mod transport;
mod versions;

use std::time::Duration;

use headroom_proto::{
    WireError,
    v1alpha1::{ListNodesRequest, ListNodesResponse, debug_client::DebugClient},
};
use tokio::time::{Instant, sleep_until};
use tonic::{Request, Streaming, service::interceptor::InterceptedService, transport::Channel};

pub(crate) use self::{
    bound_requests::bound_requests,
    kubeconfig::client,
    proxy::{Proxy, without_login},
};
use self::{
    credentials::{Bearer, Credentials},
    route::Route,
};
pub use self::{
    evidence::{evidence, evidence_before},
    kubeconfig::api,
    quotas::{explained_pod, explained_quota, quotas},
    replicas::pod_decisions,
    slo_config::SloConfigAnswer,
    versions::{AskedVersion, versions},
};
use crate::{args::ConnectArgs, check::Finding, error::Error, mistyped::node_advice, view::NodeView};

/// Limit of connecting, and of each call except a watch.
const LIMIT: Duration = Duration::from_secs(5);
/// Interval of HTTP/2 keep-alive pings on an idle connection.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// Retry interval if the token cannot be renewed. The open watch continues with the old token meanwhile.
const RENEW_AGAIN_AFTER: Duration = Duration::from_secs(30);

type Client = DebugClient<InterceptedService<Channel, Bearer>>;

/// Connection to the debug service of one replica.
pub struct Connection {
    client: Client,
    channel: Channel,
    credentials: Credentials,
}

/// Stream of nodes: all of them first, then those that changed.
pub struct NodeWatch<'c> {
    connection: &'c mut Connection,
    node: Option<String>,
    updates: Streaming<ListNodesResponse>,
    /// Time at which the stream is reopened with a new token, because the server closes it when the token expires.
    reopen: Option<Instant>,
}

/// Connects as the arguments describe. Missing arguments are filled in from the kubeconfig and the cluster.
///
/// # Errors
/// A file or the kubeconfig is unusable, the API server refuses, or the webhook is unreachable or not trusted.
pub async fn open(args: &ConnectArgs) -> Result<Connection, Error> {
    let credentials = Credentials::new(args).await?;
    let route = Route::to_any(args, &credentials).await?;
    Connection::open(&route, credentials).await
}

impl Connection {
    async fn open(route: &Route, credentials: Credentials) -> Result<Self, Error> {
        let channel = route.open(&credentials).await?;
        let client = DebugClient::with_interceptor(channel.clone(), credentials.bearer());
        Ok(Self {
            client,
            channel,
            credentials,
        })
    }

    /// Renews the token if it expires within minutes.
    async fn renew(&mut self) -> Result<(), Error> {
        if self.credentials.renew_in() == Some(Duration::ZERO) {
            self.credentials.renew().await?;
            self.client = DebugClient::with_interceptor(self.channel.clone(), self.credentials.bearer());
        }
        Ok(())
    }

    /// Lists all nodes, or one, sorted by name.
    ///
    /// # Errors
    /// The webhook refuses, is unreachable, or sends an invalid response; [`Error::UnknownNode`] if it does not know
    /// the node.
    pub async fn list(&mut self, node: Option<&str>) -> Result<Vec<NodeView>, Error> {
        let found = self.pages(node).await?;
        match node {
            Some(name) if found.is_empty() => Err(self.unknown_node(name).await),
            Some(_) | None => Ok(found),
        }
    }

    /// Error for an unknown node, with the nearest known name.
    pub(crate) async fn unknown_node(&mut self, name: &str) -> Error {
        // If this list fails, the error has no nearest name.
        let all = self.pages(None).await.unwrap_or_default();
        Error::UnknownNode {
            name: name.to_owned(),
            advice: node_advice(name, all.iter().map(|node| node.name.as_str())),
        }
    }

    async fn pages(&mut self, node: Option<&str>) -> Result<Vec<NodeView>, Error> {
        let (mut found, mut after) = (Vec::new(), String::new());
        loop {
            let mut request = Request::new(list_request(node, after.clone()));
            request.set_timeout(LIMIT);
            self.renew().await?;
            let page = self.client.list_nodes(request).await?.into_inner();
            let before = std::mem::replace(&mut after, append_page(page, &mut found)?);
            if after.is_empty() {
                break;
            }
            check_order(&before, &after)?;
        }
        Ok(found)
    }

    /// Fetches one node.
    ///
    /// # Errors
    /// Same as [`list`](Self::list).
    pub async fn one(&mut self, name: String) -> Result<NodeView, Error> {
        let nodes = self.list(Some(&name)).await?;
        match nodes.into_iter().find(|node| node.name == name) {
            Some(found) => Ok(found),
            None => Err(self.unknown_node(&name).await),
        }
    }

    /// Watches all nodes, or one.
    ///
    /// # Errors
    /// The webhook refuses or is unreachable.
    pub async fn watch(&mut self, node: Option<&str>) -> Result<NodeWatch<'_>, Error> {
        let updates = self.updates(node).await?;
        let reopen = self.credentials.renew_in().map(|left| Instant::now() + left);
        Ok(NodeWatch {
            connection: self,
            node: node.map(ToOwned::to_owned),
            updates,
            reopen,
        })
    }

    async fn updates(&mut self, node: Option<&str>) -> Result<Streaming<ListNodesResponse>, Error> {
        self.renew().await?;
        let request = list_request(node, String::new());
        Ok(self.client.watch_nodes(request).await?.into_inner())
    }
}

impl NodeWatch<'_> {
    /// Problems of the whole installation; see [`Connection::findings`].
    ///
    /// # Errors
    /// The webhook refuses or is unreachable.
    pub async fn findings(&mut self) -> Result<Vec<Finding>, Error> {
        self.connection.findings().await
    }

    /// Waits for the next update; `None` if the webhook ends the stream.
    ///
    /// # Errors
    /// The stream breaks, or its content is invalid.
    pub async fn next(&mut self) -> Result<Option<Vec<NodeView>>, Error> {
        let (mut found, mut after) = (Vec::new(), String::new());
        loop {
            let page = tokio::select! {
                page = self.updates.message() => page?,
                () = until(self.reopen) => {
                    self.reopen_stream().await;
                    (found, after) = (Vec::new(), String::new());
                    continue;
                }
            };
            let Some(page) = page else {
                return Ok(None);
            };
            let before = std::mem::replace(&mut after, append_page(page, &mut found)?);
            if after.is_empty() {
                return Ok(Some(found));
            }
            check_order(&before, &after)?;
        }
    }

    /// Reopens the stream with a new token. If that fails, the old stream stays open.
    async fn reopen_stream(&mut self) {
        let opened = self.connection.updates(self.node.as_deref()).await;
        let left = match opened {
            Ok(updates) => {
                self.updates = updates;
                self.connection.credentials.renew_in()
            }
            Err(_) => Some(RENEW_AGAIN_AFTER),
        };
        self.reopen = left.map(|left| Instant::now() + left);
    }
}

async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

fn list_request(node: Option<&str>, after: String) -> ListNodesRequest {
    ListNodesRequest {
        node: node.unwrap_or_default().to_owned(),
        after,
    }
}

/// Appends the nodes of a page, and returns the name after which the next page begins; empty for the last page.
fn append_page(page: ListNodesResponse, found: &mut Vec<NodeView>) -> Result<String, Error> {
    let ListNodesResponse { nodes, next } = page;
    for status in nodes {
        let node = status.name.clone();
        found.push(NodeView::try_from(status).map_err(|source| Error::Answer { node, source })?);
    }
    Ok(next)
}

/// Pages are sorted by name. A page that does not begin after the previous one would cause an endless loop.
fn check_order(before: &str, after: &str) -> Result<(), Error> {
    if after > before {
        return Ok(());
    }
    let source = WireError {
        field: "next".to_owned(),
        problem: format!("{after:?} does not come after {before:?}"),
    };
    Err(Error::Answer {
        node: after.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_does_not_advance_is_an_error() {
        assert!(check_order("", "a").is_ok() && check_order("a", "b").is_ok());
        for before in ["b", "c"] {
            let error = check_order(before, "b").unwrap_err();
            assert!(matches!(error, Error::Answer { .. }), "{error}");
        }
    }
}
