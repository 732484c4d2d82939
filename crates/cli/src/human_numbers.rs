//! Formats amounts, fractions and ages for people; no other file turns such numbers into text.

use std::time::Duration;

use headroom_domain::resource::Resource;

const KIB: f64 = 1024.0;
const MIB: f64 = 1024.0 * KIB;
const GIB: f64 = 1024.0 * MIB;

/// Formats an amount in a short form: `1900m`, `12.3GiB`, `512.0MiB`, `0B`. Memory has the largest unit of which the
/// amount has at least one.
#[expect(clippy::cast_precision_loss, reason = "rounded to one decimal anyway")]
pub fn short(resource: Resource, amount: i128) -> String {
    match resource {
        Resource::Cpu => format!("{amount}m"),
        Resource::Memory => {
            let bytes = amount as f64;
            match bytes.abs() {
                GIB.. => format!("{:.1}GiB", bytes / GIB),
                MIB.. => format!("{:.1}MiB", bytes / MIB),
                KIB.. => format!("{:.1}KiB", bytes / KIB),
                _ => format!("{amount}B"),
            }
        }
    }
}

/// Formats an amount in a sentence: as [`short`], with grouped thousands of milli-cores, as in `9,477m`.
pub fn spoken(resource: Resource, amount: i128) -> String {
    match resource {
        Resource::Cpu => format!("{}m", grouped(amount)),
        Resource::Memory => short(resource, amount),
    }
}

/// Formats an amount in a table column, where all memory is in Mi: `40320m`, `120832Mi`. Memory below 1 Mi, but not
/// 0, is `<1Mi`.
pub fn in_column(resource: Resource, amount: i128) -> String {
    const BYTES: i128 = 1 << 20;
    match resource {
        Resource::Cpu => format!("{amount}m"),
        Resource::Memory if amount > 0 && amount < BYTES / 2 => "<1Mi".to_owned(),
        Resource::Memory => format!("{}Mi", (amount + BYTES / 2).div_euclid(BYTES)),
    }
}

fn grouped(amount: i128) -> String {
    let digits = amount.unsigned_abs().to_string();
    let mut text = String::from(if amount < 0 { "-" } else { "" });
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats an exact amount: `40320m`, `13207024435B (12.3GiB)`.
pub fn exact(resource: Resource, amount: i128) -> String {
    match (resource, short(resource, amount)) {
        (Resource::Cpu, short) => short,
        (Resource::Memory, short) if short == format!("{amount}B") => short,
        (Resource::Memory, short) => format!("{amount}B ({short})"),
    }
}

/// Formats a fraction as a percentage with one decimal. It truncates, so `99.9%` never becomes `100.0%`.
pub fn percent(ppm: u32) -> String {
    format!("{}.{}%", ppm / 10_000, ppm % 10_000 / 1000)
}

/// Formats a fraction as a percentage with all its decimals, at least one: `90.0%`, `87.55%`.
pub fn exact_percent(ppm: u32) -> String {
    let decimals = format!("{:04}", ppm % 10_000);
    let trimmed = decimals.trim_end_matches('0');
    format!(
        "{}.{}%",
        ppm / 10_000,
        if trimmed.is_empty() { "0" } else { trimmed }
    )
}

/// Formats a short time, rounded: `16us`, `1.0ms`, `134ms`, `1.1s`.
#[expect(clippy::cast_precision_loss, reason = "rounded to one decimal anyway")]
pub fn duration(nanoseconds: u64) -> String {
    let micros = nanoseconds as f64 / 1e3;
    match nanoseconds {
        0..1_000_000 => format!("{micros:.0}us"),
        1_000_000..10_000_000 => format!("{:.1}ms", micros / 1e3),
        10_000_000..1_000_000_000 => format!("{:.0}ms", micros / 1e3),
        1_000_000_000.. => format!("{:.1}s", micros / 1e6),
    }
}

/// Formats an age: `59s`, `119m`, `48h`.
pub fn age(age: Duration) -> String {
    let seconds = age.as_secs();
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200.. => format!("{}h", seconds / 3600),
    }
}

/// Formats a count and a noun, which takes an `s` unless the count is 1: `1 pod`, `2 pods`.
pub fn counted(count: u64, name: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {name}{plural}")
}

/// Formats the value of a signal with its unit, as the agent's table names units.
pub fn with_unit(value: u64, unit: &str) -> String {
    match unit {
        "milli" => short(Resource::Cpu, i128::from(value)),
        "bytes" => short(Resource::Memory, i128::from(value)),
        "ppm" => percent(u32::try_from(value).unwrap_or(u32::MAX)),
        "per s" => format!("{value}/s"),
        "count" => value.to_string(),
        unit => format!("{value}{unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_times_have_two_or_three_digits() {
        for (nanoseconds, text) in [
            (16_384, "16us"),
            (1_048_576, "1.0ms"),
            (134_217_728, "134ms"),
            (1_073_741_824, "1.1s"),
        ] {
            assert_eq!(duration(nanoseconds), text);
        }
    }

    #[test]
    fn cpus_are_milli_cores_at_any_size() {
        for (milli, text, spoken_text) in [
            (0, "0m", "0m"),
            (999, "999m", "999m"),
            (1900, "1900m", "1,900m"),
            (-250, "-250m", "-250m"),
            (1_040_320, "1040320m", "1,040,320m"),
            (-40_320, "-40320m", "-40,320m"),
        ] {
            assert_eq!(short(Resource::Cpu, milli), text);
            assert_eq!(in_column(Resource::Cpu, milli), text);
            assert_eq!(spoken(Resource::Cpu, milli), spoken_text);
        }
    }

    #[test]
    fn memory_below_one_mebibyte_is_not_zero() {
        for (bytes, text, column) in [
            (8 << 30, "8.0GiB", "8192Mi"),
            (-(3 << 29), "-1.5GiB", "-1536Mi"),
            (20 << 20, "20.0MiB", "20Mi"),
            (300 << 10, "300.0KiB", "<1Mi"),
            (7, "7B", "<1Mi"),
            (0, "0B", "0Mi"),
        ] {
            assert_eq!(short(Resource::Memory, bytes), text);
            assert_eq!(in_column(Resource::Memory, bytes), column);
        }
        let exact_texts = [13_207_024_435, 7, 0].map(|bytes| exact(Resource::Memory, bytes));
        assert_eq!(exact_texts, ["13207024435B (12.3GiB)", "7B", "0B"]);
    }

    #[test]
    fn a_fraction_is_truncated() {
        assert_eq!(
            (percent(999_999), percent(1_000_000), percent(50)),
            ("99.9%".into(), "100.0%".into(), "0.0%".into())
        );
    }

    #[test]
    fn an_exact_fraction_has_all_decimals() {
        let texts = [900_000, 875_500, 1_031_000, 1, 0].map(exact_percent);
        assert_eq!(texts, ["90.0%", "87.55%", "103.1%", "0.0001%", "0.0%"]);
    }

    #[test]
    fn an_age_has_one_unit() {
        let texts = [0, 119, 120, 7199, 7200].map(|seconds| age(Duration::from_secs(seconds)));
        assert_eq!(texts, ["0s", "119s", "2m", "119m", "2h"]);
    }
}
