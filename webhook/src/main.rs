//! Entry point of `headroom-webhook`.
#![forbid(unsafe_code)]

use std::{process::ExitCode, time::Duration};

use headroom_kit::log::{chain, flush};
use headroom_webhook::start::{self, flags};
use tikv_jemallocator::Jemalloc;

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// Time for the last log lines.
const FLUSH_LIMIT: Duration = Duration::from_secs(1);

#[tokio::main]
async fn main() -> ExitCode {
    let ended = start::run(flags::parse()).await;
    flush(FLUSH_LIMIT);
    match ended {
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
