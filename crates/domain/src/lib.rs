//! Headroom's domain types and rules as pure code: no runtime, no clock, no I/O; `now` and samples are arguments.
//!
//! ```text
//! hints:      kernel counters -> frames -> estimate -> hint::NodeHint --wire--> hint::Table
//!                                                                                  |
//! admission:  nodes/status (old, new, writer) ----------------> capacity::decide <-+- policy, bound requests
//!                                                                |
//!                                        allocatable, annotations, and why
//! ```
//!
//! The conversion at each boundary checks a value once and narrows its type. The agent runs [`estimate`], the webhook
//! runs [`capacity`]; both use the same types for the data that travels between them.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod amounts;
pub mod annotation;
pub mod capacity;
pub mod estimate;
pub mod field;
pub mod hint;
pub mod installation;
pub mod names;
mod nullable;
pub mod pod;
pub mod policy;
pub mod qos;
pub mod quantity;
pub mod ratio;
pub mod resource;
pub mod selector;
pub mod timing;
pub mod workload;
