//! `Screen`: prints answers as plain text, or redraws a table in place on a terminal. No text moves the cursor itself.

use std::io::{self, IsTerminal as _, Stdout, Write};

use rustix::termios::tcgetwinsize;

use crate::{error::Error, output::escaped};

/// Tells how many rows a terminal has now.
type Rows = Box<dyn Fn() -> Option<u16> + Send>;

/// Where answers go.
pub struct Screen<W> {
    out: W,
    /// Set on a terminal only.
    rows: Option<Rows>,
    /// Lines of the table that stands above the cursor.
    drawn: usize,
}

impl Screen<Stdout> {
    /// Standard output, a terminal or not.
    pub fn stdout() -> Self {
        let is_terminal = io::stdout().is_terminal();
        let rows = || {
            tcgetwinsize(io::stdout())
                .ok()
                .map(|size| size.ws_row)
                .filter(|rows| *rows > 0)
        };
        Self {
            out: io::stdout(),
            rows: is_terminal.then(|| -> Rows { Box::new(rows) }),
            drawn: 0,
        }
    }
}

impl<W: Write> Screen<W> {
    /// Somewhere that is no terminal.
    pub fn plain(out: W) -> Self {
        Self {
            out,
            rows: None,
            drawn: 0,
        }
    }

    /// A terminal with that many rows.
    pub fn terminal(out: W, rows: u16) -> Self {
        Self {
            out,
            rows: Some(Box::new(move || Some(rows))),
            drawn: 0,
        }
    }

    /// True if what is drawn can be drawn again in place.
    pub fn is_terminal(&self) -> bool {
        self.rows.is_some()
    }

    /// Writes text after what is there.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn print(&mut self, text: &str) -> Result<(), Error> {
        self.drawn = 0;
        self.write(&escaped(text))
    }

    /// Writes text in place of what was drawn before; what does not fit the terminal is left out and counted.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn redraw(&mut self, text: &str) -> Result<(), Error> {
        let rows = self
            .rows
            .as_ref()
            .and_then(|rows| rows())
            .map_or(usize::MAX, usize::from);
        let text = escaped(text);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(rows: u16, frames: &[&str]) -> String {
        let mut out = Vec::new();
        let mut screen = Screen::terminal(&mut out, rows);
        for frame in frames {
            screen.redraw(frame).unwrap();
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
}
