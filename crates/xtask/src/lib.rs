//! The library of `cargo xtask`: set-up, test suite and virtual machines. Programs that need Kubernetes or Headroom
//! libraries are separate; xtask builds and runs them.
#![forbid(unsafe_code)]

pub mod cpu_time;
pub mod demo;
pub mod deny;
pub mod duration;
pub mod elf;
pub mod fuzz;
pub mod images;
pub mod launch;
pub mod mutants;
pub mod process;
pub mod setup;
pub mod suite;
pub mod terminal;
pub mod workspace;
