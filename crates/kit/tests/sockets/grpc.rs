//! Tests of a gRPC server on a listener, and of a client channel made by the TLS connector.

use std::{sync::Arc, time::Duration};

use headroom_kit::{
    serve::{GrpcLimits, Limits, Peer},
    supervise::Shutdown,
    tls::{ClientAuth, client},
};
use tonic::{
    Code, Request, Status,
    service::{Routes, interceptor::InterceptedService},
    transport::{Channel, Endpoint},
};
use tonic_health::{
    pb::{HealthCheckRequest, health_client::HealthClient},
    server::health_reporter,
};
use tower::Service as _;

use super::{
    site::{Certs, NAME, bind, within},
    tls::identity,
};

/// A health service for clients that present a certificate.
async fn start(certs: &Certs) -> (String, Shutdown, tokio::task::JoinHandle<()>) {
    let listener = bind(Limits::default()).await;
    // tonic adds no TLS to the http scheme: the connector does.
    let uri = format!("http://{}", listener.address());
    let shutdown = Shutdown::new();
    let tls = certs.server(&ClientAuth::Optional(certs.ca()), &["h2"]);
    let (_reporter, health) = health_reporter();
    let service = InterceptedService::new(health, |request: Request<()>| {
        let peer = request
            .extensions()
            .get::<Peer>()
            .ok_or_else(|| Status::internal("no peer"))?;
        match (&peer.certificates, peer.address.ip().is_loopback()) {
            (Some(_), true) => Ok(request),
            _ => Err(Status::unauthenticated("no certificate")),
        }
    });
    let routes = Routes::new(service);
    let answer = move |request| {
        let mut routes = routes.clone();
        async move { routes.call(request).await.unwrap() }
    };
    let serving = listener.serve_grpc(GrpcLimits::DEFAULT, tls, shutdown.clone(), answer);
    (uri, shutdown, tokio::spawn(serving))
}

fn connector(certs: &Certs, shows_certificate: bool) -> client::Connector {
    let identity = shows_certificate.then(|| identity(certs));
    let config = client::client_config(&certs.ca(), identity.as_ref(), &["h2"]).unwrap();
    client::Connector::new(
        config,
        client::server_name(NAME).unwrap(),
        Duration::from_secs(10),
    )
}

async fn channel(uri: &str, connector: client::Connector) -> Result<Channel, tonic::transport::Error> {
    within(
        Endpoint::from_shared(uri.to_owned())
            .unwrap()
            .connect_with_connector(connector),
    )
    .await
}

#[tokio::test]
async fn handlers_see_who_calls_and_a_stop_ends_the_server() {
    let certs = Certs::new();
    let (uri, shutdown, serving) = start(&certs).await;
    let known = channel(&uri, connector(&certs, true)).await.unwrap();
    within(HealthClient::new(known).check(HealthCheckRequest::default()))
        .await
        .unwrap();
    let unknown = channel(&uri, connector(&certs, false)).await.unwrap();
    let status = within(HealthClient::new(unknown).check(HealthCheckRequest::default()))
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::Unauthenticated);

    shutdown.stop();
    within(serving).await.unwrap();
    within(async { while channel(&uri, connector(&certs, true)).await.is_ok() {} }).await;
}

#[tokio::test]
async fn a_server_of_another_name_is_not_trusted() {
    let certs = Certs::new();
    let (uri, _shutdown, serving) = start(&certs).await;
    let config = client::client_config(&certs.ca(), None, &["h2"]).unwrap();
    let name = client::server_name("other.test").unwrap();
    let connector = client::Connector::new(Arc::clone(&config), name, Duration::from_secs(10));
    assert!(channel(&uri, connector).await.is_err());
    serving.abort();
}

#[tokio::test]
async fn a_server_that_never_shakes_hands_is_given_up() {
    let certs = Certs::new();
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let uri = format!("http://{}", silent.local_addr().unwrap());
    let config = client::client_config(&certs.ca(), None, &["h2"]).unwrap();
    let name = client::server_name(NAME).unwrap();
    let connector = client::Connector::new(config, name, Duration::from_millis(50));
    assert!(channel(&uri, connector).await.is_err());
}
