//! An axis of a plot or bar chart: a range of round numbers around all values, its ticks, and each value's position.

/// Approximate number of ticks on an axis.
const TICKS: f64 = 8.0;

/// An axis: its range of values, and the pixels of both ends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Axis {
    least: f64,
    most: f64,
    step: f64,
    /// Pixel position of the lowest value.
    pub(crate) from: f64,
    /// Pixel position of the highest value.
    pub(crate) to: f64,
}

impl Axis {
    /// Creates an axis over all values. Its ends are multiples of `step`, or of a round number that gives about eight
    /// ticks.
    pub(crate) fn over(values: impl Iterator<Item = f64>, step: Option<f64>, from: f64, to: f64) -> Self {
        let (least, most) = values
            .filter(|value| value.is_finite())
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| {
                (least.min(value), most.max(value))
            });
        let (least, most) = if least < most {
            (least, most)
        } else if least.is_finite() {
            (least, least + 1.0)
        } else {
            (0.0, 1.0)
        };
        let step = step.unwrap_or_else(|| round(most - least));
        Self {
            least: (least / step).floor() * step,
            most: (most / step).ceil() * step,
            step,
            from,
            to,
        }
    }

    /// Returns the pixel position of a value.
    pub(crate) fn at(&self, value: f64) -> f64 {
        self.from + (value - self.least) / (self.most - self.least) * (self.to - self.from)
    }

    /// Values with a tick, in ascending order.
    pub(crate) fn ticks(&self) -> impl Iterator<Item = f64> + '_ {
        (0..=40_u32)
            .map(|number| self.least + f64::from(number) * self.step)
            .take_while(|tick| *tick <= self.most + self.step / 2.0)
    }

    /// Label of a tick, with enough decimals to differ from its neighbours.
    pub(crate) fn label(&self, tick: f64) -> String {
        if self.step >= 1.0 {
            format!("{tick:.0}")
        } else if self.step >= 0.1 {
            format!("{tick:.1}")
        } else if self.step >= 0.01 {
            format!("{tick:.2}")
        } else {
            format!("{tick:.3}")
        }
    }
}

/// Returns a round number; about eight of them make up `width`.
fn round(width: f64) -> f64 {
    let rough = width / TICKS;
    let power = 10_f64.powf(rough.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .map(|part| part * power)
        .into_iter()
        .find(|&step| step >= rough)
        .unwrap_or(rough)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_at_round_numbers_around_all_values() {
        let axis = Axis::over([0.93, 2.13].into_iter(), None, 0.0, 100.0);
        assert!(
            (axis.least - 0.8).abs() < 1e-9
                && (axis.most - 2.2).abs() < 1e-9
                && (axis.step - 0.2).abs() < 1e-9
        );
        assert_eq!(
            axis.ticks()
                .map(|tick| axis.label(tick))
                .collect::<Vec<_>>()
                .join(" "),
            "0.8 1.0 1.2 1.4 1.6 1.8 2.0 2.2"
        );
        assert!((axis.at(1.5) - 50.0).abs() < 1e-9);
    }

    #[test]
    fn a_day_ends_at_24() {
        let axis = Axis::over([0.0, 23.9].into_iter(), Some(3.0), 0.0, 100.0);
        assert_eq!(
            (axis.label(axis.most), axis.ticks().count()),
            ("24".to_owned(), 9)
        );
    }

    #[test]
    fn axes_exist_for_no_values_and_for_one() {
        for values in [&[][..], &[7.0], &[f64::NAN]] {
            let axis = Axis::over(values.iter().copied(), None, 0.0, 100.0);
            assert!(axis.least < axis.most && axis.ticks().count() > 1);
        }
    }

    #[test]
    fn neighbouring_ticks_never_read_the_same() {
        for most in [0.0123, 0.123, 1.23, 12.3, 123.0] {
            let axis = Axis::over([0.0, most].into_iter(), None, 0.0, 100.0);
            let mut labels: Vec<String> = axis.ticks().map(|tick| axis.label(tick)).collect();
            let count = labels.len();
            labels.dedup();
            assert_eq!(labels.len(), count, "{labels:?}");
        }
    }
}
