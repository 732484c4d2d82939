//! [`DecidedPod`]: what replicas of the webhook decided about a pod, or what the rules make of it offline.

use headroom_proto::v1alpha1::PodDecision;

use super::PodName;

/// All that is known of the decisions about a pod.
#[derive(Debug, Clone, PartialEq)]
pub struct DecidedPod {
    /// The pod.
    pub pod: PodName,
    /// Whom this is from.
    pub origin: DecisionOrigin,
    /// The newest first.
    pub decisions: Vec<ReplicaDecision>,
    /// Older ones that were not sent.
    pub left_out: u32,
}

/// Whom decisions are from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DecisionOrigin {
    /// From replicas, those that did not answer included.
    Replicas(Vec<AskedReplica>),
    /// From the rules and files; each text names an object that the files lack.
    Files {
        /// The objects.
        missing: Vec<String>,
        /// What a client would be told.
        warnings: Vec<String>,
    },
}

/// A replica that was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskedReplica {
    /// Where.
    pub addr: String,
    /// What it keeps; the text says why it did not answer.
    pub kept: Result<KeptReviews, String>,
}

/// What a replica keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptReviews {
    /// The name of the replica.
    pub replica: String,
    /// Reviews of any pod.
    pub count: u32,
    /// When the oldest of them was answered, in milliseconds since 1970.
    pub oldest_ms: Option<u64>,
}

/// A decision, and the replica that made it; empty offline.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplicaDecision {
    /// The name of the replica.
    pub replica: String,
    /// The decision.
    pub decision: PodDecision,
}
