//! Test program `apiserver`: tests of the workspace's programs in front of a real API server. One program: linked once,
//! shared set-up.
#![forbid(unsafe_code)]

mod admission_chain;
mod advise;
mod attacks;
mod bogus_tokens;
mod bound;
mod brake_reaction;
mod cli;
mod cluster;
mod concurrent_writers;
mod de_amplification;
mod deferred_resize;
mod floor;
mod floor_cost;
mod floor_rules;
mod full_node;
mod heartbeats;
mod hints;
mod hostile_bodies;
mod lagging_kubelet;
mod manifests;
mod no_floor;
mod node_status;
mod off;
mod outages;
mod over_committed;
mod pod_merge;
mod pods;
mod policies;
mod policy_cost;
mod profiles;
mod quarantine;
mod registration;
mod replica_agreement;
mod replica_kills;
mod reservations;
mod slo_config;
mod sources;
mod status_writer;
mod steady_state_skip;
mod strangers;
mod sweep;
mod unfit_pods;
mod validate_node;
mod validate_pod;
