//! [`Credentials`]: CA and bearer token for the webhook. The CA is from a file or the cluster's webhook
//! configuration. The token is
//! from a file, or the API server issues one with the webhook as its only audience.

use std::{
    path::Path,
    time::{Duration, SystemTime},
};

use headroom_domain::{installation::Installation, names};
use http::header::AUTHORIZATION;
use k8s_openapi::api::{
    admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::ServiceAccount,
};
use kube::{Api, Client, api::PostParams};
use tonic::{
    Request, Status,
    metadata::{Ascii, MetadataValue},
    service::Interceptor,
};

use super::kubeconfig;
use crate::{args::ConnectArgs, error::Error, rights};

/// Lifetime of a requested token, in seconds: the minimum that API servers accept.
const TOKEN_SECONDS: i64 = 600;
/// Age at which a token is renewed. Half of its lifetime is then left, in case the API server is unreachable.
const RENEW_AFTER: Duration = Duration::from_secs(300);

/// CA, server name and token; independent of the replica's address.
pub(super) struct Credentials {
    pub(super) ca: Vec<u8>,
    pub(super) server_name: String,
    pub(super) installation: Installation,
    token: Token,
    /// `None` if files and --addr make the API server unnecessary.
    api: Option<Client>,
}

/// Bearer token and its origin.
#[derive(Debug, Clone)]
enum Token {
    File(Bearer),
    Requested { bearer: Bearer, at: SystemTime },
}

/// Value of the authorization header, marked as sensitive so that it is never logged.
#[derive(Debug, Clone)]
pub(super) struct Bearer(MetadataValue<Ascii>);

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        request
            .metadata_mut()
            .insert(AUTHORIZATION.as_str(), self.0.clone());
        Ok(request)
    }
}

impl Credentials {
    /// Reads the files of the arguments, and requests the rest from the API server.
    ///
    /// # Errors
    /// A file is unreadable, or the API server refuses.
    pub(super) async fn new(args: &ConnectArgs) -> Result<Self, Error> {
        let installation = args.installation();
        let ca = args.ca_file.as_deref().map(read).transpose()?;
        let token = args.token_file.as_deref().map(token).transpose()?;
        let api = if args.addr.is_none() || ca.is_none() || token.is_none() {
            Some(kubeconfig::api(args).await?)
        } else {
            None
        };
        let ca = match (ca, &api) {
            (Some(ca), _) => ca,
            (None, Some(api)) => ca_bundle(api.clone(), &installation).await?,
            (None, None) => return Err(no_ca_bundle(&installation)),
        };
        let token = match (token, &api) {
            (Some(bearer), _) => Token::File(bearer),
            (None, Some(api)) => requested(api, &installation).await?,
            (None, None) => return Err(Error::NoToken),
        };
        let server_name = args.tls_server_name.clone();
        Ok(Self {
            ca,
            server_name: server_name.unwrap_or_else(|| installation.hints_host()),
            installation,
            token,
            api,
        })
    }

    /// Client of the API server.
    ///
    /// # Errors
    /// The client was not created, because nothing needed it.
    pub(super) fn api(&self) -> Result<Client, Error> {
        self.api.clone().ok_or(Error::NoToken)
    }

    pub(super) fn bearer(&self) -> Bearer {
        match &self.token {
            Token::File(bearer) | Token::Requested { bearer, .. } => bearer.clone(),
        }
    }

    /// Time until [`Self::renew`] requests another token; `None` for a token from a file.
    pub(super) fn renew_in(&self) -> Option<Duration> {
        match &self.token {
            Token::File(_) => None,
            Token::Requested { at, .. } => {
                let age = at.elapsed().unwrap_or(RENEW_AFTER);
                Some(RENEW_AFTER.saturating_sub(age))
            }
        }
    }

    /// Requests another token if it is due.
    ///
    /// # Errors
    /// The API server refuses or is unreachable.
    pub(super) async fn renew(&mut self) -> Result<(), Error> {
        if let (Some(Duration::ZERO), Some(api)) = (self.renew_in(), &self.api) {
            self.token = requested(api, &self.installation).await?;
        }
        Ok(())
    }
}

async fn requested(api: &Client, installation: &Installation) -> Result<Token, Error> {
    let at = SystemTime::now();
    let accounts: Api<ServiceAccount> = Api::namespaced(api.clone(), installation.namespace.as_str());
    let request = TokenRequest {
        spec: Some(TokenRequestSpec {
            audiences: Some(vec![names::TOKEN_AUDIENCE.to_owned()]),
            expiration_seconds: Some(TOKEN_SECONDS),
            bound_object_ref: None,
        }),
        ..TokenRequest::default()
    };
    let account = installation.named(names::VIEWER);
    let answer = accounts
        .create_token_request(&account, &PostParams::default(), &request)
        .await
        .map_err(|source| Error::api(&rights::REQUEST_TOKEN, source))?;
    let token = answer.status.and_then(|status| status.token);
    let bearer = token.as_deref().and_then(bearer).ok_or(Error::NoToken)?;
    Ok(Token::Requested { bearer, at })
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path).map_err(|source| Error::Read {
        path: path.to_owned(),
        source,
    })
}

fn token(path: &Path) -> Result<Bearer, Error> {
    let text = String::from_utf8(read(path)?).ok();
    let token = text.as_deref().and_then(|text| bearer(text.trim()));
    token.ok_or_else(|| Error::BadToken {
        path: path.to_owned(),
    })
}

/// `None` if the token is empty or does not fit into a header.
fn bearer(token: &str) -> Option<Bearer> {
    let mut value = MetadataValue::try_from(format!("Bearer {token}")).ok()?;
    value.set_sensitive(true);
    (!token.is_empty()).then_some(Bearer(value))
}

/// CA that the API server trusts for the webhook. One CA signs the certificates of all the webhook's ports.
async fn ca_bundle(client: Client, installation: &Installation) -> Result<Vec<u8>, Error> {
    let name = installation.named(names::WEBHOOK_CONFIGURATION);
    let mutating: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let stored = mutating.get_opt(&name).await;
    let stored = stored.map_err(|source| Error::api(&rights::READ_CA, source))?;
    if let Some(MutatingWebhookConfiguration { webhooks, .. }) = stored {
        let mut bundles = webhooks.into_iter().flatten();
        let bundle = bundles.find_map(|webhook| webhook.client_config.ca_bundle);
        return bundle
            .map(|bundle| bundle.0)
            .ok_or_else(|| no_ca_bundle(installation));
    }
    // If the mutating configuration is deleted, the validating one still has the CA, so that `check` can report the
    // problem.
    let validating: Api<ValidatingWebhookConfiguration> = Api::all(client);
    let stored = validating.get_opt(&name).await;
    let stored = stored.map_err(|source| Error::api(&rights::READ_CHECKS_CA, source))?;
    let mut bundles = stored.and_then(|stored| stored.webhooks).into_iter().flatten();
    let bundle = bundles.find_map(|webhook| webhook.client_config.ca_bundle);
    bundle
        .map(|bundle| bundle.0)
        .ok_or(Error::NotRegistered { configuration: name })
}

fn no_ca_bundle(installation: &Installation) -> Error {
    Error::NoCaBundle {
        configuration: installation.named(names::WEBHOOK_CONFIGURATION),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use kube::client::Body;
    use tower::{BoxError, service_fn};

    use super::*;

    fn file(content: &str) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(content.as_bytes()).unwrap();
        file
    }

    async fn from_cluster(client_config: &str) -> Result<Vec<u8>, Error> {
        let object = format!(
            r#"{{"apiVersion":"admissionregistration.k8s.io/v1","kind":"MutatingWebhookConfiguration","metadata":{{"name":"headroom-webhook"}},
            "webhooks":[{{"name":"a.b.c","admissionReviewVersions":["v1"],"sideEffects":"None","clientConfig":{client_config}}}]}}"#
        );
        let api = service_fn(move |request: http::Request<Body>| {
            assert!(
                request
                    .uri()
                    .path()
                    .ends_with("/mutatingwebhookconfigurations/headroom-webhook")
            );
            let answer = http::Response::new(Body::from(object.clone().into_bytes()));
            async { Ok::<_, BoxError>(answer) }
        });
        ca_bundle(Client::new(api, "default"), &Installation::default()).await
    }

    #[tokio::test]
    async fn the_ca_is_read_from_the_webhook_configuration() {
        assert_eq!(from_cluster(r#"{"caBundle":"cGVt"}"#).await.unwrap(), b"pem");
        assert!(matches!(from_cluster("{}").await, Err(Error::NoCaBundle { .. })));
    }

    #[tokio::test]
    async fn without_the_mutating_configuration_the_ca_is_read_from_the_validating_one() {
        for (is_left, expected) in [(true, Some(&b"pem"[..])), (false, None)] {
            let api = service_fn(move |request: http::Request<Body>| {
                let is_validating = request.uri().path().contains("/validatingwebhookconfigurations/");
                let object = r#"{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingWebhookConfiguration",
                    "metadata":{"name":"headroom-webhook"},"webhooks":[{"name":"a.b.c","admissionReviewVersions":["v1"],
                    "sideEffects":"None","clientConfig":{"caBundle":"cGVt"}}]}"#;
                let gone = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","message":"","code":404}"#;
                let (code, body) = if is_left && is_validating {
                    (200, object)
                } else {
                    (404, gone)
                };
                let answer = http::Response::builder().status(code);
                let answer = answer.body(Body::from(body.as_bytes().to_vec())).unwrap();
                async { Ok::<_, BoxError>(answer) }
            });
            let found = ca_bundle(Client::new(api, "default"), &Installation::default()).await;
            assert_eq!(found.as_deref().ok(), expected);
            if let Err(error) = found {
                assert_eq!(
                    error.to_string(),
                    "the API server does not call the webhook: MutatingWebhookConfiguration headroom-webhook does not exist; apply the \
                     manifests again, or pass --ca-file for a webhook that is configured otherwise"
                );
            }
        }
    }

    #[test]
    fn a_token_file_is_trimmed_and_checked() {
        assert_eq!(token(file("abc\n").path()).unwrap().0, "Bearer abc");
        for bad in ["", "\n", "two\nlines"] {
            assert!(
                matches!(token(file(bad).path()), Err(Error::BadToken { .. })),
                "{bad:?}"
            );
        }
    }

    #[test]
    fn only_a_requested_token_is_renewed_at_half_its_lifetime() {
        let bearer = bearer("abc").unwrap();
        let mut credentials = Credentials {
            ca: Vec::new(),
            server_name: String::new(),
            installation: Installation::default(),
            token: Token::File(bearer.clone()),
            api: None,
        };
        assert_eq!(credentials.renew_in(), None);
        let at = SystemTime::now();
        credentials.token = Token::Requested {
            bearer: bearer.clone(),
            at,
        };
        assert!(credentials.renew_in().unwrap() > RENEW_AFTER / 2);
        let at = at - RENEW_AFTER;
        credentials.token = Token::Requested { bearer, at };
        assert_eq!(credentials.renew_in(), Some(Duration::ZERO));
    }
}
