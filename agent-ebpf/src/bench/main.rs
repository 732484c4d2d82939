//! Crate root of the kernel programs that `headroom-bench` compares with the agent's own. On the host it is an empty
//! stub.
#![cfg_attr(target_arch = "bpf", no_std, no_main)]

#[cfg(target_arch = "bpf")]
mod programs;

/// The agent's build script builds the programs for `bpfel-unknown-none` if the feature `bench` is on; there is nothing to
/// run here.
#[cfg(not(target_arch = "bpf"))]
fn main() {}
