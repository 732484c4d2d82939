//! Types of a Pod's fields in the Kubernetes API, and the check of a part of a Pod against them.
//!
//! The API server refuses a Pod if a patch of a webhook gives a field another type. Fields that this release does not
//! know are ignored, as in the API server.

use std::{collections::BTreeMap, sync::LazyLock};

use headroom_domain::{
    field::Path,
    names,
    quantity::{Quantity, QuantityError},
    selector::key_faults,
};
use serde::Deserialize as _;
use serde_json::{Map, Value};

/// Kinds of objects inside a Pod, one per line, with the types of their fields.
static FIELDS: &str = include_str!("pod_types/fields.txt");

static TYPES: LazyLock<PodTypes> = LazyLock::new(|| PodTypes::parse(FIELDS));

/// Maximum length of a value in a fault, in characters.
const LONGEST_SHOWN: usize = 40;

/// Value that the API server does not accept in its field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {reason}")]
pub struct FieldFault {
    path: String,
    reason: String,
}

/// Fields of the objects inside a Pod, by the names of their kinds.
struct PodTypes(BTreeMap<&'static str, BTreeMap<&'static str, PodFieldType>>);

/// Type of a field.
enum PodFieldType {
    /// A value of any type.
    Any,
    Text,
    Boolean,
    /// A whole number between these two.
    Integer(i64, i64),
    Quantity,
    /// A 32-bit number or a text, such as a port.
    IntegerOrText,
    /// An object of the kind with this name.
    Object(&'static str),
    List(Box<Self>),
    /// An object with any member names.
    Texts,
    /// Amounts by the names of resources.
    Amounts,
}

impl FieldFault {
    /// Fault of the value at `path`.
    pub fn new(path: &Path, reason: impl Into<String>) -> Self {
        Self {
            path: path.to_string(),
            reason: reason.into(),
        }
    }
}

/// A text for a fault, shortened.
pub(crate) fn shown(text: &str) -> String {
    if text.chars().count() <= LONGEST_SHOWN {
        return text.to_owned();
    }
    let start: String = text.chars().take(LONGEST_SHOWN).collect();
    format!("{start}…")
}

/// Checks the types of the fields of a Pod, or of a part of one.
///
/// # Errors
/// The first field with a value of another type, or with an amount that no container may have.
pub fn check_pod(pod: &Map<String, Value>, path: &Path) -> Result<(), FieldFault> {
    TYPES.check_members("Pod", pod, path)
}

impl PodTypes {
    fn parse(text: &'static str) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let kinds = lines.filter_map(|line| {
            let (kind, fields) = line.split_once(' ')?;
            let fields = fields.split(' ').filter_map(|field| field.split_once(':'));
            let fields = fields.map(|(name, of)| (name, PodFieldType::parse(of)));
            Some((kind, fields.collect()))
        });
        Self(kinds.collect())
    }

    fn check_members(&self, kind: &str, members: &Map<String, Value>, path: &Path) -> Result<(), FieldFault> {
        let Self(kinds) = self;
        let fields = kinds.get(kind);
        let known = members.iter().filter_map(|(name, value)| {
            let of = fields?.get(name.as_str())?;
            Some((name, value, of))
        });
        for (name, value, of) in known {
            self.check(value, of, &path.child(name))?;
        }
        Ok(())
    }

    fn check(&self, value: &Value, of: &PodFieldType, path: &Path) -> Result<(), FieldFault> {
        let wrong = |expected: &str| {
            Err(FieldFault::new(
                path,
                format!("{} is not {expected}", shown(&value.to_string())),
            ))
        };
        match (of, value) {
            (_, Value::Null)
            | (PodFieldType::Any, _)
            | (PodFieldType::Text | PodFieldType::IntegerOrText, Value::String(_))
            | (PodFieldType::Boolean, Value::Bool(_)) => Ok(()),
            (PodFieldType::Text, _) => wrong("a string"),
            (PodFieldType::Boolean, _) => wrong("a boolean"),
            (PodFieldType::Integer(least, most), _) => match value.as_i64() {
                Some(number) if (*least..=*most).contains(&number) => Ok(()),
                _ => wrong("a whole number in its range"),
            },
            (PodFieldType::IntegerOrText, _) => {
                match value.as_i64().and_then(|number| i32::try_from(number).ok()) {
                    Some(_) => Ok(()),
                    None => wrong("a 32-bit number or a string"),
                }
            }
            (PodFieldType::Quantity, _) => check_amount(value, path),
            (PodFieldType::Object(kind), Value::Object(members)) => self.check_members(kind, members, path),
            (PodFieldType::List(of), Value::Array(elements)) => {
                let mut elements = elements.iter().enumerate();
                elements.try_for_each(|(at, element)| self.check(element, of, &path.index(at)))
            }
            (PodFieldType::Texts, Value::Object(members)) => {
                let mut members = members.iter();
                members.try_for_each(|(name, value)| {
                    self.check(value, &PodFieldType::Text, &path.key(&shown(name)))
                })
            }
            (PodFieldType::Amounts, Value::Object(members)) => {
                let mut members = members.iter();
                members.try_for_each(|(name, amount)| {
                    let path = path.key(&shown(name));
                    check_resource(name, &path)?;
                    check_amount(amount, &path)
                })
            }
            (PodFieldType::List(_), _) => wrong("a list"),
            (PodFieldType::Object(_) | PodFieldType::Texts | PodFieldType::Amounts, _) => wrong("an object"),
        }
    }
}

impl PodFieldType {
    fn parse(text: &'static str) -> Self {
        let inside =
            |open: char, close: char| text.strip_prefix(open).and_then(|text| text.strip_suffix(close));
        if let Some(of) = inside('[', ']') {
            return Self::List(Box::new(Self::parse(of)));
        }
        match text {
            "any" => Self::Any,
            "string" | "time" => Self::Text,
            "bool" => Self::Boolean,
            "int32" => Self::Integer(i32::MIN.into(), i32::MAX.into()),
            "int64" => Self::Integer(i64::MIN, i64::MAX),
            "quantity" => Self::Quantity,
            "int-or-string" => Self::IntegerOrText,
            "{string}" => Self::Texts,
            "{quantity}" => Self::Amounts,
            kind => Self::Object(kind),
        }
    }
}

/// Checks an amount, which is a string or a number and not negative.
fn check_amount(value: &Value, path: &Path) -> Result<(), FieldFault> {
    if !matches!(value, Value::Null | Value::String(_) | Value::Number(_)) {
        let value = shown(&value.to_string());
        return Err(FieldFault::new(path, format!("{value} is not a quantity")));
    }
    let amount = match value.as_str() {
        Some(text) => text
            .trim()
            .parse()
            .map_err(|error: QuantityError| error.to_string()),
        None => Quantity::deserialize(value).map_err(|error| error.to_string()),
    };
    match amount {
        Err(reason) => Err(FieldFault::new(path, reason)),
        Ok(amount) if amount < Quantity::from_milli(0) => {
            Err(FieldFault::new(path, format!("{amount} is negative")))
        }
        Ok(_) => Ok(()),
    }
}

/// Checks the name of a resource of a container: one of Kubernetes, or one with a domain.
fn check_resource(name: &str, path: &Path) -> Result<(), FieldFault> {
    let is_native = [names::CPU, names::MEMORY, "ephemeral-storage", "storage"].contains(&name);
    if is_native || name.starts_with("hugepages-") {
        return Ok(());
    }
    match key_faults(name) {
        Some(faults) => Err(FieldFault::new(path, faults)),
        None if name.contains('/') => Ok(()),
        None => Err(FieldFault::new(
            path,
            "is neither a resource of Kubernetes nor one with a domain",
        )),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn check(spec: &Value) -> Result<(), String> {
        let pod = json!({"spec": spec});
        let checked = check_pod(pod.as_object().unwrap(), &Path::new("patch"));
        checked.map_err(|fault| fault.to_string())
    }

    fn kind_of(of: &PodFieldType) -> Option<&'static str> {
        match of {
            PodFieldType::Object(kind) => Some(kind),
            PodFieldType::List(of) => kind_of(of),
            PodFieldType::Any
            | PodFieldType::Text
            | PodFieldType::Boolean
            | PodFieldType::Integer(..)
            | PodFieldType::Quantity
            | PodFieldType::IntegerOrText
            | PodFieldType::Texts
            | PodFieldType::Amounts => None,
        }
    }

    #[test]
    fn the_table_of_fields_is_complete_in_itself() {
        let PodTypes(kinds) = &*TYPES;
        assert!(kinds.len() > 100, "{}", kinds.len());
        let fields = kinds.values().flat_map(BTreeMap::values);
        let missing: Vec<_> = fields
            .filter_map(kind_of)
            .filter(|kind| !kinds.contains_key(kind))
            .collect();
        assert!(missing.is_empty(), "{missing:?}");
    }

    #[rstest]
    #[case(json!({"priority": "5000"}), r#"patch.spec.priority: "5000" is not a whole number in its range"#)]
    #[case(json!({"priority": 5_000_000_000_i64}), "patch.spec.priority: 5000000000 is not a whole number in its range")]
    #[case(json!({"containers": "oops"}), r#"patch.spec.containers: "oops" is not a list"#)]
    #[case(json!({"containers": [{"name": "c", "env": {"A": "b"}}]}), r#"patch.spec.containers[0].env: {"A":"b"} is not a list"#)]
    #[case(json!({"containers": [{"resources": {"limits": {"cpu": "lots"}}}]}), r#"patch.spec.containers[0].resources.limits[cpu]: "lots" is not a quantity"#)]
    #[case(json!({"containers": [{"resources": {"limits": {"cpu": "-1"}}}]}), "patch.spec.containers[0].resources.limits[cpu]: -1 is negative")]
    #[case(json!({"containers": [{"resources": {"limits": {"cpus": 1}}}]}), "patch.spec.containers[0].resources.limits[cpus]: is neither a resource of Kubernetes nor one with a domain")]
    #[case(json!({"nodeSelector": {"gpu": true}}), "patch.spec.nodeSelector[gpu]: true is not a string")]
    #[case(json!({"hostNetwork": "yes"}), r#"patch.spec.hostNetwork: "yes" is not a boolean"#)]
    #[case(json!({"tolerations": [7]}), "patch.spec.tolerations[0]: 7 is not an object")]
    #[case(json!({"volumes": [{"emptyDir": {"sizeLimit": "big"}}]}), r#"patch.spec.volumes[0].emptyDir.sizeLimit: "big" is not a quantity"#)]
    #[case(json!({"containers": [{"livenessProbe": {"httpGet": {"port": 1.5}}}]}), "patch.spec.containers[0].livenessProbe.httpGet.port: 1.5 is not a 32-bit number or a string")]
    fn a_value_of_another_type_is_a_fault_with_its_path(#[case] spec: Value, #[case] fault: &str) {
        assert_eq!(check(&spec), Err(fault.to_owned()));
    }

    #[rstest]
    #[case(json!({"priority": 5000, "unknown": [1, {"x": null}], "activeDeadlineSeconds": 5_000_000_000_i64}))]
    #[case(json!({"containers": [{"resources": {"limits": {"cpu": 1, "memory": "1.5Gi", "kubernetes.io/batch-cpu": "1k", "hugepages-2Mi": 0}}}]}))]
    #[case(json!({"containers": [{"livenessProbe": {"httpGet": {"port": "http"}}}, {"startupProbe": {"tcpSocket": {"port": 80}}}], "nodeSelector": null}))]
    fn values_of_the_right_type_pass(#[case] spec: Value) {
        assert_eq!(check(&spec), Ok(()));
    }

    #[test]
    fn a_long_value_is_shortened() {
        let fault = check(&json!({"hostNetwork": "x".repeat(1000)})).unwrap_err();
        assert!(fault.len() < 200, "{fault}");
    }
}
