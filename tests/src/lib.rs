//! Helpers of the end-to-end tests. Each folder in `tests/` is one test program, named after the kind of real part
//! that it needs: `process`, `kernel`, `apiserver` or `node`.
#![forbid(unsafe_code)]
#![expect(
    clippy::missing_panics_doc,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests panic: a returned error has no stack"
)]

pub mod admission;
pub mod agent;
pub mod balancer;
pub mod bound_pods;
pub mod built;
pub mod caller_certificate;
pub mod cgroup;
pub mod confined;
pub mod console;
pub mod cpu_load;
pub mod cpu_shares;
pub mod custom_kinds;
pub mod delayed_proxy;
pub mod etcd;
pub mod first_schema;
pub mod foreign_webhook;
pub mod helm;
pub mod hint_server;
pub mod image_archive;
pub mod imports;
#[cfg(target_arch = "x86_64")]
pub mod intruder;
pub mod kernel;
pub mod kernel_types;
pub mod kubelet_double;
pub mod language;
pub mod lone_cpu;
pub mod metrics_server;
pub mod metrics_watch;
pub mod names;
pub mod namespaces;
pub mod node_traces;
pub mod node_writer;
pub mod numbered_checkpoints;
pub mod pace;
pub mod people;
pub mod pod_tree;
pub mod policy_install;
mod pool;
pub mod process_resources;
pub mod product;
pub mod prometheus;
pub mod prometheus_samples;
pub mod random;
pub mod raw_http2;
pub mod rendered_manifests;
pub mod review;
pub mod scheduler_double;
pub mod scripted_agent;
pub mod seccomp;
pub mod shell;
pub mod slo_commands;
pub mod slo_page;
pub mod slo_versions;
pub mod slow_bodies;
pub mod stand;
pub mod steady_agent;
pub mod stranger;
pub mod terminal;
pub mod tls_server;
pub mod token_reviewer;
pub mod transcript;
