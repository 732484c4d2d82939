//! [`Table`]: columns with a rank, and rows as kubectl prints them: no borders, two blanks between columns. If the
//! screen
//! is too narrow, the columns of the highest rank are left out first; columns never overlap.

use unicode_width::UnicodeWidthStr as _;

use self::Column::{Number, Text};
use crate::{
    escape::one_line,
    styled_text::{StyledText, Tone},
};

const GAP: usize = 2;
/// Minimum width of a truncated name.
const LEAST_WIDTH: usize = 8;
/// Minimum width of a truncated or wrapped text; below it, other columns are left out.
const LEAST_ELASTIC: usize = 20;
/// Replaces the removed part of a truncated text.
const CUT: char = '…';

/// A column and its title. Text is aligned left, numbers right.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Column {
    Text(&'static str),
    Number(&'static str),
}

/// A column and its rank.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RankedColumn {
    column: Column,
    rank: Rank,
}

/// Order in which columns are left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Always,
    /// Never left out; its words wrap.
    Wrapped,
    /// Left out on a narrow screen, highest number first.
    Narrow(u8),
    Wide,
}

/// Layout of a table or page.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    /// Columns of the terminal; `None` for no limit.
    pub width: Option<usize>,
    /// Show all columns, at any width.
    pub is_wide: bool,
    pub has_headers: bool,
}

impl Layout {
    /// A copy with the width reduced by an indentation.
    pub(crate) fn indented(self, indent: usize) -> Self {
        let width = self.width.map(|width| width.saturating_sub(indent));
        Self { width, ..self }
    }

    /// Column at which text wraps; no limit in a pipe.
    pub(crate) fn text_width(self) -> usize {
        self.width.unwrap_or(usize::MAX)
    }
}

impl Default for Layout {
    fn default() -> Self {
        Self {
            width: None,
            is_wide: false,
            has_headers: true,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) text: String,
    pub(crate) tone: Tone,
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self {
            text: text.into(),
            tone: Tone::Plain,
        }
    }
}

pub(crate) struct Table<const N: usize> {
    columns: [RankedColumn; N],
    rows: Vec<[Cell; N]>,
}

impl Column {
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Text(title) | Number(title) => title,
        }
    }

    pub(crate) const fn always(self) -> RankedColumn {
        RankedColumn {
            column: self,
            rank: Rank::Always,
        }
    }

    /// Left out on a narrow screen, before columns of a lower rank.
    pub(crate) const fn ranked(self, rank: u8) -> RankedColumn {
        RankedColumn {
            column: self,
            rank: Rank::Narrow(rank),
        }
    }

    /// Never left out; if it is too wide, its words wrap.
    pub(crate) const fn wrapped(self) -> RankedColumn {
        RankedColumn {
            column: self,
            rank: Rank::Wrapped,
        }
    }

    pub(crate) const fn wide(self) -> RankedColumn {
        RankedColumn {
            column: self,
            rank: Rank::Wide,
        }
    }
}

impl RankedColumn {
    /// True for a text that is truncated or wrapped before other columns are left out.
    const fn is_elastic(self) -> bool {
        matches!((self.column, self.rank), (Text(_), Rank::Always | Rank::Wrapped))
    }

    pub(crate) const fn wide(self) -> Self {
        self.column.wide()
    }

    pub(crate) const fn title(self) -> &'static str {
        self.column.title()
    }
}

impl<const N: usize> Table<N> {
    pub(crate) fn new(columns: &[RankedColumn; N], rows: impl Iterator<Item = [Cell; N]>) -> Self {
        let escaped = |cell: Cell| Cell {
            text: one_line(&cell.text).into_owned(),
            ..cell
        };
        Self {
            columns: *columns,
            rows: rows.map(|row| row.map(escaped)).collect(),
        }
    }

    /// Renders the table for a layout.
    pub(crate) fn render(&self, layout: Layout) -> StyledText {
        let shown = self.shown(layout);
        let mut text = StyledText::default();
        if layout.has_headers {
            let titles = self.columns.each_ref().map(|column| Cell {
                text: column.title().to_owned(),
                tone: Tone::Heading,
            });
            self.line(&mut text, &shown, &titles);
        }
        for row in &self.rows {
            self.line(&mut text, &shown, row);
        }
        text
    }

    /// Widths of the columns that are shown.
    fn shown(&self, layout: Layout) -> [Option<usize>; N] {
        let mut shown = self.widths(layout);
        for (width, column) in shown.iter_mut().zip(&self.columns) {
            if column.rank == Rank::Wide && !layout.is_wide {
                *width = None;
            }
        }
        let Some(limit) = layout.width.filter(|_| !layout.is_wide) else {
            return shown;
        };
        self.narrow(&mut shown, limit);
        while total(&shown) > limit {
            let ranks = self.columns.iter().map(|column| column.rank).enumerate();
            let still = ranks.filter(|(place, rank)| {
                *rank > Rank::Wrapped && shown.get(*place).is_some_and(Option::is_some)
            });
            let Some((last, _)) = still.max_by_key(|(_, rank)| *rank) else {
                break;
            };
            if let Some(width) = shown.get_mut(last) {
                *width = None;
            }
        }
        self.widen(&mut shown, limit);
        let excess = total(&shown).saturating_sub(limit);
        if let Some(widest) = shown.iter_mut().flatten().max() {
            *widest = widest.saturating_sub(excess).max(LEAST_WIDTH.min(*widest));
        }
        shown
    }

    /// Shrinks the columns that are never left out, down to their minimum width.
    fn narrow(&self, shown: &mut [Option<usize>; N], limit: usize) {
        let excess = total(shown).saturating_sub(limit);
        for (width, column) in shown.iter_mut().zip(&self.columns) {
            if let (Some(width), true) = (width, column.is_elastic()) {
                *width = width.saturating_sub(excess).max(LEAST_ELASTIC.min(*width));
            }
        }
    }

    /// Distributes the unused width to these columns.
    fn widen(&self, shown: &mut [Option<usize>; N], limit: usize) {
        let mut left = limit.saturating_sub(total(shown));
        let whole = self.widths(Layout::default());
        for ((width, column), whole) in shown.iter_mut().zip(&self.columns).zip(whole) {
            if let (Some(width), Some(whole), true) = (width, whole, column.is_elastic()) {
                let more = whole.saturating_sub(*width).min(left);
                *width += more;
                left -= more;
            }
        }
    }

    /// Width that each column needs.
    fn widths(&self, layout: Layout) -> [Option<usize>; N] {
        let mut widths = self
            .columns
            .map(|column| layout.has_headers.then(|| column.title().width()).or(Some(0)));
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(Some(cell.text.width()));
            }
        }
        widths
    }

    /// Writes a row: one line, or more if words wrap.
    fn line(&self, text: &mut StyledText, shown: &[Option<usize>; N], cells: &[Cell; N]) {
        let mut rest = cells.clone();
        loop {
            let mut is_last = true;
            let mut now: [Cell; N] = rest.clone();
            let wrapped = self.columns.iter().zip(shown).zip(now.iter_mut().zip(&mut rest));
            for ((column, width), (now, rest)) in wrapped {
                let (first, more) = match (column.rank, width) {
                    (Rank::Wrapped, Some(width)) => broken(&now.text, *width),
                    _ => (now.text.clone(), String::new()),
                };
                is_last &= more.is_empty();
                (now.text, rest.text) = (first, more);
            }
            self.single_line(text, shown, &now);
            if is_last {
                return;
            }
        }
    }

    fn single_line(&self, text: &mut StyledText, shown: &[Option<usize>; N], cells: &[Cell; N]) {
        let cells = self.columns.iter().zip(shown).zip(cells);
        let mut blanks = String::new();
        let mut is_first = true;
        for ((column, width), cell) in cells {
            let Some(width) = *width else { continue };
            if !is_first {
                blanks += &" ".repeat(GAP);
            }
            is_first = false;
            let content = cut(&cell.text, width);
            let missing = " ".repeat(width.saturating_sub(content.width()));
            if matches!(column.column, Number(_)) {
                blanks += &missing;
            }
            // Lines have no trailing blanks.
            if !content.is_empty() {
                text.push(Tone::Plain, std::mem::take(&mut blanks));
                text.push(cell.tone, content);
            }
            if matches!(column.column, Text(_)) {
                blanks += &missing;
            }
        }
        text.push(Tone::Plain, "\n");
    }
}

/// Splits text at the width between words. A word that does not fit is alone in its part.
fn broken(text: &str, width: usize) -> (String, String) {
    if text.width() <= width {
        return (text.to_owned(), String::new());
    }
    let mut first = String::new();
    for word in text.split_inclusive(' ') {
        if !first.is_empty() && first.width() + word.trim_end().width() > width {
            break;
        }
        first += word;
    }
    let rest = text.get(first.len()..).unwrap_or_default().to_owned();
    (first.trim_end().to_owned(), rest)
}

/// Total width of the columns.
fn total(shown: &[Option<usize>]) -> usize {
    let widths = shown.iter().flatten();
    widths.map(|width| width + GAP).sum::<usize>().saturating_sub(GAP)
}

/// Truncates a text in the middle, because names of nodes may differ at either end.
fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let room = width.saturating_sub(1);
    let head = within(text.chars(), room.div_ceil(2));
    let tail = within(text.chars().rev(), room / 2);
    head.chars().chain([CUT]).chain(tail.chars().rev()).collect()
}

/// The longest prefix that fits.
fn within(characters: impl Iterator<Item = char>, width: usize) -> String {
    let mut kept = String::new();
    for character in characters {
        kept.push(character);
        if kept.width() > width {
            kept.pop();
            break;
        }
    }
    kept
}

/// Renders a table in which all columns are shown.
pub(crate) fn table<const N: usize>(
    columns: &[Column; N],
    rows: impl Iterator<Item = [String; N]>,
) -> String {
    let rows = rows.map(|row| row.map(Cell::from));
    Table::new(&columns.map(Column::always), rows)
        .render(Layout::default())
        .plain()
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [RankedColumn; 4] = [
        Text("NAME").always(),
        Number("SIZE").ranked(2),
        Text("STATE").ranked(1),
        Text("UID").wide(),
    ];

    fn rendered(width: Option<usize>, is_wide: bool) -> String {
        let rows = [["long-name", "1", "held", "u1"], ["b", "1000", "", "u2"]];
        Table::new(&COLUMNS, rows.map(|row| row.map(Cell::from)).into_iter())
            .render(Layout {
                width,
                is_wide,
                has_headers: true,
            })
            .plain()
    }

    #[test]
    fn columns_are_left_out_by_rank_and_names_are_truncated_last() {
        let all = "NAME       SIZE  STATE\nlong-name     1  held\nb          1000\n";
        assert_eq!(rendered(None, false), all);
        assert_eq!(rendered(Some(22), false), all);
        assert_eq!(
            rendered(Some(21), false),
            "NAME       STATE\nlong-name  held\nb\n"
        );
        assert_eq!(rendered(Some(15), false), "NAME\nlong-name\nb\n");
        assert_eq!(rendered(Some(8), false), "NAME\nlong…ame\nb\n");
        assert_eq!(rendered(Some(1), false), "NAME\nlong…ame\nb\n");
    }

    #[test]
    fn a_long_name_is_truncated_to_a_readable_width() {
        let row = ["pool-0123456789-0123456789-a", "1", "held", "u"].map(Cell::from);
        let table = Table::new(&COLUMNS, [row].into_iter());
        let layout = Layout {
            width: Some(38),
            ..Layout::default()
        };
        assert_eq!(
            table.render(layout).plain(),
            "NAME                       SIZE  STATE\npool-0123456…0123456789-a     1  held\n"
        );
    }

    #[test]
    fn words_wrap_before_columns_are_left_out() {
        let columns = [
            Text("CODE").always(),
            Text("OF").ranked(1),
            Text("MEANING").wrapped(),
        ];
        let row = ["a", "rule", "words that do not fit into so few columns"].map(Cell::from);
        let table = Table::new(&columns, [row].into_iter());
        let at = |width| {
            let layout = Layout {
                width: Some(width),
                ..Layout::default()
            };
            table.render(layout).plain()
        };
        assert_eq!(
            at(40),
            "CODE  OF    MEANING\na     rule  words that do not fit into\n            so few columns\n"
        );
        assert_eq!(
            at(31),
            "CODE  MEANING\na     words that do not fit\n      into so few columns\n"
        );
        assert_eq!(at(60).lines().count(), 2);
    }

    #[test]
    fn a_wide_table_has_all_columns_on_any_screen() {
        let text = rendered(Some(8), true);
        assert_eq!(
            text,
            "NAME       SIZE  STATE  UID\nlong-name     1  held   u1\nb          1000         u2\n"
        );
    }

    #[test]
    fn headers_can_be_left_out() {
        let layout = Layout {
            has_headers: false,
            ..Layout::default()
        };
        let row = ["a", "1", "", "u"].map(Cell::from);
        let text = Table::new(&COLUMNS, [row].into_iter()).render(layout).plain();
        assert_eq!(text, "a  1\n");
    }

    #[test]
    fn control_characters_in_a_cell_are_escaped() {
        let row = ["a\nb\u{1b}[2J".to_owned()];
        assert_eq!(
            table(&[Text("NAME")], [row].into_iter()),
            "NAME\na\\nb\\u001b[2J\n"
        );
    }
}
