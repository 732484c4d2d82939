//! Our programs as processes: one program, so that it is linked once and its tests share what can be shared.
#![forbid(unsafe_code)]

mod advise;
mod advise_simulator;
mod agent;
mod agent_config;
mod agent_debug;
mod agent_missing;
mod checkpoint;
mod sources;
mod webhook;
mod workspace;
