//! Conversions between wire messages and domain types: wire → domain with validation, and domain → wire.

mod directive;
mod enums;
mod report;
mod resource;
mod rule;
mod status;
mod version;

pub use directive::{NodeView, agent_policy};
use headroom_domain::resource::PerResource;
use prost::Message as _;
pub use version::{ReleaseVersion, ReplicaVersion, VersionError};

use crate::v1alpha1 as wire;

/// A message that cannot be used: which field, and what was wrong with it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct WireError {
    /// Path of the field.
    pub field: String,
    /// What is wrong, with the value where it helps.
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

/// Longest name or identifier that is taken, in bytes; Kubernetes' own names end at 253.
const LONGEST_NAME: usize = 253;
/// Most pods per report or directive: ten times what a node may hold.
const MOST_PODS: usize = 5000;
/// The largest capacity that is believed: a million cores, an exbibyte.
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
            "is too long or has characters that no name has",
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

/// An enum field by its number; an unknown number is an error.
fn known<E: TryFrom<i32>>(field: &str, number: i32) -> Result<E, WireError> {
    E::try_from(number).map_err(|_unknown| WireError::new(field, format!("{number} is not known")))
}

impl wire::NodeStatus {
    /// Its size in a message, in bytes.
    pub fn bytes(&self) -> usize {
        self.encoded_len()
    }
}

impl wire::PodDecision {
    /// Its size in a message, in bytes.
    pub fn bytes(&self) -> usize {
        self.encoded_len()
    }
}

impl wire::NodeLabels {
    /// Its size in a message, in bytes.
    pub fn bytes(&self) -> usize {
        self.encoded_len()
    }
}

impl wire::QuotaStatus {
    /// Its size in a message, in bytes.
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
