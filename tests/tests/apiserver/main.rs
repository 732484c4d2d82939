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
mod deferred_resize;
mod floor;
mod floor_cost;
mod floor_rules;
mod full_node;
mod heartbeats;
mod hint_life;
mod hints;
mod hostile_bodies;
mod lagging_kubelet;
mod manifests;
mod no_floor;
mod node_status;
mod off;
mod outages;
mod over_committed;
mod policies;
mod policy_cost;
mod protect;
mod quarantine;
mod registration;
mod replica_kills;
mod skip;
mod status_writer;
mod strangers;
mod sweep;
mod two_writers;
mod unfit_pods;
mod validate_node;
