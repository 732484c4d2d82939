//! Pass criteria of a bench: `Criterion` is a figure with its required range, and `check_all` fails if one is not
//! met.

use std::{fmt, ops::RangeInclusive};

use anyhow::{Result, ensure};
use xtask::terminal::print;

/// A figure with its required range.
#[derive(Debug, Clone, PartialEq)]
pub struct Criterion {
    /// The figure's key in the report.
    pub figure: String,
    /// The measured value; NaN never passes.
    pub measured: f64,
    pub range: RangeInclusive<f64>,
}

impl Criterion {
    /// A figure without a lower limit.
    pub(crate) fn at_most(figure: &str, measured: f64, most: f64) -> Self {
        Self {
            figure: figure.to_owned(),
            measured,
            range: f64::NEG_INFINITY..=most,
        }
    }

    pub(crate) fn is_met(&self) -> bool {
        self.range.contains(&self.measured)
    }
}

impl fmt::Display for Criterion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            figure,
            measured,
            range,
        } = self;
        let verdict = if self.is_met() { "PASS" } else { "FAIL" };
        write!(f, "{verdict} {figure}: {measured:.3}, must be ")?;
        match (*range.start(), *range.end()) {
            (f64::NEG_INFINITY, most) => write!(f, "at most {most:.3}"),
            (least, f64::INFINITY) => write!(f, "at least {least:.3}"),
            (least, most) => write!(f, "{least:.3} to {most:.3}"),
        }
    }
}

/// Prints the verdict on each criterion.
///
/// # Errors
/// If one is not met.
pub fn check_all(criteria: &[Criterion]) -> Result<()> {
    for criterion in criteria {
        print(criterion);
    }
    let failed = criteria.iter().filter(|criterion| !criterion.is_met()).count();
    ensure!(failed == 0, "{failed} of {} criteria are not met", criteria.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn criterion(measured: f64, range: RangeInclusive<f64>) -> Criterion {
        Criterion {
            figure: "x_s".to_owned(),
            measured,
            range,
        }
    }

    #[test]
    fn figures_outside_their_range_and_nan_fail() {
        let fine = criterion(1.0, 0.9..=1.1);
        assert_eq!(fine.to_string(), "PASS x_s: 1.000, must be 0.900 to 1.100");
        check_all(std::slice::from_ref(&fine)).unwrap();
        for wrong in [
            criterion(1.2, 0.9..=1.1),
            criterion(3.0, f64::NEG_INFINITY..=2.0),
            criterion(0.9, 1.0..=f64::INFINITY),
            criterion(f64::NAN, f64::NEG_INFINITY..=2.0),
        ] {
            assert!(wrong.to_string().starts_with("FAIL"), "{wrong}");
            check_all(&[fine.clone(), wrong]).unwrap_err();
        }
    }
}
