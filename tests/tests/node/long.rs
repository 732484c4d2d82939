//! Tests of the product as pods that take minutes: faults of its pods and of the node, memory pressure, exclusive CPUs, and resizes.
//! `cargo xtask test --long real-node` runs them.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "tests panic: a returned error has no stack"
)]

mod agent_ends;
mod containerd;
mod containers;
mod eviction;
mod exclusive_cpus;
mod faults;
mod full_node;
mod replaced_webhook;
mod resize;
mod rolled_back;
mod rollouts;
mod status_writer;
