//! Conversions between wire messages and domain types: wire → domain with validation, and domain → wire.

mod directive;
mod enums;
mod report;
mod resource;
mod rule;
mod status;
mod version;
mod workload;

pub use directive::{NodeView, agent_policy};
use headroom_domain::resource::PerResource;
use prost::Message as _;
pub use version::{ReleaseVersion, ReplicaVersion, VersionError};
pub use workload::WorkloadDirective;

use crate::v1alpha1 as wire;

/// The message cannot be used because of one field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct WireError {
    /// Path of the field, such as `resources.cpu.brake`.
    pub field: String,
    /// Problem with the field, with the value if it helps.
    pub problem: String,
}

impl WireError {
    fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            problem: problem.into(),
        }
    }
}

/// Longest accepted name or identifier, in bytes; names in Kubernetes have at most 253.
const LONGEST_NAME: usize = 253;
/// Most pods per report or directive: ten times the number that a node supports.
const MOST_PODS: usize = 5000;
/// Largest accepted capacity: a million cores, an exbibyte.
const LARGEST: PerResource<u64> = PerResource {
    cpu: 1_000_000_000,
    memory: 1 << 60,
};

fn name(field: &str, text: String) -> Result<String, WireError> {
    if text.is_empty() {
        return Err(WireError::new(field, "is empty"));
    }
    if text.len() > LONGEST_NAME || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(WireError::new(
            field,
            "is too long or has characters that names cannot have",
        ));
    }
    Ok(text)
}

fn ppm(field: &str, value: u32, most: u32) -> Result<u32, WireError> {
    if value > most {
        return Err(WireError::new(field, format!("{value} is above {most}")));
    }
    Ok(value)
}

/// Value of an enum field by its number; an unknown number is an error.
fn known<E: TryFrom<i32>>(field: &str, number: i32) -> Result<E, WireError> {
    E::try_from(number).map_err(|_unknown| WireError::new(field, format!("{number} is not known")))
}

impl wire::NodeStatus {
    /// Size of the encoded message, in bytes.
    pub fn bytes(&self) -> usize {
        self.encoded_len()
    }
}

impl wire::PodDecision {
    /// Size of the encoded message, in bytes.
    pub fn bytes(&self) -> usize {
        self.encoded_len()
    }
}

impl wire::NodeLabels {
    /// Size of the encoded message, in bytes.
    pub fn bytes(&self) -> usize {
        self.encoded_len()
    }
}

impl wire::QuotaStatus {
    /// Size of the encoded message, in bytes.
    pub fn bytes(&self) -> usize {
        self.encoded_len()
    }
}

impl From<PerResource<u64>> for wire::Amounts {
    fn from(amounts: PerResource<u64>) -> Self {
        let PerResource { cpu, memory } = amounts;
        Self {
            cpu_milli: cpu,
            memory_bytes: memory,
        }
    }
}

impl From<wire::Amounts> for PerResource<u64> {
    fn from(amounts: wire::Amounts) -> Self {
        let wire::Amounts {
            cpu_milli,
            memory_bytes,
        } = amounts;
        Self {
            cpu: cpu_milli,
            memory: memory_bytes,
        }
    }
}

#[cfg(test)]
mod tests;
