//! The kernel side of the agent: the running kernel's types, the kernel programs with their table of hooks and supervisor,
//! capabilities, and returning memory. The agent's only unsafe code is here.

pub mod btf;
pub mod cpu_source;
pub mod events;
pub(crate) mod file_pages;
pub(crate) mod heap;
pub mod hooks;
pub mod privilege;
pub mod probe;
pub mod supervisor;
