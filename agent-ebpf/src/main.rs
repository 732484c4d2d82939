//! Crate root of the kernel programs. On the host it is an empty stub, so that the workspace builds without a BPF
//! target.
#![cfg_attr(target_arch = "bpf", no_std, no_main, feature(asm_experimental_arch))]

#[cfg(target_arch = "bpf")]
mod bpf;

/// The agent's build script builds the programs for `bpfel-unknown-none`; there is nothing to run here.
#[cfg(not(target_arch = "bpf"))]
fn main() {}
