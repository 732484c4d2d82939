//! The node agent: measures a node and publishes how far it may be amplified.
//!
//! ```text
//! probe, btf   the kernel programs: load, attach, verdicts      sense    which source it is
//! sample       counters and files, four times a second          gather   the thread that reads them
//! decide       samples and directives -> estimates -> reports   publish  reports up, directives down
//! ```

pub mod args;
pub mod btf;
pub mod decide;
pub mod gather;
pub mod metrics;
pub mod probe;
pub mod publish;
pub mod sample;
pub mod sense;
pub mod start;
pub mod status;
