//! [`Route`]: the way to a replica of the webhook, by address or by a port-forward through the API server.

use std::{fmt, net::SocketAddr};

use headroom_domain::names;
use http::Uri;
use hyper_util::rt::TokioIo;
use k8s_openapi::{
    api::core::v1::{Pod, Service},
    apimachinery::pkg::util::intstr::IntOrString,
};
use kube::{Api, ResourceExt as _, api::ListParams};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tower::service_fn;

use super::{KEEP_ALIVE, LIMIT, credentials::Credentials, forwarded::Forwarded};
use crate::{
    args::{Address, ConnectArgs},
    cause::innermost,
    error::Error,
    rights,
};

/// Limit of replicas that are asked.
const MOST_REPLICAS: usize = 16;

/// Port of a webhook pod.
#[derive(Clone)]
pub(super) struct PodPort {
    pods: Api<Pod>,
    name: String,
    port: u16,
}

#[derive(Clone)]
pub(super) enum Route {
    Address(Address),
    Pod(Box<PodPort>),
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(addr) => addr.fmt(f),
            Self::Pod(port) => write!(f, "pod {}", port.name),
        }
    }
}

impl Route {
    /// Route to any replica.
    ///
    /// # Errors
    /// --addr is not set, and the API server lists no ready webhook pod.
    pub(super) async fn to_any(args: &ConnectArgs, credentials: &Credentials) -> Result<Self, Error> {
        if let Some(addr) = &args.addr {
            return Ok(Self::Address(addr.clone()));
        }
        let ready = pods(credentials).await?.into_iter().next();
        ready.ok_or_else(|| no_pod(credentials))
    }

    /// Routes to all replicas. A name with several addresses, such as the headless service, has one route per
    /// address.
    ///
    /// # Errors
    /// Same as [`Self::to_any`].
    pub(super) async fn to_each(args: &ConnectArgs, credentials: &Credentials) -> Result<Vec<Self>, Error> {
        if let Some(addr) = &args.addr {
            return Ok(addresses(addr).await.into_iter().map(Self::Address).collect());
        }
        let mut ready = pods(credentials).await?;
        ready.truncate(MOST_REPLICAS);
        if ready.is_empty() {
            return Err(no_pod(credentials));
        }
        Ok(ready)
    }

    /// Opens a channel.
    ///
    /// # Errors
    /// The replica is unreachable, or its certificate is not the expected one.
    pub(super) async fn open(&self, credentials: &Credentials) -> Result<Channel, Error> {
        let opened = self.connect(credentials).await;
        opened.map_err(|error| {
            if let Some(refusal) = refusal(&error) {
                return refusal;
            }
            let reason = innermost(&error).to_string();
            match self {
                Self::Address(addr) => Error::Connect {
                    addr: addr.to_string(),
                    reason,
                },
                Self::Pod(port) => Error::Forward {
                    pod: port.name.clone(),
                    namespace: credentials.installation.namespace.clone(),
                    reason,
                },
            }
        })
    }

    async fn connect(&self, credentials: &Credentials) -> Result<Channel, tonic::transport::Error> {
        let Credentials { ca, server_name, .. } = credentials;
        let tls = ClientTlsConfig::new()
            .ca_certificate(Certificate::from_pem(ca))
            .domain_name(server_name);
        let url = match self {
            Self::Address(addr) => format!("https://{addr}"),
            Self::Pod(port) => format!("https://{server_name}:{}", port.port),
        };
        let endpoint = Endpoint::from_shared(url)?
            .tls_config(tls)?
            .connect_timeout(LIMIT)
            .http2_keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(LIMIT);
        match self {
            Self::Address(_) => endpoint.connect().await,
            Self::Pod(port) => {
                let port = PodPort::clone(port);
                let forward = service_fn(move |_: Uri| {
                    let port = port.clone();
                    async move { Ok::<_, Error>(TokioIo::new(port.forwarded().await?)) }
                });
                endpoint.connect_with_connector(forward).await
            }
        }
    }
}

impl PodPort {
    async fn forwarded(&self) -> Result<Forwarded, Error> {
        let Self { pods, name, port } = self;
        let refused = |source| Error::api(&rights::FORWARD_PORT, source);
        let mut forwarder = pods.portforward(name, &[*port]).await.map_err(refused)?;
        Forwarded::new(&mut forwarder, *port).ok_or(Error::NoPort)
    }
}

/// The API server's refusal, if that is the cause of the error.
fn refusal(error: &(dyn std::error::Error + 'static)) -> Option<Error> {
    let causes = std::iter::successors(Some(error), |cause| cause.source());
    let mut refusals = causes.filter_map(|cause| match cause.downcast_ref() {
        Some(Error::Forbidden { message, right }) => Some(Error::Forbidden {
            message: message.clone(),
            right,
        }),
        _ => None,
    });
    refusals.next()
}

/// Ready pods of the webhook, sorted by name.
async fn pods(credentials: &Credentials) -> Result<Vec<Route>, Error> {
    let installation = &credentials.installation;
    let (api, namespace) = (credentials.api()?, installation.namespace.as_str());
    let services: Api<Service> = Api::namespaced(api.clone(), namespace);
    let service = services.get(&installation.named(names::HINTS_SERVICE)).await;
    let service = service.map_err(|source| Error::api(&rights::READ_SERVICE, source))?;
    let spec = service.spec.unwrap_or_default();
    let labels = spec.selector.unwrap_or_default();
    let labels: Vec<String> = labels
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    let pods: Api<Pod> = Api::namespaced(api, namespace);
    let found = pods.list(&ListParams::default().labels(&labels.join(","))).await;
    let found = found.map_err(|source| Error::api(&rights::LIST_PODS, source))?;
    let target = spec.ports.unwrap_or_default().into_iter().next();
    let target = target.map_or(IntOrString::Int(names::HINTS_PORT.into()), |port| {
        port.target_port.unwrap_or(IntOrString::Int(port.port))
    });
    let mut ready: Vec<Route> = found
        .items
        .iter()
        .filter(|pod| is_ready(pod))
        .filter_map(|pod| {
            let port = PodPort {
                pods: pods.clone(),
                name: pod.name_any(),
                port: port_number(pod, &target)?,
            };
            Some(Route::Pod(Box::new(port)))
        })
        .collect();
    ready.sort_by_key(ToString::to_string);
    Ok(ready)
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    let is_ready = conditions
        .into_iter()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True");
    is_ready && pod.metadata.deletion_timestamp.is_none()
}

/// Port number of a Service's target port, which may be the name of a container port.
fn port_number(pod: &Pod, target: &IntOrString) -> Option<u16> {
    let number = match target {
        IntOrString::Int(number) => *number,
        IntOrString::String(name) => {
            let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
            let mut ports = containers.flat_map(|container| container.ports.iter().flatten());
            ports
                .find(|port| port.name.as_ref() == Some(name))?
                .container_port
        }
    };
    number.try_into().ok()
}

fn no_pod(credentials: &Credentials) -> Error {
    let installation = &credentials.installation;
    Error::NoReplica {
        namespace: installation.namespace.clone(),
        service: installation.named(names::HINTS_SERVICE),
    }
}

/// Addresses of a host, one per replica. If there is none, the host itself, so that connecting reports the cause.
async fn addresses(addr: &Address) -> Vec<Address> {
    let found = tokio::net::lookup_host(addr.to_string()).await;
    let mut found: Vec<SocketAddr> = found.map(Iterator::collect).unwrap_or_default();
    found.sort_unstable();
    found.dedup();
    // A dual-stack replica has an address of each family; only IPv4 is used then.
    if found.iter().any(SocketAddr::is_ipv4) {
        found.retain(SocketAddr::is_ipv4);
    }
    let addresses = found.into_iter().take(MOST_REPLICAS);
    let addresses: Vec<Address> = addresses
        .filter_map(|addr| addr.to_string().parse().ok())
        .collect();
    if addresses.is_empty() {
        vec![addr.clone()]
    } else {
        addresses
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn pod(ready: &str, end: Option<&str>) -> Pod {
        let pod = json!({
            "metadata": {"name": "p", "deletionTimestamp": end},
            "spec": {"containers": [
                {"name": "sidecar"},
                {"name": "webhook", "ports": [{"name": "hints", "containerPort": 9444}]},
            ]},
            "status": {"conditions": [{"type": "Ready", "status": ready}]},
        });
        serde_json::from_value(pod).unwrap()
    }

    #[rstest]
    #[case::ready("True", None, true)]
    #[case::not_ready("False", None, false)]
    #[case::ending("True", Some("2026-01-01T00:00:00Z"), false)]
    fn only_ready_pods_that_are_not_terminating_are_asked(
        #[case] ready: &str,
        #[case] end: Option<&str>,
        #[case] is_asked: bool,
    ) {
        assert_eq!(is_ready(&pod(ready, end)), is_asked);
    }

    #[rstest]
    #[case::by_number(IntOrString::Int(9), Some(9))]
    #[case::by_name(IntOrString::String("hints".into()), Some(9444))]
    #[case::unknown(IntOrString::String("other".into()), None)]
    #[case::none(IntOrString::Int(70_000), None)]
    fn a_services_port_is_found_in_the_pod(#[case] target: IntOrString, #[case] port: Option<u16>) {
        assert_eq!(port_number(&pod("True", None), &target), port);
    }
}
