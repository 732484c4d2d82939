//! Tests of listeners, certificates and the admin port on real sockets.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a test panics where it breaks")]

#[path = "sockets/admin.rs"]
mod admin;
#[path = "sockets/drain.rs"]
mod drain;
#[path = "sockets/grpc.rs"]
mod grpc;
#[path = "sockets/limits.rs"]
mod limits;
#[path = "sockets/places.rs"]
mod places;
#[path = "sockets/rotation.rs"]
mod rotation;
#[path = "sockets/site.rs"]
mod site;
#[path = "sockets/tls.rs"]
mod tls;
