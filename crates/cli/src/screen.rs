//! [`Screen`]: prints text or YAML, or redraws a table in place on a terminal. Control characters in texts are
//! escaped.

use std::{
    env,
    io::{self, IsTerminal as _, Stdout, Write},
    os::fd::{AsFd as _, BorrowedFd},
};

use anstream::adapter::strip_str;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    termios::tcgetwinsize,
};
use serde_json::{Deserializer, Value};

use crate::{error::Error, escape::escaped, styled_text::StyledText};

/// Returns the rows and columns of the terminal; 0 if unknown.
type TerminalSize = Box<dyn Fn() -> (u16, u16) + Send>;
/// Returns true if the reader of the output has closed it.
type IsClosed = Box<dyn Fn() -> bool + Send>;

pub struct Screen<W> {
    out: W,
    /// `None` unless the output is a terminal.
    size: Option<TerminalSize>,
    has_colours: bool,
    /// Number of YAML documents printed so far; `None` unless JSON is printed as YAML.
    yaml_documents: Option<usize>,
    is_closed: IsClosed,
    /// Lines of the table above the cursor.
    drawn: usize,
}

impl Screen<Stdout> {
    /// Standard output. It has colours on a terminal unless `NO_COLOR` is set or `TERM` is `dumb`.
    pub fn stdout() -> Self {
        let is_terminal = io::stdout().is_terminal();
        let size = || tcgetwinsize(io::stdout()).map_or((0, 0), |size| (size.ws_row, size.ws_col));
        let is_set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
        Self {
            size: is_terminal.then(|| -> TerminalSize { Box::new(size) }),
            has_colours: is_terminal
                && !is_set("NO_COLOR")
                && env::var_os("TERM").is_none_or(|kind| kind != "dumb"),
            is_closed: Box::new(|| is_closed(io::stdout().as_fd())),
            ..Self::plain(io::stdout())
        }
    }
}

impl<W: Write> Screen<W> {
    /// Output that is no terminal.
    pub fn plain(out: W) -> Self {
        Self {
            out,
            size: None,
            has_colours: false,
            yaml_documents: None,
            is_closed: Box::new(|| false),
            drawn: 0,
        }
    }

    /// Sets the function that reports a closed reader.
    #[must_use]
    pub fn closing(self, is_closed: impl Fn() -> bool + Send + 'static) -> Self {
        Self {
            is_closed: Box::new(is_closed),
            ..self
        }
    }

    /// Fails if the reader of the output has closed it, so that a command can end before it has output.
    ///
    /// # Errors
    /// The reader has closed the output.
    pub fn check(&self) -> Result<(), Error> {
        if (self.is_closed)() {
            return Err(Error::Write(io::ErrorKind::BrokenPipe.into()));
        }
        Ok(())
    }

    /// A terminal of this size, without colours.
    pub fn terminal(out: W, rows: u16, columns: u16) -> Self {
        Self {
            size: Some(Box::new(move || (rows, columns))),
            ..Self::plain(out)
        }
    }

    #[must_use]
    pub fn with_colours(self) -> Self {
        Self {
            has_colours: true,
            ..self
        }
    }

    /// Converts JSON to YAML from now on.
    pub(crate) fn print_yaml(&mut self) {
        self.yaml_documents = Some(0);
    }

    /// True if a table can be redrawn in place.
    pub fn is_terminal(&self) -> bool {
        self.size.is_some()
    }

    /// Columns of the terminal; `None` if unknown or if the output is no terminal.
    pub fn width(&self) -> Option<usize> {
        let (_, columns) = self.size.as_ref()?();
        Some(usize::from(columns)).filter(|columns| *columns > 0)
    }

    /// Appends text, with control characters escaped.
    ///
    /// # Errors
    /// Writing fails.
    pub fn print(&mut self, text: &str) -> Result<(), Error> {
        self.drawn = 0;
        match self.yaml_documents {
            None => self.write(&escaped(text)),
            Some(before) => {
                let (yaml, documents) = as_yaml(text, before);
                self.yaml_documents = Some(documents);
                self.write(&escaped(&yaml))
            }
        }
    }

    /// Appends styled text, with control characters escaped.
    ///
    /// # Errors
    /// Writing fails.
    pub fn print_styled(&mut self, text: &StyledText) -> Result<(), Error> {
        self.drawn = 0;
        let text = self.encoded(text);
        self.write(&text)
    }

    /// Escapes control characters, and strips the colours if the screen has none.
    fn encoded(&self, text: &StyledText) -> String {
        let painted = text.painted();
        if self.has_colours {
            painted
        } else {
            strip_str(&painted).to_string()
        }
    }

    /// Replaces the text that was drawn before. Lines that do not fit the terminal are left out and counted.
    ///
    /// # Errors
    /// Writing fails.
    pub fn redraw(&mut self, text: &StyledText) -> Result<(), Error> {
        let rows = self.size.as_ref().map(|size| size().0).filter(|rows| *rows > 0);
        let rows = rows.map_or(usize::MAX, usize::from);
        let text = self.encoded(text);
        let all = text.lines().count();
        // The cursor is in the row below the table.
        let kept = if all < rows { all } else { rows.saturating_sub(2) };
        let mut frame = String::new();
        if self.drawn > 0 {
            // Moves to the first line and clears from there.
            frame.extend(["\x1b[", &self.drawn.to_string(), "F\x1b[J"]);
        }
        // A wrapped line would count as two, so the terminal cuts long lines while the table is drawn.
        frame += "\x1b[?7l";
        for line in text.lines().take(kept) {
            frame += line;
            frame += "\n";
        }
        self.drawn = kept;
        if kept < all {
            frame.extend(["... ", &(all - kept).to_string(), " more lines\n"]);
            self.drawn += 1;
        }
        frame += "\x1b[?7h";
        self.write(&frame)
    }

    fn write(&mut self, text: &str) -> Result<(), Error> {
        self.out
            .write_all(text.as_bytes())
            .and_then(|()| self.out.flush())
            .map_err(Error::Write)
    }
}

/// Converts JSON values to YAML documents and returns the new number of documents. Other text stays unchanged.
fn as_yaml(text: &str, before: usize) -> (String, usize) {
    let values: Result<Vec<Value>, _> = Deserializer::from_str(text).into_iter().collect();
    let documents = values.ok().and_then(|values| {
        let documents = values.iter().map(serde_saphyr::to_string);
        documents.collect::<Result<Vec<_>, _>>().ok()
    });
    let Some(documents) = documents else {
        return (text.to_owned(), before);
    };
    let count = before + documents.len();
    let mut yaml = String::new();
    for (place, document) in (before..).zip(documents) {
        if place > 0 {
            yaml += "---\n";
        }
        yaml += &document;
        if !yaml.ends_with('\n') {
            yaml.push('\n');
        }
    }
    (yaml, count)
}

/// True for the writing end of a pipe without a reader.
fn is_closed(out: BorrowedFd<'_>) -> bool {
    let mut ends = [PollFd::from_borrowed_fd(out, PollFlags::empty())];
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let is_known = poll(&mut ends, Some(&at_once)).is_ok();
    is_known && ends.iter().any(|end| end.revents().contains(PollFlags::ERR))
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;
    use crate::styled_text::Tone;

    fn drawn(rows: u16, frames: &[&str]) -> String {
        let mut out = Vec::new();
        let mut screen = Screen::terminal(&mut out, rows, 80);
        for frame in frames {
            screen.redraw(&StyledText::from(*frame)).unwrap();
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_second_frame_replaces_the_first() {
        assert_eq!(
            drawn(24, &["a\nb\n", "c\n"]),
            "\x1b[?7la\nb\n\x1b[?7h\x1b[2F\x1b[J\x1b[?7lc\n\x1b[?7h"
        );
    }

    #[test]
    fn a_pipe_without_reader_is_closed() {
        let (mut reader, mut writer) = io::pipe().unwrap();
        assert!(!is_closed(writer.as_fd()));
        writer.write_all(b"x").unwrap();
        assert!(!is_closed(writer.as_fd()), "the reader is open");
        reader.read_exact(&mut [0]).unwrap();
        drop(reader);
        assert!(is_closed(writer.as_fd()));
        let file = tempfile::tempfile().unwrap();
        assert!(!is_closed(file.as_fd()));
    }

    #[test]
    fn control_characters_never_move_the_cursor() {
        let mut out = Vec::new();
        Screen::plain(&mut out).print("a\u{1b}[2J\n").unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "a\\u001b[2J\n");
        assert_eq!(
            drawn(24, &["a\u{1b}[2J\u{9b}H\n"]),
            "\x1b[?7la\\u001b[2J\\u009bH\n\x1b[?7h"
        );
    }

    #[test]
    fn lines_that_do_not_fit_are_counted() {
        assert_eq!(drawn(4, &["1\n2\n3\n"]), "\x1b[?7l1\n2\n3\n\x1b[?7h");
        assert_eq!(
            drawn(4, &["1\n2\n3\n4\n", "5\n"]),
            "\x1b[?7l1\n2\n... 2 more lines\n\x1b[?7h\x1b[3F\x1b[J\x1b[?7l5\n\x1b[?7h"
        );
    }

    #[test]
    fn colours_are_stripped_unless_enabled() {
        let mut text = StyledText::default();
        text.push(Tone::Alarm, "a");
        let printed = |has_colours: bool| {
            let mut out = Vec::new();
            let screen = Screen::terminal(&mut out, 24, 80);
            let mut screen = if has_colours {
                screen.with_colours()
            } else {
                screen
            };
            screen.print_styled(&text).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(
            (printed(true).as_str(), printed(false).as_str()),
            ("\x1b[31ma\x1b[0m", "a")
        );
    }

    #[test]
    fn json_values_become_yaml_documents() {
        let mut out = Vec::new();
        let mut screen = Screen::plain(&mut out);
        screen.print_yaml();
        screen.print("{\"a\": [1, \"x\"]}\n").unwrap();
        screen.print("{\"a\": null}\n{\"a\": 2}\n").unwrap();
        let text = String::from_utf8(out).unwrap();
        let documents: Vec<&str> = text.split("---\n").collect();
        assert_eq!(documents, ["a:\n- 1\n- x\n", "a: null\n", "a: 2\n"]);
    }
}
