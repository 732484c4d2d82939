//! The node agent: measures a node and publishes the ratio by which its allocatable may be amplified.
//!
//! ```text
//! kernel   the kernel programs: load, attach, keep at work     sample   counters and files: one reading each
//! gather   the two threads that read them: samples, pods       decide   samples and directives -> estimates -> reports
//! publish  reports up, directives down                         local    checkpoint, status, signals, debug socket
//! start    puts all of it together                             metrics  the Prometheus metrics
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
