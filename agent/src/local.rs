//! What the agent keeps and shows on its own machine: the checkpoint, the status and its signals, and the debug socket.

pub mod checkpoint;
pub mod debug;
pub mod gauges;
pub mod signals;
pub mod status;
