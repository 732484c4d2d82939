//! [`Error`]: the reasons why a command fails, with their messages and exit codes.

use std::{io, path::PathBuf};

use headroom_domain::installation::{ConfigMapName, Namespace};
use headroom_proto::WireError;
use tonic::Code;

use crate::{cause::innermost, rights::Right};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot use the kubeconfig: {reason}; see --kubeconfig and --context")]
    Kubeconfig { reason: String },
    #[error("cannot use the kubeconfig: it has no context {name:?}; {advice}")]
    UnknownContext {
        /// From --context, or the current context of the file.
        name: String,
        /// The nearest known name, or the command that lists names.
        advice: String,
    },
    /// The value has `***` for its user and password.
    #[error("cannot use the proxy {value:?} of {origin}: {reason}")]
    BadProxy {
        /// The variable or field.
        origin: String,
        value: String,
        reason: &'static str,
    },
    /// The API server is unreachable, or refuses for another reason than authentication, RBAC or a missing object.
    #[error("cannot {attempt}: {}", message(reason))]
    Cluster {
        attempt: &'static str,
        reason: Box<kube::Error>,
    },
    #[error(
        "cannot {attempt}: the API server rejects the kubeconfig's credential: {message}; log in again, or choose another \
         --context"
    )]
    Unauthenticated { attempt: &'static str, message: String },
    /// An object of the installation does not exist.
    #[error(
        "cannot {attempt}: {message}; is Headroom installed in this cluster? See --context, --namespace and --name-suffix"
    )]
    NotInstalled { attempt: &'static str, message: String },
    #[error("cannot {}: {message}; the missing rule is {right}", right.purpose)]
    Forbidden { message: String, right: &'static Right },
    /// The TokenRequest returned no token, or one that does not fit into a header.
    #[error("the API server returned no usable token; pass one with --token-file")]
    NoToken,
    #[error("the API server does not forward the requested port")]
    NoPort,
    #[error(
        "no pod behind Service {service} in namespace {namespace} is ready; see `kubectl -n {namespace} get pods`, or pass --namespace"
    )]
    NoReplica { namespace: Namespace, service: String },
    /// The port-forward fails, or the server's certificate is not the expected one.
    #[error("cannot connect to pod {pod} in namespace {namespace} through the API server: {reason}")]
    Forward {
        pod: String,
        namespace: Namespace,
        /// Innermost cause; the transport errors around it add nothing.
        reason: String,
    },
    #[error("{} does not contain a bearer token", path.display())]
    BadToken { path: PathBuf },
    #[error("MutatingWebhookConfiguration {configuration} has no caBundle; pass the CA with --ca-file")]
    NoCaBundle { configuration: String },
    #[error(
        "the API server does not call the webhook: MutatingWebhookConfiguration {configuration} does not exist; apply the \
         manifests again, or pass --ca-file for a webhook that is configured otherwise"
    )]
    NotRegistered { configuration: String },
    /// The connection fails, or the server's certificate is not the expected one.
    #[error(
        "cannot connect to {addr}: {reason}; unset --addr and HEADROOM_ADDR to connect through the API server"
    )]
    Connect {
        addr: String,
        /// Innermost cause; the transport errors around it add nothing.
        reason: String,
    },
    #[error(
        "the webhook rejects the token: {message}; renew the token in --token-file, or omit the flag to get one from the API \
         server"
    )]
    BadCredential { message: String },
    /// The webhook lacks the called method: it is older than this program.
    #[error(
        "the webhook has another version and lacks this request; use the kubectl-headroom of the webhook's version"
    )]
    OtherVersion,
    #[error("the webhook returned {code:?}: {message}")]
    Refused { code: Code, message: String },
    /// A field of the response is invalid, as from a webhook of another version.
    #[error(
        "cannot read the webhook's answer about node {node:?}; use the kubectl-headroom of the webhook's version"
    )]
    Answer {
        node: String,
        #[source]
        source: WireError,
    },
    /// A field of the response is invalid, as from an agent of another version.
    #[error("cannot read the agent's answer; use the kubectl-headroom of the agent's version")]
    AgentAnswer(#[source] WireError),
    /// A field of the response is invalid, as from a webhook of another version.
    #[error(
        "cannot read the webhook's answer about quotas; use the kubectl-headroom of the webhook's version"
    )]
    QuotaAnswer(#[source] WireError),
    #[error("cannot read the webhook's answer about its version")]
    VersionAnswer(#[source] WireError),
    #[error("the webhook does not know node {name:?}; {advice}")]
    UnknownNode {
        name: String,
        /// The nearest known name, or the command that lists names.
        advice: String,
    },
    #[error("-o name is for commands that show nodes: top, hints and explain")]
    NoNames,
    #[error("there is no node {name:?}; {advice}")]
    NoSuchNode {
        name: String,
        /// The nearest known name, or the command that lists names.
        advice: String,
    },
    /// `off --wait-seconds` is over and some nodes are not raw.
    #[error("{end}")]
    NotRestored {
        /// The nodes, the reason and the fix.
        end: String,
    },
    #[error(
        "no agent socket at {}: run this command on the node, with --socket set to the agent's --debug-socket (an agent \
         without that flag opens no socket)",
        path.display()
    )]
    NoSocket { path: PathBuf },
    #[error("cannot open {}: permission denied; run this command as root", path.display())]
    SocketDenied { path: PathBuf },
    #[error("no agent listens on {}: it was killed; see its log", path.display())]
    DeadSocket { path: PathBuf },
    #[error("cannot connect to {}: {reason}", path.display())]
    Socket { path: PathBuf, reason: String },
    #[error("the agent returned {code:?}: {message}")]
    AgentRefused { code: Code, message: String },
    /// The agent closed the stream that `agent watch` follows.
    #[error("the agent has stopped")]
    AgentEnded,
    #[error("{} does not contain certificates: {reason}", path.display())]
    BadCa { path: PathBuf, reason: String },
    /// Error of one area of commands: `AdviceError`, `SloError`, `PodError` or `QuotaError`.
    #[error(transparent)]
    Area(Box<dyn std::error::Error + Send + Sync>),
    /// `config check`: the webhook would refuse the version. The reasons are already printed.
    #[error("ConfigMap {config_map} would be refused")]
    VersionRefused { config_map: ConfigMapName },
    /// `check` found errors or warnings. They are already printed.
    #[error("{count} of {rows} checks found a problem")]
    TroubleFound {
        /// Checks with an error or a warning; notices do not count.
        count: usize,
        rows: usize,
    },
    /// `check` could not decide some rows. The reasons are already printed.
    #[error("{count} of {rows} checks could not be decided")]
    Unanswered { count: usize, rows: usize },
    /// `config check` got no result. The exit code is 2, because 1 means refused.
    #[error("cannot decide")]
    Undecided(#[source] Box<Self>),
    #[error("cannot write the output")]
    Write(#[source] io::Error),
}

impl Error {
    /// Converts an error of a request that needs `right`.
    pub(crate) fn api(right: &'static Right, source: kube::Error) -> Self {
        let attempt = right.purpose;
        if let kube::Error::Api(status) = &source {
            // The message is empty and ends in ": " if the verb `create` is missing for a WebSocket.
            let message = status.message.trim_end_matches([':', ' ']).to_owned();
            match status.code {
                401 => return Self::Unauthenticated { attempt, message },
                403 => return Self::Forbidden { message, right },
                404 => return Self::NotInstalled { attempt, message },
                _ => {}
            }
        }
        Self::Cluster {
            attempt,
            reason: Box::new(source),
        }
    }

    /// True if writing the output failed with this kind of error.
    pub fn is_io(&self, kind: io::ErrorKind) -> bool {
        matches!(self, Self::Write(error) if error.kind() == kind)
    }

    pub const fn exit_code(&self) -> u8 {
        if matches!(self, Self::Undecided(_) | Self::NoNames) {
            2
        } else {
            1
        }
    }

    /// True if the API server returned 404.
    pub(crate) fn is_absent(&self) -> bool {
        let Self::Cluster { reason, .. } = self else {
            return false;
        };
        matches!(reason.as_ref(), kube::Error::Api(status) if status.code == 404)
    }

    /// True if a retry may succeed: the webhook restarts, or the connection broke.
    pub(crate) fn is_passing(&self) -> bool {
        matches!(
            self,
            Self::Connect { .. }
                | Self::Forward { .. }
                | Self::NoReplica { .. }
                | Self::Refused {
                    code: Code::Unavailable
                        | Code::Cancelled
                        | Code::Unknown
                        | Code::Internal
                        | Code::DeadlineExceeded
                        | Code::Aborted,
                    ..
                }
        )
    }
}

/// Message of the API server, or else the innermost cause.
fn message(error: &kube::Error) -> String {
    if let kube::Error::Api(status) = error {
        return status.message.clone();
    }
    innermost(error).to_string()
}

impl From<tonic::Status> for Error {
    fn from(status: tonic::Status) -> Self {
        let message = status.message().to_owned();
        let code = status.code();
        if code == Code::Unauthenticated {
            return Self::BadCredential { message };
        }
        if code == Code::Unimplemented {
            return Self::OtherVersion;
        }
        Self::Refused { code, message }
    }
}
