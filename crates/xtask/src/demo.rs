//! The flags of `cargo xtask demo`. `cargo xtask` parses them before any build, and the demo parses them again.

use std::time::Duration;

use clap::Args;

use crate::lasting;

/// The least time in which every claim of the story can be seen: its load begins within 46 s and lasts for 6 s, its peak is
/// remembered for 20 s, and room comes back in some 8 s.
const LEAST: Duration = Duration::from_secs(90);

/// `cargo xtask demo`.
#[derive(Debug, Clone, Args)]
pub struct Demo {
    /// End by itself after this time, counted from Node Ready: `90s`, `5m`; at least 90 s. The story takes about 80 s. With
    /// `--keep` this is the longest that the story may take.
    #[arg(long = "for", value_name = "TIME", value_parser = parse_lasting)]
    pub lasts: Option<Duration>,
    /// One JSON line per change on standard output; everything else goes to standard error.
    #[arg(long)]
    pub json: bool,
    /// When the story is over, leave everything running until Ctrl-C and say how to look at it.
    #[arg(long)]
    pub keep: bool,
}

/// Reads a time in which the story can come to its end.
fn parse_lasting(text: &str) -> Result<Duration, String> {
    let lasting = lasting::parse(text)?;
    if lasting < LEAST {
        return Err(format!(
            "{text} is too short: room comes back up to 80 s after Node Ready, and it takes at least {} s to see it",
            LEAST.as_secs()
        ));
    }
    Ok(lasting)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_too_short_for_the_story_is_refused_with_the_least() {
        assert_eq!(parse_lasting("90s"), Ok(LEAST));
        assert_eq!(parse_lasting("2m"), Ok(Duration::from_secs(120)));
        for short in ["89s", "60s", "1m", "0m"] {
            let said = parse_lasting(short).unwrap_err();
            assert!(
                said.starts_with(short) && said.contains("at least 90 s"),
                "{said}"
            );
        }
    }
}
