//! The agent and its programs on the running kernel; root: one program, so that it is linked once and its tests share what can be shared.
#![forbid(unsafe_code)]

mod accuracy;
mod agent;
mod bench;
mod brakes;
mod cgroup;
mod churn;
mod events;
mod lockdown;
mod loss;
mod sched;
mod shed;
