//! Tests that the list of the status's fields equals the fields of the document and of the message.

use std::collections::{BTreeMap, BTreeSet};

use prost::Message as _;
use prost_types::{
    DescriptorProto, FieldDescriptorProto, FileDescriptorSet,
    field_descriptor_proto::{Label, Type},
};
use serde_json::{Value, json};

use super::*;
use crate::{DESCRIPTORS, status::sample};

/// Fields of a document without members of their own, by path.
fn leaves(path: &str, part: &Value) -> BTreeMap<String, Value> {
    match part {
        Value::Object(parts) => {
            let below = |(name, part): (&String, &Value)| {
                let path = if path.is_empty() {
                    name.clone()
                } else {
                    format!("{path}.{name}")
                };
                leaves(&path, part)
            };
            parts.iter().flat_map(below).collect()
        }
        Value::Array(parts) => {
            let path = format!("{path}[]");
            parts.iter().flat_map(|part| leaves(&path, part)).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            BTreeMap::from([(path.to_owned(), part.clone())])
        }
    }
}

/// Fields of a message, likewise. The entries of a map have no names there.
fn message_leaves(messages: &[DescriptorProto], name: &str, path: &str) -> BTreeSet<String> {
    let message = messages.iter().find(|message| message.name() == name);
    let Some(message) = message else {
        return BTreeSet::new();
    };
    let below = |field: &FieldDescriptorProto| {
        let list = if field.label() == Label::Repeated {
            "[]"
        } else {
            ""
        };
        let here = format!("{path}{}{list}", field.name());
        let deeper = match (field.r#type(), field.type_name().rsplit_once('.')) {
            (Type::Message, Some((_, name))) => message_leaves(messages, name, &format!("{here}.")),
            _ => BTreeSet::new(),
        };
        if deeper.is_empty() {
            BTreeSet::from([here])
        } else {
            deeper
        }
    };
    message.field.iter().flat_map(below).collect()
}

#[test]
fn the_document_has_exactly_the_listed_fields() {
    let document = leaves("", &json!(sample::status()));
    let listed: BTreeSet<_> = FIELDS.iter().map(|field| field.path.to_owned()).collect();
    assert_eq!(document.keys().cloned().collect::<BTreeSet<_>>(), listed);
    assert_eq!(listed.len(), FIELDS.len(), "no field is listed twice");
}

#[test]
fn the_message_has_exactly_the_listed_fields() {
    let set = FileDescriptorSet::decode(DESCRIPTORS).expect("descriptors");
    let messages: Vec<_> = set.file.into_iter().flat_map(|file| file.message_type).collect();
    // Wire names have no `is_`, and the measurements of a second are one map by their names.
    let on_the_wire = |field: &StatusField| {
        let path = field.path.replace(".is_", ".");
        if path.starts_with("measured.") {
            "measured[]".to_owned()
        } else {
            path
        }
    };
    assert_eq!(
        message_leaves(&messages, "AgentStatus", ""),
        FIELDS.iter().map(on_the_wire).collect()
    );
}

#[test]
fn names_end_in_their_unit_and_rows_read_their_field() {
    let document = leaves("resources[]", &json!(sample::status().resources[0]));
    let resource = &sample::status().resources[0];
    let mut terms = BTreeSet::new();
    for field in FIELDS {
        assert!(field.path.ends_with(field.unit.suffix()), "{}", field.path);
        let Place::Row(term, reading) = field.place else {
            continue;
        };
        let value = &document[field.path];
        let value = value.as_bool().map(i64::from).or_else(|| value.as_i64());
        assert!(value.is_some(), "{}", field.path);
        assert_eq!(reading(resource), value, "{}", field.path);
        assert!(terms.insert(term), "{term} is one row");
    }
    assert_eq!(terms.len(), 20);
}
