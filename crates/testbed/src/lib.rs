//! Shared parts of tests, demo and benches: a real control plane, Headroom's programs as processes, and loads in pods'
//! cgroups.
#![forbid(unsafe_code)]

pub mod accounts;
pub mod agent;
pub mod cluster;
pub mod folder;
pub mod hint_server;
pub mod logs;
pub mod pathological;
pub mod ping_pong;
pub mod policies;
pub mod programs;
pub mod real_node;
mod testbed;
pub mod thread;
pub mod webhook;
pub mod workload;

pub use self::testbed::{Builder, Testbed};
