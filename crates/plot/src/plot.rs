//! A plot as SVG: axes with round numbers, lines, steps and points, a legend.

use crate::{COLOURS, WIDTH, axis::Axis, escaped, line, shortened};

/// Height of a plot, and margins for axes and legend.
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 190.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 46.0;
/// Maximum number of characters of a name in the legend; the full name is in its title.
const NAME: usize = 25;

/// Drawing style of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// A line from point to point.
    Line,
    /// A level line from each point to the next.
    Steps,
    /// A dot at each point.
    Dots,
}

/// Named points of one line in a plot.
#[derive(Debug, Clone)]
pub struct Series {
    /// Name in the legend, not shortened.
    pub name: String,
    /// Drawing style of the points.
    pub shape: Shape,
    /// Points as x and y, in drawing order.
    pub points: Vec<(f64, f64)>,
}

/// Plot of several series over common axes.
#[derive(Debug, Clone)]
pub struct Plot {
    /// Label of the horizontal axis, with its unit.
    pub x: &'static str,
    /// Label of the vertical axis, with its unit.
    pub y: &'static str,
    /// Distance between ticks of the horizontal axis, if decimal round numbers do not fit, such as for hours.
    pub step: Option<f64>,
    /// Value that the vertical axis must include, such as 0 if amounts are compared.
    pub with: Option<f64>,
    /// The series, in the order of the legend.
    pub series: Vec<Series>,
}

impl Series {
    /// Creates a series with this name, style and points.
    pub fn new(name: impl Into<String>, shape: Shape, points: Vec<(f64, f64)>) -> Self {
        Self {
            name: name.into(),
            shape,
            points,
        }
    }
}

impl Plot {
    /// Renders the plot as an `svg` element.
    pub fn svg(&self) -> String {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let x = Axis::over(points().map(|point| point.0), self.step, LEFT, WIDTH - RIGHT);
        let y = Axis::over(
            points().map(|point| point.1).chain(self.with),
            None,
            HEIGHT - BOTTOM,
            TOP,
        );
        let mut svg = format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\">\n");
        self.axes(&mut svg, x, y);
        for (at, (series, colour)) in self.series.iter().zip(COLOURS.iter().cycle()).enumerate() {
            series.draw(&mut svg, x, y, colour);
            let row = TOP + 16.0 * (f64::from(u32::try_from(at).unwrap_or_default()) + 0.5);
            let column = WIDTH - RIGHT + 14.0;
            let name = escaped(&shortened(&series.name, NAME));
            let title = escaped(&series.name);
            line(
                &mut svg,
                format_args!(
                    "<rect x=\"{column}\" y=\"{:.1}\" width=\"12\" height=\"4\" fill=\"{colour}\"/>",
                    row - 5.0
                ),
            );
            line(
                &mut svg,
                format_args!(
                    "<text x=\"{:.1}\" y=\"{row:.1}\"><title>{title}</title>{name}</text>",
                    column + 18.0
                ),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_includes_the_given_value() {
        let svg = |with| {
            let series = vec![Series::new("a", Shape::Line, vec![(0.0, 40.0), (1.0, 50.0)])];
            Plot {
                x: "hours",
                y: "CPUs",
                step: None,
                with,
                series,
            }
            .svg()
        };
        assert!(!svg(None).contains(">0</text>") && svg(Some(0.0)).contains(">0</text>"));
    }

    #[test]
    fn series_are_drawn_in_their_shape_with_their_name() {
        let plot = Plot {
            x: "hours",
            y: "CPUs",
            step: None,
            with: None,
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
