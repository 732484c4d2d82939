//! A plot as SVG: axes with round numbers, lines, steps and points, a legend.

use std::fmt::Write as _;

/// Size of a plot, and of the room for axes around its field.
const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 190.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 46.0;
/// About as many ticks as an axis gets.
const TICKS: f64 = 8.0;
/// Colours of series in turn, told apart by people who see few as well.
const COLOURS: [&str; 12] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#6a3d9a", "#7f7f7f", "#b15928",
    "#1b7837", "#762a83", "#000000",
];

/// How a series is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// From point to point.
    Line,
    /// Level from each point to the next.
    Steps,
    /// A dot for each point.
    Dots,
}

/// Points with a name.
#[derive(Debug, Clone)]
pub(super) struct Series {
    /// Its name in the legend.
    pub(super) name: String,
    /// How it is drawn.
    pub(super) shape: Shape,
    /// The points.
    pub(super) points: Vec<(f64, f64)>,
}

/// A plot.
#[derive(Debug, Clone)]
pub(super) struct Plot {
    /// What the horizontal axis counts.
    pub(super) x: &'static str,
    /// What the vertical axis counts.
    pub(super) y: &'static str,
    /// The series.
    pub(super) series: Vec<Series>,
}

/// An axis: its range, and where its pixels begin and end.
#[derive(Debug, Clone, Copy)]
struct Axis {
    least: f64,
    most: f64,
    step: f64,
    from: f64,
    to: f64,
}

impl Series {
    /// A series.
    pub(super) fn new(name: impl Into<String>, shape: Shape, points: Vec<(f64, f64)>) -> Self {
        Self {
            name: name.into(),
            shape,
            points,
        }
    }
}

impl Axis {
    /// An axis over all values, from and to round numbers.
    fn over(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
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
        let rough = (most - least) / TICKS;
        let power = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0]
            .map(|part| part * power)
            .into_iter()
            .find(|&step| step >= rough)
            .unwrap_or(rough);
        Self {
            least: (least / step).floor() * step,
            most: (most / step).ceil() * step,
            step,
            from,
            to,
        }
    }

    fn at(&self, value: f64) -> f64 {
        self.from + (value - self.least) / (self.most - self.least) * (self.to - self.from)
    }

    fn ticks(&self) -> impl Iterator<Item = f64> + '_ {
        (0..=40_u32)
            .map(|number| self.least + f64::from(number) * self.step)
            .take_while(|tick| *tick <= self.most + self.step / 2.0)
    }

    fn label(&self, tick: f64) -> String {
        if self.step >= 1.0 {
            format!("{tick:.0}")
        } else if self.step >= 0.1 {
            format!("{tick:.1}")
        } else {
            format!("{tick:.2}")
        }
    }
}

impl Plot {
    /// The plot as an `svg` element.
    pub(super) fn svg(&self) -> String {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let x = Axis::over(points().map(|point| point.0), LEFT, WIDTH - RIGHT);
        let y = Axis::over(points().map(|point| point.1), HEIGHT - BOTTOM, TOP);
        let mut svg = format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\">\n");
        self.axes(&mut svg, x, y);
        for (at, (series, colour)) in self.series.iter().zip(COLOURS.iter().cycle()).enumerate() {
            series.draw(&mut svg, x, y, colour);
            let row = TOP + 16.0 * (f64::from(u32::try_from(at).unwrap_or_default()) + 0.5);
            let column = WIDTH - RIGHT + 14.0;
            let name = escaped(&series.name);
            line(
                &mut svg,
                format_args!(
                    "<rect x=\"{column}\" y=\"{:.1}\" width=\"12\" height=\"4\" fill=\"{colour}\"/>",
                    row - 5.0
                ),
            );
            line(
                &mut svg,
                format_args!("<text x=\"{:.1}\" y=\"{row:.1}\">{name}</text>", column + 18.0),
            );
        }
        svg.push_str("</svg>\n");
        svg
    }

    fn axes(&self, svg: &mut String, x: Axis, y: Axis) {
        for tick in x.ticks() {
            let (at, label) = (x.at(tick), x.label(tick));
            line(
                svg,
                format_args!("<path class=\"grid\" d=\"M{at:.1} {:.1}V{:.1}\"/>", y.from, y.to),
            );
            line(
                svg,
                format_args!(
                    "<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>",
                    y.from + 16.0
                ),
            );
        }
        for tick in y.ticks() {
            let (at, label) = (y.at(tick), y.label(tick));
            line(
                svg,
                format_args!("<path class=\"grid\" d=\"M{:.1} {at:.1}H{:.1}\"/>", x.from, x.to),
            );
            line(
                svg,
                format_args!(
                    "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
                    x.from - 6.0,
                    at + 4.0
                ),
            );
        }
        let middle = f64::midpoint(x.from, x.to);
        line(
            svg,
            format_args!(
                "<text x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                HEIGHT - 8.0,
                escaped(self.x)
            ),
        );
        let middle = f64::midpoint(y.from, y.to);
        line(
            svg,
            format_args!(
                "<text x=\"14\" y=\"{middle:.1}\" text-anchor=\"middle\" transform=\"rotate(-90 14 {middle:.1})\">{}</text>",
                escaped(self.y)
            ),
        );
    }
}

impl Series {
    fn draw(&self, svg: &mut String, x: Axis, y: Axis, colour: &str) {
        let places = self.points.iter().map(|&(right, up)| (x.at(right), y.at(up)));
        match self.shape {
            Shape::Dots => {
                let name = escaped(&self.name);
                for (right, up) in places {
                    line(
                        svg,
                        format_args!(
                            "<circle cx=\"{right:.1}\" cy=\"{up:.1}\" r=\"5\" fill=\"{colour}\"><title>{name}</title></circle>"
                        ),
                    );
                }
            }
            Shape::Line | Shape::Steps => {
                let mut path = String::new();
                for (number, (right, up)) in places.enumerate() {
                    let piece = match (number, self.shape) {
                        (0, _) => format!("M{right:.1} {up:.1}"),
                        (_, Shape::Steps) => format!("H{right:.1}V{up:.1}"),
                        (_, Shape::Line | Shape::Dots) => format!("L{right:.1} {up:.1}"),
                    };
                    path.push_str(&piece);
                }
                line(
                    svg,
                    format_args!("<path class=\"series\" stroke=\"{colour}\" d=\"{path}\"/>"),
                );
            }
        }
    }
}

/// Adds a line of text.
fn line(svg: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    writeln!(svg, "{text}").ok();
}

/// Text with what means something to HTML replaced.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_at_round_numbers_around_all_values() {
        let axis = Axis::over([0.93, 2.13].into_iter(), 0.0, 100.0);
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
    fn nothing_and_one_value_have_axes_too() {
        for values in [&[][..], &[7.0], &[f64::NAN]] {
            let axis = Axis::over(values.iter().copied(), 0.0, 100.0);
            assert!(axis.least < axis.most && axis.ticks().count() > 1);
        }
    }

    #[test]
    fn series_are_drawn_in_their_shape_with_their_name() {
        let plot = Plot {
            x: "hours",
            y: "CPUs",
            series: vec![
                Series::new("a < b", Shape::Steps, vec![(0.0, 0.0), (1.0, 10.0)]),
                Series::new("c", Shape::Dots, vec![(0.5, 5.0)]),
            ],
        };
        let svg = plot.svg();
        assert!(
            svg.contains("d=\"M60.0 354.0H670.0V14.0\"") && svg.contains("a &lt; b"),
            "{svg}"
        );
        assert!(svg.contains("cx=\"365.0\" cy=\"184.0\""), "{svg}");
    }
}
