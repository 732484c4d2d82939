//! The library of `cargo xtask`: set-up, test suite and virtual machines. It builds and runs the other programs, which
//! know Kubernetes or Headroom.
#![forbid(unsafe_code)]

pub mod controlplane;
pub mod cpu_time;
pub mod demo;
pub mod fuzz;
pub mod lasting;
pub mod launch;
pub mod mutants;
pub mod process;
pub mod setup;
pub mod suite;
pub mod terminal;
pub mod tree;
pub mod workspace;
