//! Checks of the fuzz targets in `tests/fuzz`. Each accepts any bytes, and panics if Headroom's code handles them wrongly.
//!
//! `cargo xtask fuzz TARGET` searches for such bytes. `cargo test` replays the inputs in `tests/fuzz/corpus`.
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

#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Name of its file and of its corpus folder.
    pub name: &'static str,
    /// Panics if the code handles these bytes wrongly.
    pub check: fn(&[u8]),
}

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
