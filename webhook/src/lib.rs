//! The admission webhook and hint service.
//!
//! ```text
//! admission:  router -> endpoint -> steps ---reads---> store (nodes, pods, policies) and hints
//!                                                        ^        |
//! store:      API server -> informers -> nodes, pods ----+        | changes
//! hints:      agents -> session -> table ----------------+        v
//!                          directives <---- session      control: nudger -> PATCH nodes/status -> admission
//! ```
#![forbid(unsafe_code)]

pub mod admission;
pub mod args;
pub mod control;
pub mod hints;
pub mod install;
pub mod start;
pub mod store;

pub use start::rights::rights;
