//! Serves the hint port: the hint service, the debug services, health, and reflection if a flag enables it, on one
//! listener.

use std::{sync::Arc, time::Duration};

use headroom_kit::{
    serve::{GrpcLimits, Limits, Listener},
    supervise::Shutdown,
};
use headroom_proto::{
    DESCRIPTORS,
    v1alpha1::{debug_server::DebugServer, hints_server::HintsServer, quota_debug_server::QuotaDebugServer},
};
use rustls::ServerConfig;
use tonic::service::Routes;

use super::{CONNECTIONS, call_limits, debug::Debug, quota_debug::QuotaDebug, service::HintService};
use crate::hints::stream_context::StreamContext;

/// Longest report: a thousand pods with room to spare; the largest that conversion takes is about 300 KiB.
const LONGEST_REPORT: usize = 512 << 10;
/// Longest request of a user, and of a client without a credential; longest answer to the latter.
const LONGEST_QUESTION: usize = 4 << 10;
/// Longest answer of the reflection service: the descriptor of a file of ours is about 40 KiB long.
const LONGEST_DESCRIPTION: usize = 128 << 10;
/// Limits on the calls of a connection: agents and tools use one or two streams, and a token of up to 4 KiB. A report of
/// 60 KiB takes 15 round trips with this window, every 15 s.
const CALLS: GrpcLimits = GrpcLimits {
    streams: 4,
    head: 8 << 10,
    window: 4 << 10,
};

/// Limits on clients of the hint port.
pub const LIMITS: Limits = Limits {
    connections: CONNECTIONS,
    // Both without connections on which an agent or user has proven its identity: many agents may share an address.
    // A hostile one makes us hold about 100 KiB.
    unproven: 512,
    per_source: Some(64),
    // Time for a handshake and a token review while thousands of agents reconnect. With less, newcomers close each
    // other's connections, and no agent is let in.
    settle: Duration::from_secs(2),
    // When a whole fleet reconnects, handshakes queue behind each other.
    handshake: Duration::from_secs(10),
    header: Duration::from_secs(5),
    idle: Duration::from_secs(120),
    // Agents choose their replicas themselves.
    age: None,
    write: Duration::from_secs(10),
    drain: Duration::from_secs(20),
};

/// Why the hint port cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The reflection service refuses our own descriptors.
    #[error("cannot describe the services")]
    Reflection(#[source] tonic_reflection::server::Error),
}

/// Serves until the process stops, with the reflection service or without it; without TLS only in benches.
///
/// # Errors
/// The server cannot be set up.
pub async fn serve(
    listener: Listener,
    tls: impl Into<Option<Arc<ServerConfig>>>,
    shared: Arc<StreamContext>,
    has_reflection: bool,
    shutdown: Shutdown,
) -> Result<(), ServerError> {
    let hints =
        HintsServer::new(HintService::new(Arc::clone(&shared))).max_decoding_message_size(LONGEST_REPORT);
    let debug = DebugServer::new(Debug::new(Arc::clone(&shared))).max_decoding_message_size(LONGEST_QUESTION);
    let quotas = QuotaDebugServer::new(QuotaDebug::new(shared)).max_decoding_message_size(LONGEST_QUESTION);
    let (reporter, health) = tonic_health::server::health_reporter();
    let health = health
        .max_decoding_message_size(LONGEST_QUESTION)
        .max_encoding_message_size(LONGEST_QUESTION);
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
    let mut routes = Routes::new(health)
        .add_service(hints)
        .add_service(debug)
        .add_service(quotas);
    if has_reflection {
        routes = describe(routes)?;
    }
    let routes = routes.prepare();
    let answer = move |request| call_limits::answer(routes.clone(), request);
    tokio::select! {
        () = listener.serve_grpc(CALLS, tls, shutdown, answer) => {}
        () = says => {}
    }
    Ok(())
}

/// Adds the reflection service.
fn describe(routes: Routes) -> Result<Routes, ServerError> {
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(DESCRIPTORS)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .build_v1()
        .map_err(ServerError::Reflection)?
        .max_decoding_message_size(LONGEST_QUESTION)
        .max_encoding_message_size(LONGEST_DESCRIPTION);
    Ok(routes.add_service(reflection))
}

#[cfg(test)]
mod tests;
