//! The node agent: measures a node and publishes how far it may be amplified.
//!
//! ```text
//! probe, btf   the kernel programs: load, attach, verdicts      sense    which source it is
//! sample       counters and files, four times a second          gather   the thread that reads them
//! privilege    what it may do: nothing any more
//! decide       samples and directives -> estimates -> reports   publish  reports up, directives down
//! checkpoint   what a restart must not forget                eviction where the kubelet evicts pods
//! signals      every signal and what is lost without it         debug    what people on the node ask
//! ```

pub mod args;
pub mod btf;
pub mod checkpoint;
pub mod config;
pub mod debug;
pub mod decide;
pub mod eviction;
pub mod gather;
pub mod metrics;
pub mod privilege;
pub mod probe;
pub mod publish;
pub mod sample;
pub mod sense;
pub mod signals;
pub mod start;
pub mod status;
