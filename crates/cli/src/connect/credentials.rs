//! [`Credentials`]: whom to trust and who asks. The CA comes from a file or the cluster's webhook configuration, the token
//! from a file or from the API server, which makes one that the webhook alone takes.

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

/// How long a token lives, in seconds: the least that API servers take.
const TOKEN_SECONDS: i64 = 600;
/// After this time a new one is asked for. Half its life is left then, for API servers that are away.
const RENEW_AFTER: Duration = Duration::from_secs(300);

/// Whom to trust and who asks, at whatever address.
pub(super) struct Credentials {
    /// PEM.
    pub(super) ca: Vec<u8>,
    pub(super) server_name: String,
    pub(super) installation: Installation,
    token: Token,
    /// `None` where files and an address are all that is needed.
    api: Option<Client>,
}

/// Who asks, and since when.
#[derive(Debug, Clone)]
enum Token {
    File(Bearer),
    Requested { bearer: Bearer, at: SystemTime },
}

/// Who asks: the value of the authorization header, marked sensitive.
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
    /// As the arguments say it.
    ///
    /// # Errors
    /// A file that cannot be read, or an API server that refuses what the arguments leave to it.
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

    /// The client of the API server.
    ///
    /// # Errors
    /// There is none, as nothing needed it.
    pub(super) fn api(&self) -> Result<Client, Error> {
        self.api.clone().ok_or(Error::NoToken)
    }

    /// Who asks.
    pub(super) fn bearer(&self) -> Bearer {
        match &self.token {
            Token::File(bearer) | Token::Requested { bearer, .. } => bearer.clone(),
        }
    }

    /// How long until [`Self::renew`] asks for another token; `None` if it never does.
    pub(super) fn renew_in(&self) -> Option<Duration> {
        match &self.token {
            Token::File(_) => None,
            Token::Requested { at, .. } => {
                let age = at.elapsed().unwrap_or(RENEW_AFTER);
                Some(RENEW_AFTER.saturating_sub(age))
            }
        }
    }

    /// Asks for another token when that is due.
    ///
    /// # Errors
    /// The API server refuses it or is away.
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

/// `None` if it is empty or does not fit a header.
fn bearer(token: &str) -> Option<Bearer> {
    let mut value = MetadataValue::try_from(format!("Bearer {token}")).ok()?;
    value.set_sensitive(true);
    (!token.is_empty()).then_some(Bearer(value))
}

/// The CA that the API server trusts for the webhook: one CA signs for all of the webhook's ports.
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
    // Somebody has deleted it: what is wrong can still be asked where the other one is left.
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
    async fn the_ca_is_the_one_that_the_cluster_trusts() {
        assert_eq!(from_cluster(r#"{"caBundle":"cGVt"}"#).await.unwrap(), b"pem");
        assert!(matches!(from_cluster("{}").await, Err(Error::NoCaBundle { .. })));
    }

    #[tokio::test]
    async fn the_ca_is_that_of_the_other_configuration_where_one_is_gone() {
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
                    "the API server does not call the webhook: there is no MutatingWebhookConfiguration headroom-webhook; apply its \
                     manifests again, or give the CA of a webhook outside them with --ca-file"
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
    fn a_requested_token_is_renewed_at_half_its_life_and_one_of_a_file_never() {
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
