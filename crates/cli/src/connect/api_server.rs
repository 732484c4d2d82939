//! [`ApiServer`]: names the server and the context in the errors of a connection that comes to nothing.

use std::fmt;

use kube::{Client, client::AuthError};
use tower::{BoxError, service_fn};

use crate::cause::innermost;

/// The API server that the kubeconfig leads to.
#[derive(Debug, Clone)]
pub(super) struct ApiServer {
    /// Its URL.
    pub(super) url: String,
    /// The context that names it.
    pub(super) context: String,
}

/// Nobody answers there, or not who should.
#[derive(Debug, thiserror::Error)]
#[error("{server} cannot be reached: {reason}; see --context and --kubeconfig")]
struct UnreachableError {
    server: ApiServer,
    reason: String,
}

/// The user's credential cannot be had.
#[derive(Debug, thiserror::Error)]
#[error("the credential of context {context} cannot be used: {reason}; log in again, or see --context")]
struct CredentialError {
    context: String,
    reason: String,
}

impl fmt::Display for ApiServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { url, context } = self;
        write!(f, "the API server at {url} (context {context})")
    }
}

impl ApiServer {
    /// A client that says in its errors where it was to lead.
    pub(super) fn named_in_errors(self, client: Client) -> Client {
        let namespace = client.default_namespace().to_owned();
        let send = service_fn(move |request| {
            let (client, server) = (client.clone(), self.clone());
            async move { client.send(request).await.map_err(|error| server.error(&error)) }
        });
        Client::new(send, namespace)
    }

    pub(super) fn error(self, error: &kube::Error) -> BoxError {
        let causes = std::iter::successors(Some(error as &(dyn std::error::Error + 'static)), |cause| {
            cause.source()
        });
        let of_credential = causes
            .filter_map(|cause| cause.downcast_ref::<AuthError>())
            .last();
        if let Some(reason) = of_credential {
            return CredentialError {
                context: self.context,
                reason: reason.to_string(),
            }
            .into();
        }
        UnreachableError {
            server: self,
            reason: innermost(error).to_string(),
        }
        .into()
    }
}
