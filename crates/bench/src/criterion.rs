//! Pass criteria of a bench: `Criterion` is a figure with its required range, and `judge` fails if one is not met.

use std::{fmt, ops::RangeInclusive};

use anyhow::{Result, ensure};
use xtask::terminal::print;

/// A figure and where it must be.
#[derive(Debug, Clone, PartialEq)]
pub struct Criterion {
    /// The figure's key in the report.
    pub figure: String,
    /// What was measured; not a number never passes.
    pub measured: f64,
    /// Where it must be.
    pub range: RangeInclusive<f64>,
}

impl Criterion {
    /// A figure that has no lower limit.
    pub(crate) fn at_most(figure: &str, measured: f64, most: f64) -> Self {
        Self {
            figure: figure.to_owned(),
            measured,
            range: f64::NEG_INFINITY..=most,
        }
    }

    fn is_met(&self) -> bool {
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

/// Says of each whether it is met.
///
/// # Errors
/// If one is not.
pub fn judge(criteria: &[Criterion]) -> Result<()> {
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
    fn a_figure_outside_its_range_or_none_at_all_fails() {
        let fine = criterion(1.0, 0.9..=1.1);
        assert_eq!(fine.to_string(), "PASS x_s: 1.000, must be 0.900 to 1.100");
        judge(std::slice::from_ref(&fine)).unwrap();
        for wrong in [
            criterion(1.2, 0.9..=1.1),
            criterion(3.0, f64::NEG_INFINITY..=2.0),
            criterion(0.9, 1.0..=f64::INFINITY),
            criterion(f64::NAN, f64::NEG_INFINITY..=2.0),
        ] {
            assert!(wrong.to_string().starts_with("FAIL"), "{wrong}");
            judge(&[fine.clone(), wrong]).unwrap_err();
        }
    }
}
