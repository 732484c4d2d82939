//! Fuzz target: compares quantities with a second parser of the same grammar, which is exact but limited to small numbers.

use headroom_domain::quantity::Quantity;

/// Nano units in 1; nano is the smallest representable amount.
const NANO: u128 = 1_000_000_000;
/// Maximum of a binary quantity in Kubernetes, and of the amounts that are read from any quantity.
const LARGEST: u128 = i64::MAX as u128;
/// Maximum number of digits, and maximum power of ten, of the second parser.
const DIGITS: usize = 9;
const POWER: u32 = 18;

/// Parts of a quantity in the grammar of Kubernetes.
struct Parts<'t> {
    is_negative: bool,
    whole: &'t str,
    fraction: &'t str,
    scale: Scale,
}

enum Scale {
    Ten(i32),
    Two(u32),
}

/// The input has two quantities, one in each line.
pub fn check(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let (one, other) = text.split_once('\n').unwrap_or((text, "1"));
    let read = [one, other].map(checked);
    if let [Some((one, Some(exact))), Some((other, Some(other_exact)))] = read {
        assert_eq!(
            one.cmp(&other),
            exact.cmp(&other_exact),
            "order of {one} and {other}"
        );
    }
}

/// Parses and checks a quantity. Returns it with its exact amount in nano units, if it is within the second parser's limits.
fn checked(text: &str) -> Option<(Quantity, Option<i128>)> {
    let parts = Parts::read(text);
    let read = text.parse::<Quantity>();
    assert_eq!(read.is_ok(), parts.is_some(), "{text:?}");
    let (Ok(quantity), Some(parts)) = (read, parts) else {
        return None;
    };
    let printed = quantity.to_string();
    let again: Quantity = printed.parse().expect("a printed quantity can be parsed");
    assert_eq!(again, quantity, "{text:?} is printed as {printed:?}");
    let canonical = match parts.scale {
        Scale::Two(_) => decimal(&printed),
        Scale::Ten(_) => printed,
    };
    assert_eq!(again.to_string(), canonical, "{text:?} has one canonical text");
    let exact = parts.nano();
    if let Some(nano) = exact {
        let amount = |unit: u128| {
            let nano = u128::try_from(nano).ok()?;
            let steps = nano.div_ceil(unit);
            (steps <= LARGEST).then(|| u64::try_from(steps).ok()).flatten()
        };
        assert_eq!(quantity.units(), amount(NANO), "units of {text:?}");
        assert_eq!(quantity.milli(), amount(NANO / 1000), "thousandths of {text:?}");
    }
    Some((quantity, exact))
}

/// Text of a printed binary amount after it was parsed and printed again. Like Kubernetes, an amount that 1024 does not divide is
/// printed without a suffix, and a text without a suffix is parsed as decimal.
fn decimal(printed: &str) -> String {
    let thousands = (printed.len() - printed.trim_end_matches('0').len()) / 3;
    let suffix = ["", "k", "M", "G", "T", "P", "E"].get(thousands);
    let start = printed.get(..printed.len() - 3 * thousands);
    start.zip(suffix).map_or_else(
        || printed.to_owned(),
        |(start, suffix)| format!("{start}{suffix}"),
    )
}

impl<'t> Parts<'t> {
    fn read(signed: &'t str) -> Option<Self> {
        let (is_negative, text) = match signed.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, signed.strip_prefix('+').unwrap_or(signed)),
        };
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let (whole, rest) = text.split_at(digits(text));
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(rest) => rest.split_at(digits(rest)),
            None => ("", rest),
        };
        let scale = match suffix {
            "n" => Scale::Ten(-9),
            "u" => Scale::Ten(-6),
            "m" => Scale::Ten(-3),
            "" => Scale::Ten(0),
            "k" => Scale::Ten(3),
            "M" => Scale::Ten(6),
            "G" => Scale::Ten(9),
            "T" => Scale::Ten(12),
            "P" => Scale::Ten(15),
            "E" => Scale::Ten(18),
            "Ki" => Scale::Two(10),
            "Mi" => Scale::Two(20),
            "Gi" => Scale::Two(30),
            "Ti" => Scale::Two(40),
            "Pi" => Scale::Two(50),
            "Ei" => Scale::Two(60),
            exponent => {
                let exponent: i64 = exponent.strip_prefix(['e', 'E'])?.parse().ok()?;
                // Of the exponent 32 bits count.
                let lower = exponent.rem_euclid(1 << 32);
                let power = i32::try_from(lower).or_else(|_| i32::try_from(lower - (1 << 32)));
                Scale::Ten(power.ok()?)
            }
        };
        // A small scale is zero without a digit.
        let is_zero = match scale {
            Scale::Ten(power) => power >= -9,
            Scale::Two(power) => power <= 40,
        };
        let is_number = !text.is_empty() || signed.len() > text.len();
        let has_digits = !whole.is_empty() || !fraction.is_empty();
        (has_digits || (is_zero && is_number)).then_some(Self {
            is_negative,
            whole,
            fraction,
            scale,
        })
    }

    /// Amount in nano units, fractions rounded away from zero; `None` above the limits of this parser.
    fn nano(&self) -> Option<i128> {
        let Self {
            is_negative,
            whole,
            fraction,
            scale,
        } = self;
        if whole.len() + fraction.len() > DIGITS {
            return None;
        }
        let number: u128 = format!("0{whole}{fraction}").parse().ok()?;
        let shift = u32::try_from(fraction.len()).ok()?;
        let (up, down) = match *scale {
            Scale::Two(power) => (NANO << power, 10_u128.pow(shift)),
            Scale::Ten(power) if power.unsigned_abs() > POWER => return None,
            Scale::Ten(power) if power >= 0 => (NANO * 10_u128.pow(power.unsigned_abs()), 10_u128.pow(shift)),
            Scale::Ten(power) => (NANO, 10_u128.pow(shift + power.unsigned_abs())),
        };
        let nano = number.checked_mul(up)?.div_ceil(down);
        let nano = match scale {
            Scale::Two(_) => nano.min(LARGEST * NANO),
            Scale::Ten(_) => nano,
        };
        let nano = i128::try_from(nano).ok()?;
        Some(if *is_negative { -nano } else { nano })
    }
}
