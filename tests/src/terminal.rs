//! [`Terminal`] is a pseudo-terminal with a fixed number of columns; its content is what a user sees.

use std::{
    fs::File,
    io::Read as _,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use anstream::adapter::strip_str;
use nix::{
    pty::{Winsize, openpty},
    sys::termios::{LocalFlags, OutputFlags, SetArg, tcgetattr, tcsetattr},
};

/// Enough rows for every output.
const ROWS: u16 = 1_000;
const ENDS_WITHIN: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A terminal with a fixed number of columns.
#[derive(Debug, Clone, Copy)]
pub struct Terminal {
    columns: u16,
}

/// Content of the terminal after a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Printed {
    pub text: String,
    /// True if the output contained a colour or a style.
    pub is_styled: bool,
    /// The exit code; `None` after a signal.
    pub code: Option<i32>,
}

impl Terminal {
    pub const fn with_columns(columns: u16) -> Self {
        Self { columns }
    }

    /// Runs a program on the terminal until it ends by itself. Colours are on, unless its environment has `NO_COLOR`.
    ///
    /// # Panics
    /// If there is no terminal, the program does not start or end, or its output is not UTF-8.
    pub fn run(self, mut command: Command) -> Printed {
        let size = Winsize {
            ws_row: ROWS,
            ws_col: self.columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        let pty = openpty(Some(&size), None).expect("a pseudo-terminal");
        let mut modes = tcgetattr(&pty.slave).expect("its modes");
        // Line ends stay as the program prints them.
        modes.output_flags.remove(OutputFlags::OPOST);
        modes.local_flags.remove(LocalFlags::ECHO);
        tcsetattr(&pty.slave, SetArg::TCSANOW, &modes).expect("set its modes");
        let another = || pty.slave.try_clone().expect("another handle");
        command.stdin(another()).stdout(another()).stderr(another());
        command.env("TERM", "xterm-256color");
        let mut child = command.spawn().expect("start it");
        // The terminal closes with the program's handles.
        drop((command, pty.slave));
        let reader = thread::spawn(move || read(File::from(pty.master)));
        let deadline = Instant::now() + ENDS_WITHIN;
        let status = loop {
            if let Some(status) = child.try_wait().expect("whether it has ended") {
                break status;
            }
            if Instant::now() > deadline {
                child.kill().expect("end it");
                panic!("it has not ended within {ENDS_WITHIN:?}");
            }
            thread::sleep(LOOK_EVERY);
        };
        let printed = reader.join().expect("what it printed");
        let printed = String::from_utf8(printed).expect("text");
        let text = strip_str(&printed).to_string();
        Printed {
            is_styled: text.len() < printed.len(),
            text,
            code: status.code(),
        }
    }
}

/// Reads the output; reading fails once all handles of the terminal are closed.
fn read(mut master: File) -> Vec<u8> {
    let mut printed = Vec::new();
    master.read_to_end(&mut printed).ok();
    printed
}
