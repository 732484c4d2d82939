//! Pictures as separate files: a plot with its style, and the text of a terminal.

use crate::{escaped, line};

/// Style of a plot outside a page. It has its own background, because a viewer may use any.
const STYLE: &str = "svg{font:12px system-ui,sans-serif;fill:#222}.back{fill:#fff}.grid{stroke:#ddd;fill:none}\
.series{fill:none;stroke-width:1.8}@media(prefers-color-scheme:dark){svg{fill:#ddd}.back{fill:#181818}.grid{stroke:#444}}";
/// Namespace declaration that marks the XML as SVG.
const NAMESPACE: &str = "xmlns=\"http://www.w3.org/2000/svg\"";
/// Size of a terminal character, and margin around the text, in pixels.
const CHARACTER: usize = 8;
const LINE: usize = 18;
const MARGIN: usize = 16;

/// Converts an `svg` element of a plot into the content of a file.
pub fn picture(svg: &str) -> String {
    let Some((head, rest)) = svg.split_once('>') else {
        return svg.to_owned();
    };
    let head = head.replacen("<svg", &format!("<svg {NAMESPACE}"), 1);
    format!("{head}>\n<style>{STYLE}</style>\n<rect class=\"back\" width=\"100%\" height=\"100%\"/>{rest}")
}

/// Renders the text of a terminal as the content of an SVG file. Lines over 80 columns make it wider.
pub fn terminal(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let columns = lines
        .iter()
        .map(|text| text.chars().count())
        .max()
        .unwrap_or_default();
    let width = columns.max(80) * CHARACTER + 2 * MARGIN;
    let height = lines.len() * LINE + 2 * MARGIN;
    let mut svg = String::new();
    line(
        &mut svg,
        format_args!("<svg {NAMESPACE} viewBox=\"0 0 {width} {height}\" role=\"img\">"),
    );
    line(
        &mut svg,
        format_args!("<rect width=\"{width}\" height=\"{height}\" rx=\"6\" fill=\"#1b1f24\"/>"),
    );
    svg.push_str("<g fill=\"#d8dee4\" font-family=\"ui-monospace,Menlo,Consolas,monospace\" font-size=\"13\" xml:space=\"preserve\">\n");
    for (number, text) in (1..).zip(&lines) {
        let length = text.chars().count() * CHARACTER;
        if length > 0 {
            let y = MARGIN + number * LINE - 5;
            let text = escaped(text);
            // Columns stay aligned with any font.
            line(
                &mut svg,
                format_args!(
                    "<text x=\"{MARGIN}\" y=\"{y}\" textLength=\"{length}\" lengthAdjust=\"spacingAndGlyphs\">{text}</text>"
                ),
            );
        }
    }
    svg.push_str("</g>\n</svg>\n");
    svg
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Plot, Series, Shape};

    #[test]
    fn a_plot_becomes_a_file_with_its_style() {
        let plot = Plot {
            x: "hours",
            y: "CPUs",
            step: None,
            with: None,
            series: vec![Series::new("use", Shape::Line, vec![(0.0, 1.0), (1.0, 2.0)])],
        };
        let (svg, file) = (plot.svg(), picture(&plot.svg()));
        assert_eq!(file.matches("<svg").count(), 1);
        assert!(file.contains(NAMESPACE) && file.contains("<style>"), "{file}");
        let (_, drawn) = svg.split_once('>').unwrap();
        assert!(file.ends_with(drawn), "all that was drawn is there: {file}");
        assert_eq!(picture("no element"), "no element");
    }

    #[test]
    fn a_screen_keeps_its_lines_and_escapes_its_text() {
        let file = terminal(" a <b>\n\n  c & d\n");
        assert!(file.contains("> a &lt;b&gt;</text>"), "{file}");
        assert!(file.contains(">  c &amp; d</text>"), "{file}");
        assert_eq!(file.matches("<text").count(), 2, "an empty line is room alone");
        assert!(file.contains("viewBox=\"0 0 672 86\""), "{file}");
        assert!(terminal(&"x".repeat(100)).contains("viewBox=\"0 0 832 50\""));
    }
}
