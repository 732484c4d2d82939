//! The node agent: measures a node and publishes how far it may be amplified.

pub mod args;
pub mod btf;
pub mod decide;
pub mod gather;
pub mod metrics;
pub mod probe;
pub mod publish;
pub mod sample;
pub mod status;
