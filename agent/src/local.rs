//! The agent's state on its own machine: the checkpoint, the status with its signals and gauges, and the debug socket.

pub mod checkpoint;
pub mod debug;
pub mod gauges;
pub mod signals;
pub mod status;
