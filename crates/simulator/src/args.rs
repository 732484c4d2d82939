//! Values of the simulator's command-line options, parsed and checked: seeds, loops, brakes, ranges, policies.

use std::{fmt, str::FromStr};

use clap::ValueEnum;
use serde::{Serialize, Serializer};

use super::policy;

/// Limit of seeds in one run.
const MOST_SEEDS: usize = 100;

/// The loops that a run simulates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Loops {
    /// Both loops: nodes refill under each policy, and all policies predict the same peaks.
    #[default]
    Both,
    /// The closed loop: each node refills under each policy.
    Closed,
    /// The open loop, and the closed loop for raw only.
    Open,
}

/// Brakes of Headroom's simulated policy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Brakes {
    /// The policy brakes like the agent.
    #[default]
    On,
    /// The policy never brakes, whatever the pressure.
    Off,
}

/// Seeds: `7`, `1,3` or `101-105`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seeds(pub(super) Vec<u64>);

impl FromStr for Seeds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut seeds = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let number = |text: &str| text.parse::<u64>().map_err(|error| format!("{text:?}: {error}"));
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return Err(format!("{part} starts after its end"));
            }
            seeds.extend((first..=last).take(MOST_SEEDS + 1));
            if seeds.len() > MOST_SEEDS {
                return Err(format!("more than {MOST_SEEDS} seeds"));
            }
        }
        Ok(Self(seeds))
    }
}

impl fmt::Display for Seeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seeds: Vec<String> = self.0.iter().map(u64::to_string).collect();
        f.write_str(&seeds.join(","))
    }
}

impl Serialize for Seeds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

/// Parses a coefficient of variation from 0 to 3.
pub(super) fn variation(text: &str) -> Result<f64, String> {
    within(text, 0.0, 3.0)
}

pub(super) fn share(text: &str) -> Result<f64, String> {
    within(text, 0.5, 1.0)
}

fn within(text: &str, least: f64, most: f64) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_not_a_number| "not a number".to_owned())?;
    if (least..=most).contains(&number) {
        Ok(number)
    } else {
        Err(format!("not in {least:.2}..{most:.2}"))
    }
}

/// Parses the name of a policy.
pub(super) fn policy(text: &str) -> Result<String, String> {
    let names: Vec<&str> = policy::all().map(|kind| kind.name).collect();
    if names.contains(&text) {
        Ok(text.to_owned())
    } else {
        Err(format!("not one of {}", names.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("7", Ok(vec![7]))]
    #[case("101-103,1", Ok(vec![101, 102, 103, 1]))]
    #[case("3-1", Err("3-1 starts after its end"))]
    #[case("1,x", Err("\"x\": invalid digit found in string"))]
    #[case("", Err("\"\": cannot parse integer from empty string"))]
    #[case("0-18446744073709551615", Err("more than 100 seeds"))]
    fn seeds_are_numbers_lists_or_ranges(#[case] text: &str, #[case] expected: Result<Vec<u64>, &str>) {
        assert_eq!(text.parse::<Seeds>(), expected.map(Seeds).map_err(str::to_owned));
    }

    #[test]
    fn numbers_outside_their_range_are_refused() {
        assert_eq!((share("0.9"), variation("0")), (Ok(0.9), Ok(0.0)));
        assert_eq!(share("1.01").unwrap_err(), "not in 0.50..1.00");
        assert_eq!(variation("NaN").unwrap_err(), "not in 0.00..3.00");
        assert_eq!(variation("much").unwrap_err(), "not a number");
    }
}
