//! An HTML page of headings, texts, tables and pictures. It loads no other resources, and follows the reader's dark
//! mode.

use crate::{escaped, line};

/// Style sheet of the page, for light and dark mode.
const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:64em;margin:2em auto;padding:0 1em;color:#222;background:#fff}\
table{border-collapse:collapse;font-size:13px}td,th{padding:.2em .7em;text-align:right;border-bottom:1px solid #ccc}\
td:first-child,th:first-child{text-align:left}svg{width:100%;height:auto;font:12px system-ui,sans-serif;fill:#222}\
.grid{stroke:#ddd;fill:none}.series{fill:none;stroke-width:1.8}div{overflow-x:auto}\
@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}svg{fill:#ddd}.grid{stroke:#444}}";

/// A page under construction. Texts are escaped; bodies of figures are HTML.
#[derive(Debug, Clone)]
pub struct Page(String);

impl Page {
    /// Creates an empty page with this title.
    pub fn new(title: &str) -> Self {
        Self(format!(
            "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>{}</title>\n<style>{STYLE}</style>\n",
            escaped(title)
        ))
    }

    /// Adds the main heading of the page.
    pub fn heading(&mut self, text: &str) {
        self.element("h1", text);
    }

    /// Adds the heading of a section.
    pub fn section(&mut self, text: &str) {
        self.element("h2", text);
    }

    /// Adds a paragraph of text.
    pub fn text(&mut self, text: &str) {
        self.element("p", text);
    }

    /// Adds a paragraph in a monospace font, for commands and parameters.
    pub fn code(&mut self, text: &str) {
        line(&mut self.0, format_args!("<p><code>{}</code></p>", escaped(text)));
    }

    /// Adds a list with one item per sentence.
    pub fn list<'t>(&mut self, items: impl IntoIterator<Item = &'t str>) {
        self.0.push_str("<ul>\n");
        for item in items {
            self.element("li", item);
        }
        self.0.push_str("</ul>\n");
    }

    /// Adds a list of terms with their definitions.
    pub fn terms<'t>(&mut self, terms: impl IntoIterator<Item = (&'t str, &'t str)>) {
        self.0.push_str("<dl>\n");
        for (term, meaning) in terms {
            let (term, meaning) = (escaped(term), escaped(meaning));
            line(&mut self.0, format_args!("<dt><code>{term}</code><dd>{meaning}"));
        }
        self.0.push_str("</dl>\n");
    }

    /// Adds a picture or a table with its heading. `body` is HTML: an `svg` element, or the result of [`table`].
    pub fn figure(&mut self, title: &str, body: &str) {
        self.element("h3", title);
        line(&mut self.0, format_args!("<div>{body}</div>"));
    }

    /// Returns the complete HTML of the page.
    pub fn finish(mut self) -> String {
        self.0.push_str("</html>\n");
        self.0
    }

    fn element(&mut self, name: &str, text: &str) {
        line(&mut self.0, format_args!("<{name}>{}</{name}>", escaped(text)));
    }
}

/// Renders a table as HTML; the first column is for names, the others are for numbers.
pub fn table<'c>(
    columns: impl IntoIterator<Item = &'c str>,
    rows: impl IntoIterator<Item = Vec<String>>,
) -> String {
    let mut table = "<table><tr>".to_owned();
    for name in columns {
        table.extend(["<th>", &escaped(name)]);
    }
    for row in rows {
        table.push_str("\n<tr>");
        for cell in row {
            table.extend(["<td>", &escaped(&cell)]);
        }
    }
    table.push_str("\n</table>");
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_escapes_texts_and_loads_nothing() {
        let mut page = Page::new("<title>");
        page.heading("<h>");
        page.section("<s>");
        page.text("<p>");
        page.code("<c>");
        page.list(["<i>"]);
        page.terms([("<t>", "<m>")]);
        page.figure("<f>", &table(["<col>"], [vec!["<cell>".to_owned()]]));
        let html = page.finish();
        for text in ["title", "h", "s", "p", "c", "i", "t", "m", "f", "col", "cell"] {
            assert!(html.contains(&format!("&lt;{text}&gt;")), "{text}: {html}");
        }
        for foreign in ["http", "src=", "href=", "@import", "url(", "<script"] {
            assert!(!html.contains(foreign), "{foreign}");
        }
        assert!(html.starts_with("<!doctype html>") && html.ends_with("</html>\n"));
    }
}
