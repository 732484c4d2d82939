//! [`ApiServer`]: adds the server's URL and the kubeconfig context to errors of a failed connection.

use std::fmt;

use http::StatusCode;
use kube::{Client, client::AuthError};
use tower::{BoxError, service_fn};

use crate::cause::innermost;

/// API server of the kubeconfig's context.
#[derive(Debug, Clone)]
pub(super) struct ApiServer {
    pub(super) url: String,
    pub(super) context: String,
    /// Command that renews the user's OIDC token; `None` for other credentials.
    pub(super) renewal: Option<String>,
}

/// The server is unreachable, or its certificate is not the expected one.
#[derive(Debug, thiserror::Error)]
#[error("{server} cannot be reached: {reason}; see --context and --kubeconfig")]
struct UnreachableError {
    server: ApiServer,
    reason: String,
}

/// The API server rejects an OIDC token, or the kubeconfig has none.
#[derive(Debug, thiserror::Error)]
#[error(
    "{server} needs a valid OIDC token, and the kubeconfig's {reason}; only kubectl renews it: run `{renewal}`, or log in again"
)]
struct OidcTokenError {
    server: ApiServer,
    reason: &'static str,
    renewal: String,
}

/// A credential plugin or file of the kubeconfig failed.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot get the credential of context {context}: {reason}; log in again, or choose another --context"
)]
struct CredentialError {
    context: String,
    reason: String,
}

impl fmt::Display for ApiServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { url, context, .. } = self;
        write!(f, "the API server at {url} (context {context})")
    }
}

impl ApiServer {
    /// Wraps a client so that its errors name the server.
    pub(super) fn named_in_errors(self, client: Client) -> Client {
        let namespace = client.default_namespace().to_owned();
        let send = service_fn(move |request| {
            let (client, server) = (client.clone(), self.clone());
            async move {
                let response = client.send(request).await;
                let response = response.map_err(|error| server.clone().error(&error))?;
                match &server.renewal {
                    Some(renewal) if response.status() == StatusCode::UNAUTHORIZED => {
                        let renewal = renewal.clone();
                        Err(server.oidc_error("is rejected, for example because it has expired", renewal))
                    }
                    Some(_) | None => Ok(response),
                }
            }
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
        if of_credential.is_some()
            && let Some(renewal) = self.renewal.clone()
        {
            return self.oidc_error("is missing", renewal);
        }
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

    fn oidc_error(self, reason: &'static str, renewal: String) -> BoxError {
        OidcTokenError {
            server: self,
            reason,
            renewal,
        }
        .into()
    }
}
