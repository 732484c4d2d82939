//! Rules that make a Reservation readable for the scheduler: types of its own fields, its time, amounts in its
//! template.
//!
//! The API server checks the fields by the schema of the kind, but only after all webhooks, and without naming the
//! writer; it does not check the template. One unreadable Reservation prevents the scheduler from reading the others.

use headroom_domain::{
    field::{Error, Errors, Path},
    quantity::Quantity,
};
use serde_json::Value;

use crate::switch::Switch;

/// Switch: a Reservation must have the fields that the scheduler requires.
pub static NEEDS_SPEC: Switch = Switch {
    name: "ReservationNeedsSpec",
    default: false,
    row: "S11",
    koordinator: "a Reservation without template, owners or an expiration is admitted, and the scheduler ignores it",
    about: "a Reservation without template, owners or an expiration is refused",
    why: "the creator learns about the fault immediately",
};

/// Kubernetes' message for an invalid quantity.
const NO_QUANTITY: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

/// Message for an invalid duration.
const NO_DURATION: &str = "must be a duration, such as 1h30m";

/// Units of a duration, in nanoseconds. `ms` precedes `m`, which is its prefix.
const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Maximum length of a value in an error, in characters.
const LONGEST_SHOWN: usize = 40;

/// Maximum number of amounts in one error.
const MOST_ERRORS: usize = 8;

/// A field of a Reservation has the wrong type. The text is that of Go's JSON decoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "json: cannot unmarshal {found} into Go struct field ReservationSpec.spec.{field} of type {expected}"
)]
pub struct ReservationTypeError {
    field: &'static str,
    found: &'static str,
    expected: &'static str,
}

/// JSON type of a field, with its type in Go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FieldType {
    Text(&'static str),
    Boolean,
    List(&'static str),
    Object(&'static str),
}

/// Fields of a Reservation's `spec`.
static FIELDS: [(&str, FieldType); 10] = [
    ("template", FieldType::Object("v1.PodTemplateSpec")),
    ("owners", FieldType::List("[]v1alpha1.ReservationOwner")),
    ("ttl", FieldType::Text("string")),
    ("expires", FieldType::Text("string")),
    ("preAllocation", FieldType::Boolean),
    ("allocateOnce", FieldType::Boolean),
    (
        "allocatePolicy",
        FieldType::Text("v1alpha1.ReservationAllocatePolicy"),
    ),
    ("unschedulable", FieldType::Boolean),
    ("taints", FieldType::List("[]v1.Taint")),
    (
        "preAllocationPolicy",
        FieldType::Object("v1alpha1.PreAllocationPolicy"),
    ),
];

impl FieldType {
    /// Returns true if a value has the type; `null` counts as absent.
    const fn fits(self, value: &Value) -> bool {
        matches!(
            (self, value),
            (_, Value::Null)
                | (Self::Text(_), Value::String(_))
                | (Self::Boolean, Value::Bool(_))
                | (Self::List(_), Value::Array(_))
                | (Self::Object(_), Value::Object(_))
        )
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Boolean => "bool",
            Self::Text(name) | Self::List(name) | Self::Object(name) => name,
        }
    }
}

/// Checks the types of the fields of a `spec`.
///
/// # Errors
/// The first field with another type.
pub fn check_types(spec: &Value) -> Result<(), ReservationTypeError> {
    let wrong = FIELDS.iter().find_map(|(field, kind)| {
        let value = spec.get(field).filter(|value| !kind.fits(value))?;
        Some(ReservationTypeError {
            field,
            found: json_type(value),
            expected: kind.name(),
        })
    });
    wrong.map_or(Ok(()), Err)
}

/// Returns the invalid times and amounts of a `spec`; at most eight amounts of its template.
pub fn check_values(spec: &Value) -> Errors {
    let mut errors = Errors::default();
    if let Some(text) = spec
        .get("ttl")
        .and_then(Value::as_str)
        .filter(|text| !is_duration(text))
    {
        let shown: String = text.chars().take(LONGEST_SHOWN).collect();
        errors.push(Error::invalid(
            &Path::new("spec").child("ttl"),
            shown,
            NO_DURATION,
        ));
    }
    let Some(pod) = spec.pointer("/template/spec") else {
        return errors;
    };
    let path = Path::new("spec").child("template").child("spec");
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        let containers = pod.get(list).and_then(Value::as_array).into_iter().flatten();
        for (at, container) in containers.enumerate() {
            let Some(resources) = container.get("resources") else {
                continue;
            };
            let path = path.child(list).index(at).child("resources");
            for part in ["requests", "limits"] {
                check_list(resources.get(part), &path.child(part), &mut errors);
            }
        }
    }
    check_list(pod.get("overhead"), &path.child("overhead"), &mut errors);
    errors
}

/// Returns the fields that a `spec` lacks, in the words of the scheduler.
pub fn check_needs(spec: &Value) -> Errors {
    let mut errors = Errors::default();
    let path = Path::new("spec");
    let has = |name: &str| spec.get(name).is_some_and(|value| !value.is_null());
    let owners = spec.get("owners").and_then(Value::as_array);
    for (field, part, is_there) in [
        ("template", "template", has("template")),
        ("owners", "owner", owners.is_some_and(|owners| !owners.is_empty())),
        ("ttl", "expiration", has("ttl") || has("expires")),
    ] {
        if !is_there {
            let text = format!("the reservation misses the {part} spec");
            errors.push(Error::required(&path.child(field), &text));
        }
    }
    errors
}

fn check_list(amounts: Option<&Value>, path: &Path, errors: &mut Errors) {
    let amounts = amounts.and_then(Value::as_object).into_iter().flatten();
    for (name, amount) in amounts.filter(|(_, amount)| !is_amount(amount)) {
        if errors.len() == MOST_ERRORS {
            return;
        }
        let name: String = name.chars().take(LONGEST_SHOWN).collect();
        errors.push(Error::invalid(&path.key(&name), shown(amount), NO_QUANTITY));
    }
}

/// Returns true if Go parses the text as a duration: `0`, or numbers with units, below 292 years.
fn is_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    let (mut total, has_some) = (0_u64, !rest.is_empty());
    while !rest.is_empty() {
        let Some((length, after)) = read_part(rest) else {
            return false;
        };
        let sum = total.checked_add(length);
        let Some(sum) = sum.filter(|sum| i64::try_from(*sum).is_ok()) else {
            return false;
        };
        (total, rest) = (sum, after);
    }
    has_some
}

/// Parses a number and its unit at the start of a text; returns nanoseconds without the fraction, and the rest.
fn read_part(text: &str) -> Option<(u64, &str)> {
    let digits = |text: &str| text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (whole, after) = text.split_at(digits(text));
    let (fraction, after) = match after.strip_prefix('.') {
        Some(after) => after.split_at(digits(after)),
        None => ("", after),
    };
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let mut units = UNITS.iter();
    let (after, nanos) = units.find_map(|(name, nanos)| Some((after.strip_prefix(name)?, nanos)))?;
    Some((whole.checked_mul(*nanos)?, after))
}

/// Returns true for a valid amount; `null` is a zero amount.
fn is_amount(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.parse::<Quantity>().is_ok(),
        Value::Number(number) => number.to_string().parse::<Quantity>().is_ok(),
        Value::Bool(_) | Value::Array(_) | Value::Object(_) => false,
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.chars().take(LONGEST_SHOWN).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            json_type(value).to_owned()
        }
    }
}

const fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case(json!({"allocateOnce": "yes"}), "string into Go struct field ReservationSpec.spec.allocateOnce of type bool")]
    #[case(json!({"owners": {}}), "object into Go struct field ReservationSpec.spec.owners of type []v1alpha1.ReservationOwner")]
    #[case(json!({"ttl": 5}), "number into Go struct field ReservationSpec.spec.ttl of type string")]
    #[case(json!({"template": []}), "array into Go struct field ReservationSpec.spec.template of type v1.PodTemplateSpec")]
    fn a_field_of_another_type_is_an_error(#[case] spec: Value, #[case] text: &str) {
        let error = check_types(&spec).unwrap_err();
        assert_eq!(error.to_string(), format!("json: cannot unmarshal {text}"));
    }

    #[rstest]
    #[case(json!(null))]
    #[case(json!({"allocateOnce": null, "unknown": 1}))]
    #[case(json!({"allocateOnce": true, "owners": [], "ttl": "1h", "template": {}, "taints": []}))]
    fn other_specifications_are_of_the_types(#[case] spec: Value) {
        assert_eq!(check_types(&spec), Ok(()));
    }

    #[rstest]
    #[case("24h", true)]
    #[case("1h0m0s", true)]
    #[case("0", true)]
    #[case("-1.5h", true)]
    #[case("1.s.5ms3\u{b5}s", true)]
    #[case("2562047h", true)]
    #[case("", false)]
    #[case("-", false)]
    #[case("5", false)]
    #[case("h", false)]
    #[case(".h", false)]
    #[case("1d", false)]
    #[case("1h ", false)]
    #[case("1h5", false)]
    #[case("2562048h", false)]
    #[case("99999999999999999999s", false)]
    fn a_time_is_one_if_go_reads_it(#[case] text: &str, #[case] is_one: bool) {
        assert_eq!(check_values(&json!({"ttl": text})).is_empty(), is_one);
    }

    #[test]
    fn invalid_amounts_are_named_with_their_path() {
        let resources = json!({"requests": {"cpu": "x", "memory": 5}, "limits": {"cpu": true, "a": null}});
        let pod = json!({"containers": [{"name": "c"}, {"resources": resources}], "overhead": {"cpu": "1 "}});
        let errors = check_values(&json!({"template": {"spec": pod}}));
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        let path = "spec.template.spec";
        assert_eq!(
            texts,
            [
                format!(r#"{path}.containers[1].resources.requests[cpu]: Invalid value: "x": {NO_QUANTITY}"#),
                format!(
                    r#"{path}.containers[1].resources.limits[cpu]: Invalid value: "bool": {NO_QUANTITY}"#
                ),
                format!(r#"{path}.overhead[cpu]: Invalid value: "1 ": {NO_QUANTITY}"#),
            ]
        );
    }

    #[test]
    fn errors_about_amounts_are_bounded() {
        let amounts: serde_json::Map<String, Value> = (0..1_000)
            .map(|at| ("x".repeat(1_000 + at), "y".repeat(1_000).into()))
            .collect();
        let pod = json!({"containers": [{"resources": {"requests": amounts}}]});
        let errors = check_values(&json!({"template": {"spec": pod}}));
        assert_eq!(errors.len(), 1, "shortened names are one");
        assert!(errors.to_string().len() < 400);
    }

    #[rstest]
    #[case(json!({}), 3)]
    #[case(json!({"template": null, "owners": [], "ttl": null}), 3)]
    #[case(json!({"template": {}, "owners": [{}], "expires": "t"}), 0)]
    #[case(json!({"template": {}, "owners": [{}], "ttl": "0"}), 0)]
    fn missing_fields_are_reported(#[case] spec: Value, #[case] count: usize) {
        assert_eq!(check_needs(&spec).len(), count);
    }
}
