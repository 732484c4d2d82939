//! JSON Schema of the ConfigMap, from the rows of the table: for editors, and for checks before anything is applied.
//!
//! The schema uses draft 2020-12. A document that it refuses is wrong, or spells a member in another case than the
//! table. Rules about more than one value, such as overlapping selectors, are left to the check.

use serde_json::{Map, Value, json};

use super::{
    expected::{bound, expected},
    table::{Class, KEYS, Key, MemberRow, Rule, ValueKind},
};

/// Schema of the whole ConfigMap. The text of each key has its own schema under `$defs`.
pub fn config_map() -> Value {
    let texts = KEYS.iter().map(|key| {
        let text = json!({
            "type": "string",
            "description": key.about,
            "contentMediaType": "application/json",
            "contentSchema": {"$ref": format!("#/$defs/{}", key.name)},
        });
        (key.name.to_owned(), text)
    });
    let texts: Map<String, Value> = texts.collect();
    let documents = KEYS.iter().map(|key| (key.name.to_owned(), document(key)));
    let strategies = KEYS.iter().map(|key| (strategy_name(key), strategy(key)));
    let shared = [("nodeSelector".to_owned(), selector())];
    let definitions: Map<String, Value> = documents.chain(strategies).chain(shared).collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "slo-controller-config",
        "type": "object",
        "properties": {"data": {"type": "object", "properties": texts}},
        "$defs": definitions,
    })
}

/// Schema of a key's text.
fn document(key: &'static Key) -> Value {
    let entry = json!({
        "name": {"type": ["string", "null"], "description": "The name of the entry, which errors contain."},
        "nodeSelector": {"$ref": "#/$defs/nodeSelector"},
    });
    let mut entry = with_strategy(key, entry);
    put(&mut entry, "required", json!(["nodeSelector"]));
    let mut members = Map::new();
    let entries = json!({
        "type": ["array", "null"],
        "description": "Settings for the nodes of a selector. The first entry that selects a node applies.",
        "items": entry,
    });
    put(&mut members, key.entries, entries);
    let mut document = match key.cluster {
        None => with_strategy(key, Value::Object(members)),
        Some(cluster) => {
            let mut strategy = with_strategy(key, json!({}));
            put(&mut strategy, "description", json!("Settings for all nodes."));
            put(&mut members, cluster, Value::Object(strategy));
            object(key, members)
        }
    };
    put(&mut document, "description", json!(key.about));
    Value::Object(document)
}

/// An object with the members of a strategy and these members.
fn with_strategy(key: &Key, members: Value) -> Map<String, Value> {
    let mut object = Map::new();
    put(
        &mut object,
        "$ref",
        json!(format!("#/$defs/{}", strategy_name(key))),
    );
    put(&mut object, "properties", members);
    if key.is_strict {
        put(&mut object, "unevaluatedProperties", json!(false));
    }
    object
}

/// Name of a strategy's schema under `$defs`.
fn strategy_name(key: &Key) -> String {
    format!("{}.strategy", key.name)
}

/// Members of a strategy; a newer Koordinator may have more.
fn strategy(key: &'static Key) -> Value {
    let mut members = Map::new();
    for (class, field) in key.rows() {
        let class_member = class.map(|class| class.member);
        let path: Vec<&str> = class_member.into_iter().chain(field.member.split('.')).collect();
        insert(key, &mut members, &path, leaf(key, class, field));
    }
    json!({"type": ["object", "null"], "properties": members})
}

/// Inserts the schema of a value at its path, below objects, lists and maps.
fn insert(key: &Key, members: &mut Map<String, Value>, path: &[&str], leaf: Value) {
    let Some((first, rest)) = path.split_first() else {
        return;
    };
    let (name, container) = match (first.strip_suffix("[]"), first.strip_suffix("{}")) {
        (Some(name), _) => (name, Some(("array", "items"))),
        (None, Some(name)) => (name, Some(("object", "additionalProperties"))),
        (None, None) => (*first, None),
    };
    let slot = members.entry(name).or_insert(Value::Null);
    let inner = match container {
        None => slot,
        Some((kind, holds)) => {
            if slot.is_null() {
                *slot = json!({"type": [kind, "null"], holds: null});
            }
            let Some(inner) = slot.get_mut(holds) else { return };
            inner
        }
    };
    if rest.is_empty() {
        *inner = leaf;
        return;
    }
    if inner.is_null() {
        *inner = Value::Object(object(key, Map::new()));
    }
    if let Some(Value::Object(below)) = inner.get_mut("properties") {
        insert(key, below, rest, leaf);
    }
}

fn leaf(key: &Key, class: Option<&Class>, field: &MemberRow) -> Value {
    let kind = match field.kind {
        ValueKind::Bool => json!(["boolean", "null"]),
        ValueKind::Int64 | ValueKind::Int32 => json!(["integer", "null"]),
        ValueKind::Number => json!(["number", "null"]),
        ValueKind::Text | ValueKind::Duration => json!(["string", "null"]),
        ValueKind::Quantity => json!(["string", "number", "null"]),
        ValueKind::PercentOrQuantity => json!(["string", "integer", "null"]),
        ValueKind::Object => json!(["object", "null"]),
        ValueKind::Any => Value::Null,
    };
    let mut schema = Map::new();
    put(&mut schema, "description", json!(description(field)));
    if !kind.is_null() {
        put(&mut schema, "type", kind);
    }
    if field.kind == ValueKind::PercentOrQuantity {
        // Bounds apply to numbers, not to strings.
        put(&mut schema, "minimum", json!(0));
        put(&mut schema, "maximum", json!(100));
    }
    for rule in field.rules {
        match *rule {
            Rule::Min(min) => put(&mut schema, "minimum", json!(min)),
            Rule::Max(max) => put(&mut schema, "maximum", json!(max)),
            Rule::Above(above) => put(&mut schema, "exclusiveMinimum", json!(above)),
            Rule::Hundredths(min, max) => {
                put(&mut schema, "minimum", json!(bound(min) / 100.0));
                put(&mut schema, "maximum", json!(bound(max) / 100.0));
            }
            Rule::NotEmpty => put(&mut schema, "minLength", json!(1)),
            Rule::AboveMember(_) | Rule::BelowMember(_) => {}
        }
    }
    if let Some(default) = field.default_in(class).and_then(|text| default(field, text)) {
        put(&mut schema, "default", default);
    }
    if !field.words.is_empty() {
        // An unknown word may be one of a newer Koordinator.
        let words = if key.is_strict { "enum" } else { "examples" };
        let mut known = json!(field.words);
        if let Some(list) = known.as_array_mut().filter(|_| key.is_strict) {
            list.push(Value::Null);
        }
        put(&mut schema, words, known);
    }
    Value::Object(schema)
}

fn description(field: &MemberRow) -> String {
    let since = field
        .since
        .map_or_else(String::new, |version| format!(" Since Koordinator {version}."));
    format!("{} It {}.{since}", field.about, expected(field))
}

/// Default as JSON; `None` if it stands for several values.
fn default(field: &MemberRow, text: &str) -> Option<Value> {
    match field.kind {
        ValueKind::Bool | ValueKind::Int64 | ValueKind::Int32 | ValueKind::Number => {
            serde_json::from_str(text).ok()
        }
        ValueKind::Text | ValueKind::Quantity | ValueKind::PercentOrQuantity => Some(json!(text)),
        ValueKind::Duration | ValueKind::Object | ValueKind::Any => None,
    }
}

/// An object with these members, and others if a newer Koordinator may have more.
fn object(key: &Key, members: Map<String, Value>) -> Map<String, Value> {
    let mut object = Map::new();
    put(&mut object, "type", json!(["object", "null"]));
    put(&mut object, "properties", Value::Object(members));
    if key.is_strict {
        put(&mut object, "additionalProperties", json!(false));
    }
    object
}

/// Schema of a label selector that does not select all nodes.
fn selector() -> Value {
    let expression = json!({
        "type": "object",
        "properties": {
            "key": {"type": "string", "minLength": 1},
            "operator": {"enum": ["In", "NotIn", "Exists", "DoesNotExist"]},
            "values": {"type": ["array", "null"], "items": {"type": "string"}},
        },
        "required": ["key", "operator"],
    });
    json!({
        "type": "object",
        "description": "Selects nodes by their labels. At least one condition is required, otherwise the entry would select every node.",
        "properties": {
            "matchLabels": {"type": ["object", "null"], "additionalProperties": {"type": "string"}},
            "matchExpressions": {"type": ["array", "null"], "items": expression},
        },
        "anyOf": [
            {"required": ["matchLabels"], "properties": {"matchLabels": {"type": "object", "minProperties": 1}}},
            {"required": ["matchExpressions"], "properties": {"matchExpressions": {"type": "array", "minItems": 1}}},
        ],
    })
}

fn put(object: &mut Map<String, Value>, name: &str, value: Value) {
    object.insert(name.to_owned(), value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slo::table::{AMPLIFICATION, COLOCATION, HOST, NORMALIZATION, QOS, SYSTEM, THRESHOLD};

    /// Schema at a JSON pointer below a strategy.
    fn at(key: &'static Key, pointer: &str) -> Value {
        strategy(key).pointer(pointer).cloned().unwrap_or_default()
    }

    #[test]
    fn a_value_has_the_type_range_and_default_of_its_row() {
        let percent = at(&THRESHOLD, "/properties/cpuSuppressThresholdPercent");
        let bounds = (&percent["minimum"], &percent["maximum"], &percent["type"]);
        assert_eq!(bounds, (&json!(0), &json!(100), &json!(["integer", "null"])));
        assert_eq!(percent["default"], json!(65));
        let ratio = at(&AMPLIFICATION, "/properties/bounds/properties/cpu/properties/min");
        assert_eq!((&ratio["minimum"], &ratio["maximum"]), (&json!(0.5), &json!(1.0)));
        let share = at(&COLOCATION, "/properties/resourceDiffThreshold");
        assert_eq!(share["exclusiveMinimum"], json!(0));
    }

    #[test]
    fn lists_maps_and_classes_have_the_shape_of_their_paths() {
        let inner = "/properties/beClass/properties/cpuQOS/properties/groupIdentity";
        assert_eq!(at(&QOS, inner)["default"], json!(-1));
        let base = "/properties/applications/items/properties/cgroupPath/properties/base";
        assert_eq!(at(&HOST, base)["type"], json!(["string", "null"]));
        let ratio = "/properties/ratioModel/additionalProperties/properties/baseRatio";
        assert_eq!(at(&NORMALIZATION, ratio)["maximum"], json!(5));
        let feature = "/properties/schedFeatures/additionalProperties";
        assert_eq!(at(&SYSTEM, feature)["type"], json!(["boolean", "null"]));
        let entry = document(&SYSTEM)["properties"]["nodeStrategies"]["items"].clone();
        assert_eq!(entry["required"], json!(["nodeSelector"]));
        assert_eq!(entry["$ref"], json!("#/$defs/system-config.strategy"));
    }

    #[test]
    fn only_strict_keys_refuse_unknown_members() {
        for key in KEYS {
            let takes_others = document(key)["unevaluatedProperties"] != json!(false);
            assert_eq!(takes_others, !key.is_strict, "{}", key.name);
        }
    }

    #[test]
    fn every_row_is_somewhere_in_the_schema() {
        for key in KEYS {
            let text = strategy(key).to_string();
            for (_, field) in key.rows() {
                let about = Value::from(field.about).to_string();
                assert!(
                    text.contains(about.trim_matches('"')),
                    "{}: {}",
                    key.name,
                    field.member
                );
            }
        }
    }
}
