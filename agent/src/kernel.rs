//! The kernel side of the agent: what this kernel offers, the programs that count in it, and who keeps them at work. The only
//! unsafe code is here.

pub mod btf;
pub mod events;
pub mod privilege;
pub mod probe;
pub mod supervisor;
