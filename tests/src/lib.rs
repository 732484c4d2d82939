//! What end-to-end tests share. Each file in `tests/` begins with the kind of real part it needs: `process_`,
//! `kernel_` or `apiserver_`.
#![forbid(unsafe_code)]
#![expect(
    clippy::missing_panics_doc,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests panic: a returned error has no stack"
)]

pub mod admission;
pub mod cpu_load;
pub mod hint_server;
pub mod kernel;
pub mod scripted_agent;
pub mod stand;
