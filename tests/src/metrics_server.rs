//! A server of `metrics.k8s.io` behind the API server's aggregation layer, with fixed figures for its nodes. The API
//! server reaches it by a host name, because there is no Service network. Used by `tests/apiserver/quarantine.rs`.

use std::{path::Path, sync::Arc};

use bytes::Bytes;
use headroom_domain::names;
use http::Response;
use http_body_util::Full;
use k8s_openapi::{
    ByteString, api::core::v1::Service, kube_aggregator::pkg::apis::apiregistration::v1::APIService,
};
use kube::{Api, Client, api::PostParams};
use serde_json::{Value, json};

use crate::tls_server::{TlsServer, json_answer};

/// External name of the Service, and name in the certificate.
const HOST: &str = "localhost";
/// Name of the Service; the API server expects it in the certificate.
const SERVICE: &str = "metrics-server";

/// The server; ended on drop.
#[derive(Debug)]
pub struct MetricsServer(TlsServer);

impl MetricsServer {
    /// Starts a server that reports these amounts of CPU and memory for each node; its certificate is written to the
    /// folder.
    pub async fn start(folder: &Path, nodes: &[(&str, &str, &str)]) -> Self {
        let hosts = [format!("{SERVICE}.{}.svc", names::NAMESPACE), HOST.to_owned()];
        let list = Arc::new(list(nodes));
        let server = TlsServer::start(folder, SERVICE, &hosts, move |request| {
            let list = Arc::clone(&list);
            async move { answer(request.uri().path(), &list) }
        });
        Self(server.await)
    }

    /// Registers the server for `metrics.k8s.io`.
    pub async fn register(&self, client: &Client) {
        let Self(server) = self;
        let port = server.address.port();
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
                "caBundle": ByteString(server.ca.clone()),
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
    json_answer(body.as_ref())
}
