//! Amplification ratios: exact decimals from the annotation, and the agent's ratios in cents.

use std::{collections::BTreeMap, fmt, str::FromStr};

use crate::resource::{PerResource, Resource};

/// Ratio in cents (1/100): 128 is 1.28. The agent publishes it, and `auto` applies it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Cents(pub u32);

impl Cents {
    /// The ratio 1.00: no amplification.
    pub const ONE: Self = Self(100);
}

impl fmt::Display for Cents {
    /// Two decimals, as Koordinator writes them: `1.28`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:02}", self.0 / 100, self.0 % 100)
    }
}

/// Exact, non-negative decimal ratio in units of 10⁻⁹; further digits are cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ratio(u64);

/// Longest annotation that is parsed, in bytes: parsing needs many times the memory of the text.
const LONGEST: usize = 16 << 10;

/// Reason why a ratio annotation cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RatioError {
    /// The annotation is not a JSON object of numbers.
    #[error("is not a JSON object of numbers: {detail}")]
    NotAnObject {
        /// Message of the JSON parser.
        detail: String,
    },
    /// The annotation exceeds the length limit.
    #[error("is {bytes} bytes long, more than {LONGEST}")]
    TooLong {
        /// Length of the annotation in bytes.
        bytes: usize,
    },
    /// A member is not a JSON number.
    #[error("{resource}: {value} is not a number")]
    NotANumber {
        /// Name of the member, a resource.
        resource: String,
        /// First 40 characters of the value.
        value: String,
    },
    /// A member is a number outside 0 to 1,000,000.
    #[error("{resource}: {value} is out of range (0 to {max})", max = Ratio::LARGEST)]
    OutOfRange {
        /// Name of the member, a resource.
        resource: String,
        /// First 40 characters of the value.
        value: String,
    },
}

impl Ratio {
    /// Units of 10⁻⁹ in 1.
    const SCALE: u64 = 1_000_000_000;
    /// Largest ratio that parses, in whole units; policy bounds are far below it.
    const LARGEST: u64 = 1_000_000;
    /// The ratio 1: no amplification.
    pub const ONE: Self = Self(Self::SCALE);

    /// Ratio of `cents` hundredths, exact.
    pub const fn from_cents(cents: Cents) -> Self {
        Self(cents.0 as u64 * (Self::SCALE / 100))
    }

    /// Ratio of `nano` billionths, exact.
    pub const fn from_nano(nano: u64) -> Self {
        Self(nano)
    }

    /// The ratio in billionths, without rounding.
    pub const fn nano(self) -> u64 {
        self.0
    }

    /// Ratio in cents, rounded down and saturated at `u32::MAX`.
    pub fn to_cents_floor(self) -> Cents {
        Cents(u32::try_from(self.0 / (Self::SCALE / 100)).unwrap_or(u32::MAX))
    }

    /// `value` × ratio, truncated to a whole number; `None` if it does not fit 63 bits.
    pub fn apply(self, value: u64) -> Option<u64> {
        let product = u128::from(value) * u128::from(self.0) / u128::from(Self::SCALE);
        u64::try_from(product)
            .ok()
            .filter(|&fits| i64::try_from(fits).is_ok())
    }

    /// Parses a JSON number: digits, an optional fraction and an optional exponent.
    ///
    /// The number is read from its text, not through a float, so `1.1` is exactly eleven tenths. `None` for negative
    /// numbers other than zero, for values above a million, and for texts that are not JSON numbers.
    pub fn parse(text: &str) -> Option<Self> {
        let (is_negative, unsigned) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
            None => (unsigned, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        if whole.is_empty() || !(whole.bytes().chain(fraction.bytes())).all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let value = Self::scaled(whole, fraction, exponent)?;
        (!is_negative || value == 0).then_some(Self(value))
    }

    /// The digits `whole.fraction` × 10^`exponent` in units of [`Self::SCALE`], truncated.
    fn scaled(whole: &str, fraction: &str, exponent: i32) -> Option<u64> {
        // Position of the decimal point in the concatenated digits.
        let point = i64::try_from(whole.len()).ok()? + i64::from(exponent);
        let mut value: u64 = 0;
        let mut place = point;
        for digit in whole.bytes().chain(fraction.bytes()) {
            place -= 1;
            let digit = u64::from(digit - b'0');
            if digit == 0 {
                continue;
            }
            // Digits after the ninth decimal are ignored; values above a million are rejected.
            if place < -9 {
                break;
            }
            if place > 6 {
                return None;
            }
            let unit = 10_u64.checked_pow(u32::try_from(place + 9).ok()?)?;
            value = value.checked_add(digit.checked_mul(unit)?)?;
        }
        (value <= Self::LARGEST * Self::SCALE).then_some(value)
    }
}

impl fmt::Display for Ratio {
    /// At least two decimals; no trailing zeros beyond them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = format!("{:09}", self.0 % Self::SCALE);
        let significant = digits.trim_end_matches('0').len().max(2);
        write!(
            f,
            "{}.{}",
            self.0 / Self::SCALE,
            digits.get(..significant).unwrap_or(&digits)
        )
    }
}

/// Ratios in the annotation; `None` for a resource that it does not name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ratios(pub PerResource<Option<Ratio>>);

/// Parses the ratio annotation: a JSON object of resource → number.
///
/// It follows Koordinator. `null` as the whole text or as a member counts as absent. The last of two equal keys wins.
/// Members other than CPU and memory must be numbers and are ignored.
///
/// # Errors
/// See [`RatioError`].
pub fn parse_annotation(text: &str) -> Result<PerResource<Option<Ratio>>, RatioError> {
    if text.len() > LONGEST {
        return Err(RatioError::TooLong { bytes: text.len() });
    }
    let members: Option<BTreeMap<String, &serde_json::value::RawValue>> = serde_json::from_str(text)
        .map_err(|error| RatioError::NotAnObject {
            detail: error.to_string(),
        })?;
    let mut ratios = PerResource::default();
    for (name, value) in members.unwrap_or_default() {
        let ratio = parse_member(&name, value.get())?;
        if let Some(resource) = Resource::from_name(&name) {
            *ratios.get_mut(resource) = ratio;
        }
    }
    Ok(ratios)
}

impl FromStr for Ratios {
    type Err = RatioError;

    fn from_str(text: &str) -> Result<Self, RatioError> {
        parse_annotation(text).map(Self)
    }
}

/// Ratio of one member of the annotation; `None` for `null`.
fn parse_member(name: &str, text: &str) -> Result<Option<Ratio>, RatioError> {
    if text == "null" {
        return Ok(None);
    }
    let shown = || text.chars().take(40).collect::<String>();
    if !text.starts_with(|first: char| first == '-' || first.is_ascii_digit()) {
        return Err(RatioError::NotANumber {
            resource: name.to_owned(),
            value: shown(),
        });
    }
    match Ratio::parse(text) {
        Some(ratio) => Ok(Some(ratio)),
        None => Err(RatioError::OutOfRange {
            resource: name.to_owned(),
            value: shown(),
        }),
    }
}

/// Text of the ratio annotation in Koordinator's form: compact, sorted, two decimals; `None` without any ratio.
pub fn annotation(ratios: &PerResource<Option<Cents>>) -> Option<String> {
    let members: Vec<String> = Resource::ALL
        .into_iter()
        .filter_map(|resource| {
            ratios
                .get(resource)
                .map(|cents| format!("\"{resource}\":{cents}"))
        })
        .collect();
    (!members.is_empty()).then(|| format!("{{{}}}", members.join(",")))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("1.5", 4000, 6000)]
    #[case("1.33", 7910, 10520)]
    #[case("1.1", 1001, 1101)]
    #[case("1.15", 64_000, 73_600)]
    #[case("1.5e0", 4000, 6000)]
    #[case("15E-1", 4000, 6000)]
    #[case("1.2", 7 << 30, 9_019_431_321)]
    #[case("0.5", 7, 3)]
    #[case("1.000000000999", 1_000_000_000, 1_000_000_000)]
    fn a_ratio_applies_exactly_and_truncates_once(
        #[case] text: &str,
        #[case] value: u64,
        #[case] expected: u64,
    ) {
        assert_eq!(Ratio::parse(text).unwrap().apply(value), Some(expected));
    }

    #[rstest]
    #[case("1e400")]
    #[case("1e300")]
    #[case("1000001")]
    #[case("-2")]
    #[case("0x2")]
    #[case("1,5")]
    #[case(".5")]
    #[case("")]
    #[case("NaN")]
    #[case("1e")]
    fn ratios_out_of_range_or_not_json_are_rejected(#[case] text: &str) {
        assert_eq!(Ratio::parse(text), None);
    }

    #[test]
    fn tiny_ratios_are_zero_and_long_ones_are_truncated() {
        assert_eq!(Ratio::parse("1e-320"), Some(Ratio(0)));
        assert_eq!(
            Ratio::parse(&format!("1.{}", "3".repeat(400))),
            Some(Ratio(1_333_333_333))
        );
        assert_eq!(Ratio::parse("-0.0"), Some(Ratio(0)));
    }

    #[test]
    fn a_ratio_is_read_to_the_ninth_decimal_and_up_to_a_million() {
        assert_eq!(Ratio::parse("1.0000000019"), Some(Ratio(1_000_000_001)));
        assert_eq!(Ratio::parse("1000000"), Some(Ratio(1_000_000 * Ratio::SCALE)));
        assert_eq!(Ratio::parse("1000000.000000001"), None);
        assert_eq!(Ratio::parse("0.1e7"), Ratio::parse("1000000"));
    }

    #[test]
    fn ratios_convert_to_billionths_and_to_cents_rounded_down() {
        let ratio = Ratio::parse("1.289999999").unwrap();
        assert_eq!(
            (ratio.nano(), ratio.to_cents_floor()),
            (1_289_999_999, Cents(128))
        );
        assert_eq!(Ratio::from_nano(ratio.nano()), ratio);
        assert_eq!(Ratio::from_cents(Cents(128)).to_string(), "1.28");
    }

    #[test]
    fn an_annotation_that_is_too_long_is_not_parsed() {
        let long = format!("{{\"cpu\":2{}}}", " ".repeat(LONGEST));
        let error = parse_annotation(&long).unwrap_err();
        assert_eq!(error.to_string(), "is 16393 bytes long, more than 16384");
        assert!(parse_annotation(&long[..LONGEST]).is_err());
        let short = format!("{{\"cpu\":2{}}}", " ".repeat(LONGEST - 9));
        assert_eq!(parse_annotation(&short).unwrap().cpu, Ratio::parse("2"));
    }

    #[test]
    fn a_product_beyond_63_bits_is_none() {
        assert_eq!(Ratio::parse("1000").unwrap().apply(9 << 60), None);
    }

    #[rstest]
    #[case(r#"{"cpu":1.5,"memory":1.2}"#, Some("1.50"), Some("1.20"))]
    #[case(r#"{"cpu":2,"cpu":3}"#, Some("3.00"), None)]
    #[case(r#"{"CPU":2,"nvidia.com/gpu":2}"#, None, None)]
    #[case("null", None, None)]
    #[case(r#"{"cpu":null}"#, None, None)]
    #[case("{}", None, None)]
    fn the_annotation_parses_like_koordinator(
        #[case] text: &str,
        #[case] cpu: Option<&str>,
        #[case] memory: Option<&str>,
    ) {
        let ratios = parse_annotation(text)
            .unwrap()
            .map(|_, ratio| ratio.map(|ratio| ratio.to_string()));
        assert_eq!((ratios.cpu.as_deref(), ratios.memory.as_deref()), (cpu, memory));
    }

    #[rstest]
    #[case("cpu=1.5")]
    #[case(" ")]
    #[case("[]")]
    #[case(r#"{"cpu":"1.5"}"#)]
    #[case(r#"{"cpu":1e400}"#)]
    #[case(r#"{"cpu":-1}"#)]
    #[case(r#"{"storage":true}"#)]
    fn a_bad_annotation_is_an_error(#[case] text: &str) {
        assert!(parse_annotation(text).is_err());
    }

    #[rstest]
    #[case(r#"{"cpu":"1.5"}"#, r#"cpu: "1.5" is not a number"#)]
    #[case(r#"{"storage":true}"#, "storage: true is not a number")]
    #[case(r#"{"cpu":-1}"#, "cpu: -1 is out of range (0 to 1000000)")]
    #[case(r#"{"memory":1e400}"#, "memory: 1e400 is out of range (0 to 1000000)")]
    fn errors_distinguish_other_types_from_numbers_out_of_range(#[case] text: &str, #[case] error: &str) {
        assert_eq!(parse_annotation(text).unwrap_err().to_string(), error);
    }

    #[test]
    fn the_annotation_is_written_with_two_decimals() {
        let ratios = PerResource {
            cpu: Some(Cents(150)),
            memory: Some(Cents(105)),
        };
        assert_eq!(
            annotation(&ratios).as_deref(),
            Some(r#"{"cpu":1.50,"memory":1.05}"#)
        );
        assert_eq!(annotation(&PerResource::default()), None);
    }
}
