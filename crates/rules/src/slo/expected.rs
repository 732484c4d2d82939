//! Requirements of a member in words: type, unit and range, from its row.

use super::table::{MemberRow, Rule, Unit, ValueKind};

/// Requirement for a value, such as `must be a whole number from 0 to 100, in percent`.
pub fn expected(field: &MemberRow) -> String {
    let kind = match field.kind {
        ValueKind::Bool => "true or false",
        ValueKind::Int64 | ValueKind::Int32 => "a whole number",
        ValueKind::Number => "a number",
        ValueKind::Text if field.rules.contains(&Rule::NotEmpty) => "a non-empty string in quotes",
        ValueKind::Text => "a string in quotes",
        ValueKind::Duration => "a time such as \"5m\"",
        ValueKind::Quantity => "a quantity such as \"10G\"",
        ValueKind::PercentOrQuantity => {
            "a percentage as a whole number from 0 to 100, or a quantity such as \"50M\""
        }
        ValueKind::Object => "a JSON object",
        ValueKind::Any => "any value",
    };
    let range = range(field.rules);
    let unit = match (field.unit, field.kind) {
        (Unit::None, _) => String::new(),
        (Unit::Ratio, _) => ", as a ratio".to_owned(),
        (Unit::Priority, _) => ", as a priority of pods".to_owned(),
        (Unit::OffOn, _) => " (0 is off, 1 is on)".to_owned(),
        (unit, ValueKind::Quantity | ValueKind::PercentOrQuantity) => format!(", {}", unit.name()),
        (unit, _) => format!(", in {}", unit.name()),
    };
    format!("must be {kind}{range}{unit}")
}

/// Range that the rules allow, with a leading blank; empty if they allow every number.
pub fn range(rules: &[Rule]) -> String {
    let mut min = None;
    let mut above = None;
    let mut max = None;
    for rule in rules {
        match rule {
            Rule::Min(bound) => min = Some(bound),
            Rule::Above(bound) => above = Some(bound),
            Rule::Max(bound) => max = Some(bound),
            Rule::Hundredths(min, max) => {
                return format!(" from {} to {}", hundredths(*min), hundredths(*max));
            }
            Rule::AboveMember(_) | Rule::BelowMember(_) | Rule::NotEmpty => {}
        }
    }
    match (min, above, max) {
        (Some(min), _, Some(max)) => format!(" from {min} to {max}"),
        (Some(min), _, None) => format!(" of {min} or more"),
        (None, Some(above), Some(max)) => format!(" above {above} and up to {max}"),
        (None, Some(above), None) => format!(" above {above}"),
        (None, None, Some(max)) => format!(" of {max} or less"),
        (None, None, None) => String::new(),
    }
}

/// Returns true if a number satisfies all rules except those that compare it with another member.
pub(super) fn is_in_range(rules: &[Rule], number: f64) -> bool {
    rules.iter().all(|rule| match *rule {
        Rule::Min(min) => number >= bound(min),
        Rule::Max(max) => number <= bound(max),
        Rule::Above(above) => number > bound(above),
        Rule::Hundredths(min, max) => (bound(min) / 100.0..=bound(max) / 100.0).contains(&number),
        Rule::AboveMember(_) | Rule::BelowMember(_) | Rule::NotEmpty => true,
    })
}

/// Formats hundredths with two decimals.
pub(super) fn hundredths(number: i64) -> String {
    format!("{}.{:02}", number / 100, number % 100)
}

/// A bound as a number for comparisons.
#[expect(clippy::cast_precision_loss, reason = "bounds are small numbers")]
pub(super) fn bound(bound: i64) -> f64 {
    bound as f64
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::slo::table::{AMPLIFICATION, COLOCATION, Key, SYSTEM, THRESHOLD};

    #[rstest]
    #[case(&COLOCATION, "degradeTimeMinutes", "must be a whole number of 1 or more, in minutes")]
    #[case(&COLOCATION, "midCPUThresholdPercent", "must be a whole number from 0 to 100, in percent")]
    #[case(&COLOCATION, "resourceDiffThreshold", "must be a number above 0 and up to 1, as a ratio")]
    #[case(&SYSTEM, "memcgReapBackGround", "must be a whole number from 0 to 1 (0 is off, 1 is on)")]
    #[case(&SYSTEM, "totalNetworkBandwidth", "must be a quantity such as \"10G\", bytes per second")]
    #[case(&THRESHOLD, "enable", "must be true or false")]
    #[case(&AMPLIFICATION, "bounds.cpu.min", "must be a number from 0.50 to 1.00, as a ratio")]
    fn a_row_describes_its_values(#[case] key: &'static Key, #[case] member: &str, #[case] text: &str) {
        let (_, field) = key.rows().find(|(_, field)| field.member == member).unwrap();
        assert_eq!(expected(field), text);
    }
}
