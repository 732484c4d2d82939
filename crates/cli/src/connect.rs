//! Client of the webhook's debug service: TLS to a server of the expected name, and a bearer token. Also builds clients
//! of the API server from a kubeconfig.

mod replicas;
mod slo_config;

use std::{path::Path, time::Duration};

use headroom_domain::{installation::Installation, names};
use headroom_proto::{
    WireError,
    v1alpha1::{ListNodesRequest, ListNodesResponse, debug_client::DebugClient},
};
use http::header::AUTHORIZATION;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use kube::{
    Api, Client, Config,
    client::{Body, ConfigExt as _, retry::RetryPolicy},
    config::{KubeConfigOptions, Kubeconfig, KubeconfigError},
};
use tonic::{
    Request, Status, Streaming,
    metadata::{Ascii, MetadataValue},
    service::{Interceptor, interceptor::InterceptedService},
    transport::{Certificate, Channel, ClientTlsConfig, Endpoint},
};
use tower::{BoxError, Layer as _, ServiceExt as _, retry::RetryLayer, service_fn};

pub use self::{replicas::pod_decisions, slo_config::SloConfigAnswer};
use crate::{
    args::{Address, ConnectArgs},
    error::Error,
    view::NodeView,
};

/// Connecting, and one answer, must be done within this.
const LIMIT: Duration = Duration::from_secs(5);
/// A silent connection is tried this often.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// An open way to the debug service.
#[derive(Debug)]
pub struct Connection {
    client: DebugClient<InterceptedService<Channel, Bearer>>,
}

/// The nodes again each time one of them changed.
#[derive(Debug)]
pub struct NodeWatch {
    updates: Streaming<ListNodesResponse>,
}

/// Whom to trust and who asks, at whatever address.
struct Credentials {
    ca: Vec<u8>,
    bearer: Bearer,
    server_name: String,
    installation: Installation,
}

/// Who asks: the value of the authorization header, marked sensitive.
#[derive(Debug, Clone)]
struct Bearer(MetadataValue<Ascii>);

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        request
            .metadata_mut()
            .insert(AUTHORIZATION.as_str(), self.0.clone());
        Ok(request)
    }
}

/// Opens the way that the arguments describe; what they do not give comes from the kubeconfig and the cluster.
///
/// # Errors
/// A file that cannot be read, a kubeconfig without token, a webhook that cannot be reached or trusted.
pub async fn open(args: &ConnectArgs) -> Result<Connection, Error> {
    credentials(args).await?.connect(&args.addr).await
}

/// Whom to trust and who asks, as the arguments say it.
async fn credentials(args: &ConnectArgs) -> Result<Credentials, Error> {
    let ConnectArgs {
        addr: _,
        ca_file,
        tls_server_name,
        token_file,
        kubeconfig,
        context,
        namespace: _,
        name_suffix: _,
    } = args;
    let installation = args.installation();
    let config = if ca_file.is_some() && token_file.is_some() {
        None
    } else {
        Some(cluster(kubeconfig.as_deref(), context.clone()).await?)
    };
    let ca = match (ca_file, &config) {
        (Some(path), _) => read(path)?,
        (None, Some(config)) => ca_bundle(client(config.clone()), &installation).await?,
        (None, None) => return Err(no_ca_bundle(&installation)),
    };
    let bearer = match (token_file, &config) {
        (Some(path), _) => token(path)?,
        (None, Some(config)) => credential(config).await?,
        (None, None) => return Err(Error::NoToken),
    };
    let server_name = tls_server_name
        .clone()
        .unwrap_or_else(|| installation.hints_host());
    Ok(Credentials {
        ca,
        bearer,
        server_name,
        installation,
    })
}

impl Credentials {
    async fn connect(&self, addr: &Address) -> Result<Connection, Error> {
        let Self {
            ca,
            bearer,
            server_name,
            installation,
        } = self;
        let channel = channel(addr, server_name, ca)
            .await
            .map_err(|error| Error::Connect {
                addr: addr.clone(),
                namespace: installation.namespace.clone(),
                service: installation.named(names::HINTS_SERVICE),
                reason: innermost(&error).to_string(),
            })?;
        Ok(Connection {
            client: DebugClient::with_interceptor(channel, bearer.clone()),
        })
    }
}

/// A client of the API server, by the kubeconfig alone.
///
/// # Errors
/// A kubeconfig that cannot be used.
pub async fn api(args: &ConnectArgs) -> Result<Client, Error> {
    let config = cluster(args.kubeconfig.as_deref(), args.context.clone()).await?;
    client(config).map_err(|source| Error::Cluster {
        attempt: "make a client of the API server",
        reason: Box::new(source),
    })
}

/// A client that asks a busy server again, for some seconds: by itself the library does so for minutes, and says nothing.
///
/// # Errors
/// A configuration that cannot be used.
pub(crate) fn client(mut config: Config) -> kube::Result<Client> {
    config.default_retry = false;
    let namespace = config.default_namespace.clone();
    let again = RetryLayer::new(RetryPolicy::default());
    let once = Client::try_from(config)?;
    let send = service_fn(move |request| {
        let once = once.clone();
        async move { once.send(request).await.map_err(BoxError::from) }
    });
    Ok(Client::new(again.layer(send), namespace))
}

impl Connection {
    /// All nodes, or one, by name.
    ///
    /// # Errors
    /// The webhook refuses, is gone, or answers what cannot be read; [`Error::UnknownNode`] if it has not that one.
    pub async fn list(&mut self, node: Option<&str>) -> Result<Vec<NodeView>, Error> {
        let (mut found, mut after) = (Vec::new(), String::new());
        loop {
            let mut request = Request::new(which(node, after.clone()));
            request.set_timeout(LIMIT);
            let page = self.client.list_nodes(request).await?.into_inner();
            let before = std::mem::replace(&mut after, append_page(page, &mut found)?);
            if after.is_empty() {
                break;
            }
            goes_on(&before, &after)?;
        }
        match node {
            Some(name) if found.is_empty() => Err(Error::UnknownNode {
                name: name.to_owned(),
            }),
            Some(_) | None => Ok(found),
        }
    }

    /// The node of that name.
    ///
    /// # Errors
    /// As [`list`](Self::list).
    pub async fn one(&mut self, name: String) -> Result<NodeView, Error> {
        let nodes = self.list(Some(&name)).await?;
        let found = nodes.into_iter().find(|node| node.name == name);
        found.ok_or(Error::UnknownNode { name })
    }

    /// All nodes, or one, and again each time one of them changed.
    ///
    /// # Errors
    /// The webhook refuses or is gone.
    pub async fn watch(&mut self, node: Option<&str>) -> Result<NodeWatch, Error> {
        let updates = self
            .client
            .watch_nodes(which(node, String::new()))
            .await?
            .into_inner();
        Ok(NodeWatch { updates })
    }
}

impl NodeWatch {
    /// The next state; `None` when the webhook ends the stream.
    ///
    /// # Errors
    /// The stream breaks, or its content cannot be read.
    pub async fn next(&mut self) -> Result<Option<Vec<NodeView>>, Error> {
        let (mut found, mut after) = (Vec::new(), String::new());
        while let Some(page) = self.updates.message().await? {
            let before = std::mem::replace(&mut after, append_page(page, &mut found)?);
            if after.is_empty() {
                return Ok(Some(found));
            }
            goes_on(&before, &after)?;
        }
        Ok(None)
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

async fn channel(addr: &Address, name: &str, ca: &[u8]) -> Result<Channel, tonic::transport::Error> {
    let tls = ClientTlsConfig::new()
        .ca_certificate(Certificate::from_pem(ca))
        .domain_name(name);
    Endpoint::from_shared(format!("https://{addr}"))?
        .tls_config(tls)?
        .connect_timeout(LIMIT)
        .http2_keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(LIMIT)
        .connect()
        .await
}

/// The innermost cause of an error, or the error.
pub(crate) fn innermost<'e>(
    error: &'e (dyn std::error::Error + 'static),
) -> &'e (dyn std::error::Error + 'static) {
    std::iter::successors(Some(error), |error| error.source())
        .last()
        .unwrap_or(error)
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path).map_err(|source| Error::Read {
        path: path.to_owned(),
        source,
    })
}

fn token(path: &Path) -> Result<Bearer, Error> {
    let bad = || Error::BadToken {
        path: path.to_owned(),
    };
    let content = String::from_utf8(read(path)?).map_err(|_binary| bad())?;
    let token = content.trim();
    let mut value = MetadataValue::try_from(format!("Bearer {token}")).map_err(|_control_character| bad())?;
    if token.is_empty() {
        return Err(bad());
    }
    value.set_sensitive(true);
    Ok(Bearer(value))
}

/// The cluster and user of the kubeconfig.
async fn cluster(path: Option<&Path>, context: Option<String>) -> Result<Config, Error> {
    let options = KubeConfigOptions {
        context,
        ..KubeConfigOptions::default()
    };
    let config = match path {
        None => Config::from_kubeconfig(&options).await,
        Some(path) => match Kubeconfig::read_from(path) {
            Ok(kubeconfig) => Config::from_custom_kubeconfig(kubeconfig, &options).await,
            Err(error) => Err(error),
        },
    };
    config.map_err(|error: KubeconfigError| Error::Kubeconfig(Box::new(error)))
}

/// The CA that the API server trusts for the webhook: one CA signs for all of the webhook's ports.
async fn ca_bundle(client: kube::Result<Client>, installation: &Installation) -> Result<Vec<u8>, Error> {
    let attempt = |source| Error::Cluster {
        attempt: "read the webhook's CA from the cluster",
        reason: Box::new(source),
    };
    let configurations: Api<MutatingWebhookConfiguration> = Api::all(client.map_err(attempt)?);
    let MutatingWebhookConfiguration {
        metadata: _,
        webhooks,
    } = configurations
        .get(&installation.named(names::WEBHOOK_CONFIGURATION))
        .await
        .map_err(attempt)?;
    webhooks
        .into_iter()
        .flatten()
        .find_map(|webhook| webhook.client_config.ca_bundle)
        .map(|bundle| bundle.0)
        .ok_or_else(|| no_ca_bundle(installation))
}

fn no_ca_bundle(installation: &Installation) -> Error {
    Error::NoCaBundle {
        configuration: installation.named(names::WEBHOOK_CONFIGURATION),
    }
}

/// The bearer token of the kubeconfig's user, credential plugins included.
async fn credential(config: &Config) -> Result<Bearer, Error> {
    let attempt = |source| Error::Cluster {
        attempt: "get a token for the kubeconfig's user",
        reason: Box::new(source),
    };
    let layer = config.auth_layer().map_err(attempt)?.ok_or(Error::NoToken)?;
    // The library authorizes requests and hands out no tokens; a request that goes nowhere shows what it adds.
    let echo = service_fn(|request: http::Request<Body>| async move {
        let (head, _) = request.into_parts();
        let mut response = http::Response::new(());
        *response.headers_mut() = head.headers;
        Ok::<_, BoxError>(response)
    });
    let authorized = layer
        .layer(echo)
        .oneshot(http::Request::new(Body::empty()))
        .await
        .map_err(|error| attempt(kube::Error::Service(error)))?;
    let mut value = authorized
        .headers()
        .get(AUTHORIZATION)
        .and_then(|header| header.to_str().ok())
        .filter(|text| text.starts_with("Bearer "))
        .and_then(|text| MetadataValue::try_from(text).ok())
        .ok_or(Error::NoToken)?;
    value.set_sensitive(true);
    Ok(Bearer(value))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };

    use super::*;

    fn file(content: &str) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(content.as_bytes()).unwrap();
        file
    }

    async fn of_user(user: &str) -> Result<Bearer, Error> {
        let kubeconfig = file(&format!(
            "{{apiVersion: v1, kind: Config, current-context: c, contexts: [{{name: c, context: {{cluster: k, user: u}}}}], \
             clusters: [{{name: k, cluster: {{server: 'https://127.0.0.1:1'}}}}], users: [{{name: u, user: {user}}}]}}"
        ));
        credential(&cluster(Some(kubeconfig.path()), None).await?).await
    }

    #[tokio::test]
    async fn the_token_of_the_kubeconfigs_user_is_used() {
        assert_eq!(of_user("{token: abc}").await.unwrap().0, "Bearer abc");
    }

    #[tokio::test]
    async fn a_credential_plugin_is_asked() {
        let credential = r#"{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"from-plugin"}}"#;
        let user = format!(
            "{{exec: {{apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: echo, args: ['{credential}']}}}}"
        );
        assert_eq!(of_user(&user).await.unwrap().0, "Bearer from-plugin");
    }

    #[tokio::test]
    async fn a_user_without_a_bearer_token_is_told_so() {
        for user in ["{}", "{username: a, password: b}"] {
            assert!(matches!(of_user(user).await, Err(Error::NoToken)), "{user}");
        }
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
        ca_bundle(Ok(Client::new(api, "default")), &Installation::default()).await
    }

    #[tokio::test]
    async fn the_ca_is_the_one_that_the_cluster_trusts() {
        assert_eq!(from_cluster(r#"{"caBundle":"cGVt"}"#).await.unwrap(), b"pem");
        assert!(matches!(from_cluster("{}").await, Err(Error::NoCaBundle { .. })));
    }

    #[tokio::test]
    async fn a_busy_server_is_asked_four_times() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let busy = tokio::spawn(async move {
            let answer = b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            for asked in 1.. {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = [0; 4096];
                assert!(stream.read(&mut request).await.unwrap() > 0);
                stream.write_all(answer).await.unwrap();
                if asked == 4 {
                    return;
                }
            }
        });
        let client = client(Config::new(url.parse().unwrap())).unwrap();
        let request = http::Request::get("/").body(Body::empty()).unwrap();
        let answer = client.send(request).await.unwrap();
        assert_eq!(answer.status(), http::StatusCode::SERVICE_UNAVAILABLE);
        busy.await.unwrap();
    }

    #[test]
    fn pages_that_do_not_go_on_are_an_error() {
        assert!(goes_on("", "a").is_ok() && goes_on("a", "b").is_ok());
        for before in ["b", "c"] {
            let error = goes_on(before, "b").unwrap_err();
            assert!(matches!(error, Error::Answer { .. }), "{error}");
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
}
