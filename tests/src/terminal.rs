//! [`Terminal`] is a pseudo-terminal of so many columns: what a program prints there is what a person sees.

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

/// Rows enough for every answer.
const ROWS: u16 = 1_000;
/// How long a program may take.
const ENDS_WITHIN: Duration = Duration::from_secs(60);
/// How often its end is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A terminal of so many columns.
#[derive(Debug, Clone, Copy)]
pub struct Terminal {
    columns: u16,
}

/// What a program leaves on a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Printed {
    /// Its lines, without colours.
    pub text: String,
    /// True if something had a colour or a style.
    pub is_styled: bool,
    /// The exit code; `None` after a signal.
    pub code: Option<i32>,
}

impl Terminal {
    /// A terminal of so many columns.
    pub const fn with_columns(columns: u16) -> Self {
        Self { columns }
    }

    /// Runs a program, with input, output and errors on the terminal, until it ends by itself. It has colours, unless its
    /// environment has `NO_COLOR`.
    ///
    /// # Panics
    /// There is no terminal to be had, the program does not start or end, or prints what is no text.
    pub fn run(self, mut command: Command) -> Printed {
        let size = Winsize {
            ws_row: ROWS,
            ws_col: self.columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        let pty = openpty(Some(&size), None).expect("a pseudo-terminal");
        let mut modes = tcgetattr(&pty.slave).expect("its modes");
        // A line ends as the program ends it.
        modes.output_flags.remove(OutputFlags::OPOST);
        modes.local_flags.remove(LocalFlags::ECHO);
        tcsetattr(&pty.slave, SetArg::TCSANOW, &modes).expect("set its modes");
        let another = || pty.slave.try_clone().expect("another handle");
        command.stdin(another()).stdout(another()).stderr(another());
        command.env("TERM", "xterm-256color");
        let mut child = command.spawn().expect("start it");
        // With the program's handles the terminal ends.
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

/// What was printed; when nobody has the terminal open any more, reading fails.
fn read(mut master: File) -> Vec<u8> {
    let mut printed = Vec::new();
    master.read_to_end(&mut printed).ok();
    printed
}
