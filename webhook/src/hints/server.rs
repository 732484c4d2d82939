//! Serves the hint port: the hint service, the debug services, health and reflection on one listener.

use std::{sync::Arc, time::Duration};

use headroom_kit::{
    serve::{Limits, Listener},
    supervise::Shutdown,
};
use headroom_proto::{
    DESCRIPTORS,
    v1alpha1::{debug_server::DebugServer, hints_server::HintsServer, quota_debug_server::QuotaDebugServer},
};
use rustls::ServerConfig;
use tonic::transport::Server;

use super::{CONNECTIONS, debug::Debug, quota_debug::QuotaDebug, service::HintService};
use crate::hints::stream_context::StreamContext;

/// Longest report: a thousand pods with room to spare; the largest that conversion takes is about 300 KiB.
const LONGEST_REPORT: usize = 512 << 10;
/// Longest request of a person.
const LONGEST_QUESTION: usize = 4 << 10;
/// Streams that one connection may have open; agents and tools use one or two.
const STREAMS: u32 = 16;
/// Largest head of a call: a token of up to 16 KiB with room to spare.
const LONGEST_HEAD: u32 = 32 << 10;
/// Interval of HTTP/2 pings to a client without traffic.
const PING_EVERY: Duration = Duration::from_secs(30);
/// Timeout of a ping.
const PING_LIMIT: Duration = Duration::from_secs(10);

/// Limits on clients of the hint port.
pub const LIMITS: Limits = Limits {
    connections: CONNECTIONS,
    // Without those that an agent or a person has proved itself on: many agents may share an address.
    per_source: Some(256),
    settle: Duration::from_millis(250),
    // When a whole fleet reconnects, handshakes queue behind each other.
    handshake: Duration::from_secs(10),
    header: Duration::from_secs(5),
    idle: Duration::from_secs(120),
    // gRPC asks silent clients by pings of its own.
    write: Duration::from_secs(10),
    drain: Duration::from_secs(20),
};

/// Why the hint port cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The reflection service refuses our own descriptors.
    #[error("cannot describe the services")]
    Reflection(#[source] tonic_reflection::server::Error),
    /// The gRPC server gave up.
    #[error("the gRPC server ended")]
    Serve(#[source] tonic::transport::Error),
}

/// Serves until the process stops; without TLS only in benches.
///
/// # Errors
/// The server cannot be set up, or gives up.
pub async fn serve(
    listener: Listener,
    tls: impl Into<Option<Arc<ServerConfig>>>,
    shared: Arc<StreamContext>,
    shutdown: Shutdown,
) -> Result<(), ServerError> {
    let hints =
        HintsServer::new(HintService::new(Arc::clone(&shared))).max_decoding_message_size(LONGEST_REPORT);
    let debug = DebugServer::new(Debug::new(Arc::clone(&shared))).max_decoding_message_size(LONGEST_QUESTION);
    let quotas = QuotaDebugServer::new(QuotaDebug::new(shared)).max_decoding_message_size(LONGEST_QUESTION);
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(DESCRIPTORS)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .build_v1()
        .map_err(ServerError::Reflection)?;
    let (reporter, health) = tonic_health::server::health_reporter();
    reporter.set_serving::<HintsServer<HintService>>().await;
    reporter.set_serving::<DebugServer<Debug>>().await;
    reporter.set_serving::<QuotaDebugServer<QuotaDebug>>().await;
    let draining = shutdown.draining().clone();
    let says = async {
        draining.cancelled().await;
        reporter.set_not_serving::<HintsServer<HintService>>().await;
        reporter.set_not_serving::<DebugServer<Debug>>().await;
        reporter.set_not_serving::<QuotaDebugServer<QuotaDebug>>().await;
        std::future::pending::<()>().await;
    };
    let serving = Server::builder()
        .max_concurrent_streams(STREAMS)
        .http2_max_header_list_size(LONGEST_HEAD)
        .http2_keepalive_interval(Some(PING_EVERY))
        .http2_keepalive_timeout(Some(PING_LIMIT))
        .add_service(health)
        .add_service(reflection)
        .add_service(hints)
        .add_service(debug)
        .add_service(quotas)
        .serve_with_incoming_shutdown(
            listener.incoming(tls, &shutdown),
            shutdown.stopping().clone().cancelled_owned(),
        );
    tokio::select! {
        served = serving => served.map_err(ServerError::Serve),
        () = says => Ok(()),
    }
}

#[cfg(test)]
mod tests;
