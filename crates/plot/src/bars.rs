//! A bar chart as SVG: one row per item, and in each row one bar per series with its number.

use crate::{COLOURS, WIDTH, axis::Axis, escaped, line, shortened};

/// Width for row names on the left and for numbers behind the bars.
const LEFT: f64 = 190.0;
const RIGHT: f64 = 170.0;
/// Height of the legend, and the top margin without one.
const LEGEND: f64 = 30.0;
const EDGE: f64 = 6.0;
const BOTTOM: f64 = 40.0;
/// Height of a bar, and gap between rows.
const BAR: f64 = 13.0;
const GAP: f64 = 9.0;
/// Maximum number of characters of a row's name; the full name is in its title.
const NAME: usize = 28;

/// Bar chart whose bars begin at zero.
#[derive(Debug, Clone)]
pub struct Bars {
    /// Label of the horizontal axis, with its unit.
    pub x: &'static str,
    /// Names of the series; each row has one bar per series.
    pub series: Vec<&'static str>,
    /// The rows, from top to bottom.
    pub rows: Vec<Row>,
}

/// Row of a bar chart: one item.
#[derive(Debug, Clone)]
pub struct Row {
    /// Name of the item, on the left.
    pub name: String,
    /// One value (not negative) per series, with the text behind its bar.
    pub bars: Vec<(f64, String)>,
}

impl Bars {
    /// Renders the chart as an `svg` element.
    pub fn svg(&self) -> String {
        let row_height = BAR * real(self.series.len()) + GAP;
        let top = if self.series.len() > 1 { LEGEND } else { EDGE };
        let bottom = top + row_height * real(self.rows.len());
        let height = bottom + BOTTOM;
        let values = self
            .rows
            .iter()
            .flat_map(|row| &row.bars)
            .map(|(value, _)| *value);
        let x = Axis::over(values.chain([0.0]), None, LEFT, WIDTH - RIGHT);
        let mut svg = format!("<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">\n");
        self.axis(&mut svg, x, (top, bottom));
        for (number, row) in self.rows.iter().enumerate() {
            row.draw(&mut svg, x, top + row_height * real(number) + GAP / 2.0);
        }
        svg.push_str("</svg>\n");
        svg
    }

    /// Draws the axis below, and the legend above if there is more than one series.
    fn axis(&self, svg: &mut String, x: Axis, (top, bottom): (f64, f64)) {
        for tick in x.ticks() {
            let (at, label) = (x.at(tick), x.label(tick));
            line(
                svg,
                format_args!("<path class=\"grid\" d=\"M{at:.1} {top}V{bottom:.1}\"/>"),
            );
            line(
                svg,
                format_args!(
                    "<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>",
                    bottom + 16.0
                ),
            );
        }
        line(
            svg,
            format_args!(
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                f64::midpoint(x.from, x.to),
                bottom + 34.0,
                escaped(self.x)
            ),
        );
        if self.series.len() < 2 {
            return;
        }
        let mut at = LEFT;
        for (name, colour) in self.series.iter().zip(COLOURS) {
            line(
                svg,
                format_args!("<rect x=\"{at:.1}\" y=\"8\" width=\"12\" height=\"8\" fill=\"{colour}\"/>"),
            );
            line(
                svg,
                format_args!("<text x=\"{:.1}\" y=\"16\">{}</text>", at + 18.0, escaped(name)),
            );
            // Letters of this size are at most 7 pixels wide on average.
            at += 40.0 + 7.0 * real(name.chars().count());
        }
    }
}

impl Row {
    fn draw(&self, svg: &mut String, x: Axis, top: f64) {
        let Self { name, bars } = self;
        line(
            svg,
            format_args!(
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\"><title>{}</title>{}</text>",
                LEFT - 8.0,
                top + BAR * real(bars.len()) / 2.0 + 4.0,
                escaped(name),
                escaped(&shortened(name, NAME))
            ),
        );
        for (number, ((value, text), colour)) in bars.iter().zip(COLOURS.iter().cycle()).enumerate() {
            let top = top + BAR * real(number);
            let end = x.at(*value);
            line(
                svg,
                format_args!(
                    "<rect x=\"{LEFT}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{colour}\"/>",
                    top + 1.0,
                    end - x.from,
                    BAR - 2.0
                ),
            );
            line(
                svg,
                format_args!(
                    "<text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                    end + 5.0,
                    top + 10.5,
                    escaped(text)
                ),
            );
        }
    }
}

/// Converts a small count; exact below 2^53.
fn real(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_begin_at_zero_and_carry_their_text() {
        let row = |name: &str, value: f64| Row {
            name: name.to_owned(),
            bars: vec![(value, format!("{value:.0} %"))],
        };
        let bars = Bars {
            x: "share, %",
            series: vec!["share"],
            rows: vec![row("a <b>", 10.0), row("c", 20.0)],
        };
        let svg = bars.svg();
        // 500 wide for 0 to 20.
        assert!(
            svg.contains("width=\"250.0\"") && svg.contains("width=\"500.0\""),
            "{svg}"
        );
        assert!(svg.contains(">10 %<") && svg.contains("a &lt;b&gt;"), "{svg}");
        assert!(!svg.contains(">share<"), "one series needs no legend: {svg}");
    }

    #[test]
    fn an_empty_chart_has_an_axis() {
        let nothing = |rows| Bars {
            x: "share, %",
            series: vec!["one", "other"],
            rows,
        };
        let zero = Row {
            name: "a".to_owned(),
            bars: vec![(0.0, "0".to_owned()); 2],
        };
        for bars in [nothing(Vec::new()), nothing(vec![zero])] {
            let svg = bars.svg();
            assert!(svg.contains(">one<") && !svg.contains("NaN"), "{svg}");
        }
    }
}
