//! [`DecidedPod`]: decisions about a pod, from the webhook's replicas or computed offline.

use headroom_proto::v1alpha1::PodDecision;

use super::PodName;

#[derive(Debug, Clone, PartialEq)]
pub struct DecidedPod {
    pub pod: PodName,
    pub origin: DecisionOrigin,
    /// Decisions, the newest first.
    pub decisions: Vec<ReplicaDecision>,
    /// Number of older decisions that were not sent.
    pub left_out: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DecisionOrigin {
    /// Replicas, including those that did not answer.
    Replicas(Vec<AskedReplica>),
    /// The webhook's rules, applied to files.
    Files {
        /// Referenced objects that no file contains.
        missing: Vec<String>,
        /// Admission warnings that a client would receive.
        warnings: Vec<String>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskedReplica {
    pub addr: String,
    /// Reviews that the replica keeps; the error text if it did not answer.
    pub kept: Result<KeptReviews, String>,
}

/// Pod reviews that a replica keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptReviews {
    pub replica: String,
    /// Number of reviews, of any pod.
    pub count: u32,
    /// Time of the oldest review, in milliseconds since 1970.
    pub oldest_ms: Option<u64>,
}

/// A decision, and the replica that made it.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplicaDecision {
    /// Name of the replica; empty offline.
    pub replica: String,
    pub decision: PodDecision,
}
