//! The node agent: measures a node and publishes how far it may be amplified.

pub mod btf;
pub mod probe;
pub mod sample;
