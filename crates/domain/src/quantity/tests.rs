//! Tests of quantities against a table written by Kubernetes' own package, and of properties that hold for all of
//! them.

use proptest::prelude::*;

use super::*;
use crate::{capacity, ratio::Ratio, resource::Resource};

/// Written by the program in `crates/xtask/controlplane/quantities`, whose source describes the columns.
const GOLDEN: &str = include_str!("../../tests/golden/quantities.tsv");

/// Column value for an amount without a 64-bit value.
const NONE: &str = "-";

/// Deliberate difference from Kubernetes in one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Difference {
    /// Above 10²⁹ the value saturates; neither side returns an integer amount.
    Saturates,
    /// Kubernetes prints no power of ten beyond E, so that `1000E` prints as `1`; here all digits are printed.
    LosesThePower,
}

/// All rows that differ, with the canonical text of this implementation.
const DIFFERENCES: [(&str, Difference, Option<&str>); 13] = [
    ("-1e30", Difference::Saturates, Some("-100e27")),
    ("1e30", Difference::Saturates, Some("100e27")),
    ("123e27", Difference::Saturates, Some("100e27")),
    ("1e38", Difference::Saturates, Some("100e27")),
    ("1e100", Difference::Saturates, Some("100e27")),
    (
        "170141183460469231731687303715.884105727",
        Difference::Saturates,
        Some("100000000000E"),
    ),
    (
        "123456789012345678901234567890",
        Difference::Saturates,
        Some("100000000000E"),
    ),
    (
        "92233720368547758.07E",
        Difference::Saturates,
        Some("100000000000E"),
    ),
    (
        "999999999999999999E",
        Difference::Saturates,
        Some("100000000000E"),
    ),
    (
        "100000000000000000000000000000000000000n",
        Difference::LosesThePower,
        Some("100000000000E"),
    ),
    ("1000E", Difference::LosesThePower, Some("1000E")),
    ("12000E", Difference::LosesThePower, Some("12000E")),
    ("1000000E", Difference::LosesThePower, Some("1000000E")),
];

/// Row of the table about parsing a text.
struct ParsedQuantity<'a> {
    input: String,
    /// Canonical text, milli, units and format; `None` if rejected.
    expected: Option<[&'a str; 4]>,
}

/// Rows of one kind, divided into columns.
fn rows(kind: &str) -> impl Iterator<Item = Vec<&str>> {
    GOLDEN
        .lines()
        .map(|line| line.split('\t').collect::<Vec<_>>())
        .filter(move |columns| columns[0] == kind)
        .map(|columns| columns[1..].to_vec())
}

fn readings() -> Vec<ParsedQuantity<'static>> {
    let input = |json: &str| serde_json::from_str(json).expect(json);
    let read = rows("read").map(|columns| {
        let [json, canonical, _echo, milli, units, format] = columns[..] else {
            panic!("{columns:?}")
        };
        ParsedQuantity {
            input: input(json),
            expected: Some([canonical, milli, units, format]),
        }
    });
    let refused = rows("refuse").map(|columns| ParsedQuantity {
        input: input(columns[0]),
        expected: None,
    });
    read.chain(refused).collect()
}

/// Result of parsing a text, in the table's columns.
fn read(input: &str) -> Option<[String; 4]> {
    let quantity: Quantity = input.parse().ok()?;
    let shown = |amount: Option<u64>| amount.map_or_else(|| NONE.to_owned(), |amount| amount.to_string());
    let format = match quantity.format() {
        Format::DecimalSi => "DecimalSI",
        Format::BinarySi => "BinarySI",
        Format::DecimalExponent => "DecimalExponent",
    };
    Some([
        quantity.to_string(),
        shown(quantity.milli()),
        shown(quantity.units()),
        format.to_owned(),
    ])
}

/// Negative quantities have no integer amounts.
fn unless_negative(amount: &str) -> &str {
    if amount.starts_with('-') { NONE } else { amount }
}

#[test]
fn texts_read_and_print_like_kubernetes_except_the_listed_ones() {
    let readings = readings();
    assert!(readings.len() > 1000, "{}", readings.len());
    let mut named = 0;
    let mut wrong = Vec::new();
    for ParsedQuantity { input, expected } in &readings {
        let expected = expected.map(|[canonical, milli, units, format]| {
            [canonical, unless_negative(milli), unless_negative(units), format].map(str::to_owned)
        });
        let found = read(input);
        let difference = DIFFERENCES.iter().find(|(listed, ..)| listed == input);
        let is_right = match difference {
            None => found == expected,
            Some((_, _, text)) => {
                named += 1;
                found != expected && found.as_ref().map(|[text, ..]| text.as_str()) == *text
            }
        };
        if !is_right {
            wrong.push(format!(
                "{input:?}: {found:?}, Kubernetes: {expected:?}, {difference:?}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{} rows\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(named, DIFFERENCES.len());
}

#[test]
fn every_product_is_truncated_once_to_whole_units() {
    let mut count = 0;
    for columns in rows("times") {
        let [resource, text, ratio, amount, printed] = columns[..] else {
            panic!("{columns:?}")
        };
        let resource = Resource::from_name(resource).expect(resource);
        let quantity: Quantity = text.parse().expect(text);
        let result = capacity::amount(resource, &quantity)
            .and_then(|raw| Ratio::parse(ratio).expect(ratio).apply(raw));
        let found = result.map(|result| match resource {
            Resource::Cpu => Quantity::from_milli(result),
            Resource::Memory => Quantity::from_units(result, quantity.format()),
        });
        assert_eq!(
            (
                result
                    .map_or_else(|| NONE.to_owned(), |result| result.to_string())
                    .as_str(),
                found
                    .map_or_else(|| NONE.to_owned(), |found| found.to_string())
                    .as_str()
            ),
            (amount, printed),
            "{resource} {text} × {ratio}"
        );
        count += 1;
    }
    assert!(count > 500, "{count}");
}

#[test]
fn reading_out_rounds_up_and_refuses_negatives() {
    let quantity = |text: &str| text.parse::<Quantity>().unwrap();
    assert_eq!(quantity("1001u").milli(), Some(2));
    assert_eq!(quantity("1.5").units(), Some(2));
    assert_eq!(quantity("-1").units(), None);
    assert_eq!(quantity("10E").milli(), None);
    assert_eq!(quantity("9223372036854775807").units(), Some(i64::MAX as u64));
    assert_eq!(quantity("9223372036854775808").units(), None);
}

#[test]
fn a_binary_amount_below_1024_is_printed_as_a_decimal_one() {
    let printed = |units| Quantity::from_units(units, Format::BinarySi).to_string();
    assert_eq!(
        [1, 1000, 1023, 1024, 2000].map(printed),
        ["1", "1k", "1023", "1Ki", "2000"]
    );
}

#[test]
fn a_binary_fraction_is_exact_however_long_it_is() {
    // 28 digits and more can still carry into a nano when multiplied by 2^60.
    let digits = format!("0.{}", "9".repeat(200));
    let text = format!("{digits}Ei").parse::<Quantity>().unwrap();
    assert_eq!(text.units(), Some(1 << 60));
}

#[test]
fn every_sum_and_difference_is_that_of_kubernetes() {
    let mut count = 0;
    for columns in rows("sum") {
        let [left, right, sum, difference] = columns[..] else {
            panic!("{columns:?}")
        };
        let (a, b): (Quantity, Quantity) = (left.parse().expect(left), right.parse().expect(right));
        let results = [a.checked_add(&b), a.checked_sub(&b)].map(|result| result.expect(left).to_string());
        assert_eq!(results, [sum, difference], "{left}, {right}");
        count += 1;
    }
    assert!(count > 500, "{count}");
}

#[test]
fn a_sum_prints_as_its_left_operand_or_the_right_one_if_the_left_is_zero() {
    let results = |left: &str, right: &str| {
        let (left, right): (Quantity, Quantity) = (left.parse().unwrap(), right.parse().unwrap());
        let results = [left.checked_add(&right), left.checked_sub(&right)];
        results.map(|result| result.unwrap().to_string())
    };
    for (left, right, sum, difference) in [
        ("1Gi", "500M", "1573741824", "573741824"),
        ("500M", "1Gi", "1573741824", "-573741824"),
        ("1Gi", "1Gi", "2Gi", "0"),
        ("1024Mi", "1000Mi", "2024Mi", "24Mi"),
        ("1M", "1024Ki", "2048576", "-48576"),
        ("0", "1Gi", "1Gi", "-1Gi"),
        ("0Gi", "1k", "1k", "-1k"),
        ("0", "2e3", "2e3", "-2e3"),
        ("1Gi", "0", "1Gi", "1Gi"),
        ("1500m", "1", "2500m", "500m"),
        ("1", "1500m", "2500m", "-500m"),
        ("1Ki", "1m", "1024001m", "1023999m"),
    ] {
        assert_eq!(results(left, right), [sum, difference], "{left}, {right}");
    }
}

#[test]
fn a_sum_beyond_the_largest_amount_is_none() {
    let most: Quantity = "1e29".parse().unwrap();
    let unit = Quantity::from_whole(1);
    let negative = Quantity::ZERO.checked_sub(&most).unwrap();
    assert_eq!(most.checked_add(&unit), None);
    assert_eq!(negative.checked_sub(&unit), None);
    assert_eq!(most.saturating_add(&unit), most);
    assert_eq!(most.checked_add(&negative), Some(Quantity::ZERO));
    assert_eq!(Quantity::from_whole(i128::MAX), most);
    assert_eq!(Quantity::from_whole(i128::MIN), negative);
}

#[test]
fn whole_numbers_are_rounded_away_from_zero() {
    for (text, whole, milli) in [
        ("1u", 1, 1),
        ("-1u", -1, -1),
        ("1500m", 2, 1500),
        ("-1500m", -2, -1500),
        ("0", 0, 0),
        ("-3", -3, -3000),
        ("1e29", 10_i128.pow(29), 10_i128.pow(32)),
        ("-1e29", -(10_i128.pow(29)), -(10_i128.pow(32))),
    ] {
        let quantity: Quantity = text.parse().unwrap();
        assert_eq!(quantity.whole(), whole, "{text}");
        assert_eq!(quantity.whole_milli(), milli, "{text}");
        assert_eq!(quantity.is_negative(), whole < 0, "{text}");
        assert_eq!(quantity.is_zero(), whole == 0, "{text}");
    }
}

#[test]
fn json_has_quantities_as_texts_or_numbers_and_gets_canonical_texts() {
    let canonical = |json: &str| {
        let quantity: Result<Quantity, _> = serde_json::from_str(json);
        quantity.map(|quantity| serde_json::to_string(&quantity).unwrap())
    };
    for (json, expected) in [
        (r#""0.5""#, r#""500m""#),
        (r#"" 1024Mi ""#, r#""1Gi""#),
        ("40", r#""40""#),
        ("-1000", r#""-1k""#),
        ("0.1", r#""100m""#),
        ("1e3", r#""1k""#),
        ("18446744073709551615", r#""18446744073709551615""#),
        ("1e300", r#""100000000000E""#),
        ("null", r#""0""#),
    ] {
        assert_eq!(canonical(json).unwrap(), expected, "{json}");
    }
    for (json, reason) in [
        (r#""1 Gi""#, r#""1 Gi" is not a quantity"#),
        (r#""""#, r#""" is not a quantity"#),
        ("true", "expected a quantity"),
        ("[1]", "expected a quantity"),
        (r#"{"a":1}"#, "expected a quantity"),
    ] {
        let error = canonical(json).unwrap_err().to_string();
        assert!(error.contains(reason), "{json}: {error}");
    }
    assert_eq!(serde_json::from_str::<Option<Quantity>>("null").unwrap(), None);
}

/// Texts of the grammar: sign, digits with or without a point, suffix.
fn texts() -> impl Strategy<Value = String> {
    "[+-]?([0-9]{1,40}|[0-9]{0,20}[.][0-9]{1,20})(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|e-?[0-9]{1,2})?"
}

proptest! {
    #[test]
    fn a_quantity_is_what_its_text_reads_as(text in texts()) {
        let first: Quantity = text.parse().unwrap();
        let again: Quantity = first.to_string().parse().unwrap();
        prop_assert_eq!(first, again);
        prop_assert_eq!(first.to_string(), again.to_string());
    }

    #[test]
    fn only_the_lower_32_bits_of_an_exponent_count(
        number in "[0-9]{1,25}|[0-9]{0,20}[.][0-9]{1,20}",
        exponent in -30_i64..30,
        upper in -0x7fff_ffff_i64..0x7fff_ffff,
    ) {
        let read = |exponent: i64| format!("{number}e{exponent}").parse::<Quantity>();
        prop_assert_eq!(read(exponent + (upper << 32)), read(exponent));
    }

    #[test]
    fn any_exponent_of_64_bits_is_parsed(exponent: i64, number in "[0-9]{1,25}|[0-9]{0,20}[.][0-9]{1,20}") {
        let text = format!("{number}e{exponent}");
        prop_assert!(text.parse::<Quantity>().is_ok());
    }

    #[test]
    fn any_text_is_parsed_or_rejected_without_panic(text in "[-+.0-9eEinumkKMGTP ]{0,12}|\\PC{0,12}") {
        if let Ok(quantity) = text.parse::<Quantity>() {
            prop_assert_eq!(quantity, quantity.to_string().parse().unwrap());
        }
    }

    #[test]
    fn amounts_grow_with_quantities(left in texts(), right in texts()) {
        let (left, right): (Quantity, Quantity) = (left.parse().unwrap(), right.parse().unwrap());
        let (less, more) = (left.min(right), left.max(right));
        for amount in [Quantity::milli, Quantity::units] {
            if let (Some(less), Some(more)) = (amount(&less), amount(&more)) {
                prop_assert!(less <= more);
            }
        }
        let unreadable_because_too_large = |quantity: &Quantity| quantity.units().is_none() && *quantity > Quantity::from_milli(0);
        prop_assert!(!unreadable_because_too_large(&less) || unreadable_because_too_large(&more));
    }

    #[test]
    fn more_digits_are_never_less(whole in 0_u64..1 << 40, fraction in "[0-9]{0,30}", suffix in "(n|u|m|k|M|G|Ki|Mi|Gi|Ei|e3)?") {
        let quantity = |text: String| text.parse::<Quantity>().unwrap();
        let cut = quantity(format!("{whole}{suffix}"));
        let longer = quantity(format!("{whole}.{fraction}{suffix}"));
        let next = quantity(format!("{}{suffix}", whole + 1));
        prop_assert!(cut <= longer && longer <= next);
    }

    #[test]
    fn a_fraction_of_a_binary_unit_is_exact(whole in 0_u64..1 << 20, quarter in 0_u64..4) {
        let text = format!("{whole}.{:02}Gi", quarter * 25);
        prop_assert_eq!(text.parse::<Quantity>().unwrap().units(), Some((whole << 30) + (quarter << 28)));
    }

    #[test]
    fn order_is_by_amount(left in 0_u64..1 << 62, right in 0_u64..1 << 62) {
        let (a, b) = (Quantity::from_units(left, Format::BinarySi), Quantity::from_units(right, Format::DecimalSi));
        prop_assert_eq!(a.cmp(&b), left.cmp(&right));
    }

    #[test]
    fn a_higher_ratio_never_gives_less(raw in 0_u64..1 << 53, ratios in prop::array::uniform2(0_u32..1_000_000_000)) {
        let [low, high] = { let mut sorted = ratios; sorted.sort_unstable(); sorted };
        let apply = |nano: u32| Ratio::parse(&format!("{}.{:09}", nano / 100_000_000, nano % 100_000_000 * 10)).unwrap().apply(raw);
        prop_assert!(apply(low) <= apply(high));
        prop_assert_eq!(Ratio::ONE.apply(raw), Some(raw));
    }

    #[test]
    fn sums_can_be_subtracted_again(left in texts(), right in texts()) {
        let (left, right): (Quantity, Quantity) = (left.parse().unwrap(), right.parse().unwrap());
        if let Some(sum) = left.checked_add(&right) {
            prop_assert_eq!(Some(sum), right.checked_add(&left));
            prop_assert_eq!(sum.checked_sub(&right), Some(left));
            prop_assert_eq!(left.saturating_add(&right), sum);
            let printed = if left.is_zero() { right.format() } else { left.format() };
            prop_assert_eq!(sum.format(), printed);
        }
    }

    #[test]
    fn a_quantity_survives_json(text in texts()) {
        let quantity: Quantity = text.parse().unwrap();
        let json = serde_json::to_string(&quantity).unwrap();
        let again: Quantity = serde_json::from_str(&json).unwrap();
        prop_assert_eq!(again, quantity);
        prop_assert_eq!(again.to_string(), quantity.to_string());
    }

    #[test]
    fn few_digits_parse_equally_with_and_without_a_list(
        whole in "[0-9]{0,12}",
        fraction in "[0-9]{0,8}",
        ten in -14_i32..22,
        shift in 0_u32..=60,
    ) {
        for scale in [Scale::Ten(ten), Scale::Two(shift)] {
            if let Some(short) = short_nano(&whole, &fraction, scale) {
                prop_assert_eq!(short, long_nano(&whole, &fraction, scale));
            }
        }
        prop_assert!(short_nano("12", "5", Scale::Ten(ten.clamp(-8, 10))).is_some());
        prop_assert!(short_nano("12", "", Scale::Two(shift)).is_some());
    }

    #[test]
    fn whole_numbers_equal_units_of_non_negative_quantities(text in texts()) {
        let quantity: Quantity = text.parse().unwrap();
        if let (Some(units), Some(milli)) = (quantity.units(), quantity.milli()) {
            prop_assert_eq!((quantity.whole(), quantity.whole_milli()), (units.into(), milli.into()));
        }
    }
}
