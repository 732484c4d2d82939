//! Generates the JSON Schema of Koordinator's ConfigMap and the reference page of its members, from one table.

use std::fmt::Write as _;

use anyhow::{Context as _, Result};
use headroom_rules::slo::{
    expected::range,
    schema,
    table::{Class, KEYS, Key, MemberRow, Rule, Unit, ValueKind},
};

/// JSON Schema of the ConfigMap without its opening brace: the caller writes the first member.
pub(super) fn json_schema() -> Result<String> {
    let text = format!("{:#}\n", schema::config_map());
    let inside = text.strip_prefix("{\n").context("a schema is an object")?;
    Ok(inside.to_owned())
}

/// Reference page of the members of all keys.
pub(super) fn members() -> Result<String> {
    let mut page = "# Members of Koordinator's ConfigMap\n\n\
        Members that `/validate-configmap` checks under each key of `slo-controller-config`, with their accepted values. A member that\n\
        is absent or `null` is not checked, and the default applies. Names are case-insensitive. If a member is repeated, the last one\n\
        applies. [slo-controller-config.schema.json](../../deploy/schemas/slo-controller-config.schema.json) has the same table for\n\
        editors. [slo-configuration.md](../slo-configuration.md) has an example, and the messages for mistakes.\n"
        .to_owned();
    for key in KEYS {
        section(&mut page, key)?;
    }
    Ok(page)
}

fn section(page: &mut String, key: &'static Key) -> Result<()> {
    let place = match key.cluster {
        Some(cluster) => format!(
            "Members in `{cluster}` apply to all nodes. Members in an entry of `{}` apply to the nodes that its `nodeSelector` selects.",
            key.entries
        ),
        None => format!(
            "Members at the top level apply to all nodes. Members in an entry of `{}` apply to the nodes that its `nodeSelector` selects.",
            key.entries
        ),
    };
    let since = key
        .since
        .map_or_else(String::new, |version| format!(" Since Koordinator {version}."));
    let others = if key.is_strict {
        "Other members are refused."
    } else {
        "Other members cause a warning."
    };
    write!(
        page,
        "\n## {}\n\n{}{since} {place} {others}\n",
        key.name, key.about
    )?;
    table(page, key.fields.iter(), &[])?;
    if !key.classes.is_empty() {
        let names: Vec<String> = key
            .classes
            .iter()
            .map(|class| format!("`{}`", class.member))
            .collect();
        write!(
            page,
            "\nMembers of each of {}, with one default for each of the first four:\n",
            names.join(", ")
        )?;
        table(page, key.class_fields.iter(), key.classes)?;
    }
    Ok(())
}

fn table<'f>(
    page: &mut String,
    fields: impl Iterator<Item = &'f MemberRow>,
    classes: &[Class],
) -> Result<()> {
    write!(
        page,
        "\n| member | values | unit | default | since | effect |\n|---|---|---|---|---|---|\n"
    )?;
    for field in fields {
        let unit = if field.unit == Unit::None {
            "-"
        } else {
            field.unit.name()
        };
        writeln!(
            page,
            "| `{}` | {} | {unit} | {} | {} | {} |",
            field.member,
            accepted_values(field),
            default(field, classes),
            field.since.unwrap_or("-"),
            field.about
        )?;
    }
    Ok(())
}

/// Type, range and known words of a member.
fn accepted_values(field: &MemberRow) -> String {
    let kind = match field.kind {
        ValueKind::Bool => "true or false",
        ValueKind::Int64 | ValueKind::Int32 => "whole number",
        ValueKind::Number => "number",
        ValueKind::Text => "string",
        ValueKind::Duration => "duration such as `5m`",
        ValueKind::Quantity => "quantity",
        ValueKind::PercentOrQuantity => "whole percentage from 0 to 100, or quantity as a string",
        ValueKind::Object => "object",
        ValueKind::Any => "any value",
    };
    let others = field.rules.iter().map(|rule| match rule {
        Rule::AboveMember(other) => format!(", more than `{other}`"),
        Rule::BelowMember(other) => format!(", less than `{other}`"),
        Rule::NotEmpty => ", not empty".to_owned(),
        Rule::Min(_) | Rule::Max(_) | Rule::Above(_) | Rule::Hundredths(..) => String::new(),
    });
    let others: String = others.collect();
    let advised = match range(field.advice) {
        none if none.is_empty() => none,
        advised => format!("; should be{advised}"),
    };
    let words = field.words.iter().filter(|word| !word.is_empty());
    let words: Vec<String> = words.map(|word| format!("`{word}`")).collect();
    let words = if words.is_empty() {
        String::new()
    } else {
        format!(": {}", words.join(", "))
    };
    format!("{kind}{}{others}{advised}{words}", range(field.rules))
}

fn default(field: &MemberRow, classes: &[Class]) -> String {
    let of_classes = classes.iter().filter_map(|class| field.default_in(Some(class)));
    match (field.default, classes) {
        ([], _) => "-".to_owned(),
        ([only], _) => format!("`{only}`"),
        (_, _) => of_classes
            .map(|text| format!("`{text}`"))
            .collect::<Vec<_>>()
            .join(", "),
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, fs};

    use headroom_rules::slo::{self, Data, Nodes, Target};
    use jsonschema::Validator;
    use serde_json::{Value, json};
    use xtask::workspace;

    use super::*;

    struct NoNodes;

    impl Nodes for NoNodes {
        fn visit(&self, _visitor: &mut dyn FnMut(&str, &headroom_domain::selector::Labels)) {}
    }

    /// Compiled schema of each key.
    fn validators() -> BTreeMap<&'static str, Validator> {
        let whole = schema::config_map();
        let of = |key: &Key| {
            let reference = format!("#/$defs/{}", key.name);
            let schema = json!({
                "$schema": whole["$schema"],
                "$ref": reference,
                "$defs": whole["$defs"],
            });
            (key.name, jsonschema::validator_for(&schema).unwrap())
        };
        KEYS.into_iter().map(of).collect()
    }

    /// YAML blocks of the page with data of ConfigMaps: the example, and ten mistakes.
    fn blocks() -> Vec<Data> {
        let path = workspace::root().join("docs/slo-configuration.md");
        let page = fs::read_to_string(path).unwrap();
        let blocks = page.split("```yaml\n").skip(1);
        let texts = blocks.map(|block| block.split("```").next().unwrap());
        // Other blocks are complete objects.
        let blocks: Vec<Data> = texts
            .filter_map(|text| serde_saphyr::from_str(text).ok())
            .collect();
        assert_eq!(blocks.len(), 11);
        blocks
    }

    #[test]
    fn generated_schema_is_a_valid_schema() {
        assert!(jsonschema::meta::is_valid(&schema::config_map()));
    }

    #[test]
    fn example_of_the_page_is_valid() {
        let validators = validators();
        let example = &blocks()[0];
        assert_eq!(example.len(), KEYS.len());
        for (key, text) in example {
            let document: Value = serde_json::from_str(text).unwrap();
            let errors: Vec<_> = validators[key.as_str()].iter_errors(&document).collect();
            assert!(errors.is_empty(), "{key}: {errors:?}");
        }
    }

    /// The schema covers checks of single values. Only the webhook compares pairs and selectors.
    #[test]
    fn webhook_refuses_everything_that_the_schema_refuses() {
        let validators = validators();
        let target = Target {
            namespace: "koordinator-system",
            name: "slo-controller-config",
        };
        let mut refused = Vec::new();
        for data in blocks() {
            let report = slo::check(
                target,
                &data,
                None,
                &slo::Settings::default(),
                &headroom_rules::switch::Switches::default(),
                &NoNodes,
            );
            for (key, text) in &data {
                let document = serde_json::from_str::<Value>(text);
                let is_valid = document.is_ok_and(|document| validators[key.as_str()].is_valid(&document));
                assert!(is_valid || report.refusal.is_some(), "{key}: {text}");
                refused.extend((!is_valid).then(|| text.clone()));
            }
        }
        // A string for a number, a percentage, an empty selector, a comma, a ratio.
        assert_eq!(refused.len(), 5, "{refused:#?}");
    }
}
