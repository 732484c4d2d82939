//! Clients of the API server from a kubeconfig, with any kind of user credential.

use kube::{
    Client, Config,
    client::retry::RetryPolicy,
    config::{Cluster, KubeConfigOptions, Kubeconfig, KubeconfigError},
};
use tower::{BoxError, Layer as _, retry::RetryLayer, service_fn};

use super::{api_server::ApiServer, proxy::Proxy, transport};
use crate::{args::ConnectArgs, error::Error, mistyped::context_advice};

/// Name in messages of the cluster in which the command runs as a pod.
const IN_POD: &str = "service account of this pod";

/// Creates a client of the API server.
///
/// # Errors
/// The kubeconfig is unusable.
pub async fn api(args: &ConnectArgs) -> Result<Client, Error> {
    let (config, context, proxy) = cluster(args).await?;
    let server = ApiServer {
        url: config.cluster_url.to_string(),
        context,
        renewal: has_oidc_token(&config).then(|| format!("{} version", args.kubectl())),
    };
    match client(config, proxy) {
        Ok(client) => Ok(server.named_in_errors(client)),
        Err(source) => Err(Error::Cluster {
            attempt: "create a client of the API server",
            reason: Box::new(kube::Error::Service(server.error(&source))),
        }),
    }
}

/// Creates a client that retries a busy server for a few seconds. The library's default retries for minutes without a
/// message.
///
/// # Errors
/// The configuration is unusable.
pub(crate) fn client(config: Config, proxy: Option<Proxy>) -> kube::Result<Client> {
    let namespace = config.default_namespace.clone();
    let again = RetryLayer::new(RetryPolicy::default());
    let once = transport::client(config, proxy)?;
    let send = service_fn(move |request| {
        let once = once.clone();
        async move { once.send(request).await.map_err(BoxError::from) }
    });
    Ok(Client::new(again.layer(send), namespace))
}

/// True if the user's token is from an OIDC provider. Only kubectl renews it, with a refresh token that may be valid
/// for one renewal only; kubectl stores the next one.
fn has_oidc_token(config: &Config) -> bool {
    let mut providers = config.auth_info.auth_provider.iter();
    providers.any(|provider| provider.name == "oidc")
}

/// Cluster, user and impersonation from the kubeconfig, with the name of the context and the proxy.
async fn cluster(args: &ConnectArgs) -> Result<(Config, String, Option<Proxy>), Error> {
    let options = KubeConfigOptions {
        context: args.context.clone(),
        ..KubeConfigOptions::default()
    };
    let file = match args.kubeconfig.as_deref() {
        None => Kubeconfig::read(),
        Some(path) => Kubeconfig::read_from(path),
    };
    // A pod has no kubeconfig, and files of its service account instead.
    if let (Err(_), None, Ok(config)) = (&file, &args.kubeconfig, Config::incluster()) {
        let proxy = Proxy::of_environment(&config.cluster_url)?;
        return Ok((config, IN_POD.to_owned(), proxy));
    }
    let file = file.map_err(|error| unusable(&error))?;
    let context = args.context.clone().or_else(|| file.current_context.clone());
    let context = context.unwrap_or_default();
    let contexts: Vec<String> = file.contexts.iter().map(|context| context.name.clone()).collect();
    if !context.is_empty() && !contexts.contains(&context) {
        let advice = context_advice(&context, contexts.iter().map(String::as_str));
        return Err(Error::UnknownContext {
            name: context,
            advice,
        });
    }
    let (mut config, proxy) = load(file, &context, &options).await?;
    if let Some(user) = &args.as_user {
        config.auth_info.impersonate = Some(user.clone());
        config.auth_info.impersonate_groups = (!args.as_group.is_empty()).then(|| args.as_group.clone());
    }
    Ok((config, context, proxy))
}

/// Loads the context's configuration, and selects its proxy.
async fn load(
    mut file: Kubeconfig,
    context: &str,
    options: &KubeConfigOptions,
) -> Result<(Config, Option<Proxy>), Error> {
    let chosen = file.contexts.iter().find(|named| named.name == context);
    let name = chosen.and_then(|named| Some(named.context.as_ref()?.cluster.clone()));
    let name = name.unwrap_or_default();
    let mut clusters = file.clusters.iter_mut().filter(|named| named.name == name);
    let cluster: Option<&mut Cluster> = clusters.find_map(|named| named.cluster.as_mut());
    // With a value here the library does not read the variables, which it would refuse for servers that need no proxy.
    let unread = "http://unread".to_owned();
    let own = cluster.and_then(|cluster| cluster.proxy_url.replace(unread));
    let own = own.filter(|url| !url.is_empty());
    let mut config = Config::from_custom_kubeconfig(file, options)
        .await
        .map_err(|error| unusable(&error))?;
    config.proxy_url = None;
    let plugin = config.auth_info.exec.as_mut();
    if let Some(known) = plugin.and_then(|plugin| plugin.cluster.as_mut()) {
        known.proxy_url.clone_from(&own);
    }
    let proxy = match own {
        Some(url) => Some(Proxy::of_cluster(&url, &name)?),
        None => Proxy::of_environment(&config.cluster_url)?,
    };
    Ok((config, proxy))
}

fn unusable(error: &KubeconfigError) -> Error {
    let reason = if let KubeconfigError::ReadConfig(reason, path) = error {
        format!("cannot read {}: {reason}", path.display())
    } else {
        // The library's error texts already contain their causes.
        error.to_string()
    };
    Error::Kubeconfig { reason }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };

    use super::*;

    #[tokio::test]
    async fn a_busy_server_gets_four_requests() {
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
        let client = client(Config::new(url.parse().unwrap()), None).unwrap();
        let request = http::Request::get("/").body(kube::client::Body::empty()).unwrap();
        let answer = client.send(request).await.unwrap();
        assert_eq!(answer.status(), http::StatusCode::SERVICE_UNAVAILABLE);
        busy.await.unwrap();
    }
}
