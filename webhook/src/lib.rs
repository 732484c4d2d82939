//! The admission webhook and hint service.
//!
//! ```text
//! admission:  router -> endpoint -> steps ---reads---> cluster (nodes, pods, hints, policies)
//!                                                        ^        |
//! informers:  API server -> nodes, pods -----------------+        | changes
//! hints:      agents -> session -> table ----------------+        v
//!                          directives <---- session      nudger -> PATCH nodes/status -> admission
//! ```
#![forbid(unsafe_code)]

pub mod args;
pub mod changes;
pub mod clock;
pub mod cluster;
pub mod config;
pub mod draft;
pub mod endpoint;
pub mod endpoints;
pub mod error;
pub mod floor;
pub mod hints;
pub mod informer;
pub mod lease;
pub mod manifest;
pub mod metrics;
pub mod node;
pub mod patch;
pub mod pods;
pub mod policies;
pub mod registration;
pub mod review;
pub mod router;
pub mod selfcall;
pub mod slices;
pub mod start;

use headroom_kit::pace;
pub use start::access;
