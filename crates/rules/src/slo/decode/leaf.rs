//! Parses one value like Go's decoder and Kubernetes' types, with their messages.

use headroom_domain::{field::BadValue, quantity::Quantity};

use super::super::{
    document::Content,
    json::{JsonKind, Value},
    table::ValueKind,
};

/// Kubernetes' message for an invalid quantity.
pub(crate) const NO_QUANTITY: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const NO_SUFFIX: &str = "unable to parse quantity's suffix";

/// Reasons why a value is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mismatch {
    /// The value has the wrong type: actual and expected type, in Go's words.
    Type(String, &'static str),
    /// The type refuses the value with this message.
    Refused(String),
}

pub(crate) fn read(kind: ValueKind, value: Value<'_>) -> Result<Content, Mismatch> {
    let written = || value.written().to_owned();
    match kind {
        ValueKind::Bool if value.kind() == JsonKind::True => Ok(Content::Bool(true)),
        ValueKind::Bool if value.kind() == JsonKind::False => Ok(Content::Bool(false)),
        ValueKind::Bool => Err(of_type(value, "bool")),
        ValueKind::Int64 => whole(value, "int64", i64::MIN, i64::MAX),
        ValueKind::Int32 => whole(value, "int32", i32::MIN.into(), i32::MAX.into()),
        ValueKind::Number => number(value),
        ValueKind::Text => text(value).map(Content::Text),
        ValueKind::Duration => duration(value),
        ValueKind::Quantity => quantity(value),
        ValueKind::PercentOrQuantity => percent_or_quantity(value),
        ValueKind::Object if value.kind() != JsonKind::Object => {
            Err(of_type(value, "map[string]interface {}"))
        }
        ValueKind::Object | ValueKind::Any => Ok(Content::Json(written())),
    }
}

fn of_type(value: Value<'_>, go: &'static str) -> Mismatch {
    Mismatch::Type(value.kind().go_name().to_owned(), go)
}

fn out_of_range(value: Value<'_>, go: &'static str) -> Mismatch {
    Mismatch::Type(format!("number {}", shortened(value.written())), go)
}

fn whole(value: Value<'_>, go: &'static str, min: i64, max: i64) -> Result<Content, Mismatch> {
    if value.kind() != JsonKind::Number {
        return Err(of_type(value, go));
    }
    let number = value.written().parse().ok();
    let number = number.filter(|number| (min..=max).contains(number));
    number.map(Content::Int).ok_or_else(|| out_of_range(value, go))
}

fn number(value: Value<'_>) -> Result<Content, Mismatch> {
    if value.kind() != JsonKind::Number {
        return Err(of_type(value, "float64"));
    }
    let number: Option<f64> = value.written().parse().ok();
    let number = number.filter(|number| number.is_finite());
    number
        .map(Content::Number)
        .ok_or_else(|| out_of_range(value, "float64"))
}

pub(crate) fn text(value: Value<'_>) -> Result<String, Mismatch> {
    let text = value.string().ok_or_else(|| of_type(value, "string"))?;
    Ok(text.into_owned())
}

/// Kubernetes parses the text with another decoder, whose error lacks the path.
fn duration(value: Value<'_>) -> Result<Content, Mismatch> {
    let text = if value.is_null() {
        Ok(String::new())
    } else {
        text(value)
    };
    let text = text.map_err(|_mismatch| {
        let found = value.kind().go_name();
        Mismatch::Refused(format!(
            "json: cannot unmarshal {found} into Go value of type string"
        ))
    })?;
    match duration_fault(&text) {
        None => Ok(Content::Text(text)),
        Some(fault) => Err(Mismatch::Refused(format!("time: {fault}"))),
    }
}

/// Go's message about an invalid duration; `None` for a valid one. The maximum is not checked.
fn duration_fault(text: &str) -> Option<String> {
    const UNITS: [&str; 8] = ["ns", "us", "µs", "μs", "ms", "s", "m", "h"];
    let shown = BadValue::from(shortened(text));
    let invalid = || Some(format!("invalid duration {shown}"));
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return None;
    }
    if rest.is_empty() {
        return invalid();
    }
    while !rest.is_empty() {
        let is_number = |character: char| character.is_ascii_digit() || character == '.';
        let (number, behind) = rest.split_at(rest.find(|c| !is_number(c)).unwrap_or(rest.len()));
        let has_digit = number.contains(|character: char| character.is_ascii_digit());
        if !has_digit || number.matches('.').count() > 1 {
            return invalid();
        }
        let (unit, behind) = behind.split_at(behind.find(is_number).unwrap_or(behind.len()));
        if unit.is_empty() {
            return Some(format!("missing unit in duration {shown}"));
        }
        if !UNITS.contains(&unit) {
            let unit = BadValue::from(shortened(unit));
            return Some(format!("unknown unit {unit} in duration {shown}"));
        }
        rest = behind;
    }
    None
}

/// Parses a quantity from the value as written, without quotes if it has some.
fn quantity(value: Value<'_>) -> Result<Content, Mismatch> {
    let text = match value.string() {
        Some(text) => text.trim().to_owned(),
        None => value.written().to_owned(),
    };
    match parse_quantity(&text) {
        Ok(quantity) => Ok(Content::Quantity(quantity)),
        Err(reason) => Err(Mismatch::Refused(reason.to_owned())),
    }
}

/// Parses a quantity, or returns Kubernetes' message.
pub(crate) fn parse_quantity(text: &str) -> Result<Quantity, &'static str> {
    text.parse().map_err(|_error| {
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let suffix =
            unsigned.trim_start_matches(|character: char| character.is_ascii_digit() || character == '.');
        let letters = suffix.trim_end_matches(|character: char| character.is_ascii_digit());
        let letters = letters.strip_suffix(['-', '+']).unwrap_or(letters);
        let is_form = suffix.len() < unsigned.len() && letters.chars().all(|c| "eEinumkKMGTP".contains(c));
        if is_form { NO_SUFFIX } else { NO_QUANTITY }
    })
}

fn percent_or_quantity(value: Value<'_>) -> Result<Content, Mismatch> {
    if value.kind() == JsonKind::Text {
        return text(value).map(Content::Text);
    }
    let percent = whole(value, "int32", i32::MIN.into(), i32::MAX.into());
    percent.map_err(|mismatch| match mismatch {
        Mismatch::Type(found, go) => Mismatch::Refused(format!(
            "json: cannot unmarshal {found} into Go value of type {go}"
        )),
        Mismatch::Refused(reason) => Mismatch::Refused(reason),
    })
}

/// Shortens a text for an error.
pub(crate) fn shortened(text: &str) -> String {
    const MOST: usize = 64;
    if text.chars().nth(MOST).is_none() {
        return text.to_owned();
    }
    text.chars().take(MOST).chain("...".chars()).collect()
}
