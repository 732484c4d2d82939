//! Parses durations such as `90s` or `5m`, the values of `--for` of `cargo xtask demo` and `cargo xtask fuzz`.

use std::time::Duration;

/// Parses a whole number of seconds (`90s`) or minutes (`5m`).
///
/// # Errors
/// If the text has another form or unit.
pub fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is not a duration such as 90s or 5m");
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?);
    let number: u64 = number.parse().map_err(|_overflow| wrong())?;
    match unit {
        "s" => Ok(Duration::from_secs(number)),
        "m" => Ok(Duration::from_secs(number.saturating_mul(60))),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duration_needs_a_unit() {
        assert_eq!(parse("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(parse("5m"), Ok(Duration::from_secs(300)));
        for wrong in ["90", "s", "1h", "-1s", ""] {
            assert!(parse(wrong).is_err(), "{wrong:?} was accepted");
        }
    }
}
