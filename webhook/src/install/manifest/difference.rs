//! Lists the fields in which an object of the API server differs from the generated one. `control::registration` and
//! `control::floor_check` report them.

use std::{collections::BTreeSet, fmt};

use serde_json::Value;

/// Differences that a summary lists; it counts the rest.
const LISTED: usize = 3;
/// Characters of a value that are shown.
const SHOWN: usize = 60;
/// Number of characters shown before the first difference.
const CONTEXT: usize = 20;
/// Values that the API server writes where a generated object leaves the field out.
const DEFAULTS: [(&str, &str); 1] = [("matchPolicy", "Equivalent")];

/// A field that is not as generated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The field, as in `spec.matchConditions[1].expression`.
    pub path: String,
    /// Stored value as JSON, shortened; `absent` if it is missing.
    pub stored: String,
    /// The generated value, in the same form.
    pub generated: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            path,
            stored,
            generated,
        } = self;
        write!(f, "{path} is {stored}, must be {generated}")
    }
}

/// All differing fields below `path`. An absent field, `null`, `[]`, `{}` and the API server's defaults are equal;
/// members that this version does not know count.
pub fn differences(path: &str, stored: &Value, generated: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    compare(path, "", Some(stored), Some(generated), &mut found);
    found
}

/// The first differences in one line, and how many more there are.
pub fn summary(differences: &[Difference]) -> String {
    let listed: Vec<_> = differences.iter().take(LISTED).map(ToString::to_string).collect();
    let listed = listed.join("; ");
    match differences.len().saturating_sub(LISTED) {
        0 => listed,
        more => format!("{listed}; and {more} more"),
    }
}

fn compare(
    path: &str,
    key: &str,
    stored: Option<&Value>,
    generated: Option<&Value>,
    found: &mut Vec<Difference>,
) {
    let stored = stored.filter(|value| says_something(value));
    let generated = generated.filter(|value| says_something(value));
    let (stored_members, generated_members) = (
        stored.and_then(Value::as_object),
        generated.and_then(Value::as_object),
    );
    let are_objects = (stored_members.is_some() || stored.is_none())
        && (generated_members.is_some() || generated.is_none());
    if are_objects {
        let members = stored_members.into_iter().chain(generated_members);
        let keys: BTreeSet<&String> = members.flat_map(serde_json::Map::keys).collect();
        let mut inside = Vec::new();
        for key in keys {
            let stored = stored_members.and_then(|members| members.get(key));
            let generated = generated_members.and_then(|members| members.get(key));
            compare(&format!("{path}.{key}"), key, stored, generated, &mut inside);
        }
        let are_both_there = stored.is_some() && generated.is_some();
        if are_both_there || inside.is_empty() {
            found.extend(inside);
            return;
        }
    }
    if let (Some(Value::Array(stored)), Some(Value::Array(generated))) = (stored, generated) {
        for index in 0..stored.len().max(generated.len()) {
            let path = format!("{path}[{index}]");
            compare(&path, "", stored.get(index), generated.get(index), found);
        }
        return;
    }
    if stored == generated || (generated.is_none() && is_default(key, stored)) {
        return;
    }
    found.push(Difference {
        path: path.to_owned(),
        stored: shown(stored, generated),
        generated: shown(generated, stored),
    });
}

/// False for values that the API server stores or omits freely.
fn says_something(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Array(elements) => !elements.is_empty(),
        Value::Object(members) => !members.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

fn is_default(key: &str, stored: Option<&Value>) -> bool {
    let text = stored.and_then(Value::as_str);
    text.is_some_and(|text| DEFAULTS.contains(&(key, text)))
}

/// A value in few characters: where it begins to differ from the other one.
fn shown(value: Option<&Value>, other: Option<&Value>) -> String {
    let Some(value) = value else {
        return "absent".to_owned();
    };
    let text = value.to_string();
    let other = other.map(Value::to_string).unwrap_or_default();
    let same = text
        .chars()
        .zip(other.chars())
        .take_while(|(one, other)| one == other)
        .count();
    let length = text.chars().count();
    if length <= SHOWN {
        return text;
    }
    let start = same.saturating_sub(CONTEXT).min(length - SHOWN);
    let cut: String = text.chars().skip(start).take(SHOWN).collect();
    let (before, after) = (
        if start > 0 { "…" } else { "" },
        if start + SHOWN < length { "…" } else { "" },
    );
    format!("{before}{cut}{after}")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn generated() -> Value {
        json!({
            "rules": [{"operations": ["UPDATE"], "resources": ["nodes/status"]}],
            "timeoutSeconds": 1,
            "variables": [{"name": "a", "expression": "1 + 1"}],
        })
    }

    #[rstest]
    #[case::another_number("/timeoutSeconds", json!(30), "s.timeoutSeconds is 30, must be 1")]
    #[case::another_type("/timeoutSeconds", json!("1"), "s.timeoutSeconds is \"1\", must be 1")]
    #[case::gone("/timeoutSeconds", json!(null), "s.timeoutSeconds is absent, must be 1")]
    #[case::emptied("/rules", json!([]), r#"s.rules is absent, must be [{"operations":["UPDATE"],"resources":["nodes/status"]}]"#)]
    #[case::one_more(
        "/rules/0/operations",
        json!(["UPDATE", "CREATE"]),
        r#"s.rules[0].operations[1] is "CREATE", must be absent"#
    )]
    #[case::in_depth(
        "/variables/0/expression",
        json!("1 + 2"),
        r#"s.variables[0].expression is "1 + 2", must be "1 + 1""#
    )]
    fn a_difference_is_told_by_its_field(
        #[case] pointer: &str,
        #[case] value: Value,
        #[case] expected: &str,
    ) {
        let mut stored = generated();
        *stored.pointer_mut(pointer).unwrap() = value;
        let found = differences("s", &stored, &generated());
        assert_eq!(summary(&found), expected);
    }

    #[test]
    fn what_the_api_server_fills_in_is_no_difference() {
        let mut stored = generated();
        stored["namespaceSelector"] = json!({});
        stored["matchResources"] =
            json!({"matchPolicy": "Equivalent", "objectSelector": {}, "excluded": null});
        assert_eq!(differences("", &stored, &generated()), []);
        stored["matchResources"]["matchPolicy"] = json!("Exact");
        stored["later"] = json!({"narrows": true});
        let found = summary(&differences("s", &stored, &generated()));
        assert_eq!(
            found,
            "s.later is {\"narrows\":true}, must be absent; \
             s.matchResources is {\"excluded\":null,\"matchPolicy\":\"Exact\",\"objectSelector\":{}}, must be absent"
        );
    }

    #[test]
    fn long_values_are_shown_where_they_begin_to_differ() {
        let long = |end: &str| json!({"e": format!("{}{end}{}", "a".repeat(100), "z".repeat(100))});
        let found = differences("s", &long("ONE"), &long("TWO"));
        let [
            Difference {
                path,
                stored,
                generated,
            },
        ] = found.as_slice()
        else {
            panic!("{found:?}");
        };
        assert_eq!(path, "s.e");
        assert!(
            stored.starts_with("…aaa") && stored.contains("ONE") && stored.ends_with("z…"),
            "{stored}"
        );
        assert!(
            generated.contains("TWO") && generated.chars().count() <= SHOWN + 2,
            "{generated}"
        );
    }

    #[test]
    fn a_summary_counts_what_it_does_not_list() {
        let all = differences(
            "s",
            &json!({"a": 1, "b": 1, "c": 1, "d": 1, "e": 1, "f": 1}),
            &json!({"f": 1}),
        );
        assert_eq!(all.len(), 5);
        assert!(summary(&all).ends_with("s.c is 1, must be absent; and 2 more"));
    }
}
