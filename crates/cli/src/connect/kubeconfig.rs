//! Clients of the API server from a kubeconfig, whatever credential its user has.

use std::path::Path;

use kube::{
    Client, Config,
    client::retry::RetryPolicy,
    config::{KubeConfigOptions, Kubeconfig, KubeconfigError},
};
use tower::{BoxError, Layer as _, retry::RetryLayer, service_fn};

use crate::{args::ConnectArgs, error::Error};

/// A client of the API server, by the kubeconfig alone.
///
/// # Errors
/// A kubeconfig that cannot be used.
pub async fn api(args: &ConnectArgs) -> Result<Client, Error> {
    client(cluster(args).await?).map_err(|source| Error::Cluster {
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

/// The cluster and user of the kubeconfig, and whom the user is to act as.
async fn cluster(args: &ConnectArgs) -> Result<Config, Error> {
    let options = KubeConfigOptions {
        context: args.context.clone(),
        ..KubeConfigOptions::default()
    };
    let config = match args.kubeconfig.as_deref() {
        None => Config::from_kubeconfig(&options).await,
        Some(path) => from_file(path, &options).await,
    };
    let mut config = config.map_err(|error: KubeconfigError| Error::Kubeconfig(Box::new(error)))?;
    if let Some(user) = &args.as_user {
        config.auth_info.impersonate = Some(user.clone());
        config.auth_info.impersonate_groups = (!args.as_group.is_empty()).then(|| args.as_group.clone());
    }
    Ok(config)
}

async fn from_file(path: &Path, options: &KubeConfigOptions) -> Result<Config, KubeconfigError> {
    Config::from_custom_kubeconfig(Kubeconfig::read_from(path)?, options).await
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };

    use super::*;

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
        let request = http::Request::get("/").body(kube::client::Body::empty()).unwrap();
        let answer = client.send(request).await.unwrap();
        assert_eq!(answer.status(), http::StatusCode::SERVICE_UNAVAILABLE);
        busy.await.unwrap();
    }
}
