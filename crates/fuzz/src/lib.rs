//! The checks of the fuzz targets under `tests/fuzz`. Each takes any bytes and panics where a Headroom program would be
//! wrong.
//!
//! `cargo xtask fuzz TARGET` searches for such bytes; `cargo test` replays the saved ones in `tests/fuzz/corpus`.
#![forbid(unsafe_code)]
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    reason = "a finding is a panic"
)]

pub mod configuration;
pub mod note;
pub mod quantity;
pub mod review;
pub mod slo;

/// A fuzz target.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Its name: of its file and of the folder of its corpus.
    pub name: &'static str,
    /// Panics if something is wrong with what becomes of these bytes.
    pub check: fn(&[u8]),
}

/// All targets.
pub static TARGETS: [Target; 5] = [
    Target {
        name: "configuration",
        check: configuration::check,
    },
    Target {
        name: "note",
        check: note::check,
    },
    Target {
        name: "quantity",
        check: quantity::check,
    },
    Target {
        name: "review",
        check: review::check,
    },
    Target {
        name: "slo",
        check: slo::check,
    },
];
