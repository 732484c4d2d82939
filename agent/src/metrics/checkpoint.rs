//! The counter of saved and failed checkpoints; `local::checkpoint` increments it.

use headroom_kit::metric::{Counter, Unit};

headroom_kit::metrics! {
    pub static CHECKPOINTS: Counter<1> = Counter::new(
        "headroom_agent_checkpoints_total",
        Unit::Count,
        &["result"],
        "Checkpoints of the estimator: saved, or failed; after a failure, a restart continues from \
         the last saved one.",
    );
}
