//! Test program `process`: tests of the workspace's programs as processes, and of its sources. One program: linked
//! once, shared set-up.
#![forbid(unsafe_code)]

mod advise;
mod advise_simulator;
mod agent;
mod agent_cli;
mod agent_config;
mod agent_missing;
mod attacks;
mod checkpoint;
mod config_check;
mod config_page;
mod documented_commands;
mod expensive_bodies;
mod extending;
mod hint_life;
mod images;
mod imports;
mod language;
mod logs;
mod named_tests;
mod one_cpu;
mod overload;
mod readme_figures;
mod silent_server;
mod sources;
mod webhook;
mod workspace;
