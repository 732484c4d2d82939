//! `Error`: the reasons for which a command has no answer.

use std::{io, path::PathBuf};

use headroom_domain::installation::{ConfigMapName, Namespace};
use headroom_proto::WireError;
use tonic::Code;

use crate::{cause::innermost, rights::Right};

/// Why a command has no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason the system gives.
        #[source]
        source: io::Error,
    },
    /// The kubeconfig cannot be used.
    #[error("cannot use the kubeconfig: {reason}; see --kubeconfig and --context")]
    Kubeconfig {
        /// What is wrong with it.
        reason: String,
    },
    /// The kubeconfig has no such context.
    #[error("cannot use the kubeconfig: it has no context {name:?}; {advice}")]
    UnknownContext {
        /// The name as given, or as the file has it.
        name: String,
        /// The name that was probably meant, or where to find names.
        advice: String,
    },
    /// The API server does not answer, or refuses what is no question of rights.
    #[error("cannot {attempt}: {}", message(reason))]
    Cluster {
        /// What was attempted.
        attempt: &'static str,
        /// The reason.
        reason: Box<kube::Error>,
    },
    /// The API server does not know the user.
    #[error(
        "cannot {attempt}: the API server does not accept the kubeconfig's credential: {message}; it may have expired: log in \
         again, or see --context"
    )]
    Unauthenticated {
        /// What was attempted.
        attempt: &'static str,
        /// The API server's own words.
        message: String,
    },
    /// The cluster does not have what an installation has.
    #[error(
        "cannot {attempt}: {message}; is Headroom installed in this cluster? See --context, --namespace and --name-suffix"
    )]
    NotInstalled {
        /// What was attempted.
        attempt: &'static str,
        /// The API server's own words.
        message: String,
    },
    /// The API server does not let the user do something.
    #[error("cannot {}: {message}; the missing rule is {right}", right.purpose)]
    Forbidden {
        /// The API server's own words.
        message: String,
        /// What is missing.
        right: &'static Right,
    },
    /// The API server made no token that fits a header.
    #[error("the API server made no token; give one with --token-file")]
    NoToken,
    /// The API server forwards another port than it was asked for.
    #[error("the API server does not forward the port that it was asked for")]
    NoPort,
    /// No pod of the webhook is ready.
    #[error(
        "no pod behind Service {service} in namespace {namespace} is ready; see `kubectl -n {namespace} get pods`, or give --namespace"
    )]
    NoReplica {
        /// The namespace of the installation that is asked.
        namespace: Namespace,
        /// Its hint service.
        service: String,
    },
    /// The way to a pod does not work, or the pod is not who it should be.
    #[error("cannot connect to pod {pod} in namespace {namespace} through the API server: {reason}")]
    Forward {
        /// The pod.
        pod: String,
        /// Its namespace.
        namespace: Namespace,
        /// The innermost reason; what the transport wraps around it says nothing more.
        reason: String,
    },
    /// The token file holds something else.
    #[error("{} does not hold a bearer token", path.display())]
    BadToken {
        /// The file.
        path: PathBuf,
    },
    /// The cluster's webhook configuration has no CA.
    #[error("MutatingWebhookConfiguration {configuration} has no caBundle; give the CA with --ca-file")]
    NoCaBundle {
        /// Its name.
        configuration: String,
    },
    /// The cluster has no webhook configuration of that installation.
    #[error(
        "the API server does not call the webhook: there is no MutatingWebhookConfiguration {configuration}; apply its manifests \
         again, or give the CA of a webhook outside them with --ca-file"
    )]
    NotRegistered {
        /// Its name.
        configuration: String,
    },
    /// The webhook cannot be reached, or is not who it should be.
    #[error(
        "cannot connect to {addr}: {reason}; without --addr and HEADROOM_ADDR the API server forwards the port"
    )]
    Connect {
        /// Where.
        addr: String,
        /// The innermost reason; what the transport wraps around it says nothing more.
        reason: String,
    },
    /// The webhook does not accept the token.
    #[error(
        "the webhook does not accept the token: {message}; it may have expired: see --token-file, or leave it out for one that the \
         API server makes"
    )]
    BadCredential {
        /// What the webhook said.
        message: String,
    },
    /// The webhook does not know the question.
    #[error(
        "the webhook does not know what it is asked: it is of another version; use the kubectl-headroom of its version"
    )]
    OtherVersion,
    /// The webhook answered with an error.
    #[error("the webhook answered {code:?}: {message}")]
    Refused {
        /// The gRPC code.
        code: Code,
        /// What the webhook said.
        message: String,
    },
    /// The answer cannot be read: the webhook is of another version.
    #[error("cannot read the webhook's answer about node {node:?}; use the kubectl-headroom of its version")]
    Answer {
        /// The node.
        node: String,
        /// The field.
        #[source]
        source: WireError,
    },
    /// The answer cannot be read: the agent is of another version.
    #[error("cannot read the agent's answer; use the kubectl-headroom of its version")]
    AgentAnswer(#[source] WireError),
    /// The answer cannot be read: the webhook is of another version.
    #[error("cannot read the webhook's answer about quotas; use the kubectl-headroom of its version")]
    QuotaAnswer(#[source] WireError),
    /// The answer cannot be read.
    #[error("cannot read the webhook's answer about its version")]
    VersionAnswer(#[source] WireError),
    /// The webhook knows no such node.
    #[error("node {name:?} is not known to the webhook; {advice}")]
    UnknownNode {
        /// The name as given.
        name: String,
        /// The name that was probably meant, or where to find names.
        advice: String,
    },
    /// The answer is not of nodes.
    #[error("-o name is for commands that show nodes: top, hints and explain")]
    NoNames,
    /// The cluster has no such node.
    #[error("there is no node {name:?}; {advice}")]
    NoSuchNode {
        /// The name as given.
        name: String,
        /// The name that was probably meant, or where to find names.
        advice: String,
    },
    /// The time is over and nodes are not raw yet.
    #[error("{end}")]
    NotRestored {
        /// Which they are, why, and what to do.
        end: String,
    },
    /// No agent has a socket there.
    #[error(
        "no agent's socket at {}: run this on the node, with the agent's --debug-socket as --socket (agents open none \
         unless told to)",
        path.display()
    )]
    NoSocket {
        /// The path.
        path: PathBuf,
    },
    /// The socket is somebody else's.
    #[error("{} may be opened by its owner alone: run this as root", path.display())]
    SocketDenied {
        /// The path.
        path: PathBuf,
    },
    /// The agent that made the socket is gone.
    #[error("nobody listens at {} any more: the agent was killed, see its log", path.display())]
    DeadSocket {
        /// The path.
        path: PathBuf,
    },
    /// The socket cannot be used.
    #[error("cannot connect to {}: {reason}", path.display())]
    Socket {
        /// The path.
        path: PathBuf,
        /// The innermost reason.
        reason: String,
    },
    /// The agent answered with an error.
    #[error("the agent answered {code:?}: {message}")]
    AgentRefused {
        /// The gRPC code.
        code: Code,
        /// What it said.
        message: String,
    },
    /// The agent has ended while it was watched.
    #[error("the agent has ended")]
    AgentEnded,
    /// A file holds no certificates that could be trusted.
    #[error("{} does not hold certificates: {reason}", path.display())]
    BadCa {
        /// The file.
        path: PathBuf,
        /// What the parser found.
        reason: String,
    },
    /// Error of one area of commands: `AdviceError`, `SloError`, `PodError` or `QuotaError`.
    #[error(transparent)]
    Area(Box<dyn std::error::Error + Send + Sync>),
    /// A version of Koordinator's ConfigMap would be refused. Why has been said.
    #[error("ConfigMap {config_map} would be refused")]
    VersionRefused {
        /// The ConfigMap.
        config_map: ConfigMapName,
    },
    /// Something is wrong for everybody. What it is has been said.
    #[error("{count} of {rows} checks found something wrong")]
    TroubleFound {
        /// Rows with a finding that is more than a notice.
        count: usize,
        /// All rows.
        rows: usize,
    },
    /// Some checks have no answer. Why has been said.
    #[error("{count} of {rows} checks have no answer")]
    Unanswered {
        /// Those.
        count: usize,
        /// All rows.
        rows: usize,
    },
    /// A question to be answered with yes or no has no answer.
    #[error("cannot decide")]
    Undecided(#[source] Box<Self>),
    /// The answer cannot be written.
    #[error("cannot write the answer")]
    Write(#[source] io::Error),
}

impl Error {
    /// Why the API server did not do what that right is for.
    pub(crate) fn api(right: &'static Right, source: kube::Error) -> Self {
        let attempt = right.purpose;
        if let kube::Error::Api(status) = &source {
            // The API server gives no reason when `create` is missing for a WebSocket.
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

    /// True if the answer could not be written for this reason.
    pub fn is_io(&self, kind: io::ErrorKind) -> bool {
        matches!(self, Self::Write(error) if error.kind() == kind)
    }

    /// The exit code of the process.
    pub const fn exit_code(&self) -> u8 {
        if matches!(self, Self::Undecided(_) | Self::NoNames) {
            2
        } else {
            1
        }
    }

    /// True if the API server knows no such object.
    pub(crate) fn is_absent(&self) -> bool {
        let Self::Cluster { reason, .. } = self else {
            return false;
        };
        matches!(reason.as_ref(), kube::Error::Api(status) if status.code == 404)
    }

    /// True if asking again later may help: the webhook restarts, or the way to it was cut.
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

/// What the API server says, or else the innermost cause.
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
