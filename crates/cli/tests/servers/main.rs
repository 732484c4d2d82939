//! Tests of the built binary with servers, proxies, kubeconfigs and terminals of the test: its errors and its requests.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a test panics where it breaks")]

mod advise_server;
mod bad_input;
mod proxies;
mod support;
