//! Entry point of `headroom-webhook`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use headroom_kit::log::chain;
use headroom_webhook::start::{self, flags};
use tikv_jemallocator::Jemalloc;

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

#[tokio::main]
async fn main() -> ExitCode {
    match start::run(flags::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            #[expect(clippy::print_stderr, reason = "logging may not have begun")]
            {
                eprintln!("headroom-webhook: {}", chain(&error));
            }
            ExitCode::from(error.exit_code())
        }
    }
}
