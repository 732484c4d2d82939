//! Queries the admin port of a pod through the API server and the kubelet.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use http_body_util::{BodyExt as _, Empty};
use hyper::{Request, StatusCode, body::Bytes, client::conn::http1};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, ResourceExt as _};
use tokio::time::timeout;

/// Admin port of webhook and agent.
const PORT: u16 = 8080;
const LIMIT: Duration = Duration::from_secs(10);

/// Sends a GET request, and returns the body of a response with status 200.
///
/// # Errors
/// If the port cannot be forwarded, or there is no such response within 10 s.
pub(super) async fn get(client: &Client, pod: &Pod, path: &str) -> Result<String> {
    let name = pod.name_any();
    let pods: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
    let query = async {
        let mut forwarder = pods.portforward(&name, &[PORT]).await.context("forward a port")?;
        let stream = forwarder.take_stream(PORT).context("take the stream")?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let connection = tokio::spawn(connection);
        let request = Request::get(path)
            .header("host", "localhost")
            .body(Empty::<Bytes>::new())?;
        let response = sender.send_request(request).await?;
        let status = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        connection.abort();
        ensure!(status == StatusCode::OK, "{name} answered {path} with {status}");
        String::from_utf8(body.to_vec()).context("read the body")
    };
    timeout(LIMIT, query)
        .await
        .with_context(|| format!("{name} did not answer {path} within {LIMIT:?}"))?
}
