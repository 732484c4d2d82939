//! What every Headroom process needs: arguments, logs, metrics, admin port, TLS, supervision.
#![forbid(unsafe_code)]

pub mod args;
pub mod config;
pub mod gate;
pub mod log;
pub mod metric;
pub mod serve;
pub mod supervise;
pub mod tls;
