//! Client of the agent's debug service, over a unix socket on the node. File permission on the socket is the only
//! credential.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use headroom_proto::{
    status,
    v1alpha1::{
        AgentHistogram, AgentPod, AgentStatus, GetHistogramsRequest, GetStatusRequest, ListPodsRequest,
        agent_debug_client::AgentDebugClient,
    },
};
use tonic::{
    Request, Status, Streaming,
    transport::{Channel, Endpoint},
};

use crate::{cause::innermost, error::Error};

/// Limit of connecting, and of each call except the watch.
const LIMIT: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub struct Agent {
    client: AgentDebugClient<Channel>,
}

/// Stream of statuses, one after each change.
#[derive(Debug)]
pub struct StatusWatch {
    updates: Streaming<AgentStatus>,
}

/// Connects to a socket.
///
/// # Errors
/// The socket does not exist, has no listener, or may not be opened; the message contains the fix.
pub async fn open(socket: &Path) -> Result<Agent, Error> {
    let bad = |source| unreachable(socket, &source);
    let channel = Endpoint::from_shared(format!("unix://{}", absolute(socket)?.display()))
        .map_err(bad)?
        .connect_timeout(LIMIT)
        .connect()
        .await
        .map_err(bad)?;
    Ok(Agent {
        client: AgentDebugClient::new(channel),
    })
}

impl Agent {
    /// Status of the agent.
    ///
    /// # Errors
    /// The call fails, or the response is invalid, as from another version.
    pub async fn status(&mut self) -> Result<status::Status, Error> {
        let answer = self.client.get_status(timely(GetStatusRequest {})).await;
        read(answer.map_err(|status| refused(&status))?.into_inner())
    }

    /// Pods that the agent knows.
    ///
    /// # Errors
    pub async fn pods(&mut self) -> Result<Vec<AgentPod>, Error> {
        let answer = self.client.list_pods(timely(ListPodsRequest {})).await;
        Ok(answer.map_err(|status| refused(&status))?.into_inner().pods)
    }

    /// Histograms since the agent's start.
    ///
    /// # Errors
    pub async fn histograms(&mut self) -> Result<Vec<AgentHistogram>, Error> {
        let answer = self.client.get_histograms(timely(GetHistogramsRequest {})).await;
        Ok(answer.map_err(|status| refused(&status))?.into_inner().histograms)
    }

    /// The current status, and each later one.
    ///
    /// # Errors
    pub async fn watch(&mut self) -> Result<StatusWatch, Error> {
        let answer = self.client.watch_status(GetStatusRequest {}).await;
        let updates = answer.map_err(|status| refused(&status))?.into_inner();
        Ok(StatusWatch { updates })
    }
}

impl StatusWatch {
    /// Waits for the next status.
    ///
    /// # Errors
    /// The agent stopped, the stream broke, or the response is invalid.
    pub async fn next(&mut self) -> Result<status::Status, Error> {
        let next = self.updates.message().await.map_err(|status| refused(&status))?;
        read(next.ok_or(Error::AgentEnded)?)
    }
}

fn read(status: AgentStatus) -> Result<status::Status, Error> {
    status.try_into().map_err(Error::AgentAnswer)
}

fn timely<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(LIMIT);
    request
}

/// Absolute path, as a `unix://` URI needs it.
fn absolute(path: &Path) -> Result<PathBuf, Error> {
    std::path::absolute(path).map_err(|source| Error::Read {
        path: path.to_owned(),
        source,
    })
}

fn refused(status: &Status) -> Error {
    Error::AgentRefused {
        code: status.code(),
        message: status.message().to_owned(),
    }
}

/// Maps the innermost cause to an error with a fix. The transport errors around it add nothing.
fn unreachable(socket: &Path, error: &tonic::transport::Error) -> Error {
    let path = socket.to_owned();
    let reason = innermost(error);
    match reason.downcast_ref().map(io::Error::kind) {
        Some(io::ErrorKind::NotFound) => Error::NoSocket { path },
        Some(io::ErrorKind::PermissionDenied) => Error::SocketDenied { path },
        Some(io::ErrorKind::ConnectionRefused) => Error::DeadSocket { path },
        _ => Error::Socket {
            path,
            reason: reason.to_string(),
        },
    }
}
