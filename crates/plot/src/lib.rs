//! SVG plots, a self-contained HTML page for them, and pictures as files: equal numbers give equal bytes.
//!
//! The simulator and `kubectl headroom advise` draw their reports with this crate.
//!
//! ```
//! use headroom_plot::{Page, Plot, Series, Shape};
//!
//! let use_of_day = Series::new("use", Shape::Line, vec![(0.0, 3.5), (12.0, 7.0), (24.0, 3.0)]);
//! let mut page = Page::new("A node's day");
//! page.figure("Demand", &Plot { x: "hours", y: "CPUs", step: Some(3.0), with: None, series: vec![use_of_day] }.svg());
//! assert!(page.finish().contains("<svg"));
//! ```
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod axis;
mod bars;
mod page;
mod picture;
mod plot;

use std::fmt::{Arguments, Write as _};

pub use self::{
    bars::{Bars, Row},
    page::{Page, table},
    picture::{picture, terminal},
    plot::{Plot, Series, Shape},
};

/// Width of every picture, in SVG user units; a page scales it.
const WIDTH: f64 = 860.0;
/// Colours of the series, in order; readers with colour vision deficiency can distinguish them.
const COLOURS: [&str; 12] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#6a3d9a", "#7f7f7f", "#b15928",
    "#1b7837", "#762a83", "#000000",
];

/// Escapes a text for HTML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// Returns `text` if it has at most `most` characters, else its start with an ellipsis as the last character.
fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let kept: String = text.chars().take(most.saturating_sub(1)).collect();
    kept + "…"
}

/// Appends a line to a text.
fn line(text: &mut String, line: Arguments<'_>) {
    // Writing to a string does not fail.
    writeln!(text, "{line}").ok();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_cut_at_characters() {
        assert_eq!(shortened("größe", 5), "größe");
        assert_eq!(shortened("größer", 5), "größ…");
    }
}
