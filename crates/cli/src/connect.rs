//! Client of the webhook's debug service: TLS to a server of the expected name, and a bearer token. Without an address the
//! API server forwards the port of the webhook's pod.

mod api_server;
mod credentials;
mod evidence;
mod forwarded;
mod kubeconfig;
mod quotas;
mod replicas;
mod route;
mod slo_config;
mod versions;

use std::time::Duration;

use headroom_proto::{
    WireError,
    v1alpha1::{ListNodesRequest, ListNodesResponse, debug_client::DebugClient},
};
use tokio::time::{Instant, sleep_until};
use tonic::{Request, Streaming, service::interceptor::InterceptedService, transport::Channel};

pub(crate) use self::kubeconfig::client;
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

/// Connecting, and one answer, must be done within this.
const LIMIT: Duration = Duration::from_secs(5);
/// A silent connection is tried this often.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// An open watch goes on with the token it has when no other can be had, and asks again after this.
const RENEW_AGAIN_AFTER: Duration = Duration::from_secs(30);

/// The debug service, asked over that channel.
type Client = DebugClient<InterceptedService<Channel, Bearer>>;

/// An open way to the debug service.
pub struct Connection {
    client: Client,
    channel: Channel,
    credentials: Credentials,
}

/// The nodes again each time one of them changed.
pub struct NodeWatch<'c> {
    connection: &'c mut Connection,
    node: Option<String>,
    updates: Streaming<ListNodesResponse>,
    /// Until the stream is opened anew, as the server ends it with its token.
    reopen: Option<Instant>,
}

/// Opens the way that the arguments describe; what they do not give comes from the kubeconfig and the cluster.
///
/// # Errors
/// A file or kubeconfig that cannot be used, an API server that refuses, a webhook that cannot be reached or trusted.
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

    /// Has a token that is good for minutes to come.
    async fn renew(&mut self) -> Result<(), Error> {
        if self.credentials.renew_in() == Some(Duration::ZERO) {
            self.credentials.renew().await?;
            self.client = DebugClient::with_interceptor(self.channel.clone(), self.credentials.bearer());
        }
        Ok(())
    }

    /// All nodes, or one, by name.
    ///
    /// # Errors
    /// The webhook refuses, is gone, or answers what cannot be read; [`Error::UnknownNode`] if it has not that one.
    pub async fn list(&mut self, node: Option<&str>) -> Result<Vec<NodeView>, Error> {
        let found = self.pages(node).await?;
        match node {
            Some(name) if found.is_empty() => Err(self.unknown_node(name).await),
            Some(_) | None => Ok(found),
        }
    }

    /// That there is no such node, with the one that was probably meant.
    pub(crate) async fn unknown_node(&mut self, name: &str) -> Error {
        // Whatever happens now, the answer is that there is none.
        let all = self.pages(None).await.unwrap_or_default();
        Error::UnknownNode {
            name: name.to_owned(),
            advice: node_advice(name, all.iter().map(|node| node.name.as_str())),
        }
    }

    async fn pages(&mut self, node: Option<&str>) -> Result<Vec<NodeView>, Error> {
        let (mut found, mut after) = (Vec::new(), String::new());
        loop {
            let mut request = Request::new(which(node, after.clone()));
            request.set_timeout(LIMIT);
            self.renew().await?;
            let page = self.client.list_nodes(request).await?.into_inner();
            let before = std::mem::replace(&mut after, append_page(page, &mut found)?);
            if after.is_empty() {
                break;
            }
            goes_on(&before, &after)?;
        }
        Ok(found)
    }

    /// The node of that name.
    ///
    /// # Errors
    /// As [`list`](Self::list).
    pub async fn one(&mut self, name: String) -> Result<NodeView, Error> {
        let nodes = self.list(Some(&name)).await?;
        match nodes.into_iter().find(|node| node.name == name) {
            Some(found) => Ok(found),
            None => Err(self.unknown_node(&name).await),
        }
    }

    /// All nodes, or one, and again each time one of them changed.
    ///
    /// # Errors
    /// The webhook refuses or is gone.
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
        let request = which(node, String::new());
        Ok(self.client.watch_nodes(request).await?.into_inner())
    }
}

impl NodeWatch<'_> {
    /// What is wrong for everybody; see [`Connection::findings`].
    ///
    /// # Errors
    /// The webhook refuses or is gone.
    pub async fn findings(&mut self) -> Result<Vec<Finding>, Error> {
        self.connection.findings().await
    }

    /// The next state; `None` when the webhook ends the stream.
    ///
    /// # Errors
    /// The stream breaks, or its content cannot be read.
    pub async fn next(&mut self) -> Result<Option<Vec<NodeView>>, Error> {
        let (mut found, mut after) = (Vec::new(), String::new());
        loop {
            let page = tokio::select! {
                page = self.updates.message() => page?,
                () = until(self.reopen) => {
                    self.open_anew().await;
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
            goes_on(&before, &after)?;
        }
    }

    /// Follows with a new token; the old stream stays where that fails.
    async fn open_anew(&mut self) {
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

fn which(node: Option<&str>, after: String) -> ListNodesRequest {
    ListNodesRequest {
        node: node.unwrap_or_default().to_owned(),
        after,
    }
}

/// Adds a page to what was found; the name after which the next one begins, empty if it is the last.
fn append_page(page: ListNodesResponse, found: &mut Vec<NodeView>) -> Result<String, Error> {
    let ListNodesResponse { nodes, next } = page;
    for status in nodes {
        let node = status.name.clone();
        found.push(NodeView::try_from(status).map_err(|source| Error::Answer { node, source })?);
    }
    Ok(next)
}

/// Pages come by name: one that begins no later than the one before would have us ask for ever.
fn goes_on(before: &str, after: &str) -> Result<(), Error> {
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
    fn pages_that_do_not_go_on_are_an_error() {
        assert!(goes_on("", "a").is_ok() && goes_on("a", "b").is_ok());
        for before in ["b", "c"] {
            let error = goes_on(before, "b").unwrap_err();
            assert!(matches!(error, Error::Answer { .. }), "{error}");
        }
    }
}
