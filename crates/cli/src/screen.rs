//! `Screen`: prints answers as text or YAML, or redraws a table in place on a terminal. No text moves the cursor itself.

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

/// Tells how many rows and columns a terminal has now; 0 where it does not know.
type TerminalSize = Box<dyn Fn() -> (u16, u16) + Send>;
/// Tells whether nobody can read any more what is written.
type IsClosed = Box<dyn Fn() -> bool + Send>;

/// Where answers go.
pub struct Screen<W> {
    out: W,
    /// Set on a terminal only.
    size: Option<TerminalSize>,
    has_colours: bool,
    /// Set while answers in JSON are printed as YAML.
    yaml_documents: Option<usize>,
    is_closed: IsClosed,
    /// Lines of the table that stands above the cursor.
    drawn: usize,
}

impl Screen<Stdout> {
    /// Standard output, a terminal or not; without colours where `NO_COLOR` is set.
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
    /// Somewhere that is no terminal.
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

    /// The same, closed from when this says so.
    #[must_use]
    pub fn closing(self, is_closed: impl Fn() -> bool + Send + 'static) -> Self {
        Self {
            is_closed: Box::new(is_closed),
            ..self
        }
    }

    /// Finds out that the reader of a pipe is gone before there is something to write.
    ///
    /// # Errors
    /// Nobody can read any more what is written.
    pub fn check(&self) -> Result<(), Error> {
        if (self.is_closed)() {
            return Err(Error::Write(io::ErrorKind::BrokenPipe.into()));
        }
        Ok(())
    }

    /// A terminal with that many rows and columns, without colours.
    pub fn terminal(out: W, rows: u16, columns: u16) -> Self {
        Self {
            size: Some(Box::new(move || (rows, columns))),
            ..Self::plain(out)
        }
    }

    /// The same screen with colours.
    #[must_use]
    pub fn with_colours(self) -> Self {
        Self {
            has_colours: true,
            ..self
        }
    }

    /// Prints answers in JSON as YAML from now on.
    pub(crate) fn print_yaml(&mut self) {
        self.yaml_documents = Some(0);
    }

    /// True if what is drawn can be drawn again in place.
    pub fn is_terminal(&self) -> bool {
        self.size.is_some()
    }

    /// Columns of the terminal, if it is one that knows.
    pub fn width(&self) -> Option<usize> {
        let (_, columns) = self.size.as_ref()?();
        Some(usize::from(columns)).filter(|columns| *columns > 0)
    }

    /// Writes text after what is there.
    ///
    /// # Errors
    /// It cannot be written.
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

    /// Writes styled text after what is there.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn print_styled(&mut self, text: &StyledText) -> Result<(), Error> {
        self.drawn = 0;
        let text = self.encoded(text);
        self.write(&text)
    }

    /// Control characters escaped, in colour where there are colours.
    fn encoded(&self, text: &StyledText) -> String {
        let painted = text.painted();
        if self.has_colours {
            painted
        } else {
            strip_str(&painted).to_string()
        }
    }

    /// Writes text in place of what was drawn before; what does not fit the terminal is left out and counted.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn redraw(&mut self, text: &StyledText) -> Result<(), Error> {
        let rows = self.size.as_ref().map(|size| size().0).filter(|rows| *rows > 0);
        let rows = rows.map_or(usize::MAX, usize::from);
        let text = self.encoded(text);
        let all = text.lines().count();
        // The cursor stands in the row below the table.
        let kept = if all < rows { all } else { rows.saturating_sub(2) };
        let mut frame = String::new();
        if self.drawn > 0 {
            // Up to the first line, and clear from there.
            frame.extend(["\x1b[", &self.drawn.to_string(), "F\x1b[J"]);
        }
        // A line that wrapped would count as two: the terminal cuts it instead while the table is drawn.
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

/// Values in JSON as documents in YAML, after so many before; how many there are then. Other text stays as it is.
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
    fn the_second_frame_takes_the_place_of_the_first() {
        assert_eq!(
            drawn(24, &["a\nb\n", "c\n"]),
            "\x1b[?7la\nb\n\x1b[?7h\x1b[2F\x1b[J\x1b[?7lc\n\x1b[?7h"
        );
    }

    #[test]
    fn a_pipe_is_closed_when_its_reader_is_gone() {
        let (mut reader, mut writer) = io::pipe().unwrap();
        assert!(!is_closed(writer.as_fd()));
        writer.write_all(b"x").unwrap();
        assert!(!is_closed(writer.as_fd()), "nobody has read yet");
        reader.read_exact(&mut [0]).unwrap();
        drop(reader);
        assert!(is_closed(writer.as_fd()));
        let file = tempfile::tempfile().unwrap();
        assert!(!is_closed(file.as_fd()));
    }

    #[test]
    fn texts_of_others_move_no_cursor() {
        let mut out = Vec::new();
        Screen::plain(&mut out).print("a\u{1b}[2J\n").unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "a\\u001b[2J\n");
        assert_eq!(
            drawn(24, &["a\u{1b}[2J\u{9b}H\n"]),
            "\x1b[?7la\\u001b[2J\\u009bH\n\x1b[?7h"
        );
    }

    #[test]
    fn what_does_not_fit_is_counted() {
        assert_eq!(drawn(4, &["1\n2\n3\n"]), "\x1b[?7l1\n2\n3\n\x1b[?7h");
        assert_eq!(
            drawn(4, &["1\n2\n3\n4\n", "5\n"]),
            "\x1b[?7l1\n2\n... 2 more lines\n\x1b[?7h\x1b[3F\x1b[J\x1b[?7l5\n\x1b[?7h"
        );
    }

    #[test]
    fn colours_are_for_terminals_that_want_them() {
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
    fn values_become_documents_of_yaml() {
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
