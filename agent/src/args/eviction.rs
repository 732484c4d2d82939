//! `Eviction`: the kubelet's hard eviction threshold of memory, in the notation of the kubelet's configuration. The
//! agent cannot ask the kubelet for it, so a flag or the file sets it.

use std::{fmt, str::FromStr};

use headroom_domain::quantity::Quantity;
use serde::Deserialize;

/// Parts per million in a percent.
const PERCENT: u32 = 10_000;

/// `memory.available` under the kubelet's `evictionHard`: a quantity, or a percentage of the machine's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Eviction {
    /// Threshold in bytes.
    Bytes(u64),
    /// A share of all memory, in ppm: 0 to 1,000,000.
    Ppm(u32),
}

/// A text that is not a threshold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is neither a quantity such as 100Mi nor a percentage such as 5%, from 0% to 100%")]
pub struct EvictionError {
    text: String,
}

impl Eviction {
    /// The threshold in bytes on a machine with `total` bytes of memory.
    pub fn bytes(self, total: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Ppm(ppm) => {
                let share = u128::from(total) * u128::from(ppm) / 1_000_000;
                u64::try_from(share).unwrap_or(u64::MAX)
            }
        }
    }
}

impl Default for Eviction {
    /// The kubelet's own default on Linux.
    fn default() -> Self {
        Self::Bytes(100 << 20)
    }
}

impl fmt::Display for Eviction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MIB: u64 = 1 << 20;
        match *self {
            Self::Bytes(bytes) if bytes % MIB == 0 => write!(f, "{}Mi", bytes / MIB),
            Self::Bytes(bytes) => write!(f, "{bytes}"),
            Self::Ppm(ppm) if ppm % PERCENT == 0 => write!(f, "{}%", ppm / PERCENT),
            Self::Ppm(ppm) => {
                let text = format!("{}.{:04}", ppm / PERCENT, ppm % PERCENT);
                write!(f, "{}%", text.trim_end_matches('0'))
            }
        }
    }
}

impl FromStr for Eviction {
    type Err = EvictionError;

    fn from_str(text: &str) -> Result<Self, EvictionError> {
        let read = || match text.strip_suffix('%') {
            Some(percent) => ppm(percent).map(Self::Ppm),
            None => text.parse::<Quantity>().ok()?.units().map(Self::Bytes),
        };
        read().ok_or_else(|| EvictionError {
            text: text.chars().take(40).collect(),
        })
    }
}

impl TryFrom<String> for Eviction {
    type Error = EvictionError;

    fn try_from(text: String) -> Result<Self, EvictionError> {
        text.parse()
    }
}

/// A percentage of up to four decimals, in ppm.
fn ppm(percent: &str) -> Option<u32> {
    let (whole, decimals) = percent.split_once('.').unwrap_or((percent, "0"));
    let are_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !are_digits(whole) || !are_digits(decimals) || decimals.len() > 4 {
        return None;
    }
    let whole: u32 = whole.parse().ok().filter(|whole| *whole <= 100)?;
    let decimals: u32 = format!("{decimals:0<4}").parse().ok()?;
    let ppm = whole * PERCENT + decimals;
    (ppm <= 1_000_000).then_some(ppm)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threshold_is_parsed_in_the_kubelets_notation_and_printed_in_it() {
        for (text, expected, printed) in [
            ("100Mi", Eviction::Bytes(100 << 20), "100Mi"),
            ("1Gi", Eviction::Bytes(1 << 30), "1024Mi"),
            ("0", Eviction::Bytes(0), "0Mi"),
            ("1500", Eviction::Bytes(1500), "1500"),
            ("5%", Eviction::Ppm(50_000), "5%"),
            ("2.5%", Eviction::Ppm(25_000), "2.5%"),
            ("100%", Eviction::Ppm(1_000_000), "100%"),
        ] {
            assert_eq!(text.parse(), Ok(expected));
            assert_eq!(expected.to_string(), printed);
            assert_eq!(printed.parse(), Ok(expected));
        }
    }

    #[test]
    fn malformed_thresholds_are_refused() {
        for text in ["", "%", "5 %", "-1Mi", "101%", "100.1%", "1.00001%", "plenty"] {
            assert_eq!(text.parse::<Eviction>().unwrap_err().text, text);
        }
    }

    #[test]
    fn a_percentage_is_of_all_memory() {
        assert_eq!(Eviction::Ppm(50_000).bytes(8 << 30), (8 << 30) / 20);
        assert_eq!(Eviction::default().bytes(8 << 30), 104_857_600);
    }
}
