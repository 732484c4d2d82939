//! A server of `metrics.k8s.io` behind the API server's aggregation, which always says the same of its nodes. It is reached
//! by a name, as there is no network of Services here.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    sync::Arc,
    time::SystemTime,
};

use bytes::Bytes;
use headroom_domain::names;
use headroom_kit::{
    serve::{Limits, Listener},
    supervise::Shutdown,
    tls::{CertStore, ClientAuth, MinVersion, self_signed, server_config},
};
use http::{HeaderValue, Response, header::CONTENT_TYPE};
use http_body_util::Full;
use k8s_openapi::{
    ByteString, api::core::v1::Service, kube_aggregator::pkg::apis::apiregistration::v1::APIService,
};
use kube::{Api, Client, api::PostParams};
use serde_json::{Value, json};
use tokio::task::JoinSet;

/// The name that leads to this machine, as a Service and in the certificate.
const HOST: &str = "localhost";
/// The Service, and the name that the API server expects in the certificate.
const SERVICE: &str = "metrics-server";

/// The server; it ends when dropped.
#[derive(Debug)]
pub struct MetricsServer {
    address: SocketAddr,
    ca: Vec<u8>,
    _serve: JoinSet<()>,
}

impl MetricsServer {
    /// Starts one that says these amounts of CPU and memory of each node; its certificate goes into the folder.
    pub async fn start(folder: &Path, nodes: &[(&str, &str, &str)]) -> Self {
        let folder = folder.join("metrics-server-tls");
        let now = SystemTime::now();
        let of_service = format!("{SERVICE}.{}.svc", names::NAMESPACE);
        let files = self_signed::ensure(&folder, &[of_service, HOST.to_owned()], now).expect("a certificate");
        let certificate = CertStore::load("metrics-server", files, now).expect("the certificate");
        let tls = server_config(
            certificate,
            MinVersion::default(),
            &ClientAuth::None,
            &["http/1.1"],
        );
        let local = (Ipv4Addr::LOCALHOST, 0).into();
        let listener = Listener::bind("metrics-server", local, Limits::default())
            .await
            .expect("bind");
        let address = listener.address();
        let list = Arc::new(list(nodes));
        let mut serve = JoinSet::new();
        let tls = Some(tls.expect("settings"));
        serve.spawn(listener.serve_http(tls, Shutdown::new(), move |request| {
            let list = Arc::clone(&list);
            async move { answer(request.uri().path(), &list) }
        }));
        let ca = std::fs::read(folder.join(self_signed::CA_CERT)).expect("the CA");
        Self {
            address,
            ca,
            _serve: serve,
        }
    }

    /// Has the API server pass on to it what it is asked about `metrics.k8s.io`.
    pub async fn register(&self, client: &Client) {
        let port = self.address.port();
        let service = json!({
            "metadata": {"name": SERVICE},
            "spec": {"type": "ExternalName", "externalName": HOST, "ports": [{"port": port}]},
        });
        let service: Service = serde_json::from_value(service).expect("a Service");
        Api::namespaced(client.clone(), names::NAMESPACE)
            .create(&PostParams::default(), &service)
            .await
            .expect("create the Service");
        let registered = json!({
            "metadata": {"name": "v1beta1.metrics.k8s.io"},
            "spec": {
                "group": "metrics.k8s.io", "version": "v1beta1",
                "groupPriorityMinimum": 100, "versionPriority": 100,
                "service": {"namespace": names::NAMESPACE, "name": SERVICE, "port": port},
                "caBundle": ByteString(self.ca.clone()),
            },
        });
        let registered: APIService = serde_json::from_value(registered).expect("an APIService");
        Api::all(client.clone())
            .create(&PostParams::default(), &registered)
            .await
            .expect("create the APIService");
    }
}

fn list(nodes: &[(&str, &str, &str)]) -> Value {
    let items = nodes.iter().map(|(name, cpu, memory)| {
        json!({
            "metadata": {"name": name}, "timestamp": "2026-01-01T12:00:00Z", "window": "20s",
            "usage": {"cpu": cpu, "memory": memory},
        })
    });
    json!({
        "kind": "NodeMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "metadata": {},
        "items": items.collect::<Vec<Value>>(),
    })
}

fn answer(path: &str, list: &Value) -> Response<Full<Bytes>> {
    let nodes = json!({
        "name": "nodes", "singularName": "", "namespaced": false, "kind": "NodeMetrics", "verbs": ["get", "list"],
    });
    let body = match path {
        "/apis/metrics.k8s.io/v1beta1" => Some(json!({
            "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "metrics.k8s.io/v1beta1", "resources": [nodes],
        })),
        "/apis/metrics.k8s.io/v1beta1/nodes" => Some(list.clone()),
        _ => None,
    };
    let code = if body.is_some() { 200 } else { 404 };
    let text = body.map(|body| body.to_string()).unwrap_or_default();
    let mut response = Response::new(Full::new(text.into()));
    *response.status_mut() = code.try_into().expect("a status");
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}
