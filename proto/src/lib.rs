//! The generated `headroom.v1alpha1` wire contract, and its validating conversions to the types of `domain`.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod codec;
mod convert;
pub mod status;

pub use convert::{
    NodeView, ReleaseVersion, ReplicaVersion, VersionError, WireError, WorkloadDirective, agent_policy,
};

/// Messages and services of `headroom.v1alpha1`.
#[expect(
    missing_docs,
    unused_qualifications,
    reason = "generated; the .proto files carry the docs"
)]
#[expect(
    clippy::pedantic,
    clippy::clone_on_ref_ptr,
    clippy::allow_attributes,
    clippy::allow_attributes_without_reason,
    reason = "generated"
)]
pub mod v1alpha1 {
    tonic::include_proto!("headroom.v1alpha1");
}

/// Descriptor set of [`v1alpha1`], for gRPC reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/headroom.bin"));
