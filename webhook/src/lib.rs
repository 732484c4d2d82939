//! The admission webhook and hint service.
#![forbid(unsafe_code)]

pub mod draft;
pub mod endpoint;
pub mod endpoints;
pub mod error;
pub mod manifest;
pub mod metrics;
pub mod patch;
pub mod review;
pub mod router;
