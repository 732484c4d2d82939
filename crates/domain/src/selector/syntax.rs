//! Grammar of label keys and values, with Kubernetes' messages for violations.

/// Longest name in a label key, and longest value, in bytes.
pub(super) const LONGEST_NAME: usize = 63;
/// Longest prefix of a label key, in bytes.
const LONGEST_PREFIX: usize = 253;

const NAME_RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
     alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
     '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const VALUE_RULE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or \
     '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex \
     used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const PREFIX_RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or \
     '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/// Errors in a label key, which is a name after an optional DNS domain and a slash; `None` if it is valid.
pub fn key_faults(key: &str) -> Option<String> {
    let (prefix, name) = match key.split_once('/') {
        Some((_, rest)) if rest.contains('/') => {
            return Some(format!(
                "a valid label key {NAME_RULE} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            ));
        }
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    let mut faults = Vec::new();
    match prefix {
        Some("") => faults.push("prefix part must be non-empty".to_owned()),
        Some(prefix) => {
            if prefix.len() > LONGEST_PREFIX {
                faults.push(format!("prefix part {}", too_long(LONGEST_PREFIX)));
            }
            if !is_domain(prefix) {
                faults.push(format!("prefix part {PREFIX_RULE}"));
            }
        }
        None => {}
    }
    if name.is_empty() {
        faults.push("name part must be non-empty".to_owned());
    } else if name.len() > LONGEST_NAME {
        faults.push(format!("name part {}", too_long(LONGEST_NAME)));
    }
    if !is_name(name) {
        faults.push(format!("name part {NAME_RULE}"));
    }
    joined(&faults)
}

/// Errors in a label value, which is a name or empty; `None` if it is valid.
pub fn value_faults(value: &str) -> Option<String> {
    let mut faults = Vec::new();
    if value.len() > LONGEST_NAME {
        faults.push(too_long(LONGEST_NAME));
    }
    if !value.is_empty() && !is_name(value) {
        faults.push(VALUE_RULE.to_owned());
    }
    joined(&faults)
}

fn joined(faults: &[String]) -> Option<String> {
    (!faults.is_empty()).then(|| faults.join("; "))
}

fn too_long(longest: usize) -> String {
    format!("must be no more than {longest} bytes")
}

fn is_name(text: &str) -> bool {
    let is_end = |end: char| end.is_ascii_alphanumeric();
    text.starts_with(is_end)
        && text.ends_with(is_end)
        && text
            .chars()
            .all(|character| is_end(character) || "-_.".contains(character))
}

fn is_domain(text: &str) -> bool {
    let is_end = |character: char| character.is_ascii_lowercase() || character.is_ascii_digit();
    text.split('.').all(|part| {
        part.starts_with(is_end)
            && part.ends_with(is_end)
            && part
                .chars()
                .all(|character| is_end(character) || character == '-')
    })
}
