//! cargo xtask: set-up, control plane, demo, tests, generated files, benches.
#![forbid(unsafe_code)]

pub mod bench;
pub mod cluster;
pub mod controlplane;
pub mod demo;
pub mod folder;
pub mod generate;
pub mod headroom;
pub mod process;
pub mod setup;
pub mod suite;
pub mod terminal;
pub mod thread;
pub mod workload;
pub mod workspace;
