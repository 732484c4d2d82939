//! Prints messages of xtask to its user on standard error: standard output belongs to results.

use std::{
    fmt::Display,
    io::{self, Write as _},
    time::Duration,
};

/// Prints one line. A closed terminal is no error: the work continues.
pub fn print(line: impl Display) {
    writeln!(io::stderr(), "{line}").ok();
}

/// Formats a duration: `41 s`, `3 min 07 s`.
pub fn span(elapsed: Duration) -> String {
    let seconds = elapsed.as_secs();
    if seconds < 60 {
        format!("{seconds} s")
    } else {
        format!("{} min {:02} s", seconds / 60, seconds % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_minutes_from_60_s() {
        assert_eq!(span(Duration::from_millis(999)), "0 s");
        assert_eq!(span(Duration::from_secs(59)), "59 s");
        assert_eq!(span(Duration::from_secs(187)), "3 min 07 s");
    }
}
