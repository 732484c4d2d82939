//! Formats amounts, fractions and ages for people; no other file turns such numbers into text.

use std::time::Duration;

use headroom_domain::resource::Resource;

/// From here on CPU is shown in cores.
const CORES_FROM: u128 = 10_000;
const GIB: f64 = 1024.0 * 1024.0 * 1024.0;

/// An amount, short: `1900m`, from ten cores on `40.3`; `12.3GiB`.
#[expect(clippy::cast_precision_loss, reason = "rounded to one decimal anyway")]
pub fn short(resource: Resource, amount: i128) -> String {
    match resource {
        Resource::Cpu if amount.unsigned_abs() < CORES_FROM => format!("{amount}m"),
        Resource::Cpu => format!("{:.1}", amount as f64 / 1000.0),
        Resource::Memory => format!("{:.1}GiB", amount as f64 / GIB),
    }
}

/// An amount, exact: `40320m`; `13207024435B (12.3GiB)`.
pub fn exact(resource: Resource, amount: i128) -> String {
    match resource {
        Resource::Cpu => format!("{amount}m"),
        Resource::Memory => format!("{amount}B ({})", short(resource, amount)),
    }
}

/// A fraction in percent with one decimal, cut off: `99.9%` is never shown as all.
pub fn percent(ppm: u32) -> String {
    format!("{}.{}%", ppm / 10_000, ppm % 10_000 / 1000)
}

/// A fraction in percent with all its decimals, at least one: `90.0%`, `87.55%`.
pub fn exact_percent(ppm: u32) -> String {
    let decimals = format!("{:04}", ppm % 10_000);
    let trimmed = decimals.trim_end_matches('0');
    format!(
        "{}.{}%",
        ppm / 10_000,
        if trimmed.is_empty() { "0" } else { trimmed }
    )
}

/// A short time: `16us`, `1.0ms`, `134ms`, `1.1s`; rounded.
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

/// An age: `59s`, `119m`, `48h`.
pub fn age(age: Duration) -> String {
    let seconds = age.as_secs();
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200.. => format!("{}h", seconds / 3600),
    }
}

/// A signal's value with its unit, as the agent's table names units.
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
    fn small_cpus_are_milli_cores_and_large_ones_cores() {
        for (milli, text) in [
            (0, "0m"),
            (1900, "1900m"),
            (-250, "-250m"),
            (10_000, "10.0"),
            (40_320, "40.3"),
        ] {
            assert_eq!(short(Resource::Cpu, milli), text);
        }
        assert_eq!(exact(Resource::Cpu, 40_320), "40320m");
    }

    #[test]
    fn memory_is_in_gibibytes() {
        assert_eq!(short(Resource::Memory, 8 << 30), "8.0GiB");
        assert_eq!(exact(Resource::Memory, 13_207_024_435), "13207024435B (12.3GiB)");
    }

    #[test]
    fn a_fraction_is_cut_not_rounded_up() {
        assert_eq!(
            (percent(999_999), percent(1_000_000), percent(50)),
            ("99.9%".into(), "100.0%".into(), "0.0%".into())
        );
    }

    #[test]
    fn a_fraction_to_calculate_with_is_whole() {
        let texts = [900_000, 875_500, 1_031_000, 1, 0].map(exact_percent);
        assert_eq!(texts, ["90.0%", "87.55%", "103.1%", "0.0001%", "0.0%"]);
    }

    #[test]
    fn an_age_has_one_unit() {
        let texts = [0, 119, 120, 7199, 7200].map(|seconds| age(Duration::from_secs(seconds)));
        assert_eq!(texts, ["0s", "119s", "2m", "119m", "2h"]);
    }
}
