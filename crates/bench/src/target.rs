//! Targets of figures on typical machines. A missed target is printed but fails no bench, because the figure depends
//! on the machine as much as on the code.

use std::fmt;

/// A figure with its target.
#[derive(Debug, Clone, Copy)]
pub(super) struct FigureTarget {
    pub(super) figure: &'static str,
    /// The measured value; NaN misses every target.
    pub(super) measured: f64,
    pub(super) must: f64,
    /// Long-term target, if there is one.
    pub(super) stretch: Option<f64>,
}

impl FigureTarget {
    pub(super) const fn at_most(figure: &'static str, measured: f64, must: f64) -> Self {
        Self {
            figure,
            measured,
            must,
            stretch: None,
        }
    }
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
    fn each_target_is_reported_as_met_or_missed() {
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
