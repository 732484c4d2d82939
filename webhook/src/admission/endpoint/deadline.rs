//! [`Deadline`] of an answer, derived from the API server's timeout: a later answer is of no use to the API server.

use std::time::{Duration, Instant};

use crate::admission::error::AdmissionError;

/// A point in time and the time there was until then.
#[derive(Debug, Clone, Copy)]
pub struct Deadline {
    at: Instant,
    limit: Duration,
}

impl Deadline {
    pub fn after(start: Instant, limit: Duration) -> Self {
        Self {
            at: start + limit,
            limit,
        }
    }

    /// Nine tenths of the longest timeout of an endpoint, or of the shorter one that the API server sends as `timeout=`:
    /// the rest is for the way back.
    pub(crate) fn for_request(longest: Duration, query: Option<&str>, start: Instant) -> Self {
        let asked = query.and_then(timeout).unwrap_or(longest);
        Self::after(start, asked.min(longest) * 9 / 10)
    }

    /// Until when the body must have come, of a request with this deadline: two thirds of the time, so that there is
    /// some left to answer it.
    pub(crate) fn of_body(&self) -> Self {
        Self {
            at: self.at.checked_sub(self.limit / 3).unwrap_or(self.at),
            limit: self.limit * 2 / 3,
        }
    }

    /// The time there was until then.
    pub(crate) const fn limit(&self) -> Duration {
        self.limit
    }

    pub fn at(&self) -> Instant {
        self.at
    }

    /// Error for a deadline that has passed.
    pub fn error(&self) -> AdmissionError {
        AdmissionError::Deadline { limit: self.limit }
    }

    /// # Errors
    /// If it has passed.
    pub fn check(&self) -> Result<(), AdmissionError> {
        if Instant::now() < self.at {
            Ok(())
        } else {
            Err(self.error())
        }
    }
}

/// The `timeout=` of a query; one that cannot be read counts as absent.
fn timeout(query: &str) -> Option<Duration> {
    go_duration(query.split('&').find_map(|pair| pair.strip_prefix("timeout="))?)
}

/// A duration as Go prints it: whole numbers or decimals, each with a unit, as in `1m30s` or `1.5s`.
fn go_duration(text: &str) -> Option<Duration> {
    let (mut rest, mut total) = (text, Duration::ZERO);
    while !rest.is_empty() {
        let digits = rest.find(|byte: char| !byte.is_ascii_digit() && byte != '.')?;
        let (number, tail) = rest.split_at(digits);
        let end = tail
            .find(|byte: char| byte.is_ascii_digit())
            .unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(end);
        let seconds = match unit {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" => 1e-6,
            "ns" => 1e-9,
            _ => return None,
        };
        let part = Duration::try_from_secs_f64(number.parse::<f64>().ok()? * seconds).ok()?;
        total = total.checked_add(part)?;
        rest = tail;
    }
    (!text.is_empty()).then_some(total)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("timeout=10s", Some(10_000))]
    #[case("a=b&timeout=1.5s", Some(1_500))]
    #[case("timeout=1m30s", Some(90_000))]
    #[case("timeout=250ms&x", Some(250))]
    #[case("timeout=", None)]
    #[case("timeout=10", None)]
    #[case("timeout=s", None)]
    #[case("timeout=-1s", None)]
    #[case("timeout=1e9h", None)]
    #[case("timeout=99999999999999999999h", None)]
    #[case("xtimeout=1s", None)]
    fn a_timeout_is_read_as_go_writes_it(#[case] query: &str, #[case] millis: Option<u64>) {
        assert_eq!(timeout(query), millis.map(Duration::from_millis));
    }
}
