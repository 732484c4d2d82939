//! Crate root of the kernel programs that `headroom-bench` compares with the agent's own. On the host it is an empty
//! stub.
#![cfg_attr(target_arch = "bpf", no_std, no_main)]

#[cfg(target_arch = "bpf")]
mod programs;

/// The programs are built for `bpfel-unknown-none` by the agent's build script, if the bench is to be built; there is
/// nothing to run here.
#[cfg(not(target_arch = "bpf"))]
fn main() {}
