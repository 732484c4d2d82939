//! Merges the layers of a key and keeps the origin of each value.

use serde_json::{Map, Value};

use super::{
    super::{
        document::{Content, Strategy},
        table::{Class, HOST, Key, MemberRow, QOS, SYSTEM, ValueKind},
    },
    EffectiveValue, EffectiveValues, NodeLabelValues, Origin,
    node_labels::NodeLabelValue,
};

/// Member that an entry of `system-config` resets if it lacks it.
const TOTAL: &str = "totalNetworkBandwidth";

/// Merges the values of a node; `entry` is the first entry that selects it, with its name.
pub(in super::super) fn merged(
    key: &'static Key,
    cluster: Option<&Strategy>,
    entry: Option<(&str, &Strategy)>,
    labels: &NodeLabelValues,
) -> EffectiveValues {
    let mut values = EffectiveValues::new();
    let is_replaced = key.name == HOST.name && entry.is_some();
    if key.name != QOS.name {
        add_defaults(key, &Origin::Default, |_, _| true, &mut values);
    }
    if let Some(cluster) = cluster.filter(|_| !is_replaced) {
        lay(cluster, &Origin::Cluster, &mut values);
    }
    if let Some((name, strategy)) = entry {
        let origin = Origin::Entry(name.to_owned());
        lay(strategy, &origin, &mut values);
        if key.name == SYSTEM.name && !strategy.is_empty() && strategy.get(TOTAL).is_none() {
            reset_total(key, origin, &mut values);
        }
    }
    for value in labels.iter() {
        let NodeLabelValue { label, member, .. } = *value;
        if let Some(field) = key.fields.iter().find(|field| field.member == member) {
            let (content, origin) = (value.content(), Origin::Label(label));
            values.insert(
                member.to_owned(),
                EffectiveValue {
                    field,
                    content,
                    origin,
                },
            );
        }
    }
    if key.name == QOS.name {
        add_recommended(key, &mut values);
    }
    values
}

/// Overwrites values with those of a strategy.
fn lay(strategy: &Strategy, origin: &Origin, values: &mut EffectiveValues) {
    let lists = strategy
        .iter()
        .filter(|(_, given)| given.field.member.contains("[]"));
    for (list, _) in lists.filter_map(|(path, _)| path.split_once('[')) {
        let is_inside = |path: &str| path.strip_prefix(list).is_some_and(|rest| rest.starts_with('['));
        values.retain(|path, _| !is_inside(path));
    }
    for (path, given) in strategy.iter() {
        let content = match &given.content {
            // Koordinator omits an empty string when it writes the layer as JSON.
            Content::Text(text) if text.is_empty() => continue,
            Content::Json(over) => {
                let below = values.get(path).map(|value| &value.content);
                Content::Json(with_members(below, over))
            }
            Content::Bool(_)
            | Content::Int(_)
            | Content::Number(_)
            | Content::Text(_)
            | Content::Quantity(_) => given.content.clone(),
        };
        let (field, origin) = (given.field, origin.clone());
        values.insert(
            path.to_owned(),
            EffectiveValue {
                field,
                content,
                origin,
            },
        );
    }
}

/// Merges the members of an object over those of another; other values are replaced.
fn with_members(below: Option<&Content>, over: &str) -> String {
    let members = |text: &str| serde_json::from_str::<Map<String, Value>>(text).ok();
    let below = match below {
        Some(Content::Json(text)) => members(text),
        Some(_) | None => None,
    };
    match (below, members(over)) {
        (Some(mut below), Some(over)) => {
            below.extend(over);
            Value::Object(below).to_string()
        }
        _ => over.to_owned(),
    }
}

/// Koordinator's merge sets a total that the entry lacks to 0.
fn reset_total(key: &'static Key, origin: Origin, values: &mut EffectiveValues) {
    let Some(field) = key.fields.iter().find(|field| field.member == TOTAL) else {
        return;
    };
    let Some(content) = default_content(field, "0") else {
        return;
    };
    let is_changed = values.get(TOTAL).is_none_or(|value| value.content != content);
    if is_changed {
        values.insert(
            TOTAL.to_owned(),
            EffectiveValue {
                field,
                content,
                origin,
            },
        );
    }
}

/// Adds the agent's values for enabled QoS classes, and for members without a class.
fn add_recommended(key: &'static Key, values: &mut EffectiveValues) {
    let enabled: Vec<String> = values
        .iter()
        .filter(|(_, value)| value.content == Content::Bool(true))
        .filter_map(|(path, _)| Some(format!("{}.", path.strip_suffix(".enable")?)))
        .collect();
    let is_wanted = |class: Option<&Class>, path: &str| {
        class.is_none() || enabled.iter().any(|group| path.starts_with(group))
    };
    add_defaults(key, &Origin::Agent, is_wanted, values);
}

/// Adds the defaults of members without a value.
fn add_defaults(
    key: &'static Key,
    origin: &Origin,
    is_wanted: impl Fn(Option<&Class>, &str) -> bool,
    values: &mut EffectiveValues,
) {
    for (class, field) in key.rows() {
        let Some(default) = field.default_in(class) else {
            continue;
        };
        let prefix = class.map_or_else(String::new, |class| format!("{}.", class.member));
        for (path, text) in default_paths(field, default) {
            let path = format!("{prefix}{path}");
            if values.contains_key(&path) || !is_wanted(class, &path) {
                continue;
            }
            if let Some(content) = default_content(field, text) {
                let origin = origin.clone();
                values.insert(
                    path,
                    EffectiveValue {
                        field,
                        content,
                        origin,
                    },
                );
            }
        }
    }
}

/// Paths of a default's values: one, or several for a list.
fn default_paths(field: &'static MemberRow, default: &'static str) -> Vec<(String, &'static str)> {
    match field.member.strip_suffix("[]") {
        None => vec![(field.member.to_owned(), default)],
        Some(list) => {
            let elements = default.split(", ").enumerate();
            elements
                .map(|(place, text)| (format!("{list}[{place}]"), text))
                .collect()
        }
    }
}

/// Parses a default as a value of its kind; `None` if it is invalid.
pub(super) fn default_content(field: &MemberRow, text: &str) -> Option<Content> {
    match field.kind {
        ValueKind::Bool => text.parse().ok().map(Content::Bool),
        ValueKind::Int64 | ValueKind::Int32 | ValueKind::PercentOrQuantity => {
            text.parse().ok().map(Content::Int)
        }
        ValueKind::Number => text.parse().ok().map(Content::Number),
        ValueKind::Text | ValueKind::Duration => Some(Content::Text(text.to_owned())),
        ValueKind::Quantity => text.parse().ok().map(Content::Quantity),
        ValueKind::Object | ValueKind::Any => Some(Content::Json(text.to_owned())),
    }
}
