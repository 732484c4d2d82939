//! Client of the agent's debug service on a unix socket of the node. The right to open the socket is the only
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

/// Connecting, and one answer, must be done within this.
const LIMIT: Duration = Duration::from_secs(5);

/// An open way to an agent.
#[derive(Debug)]
pub struct Agent {
    client: AgentDebugClient<Channel>,
}

/// The status again each time it changed.
#[derive(Debug)]
pub struct StatusWatch {
    updates: Streaming<AgentStatus>,
}

/// Opens the way through a socket.
///
/// # Errors
/// There is no socket, nobody listens on it, or it may not be opened; each says what to do.
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
    /// What the agent sees, decides and does.
    ///
    /// # Errors
    /// The agent does not answer, or not as this version understands.
    pub async fn status(&mut self) -> Result<status::Status, Error> {
        let answer = self.client.get_status(timely(GetStatusRequest {})).await;
        read(answer.map_err(|status| refused(&status))?.into_inner())
    }

    /// The pods that it knows of.
    ///
    /// # Errors
    /// The agent does not answer.
    pub async fn pods(&mut self) -> Result<Vec<AgentPod>, Error> {
        let answer = self.client.list_pods(timely(ListPodsRequest {})).await;
        Ok(answer.map_err(|status| refused(&status))?.into_inner().pods)
    }

    /// Distributions since it was started.
    ///
    /// # Errors
    /// The agent does not answer.
    pub async fn histograms(&mut self) -> Result<Vec<AgentHistogram>, Error> {
        let answer = self.client.get_histograms(timely(GetHistogramsRequest {})).await;
        Ok(answer.map_err(|status| refused(&status))?.into_inner().histograms)
    }

    /// The status now and each time it changes.
    ///
    /// # Errors
    /// The agent does not answer.
    pub async fn watch(&mut self) -> Result<StatusWatch, Error> {
        let answer = self.client.watch_status(GetStatusRequest {}).await;
        let updates = answer.map_err(|status| refused(&status))?.into_inner();
        Ok(StatusWatch { updates })
    }
}

impl StatusWatch {
    /// The next status.
    ///
    /// # Errors
    /// The agent ended, broke off, or answers not as this version understands.
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

/// The path in the form that a URI takes.
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

/// Why there is no connection; what the transport wraps around the system's reason says nothing more.
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
