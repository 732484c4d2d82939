//! Test program `kernel`: tests of the agent and its programs on the running kernel, as root. One program: linked once,
//! shared set-up.
#![forbid(unsafe_code)]

mod accuracy;
mod agent;
mod bench;
mod brakes;
mod cgroup;
mod churn;
mod events;
mod isolated;
mod lockdown;
mod loss;
mod no_pressure;
mod rollout;
mod sched;
mod shedding;
mod shortage;
mod start;
