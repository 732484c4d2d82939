//! Headroom's kernel programs and the ABI they share with the agent.
#![cfg_attr(target_arch = "bpf", no_std)]
