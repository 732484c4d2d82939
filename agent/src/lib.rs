//! The node agent: measures a node and publishes how far it may be amplified.
//!
//! ```text
//! kernel   the kernel programs: load, attach, keep at work     sample   counters and files: one reading each
//! gather   the two threads that read them, and what they read  decide   samples and directives -> estimates -> reports
//! publish  reports up, directives down                         local    checkpoint, status, signals, debug socket
//! start    puts all of it together                             metrics  what Prometheus is told
//! ```

pub mod args;
pub mod config;
pub mod decide;
pub mod gather;
pub mod kernel;
pub mod local;
pub mod metrics;
pub mod publish;
pub mod sample;
pub mod start;
