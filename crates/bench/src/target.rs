//! Targets of figures on the machines that Headroom is made for. A missed target is printed beside the figure but fails
//! no bench, because the machine decides as much as the code.

use std::fmt;

/// A figure and the most that it should be.
#[derive(Debug, Clone, Copy)]
pub(super) struct FigureTarget {
    /// The figure's key in the report.
    pub(super) figure: &'static str,
    /// What was measured; not a number never meets anything.
    pub(super) measured: f64,
    /// The most that it must be.
    pub(super) must: f64,
    /// The most that it should be one day.
    pub(super) stretch: Option<f64>,
}

impl fmt::Display for FigureTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            figure,
            measured,
            must,
            stretch,
        } = self;
        let verdict = |most: &f64| if measured <= most { "met" } else { "missed" };
        write!(f, "{figure}: {measured:.2}, target {must:.2} {}", verdict(must))?;
        match stretch {
            Some(stretch) => write!(f, ", stretch {stretch:.2} {}", verdict(stretch)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_is_said_to_be_met_or_missed() {
        let target = |measured, stretch| {
            FigureTarget {
                figure: "x_ns",
                measured,
                must: 80.0,
                stretch,
            }
            .to_string()
        };
        assert_eq!(
            target(57.0, Some(40.0)),
            "x_ns: 57.00, target 80.00 met, stretch 40.00 missed"
        );
        assert_eq!(target(80.1, None), "x_ns: 80.10, target 80.00 missed");
        assert!(target(f64::NAN, Some(40.0)).ends_with("80.00 missed, stretch 40.00 missed"));
    }
}
