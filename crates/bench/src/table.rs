//! Renders the report of a bench as a table.

use std::{fmt::Write as _, iter::once};

use anyhow::{Context as _, Result};
use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Map, Value};

/// Texts first, then one row per figure. Compared objects have one column each, and a list of objects has one row
/// each.
///
/// # Errors
/// If the report is no object.
pub fn table(report: &Value) -> Result<String> {
    let figures = report.as_object().context("the report is no object")?;
    let mut texts = String::new();
    let mut alone = rows(["figure", "value"]);
    let mut lists = Vec::new();
    let mut compared: Vec<(&str, &Map<String, Value>)> = Vec::new();
    for (name, value) in figures {
        match value {
            Value::String(text) => write!(texts, "{name}: {text}\n\n")?,
            Value::Object(of_one) => compared.push((name, of_one)),
            Value::Array(objects) if objects.iter().all(Value::is_object) => lists.push(list(objects)),
            Value::Number(_) | Value::Null | Value::Bool(_) | Value::Array(_) => {
                alone.add_row([name.clone(), figure(value)]);
            }
        }
    }
    let mut tables = Vec::new();
    if let Some((_, first)) = compared.first() {
        let mut compared_table = rows(once("figure").chain(compared.iter().map(|(name, _)| *name)));
        for name in first.keys() {
            let values = compared
                .iter()
                .map(|(_, of_one)| of_one.get(name).map_or_else(String::new, figure));
            compared_table.add_row(once(name.clone()).chain(values));
        }
        tables.push(compared_table);
    }
    if alone.row_count() > 0 {
        tables.push(alone);
    }
    tables.extend(lists);
    let tables: Vec<String> = tables.iter().map(Table::trim_fmt).collect();
    Ok(format!("{texts}{}", tables.join("\n\n")))
}

/// One row per object; columns of texts precede columns of figures.
fn list(objects: &[Value]) -> Table {
    let each = || objects.iter().filter_map(Value::as_object);
    let (mut columns, figures): (Vec<&String>, Vec<&String>) = each()
        .take(1)
        .flatten()
        .map(|(name, _)| name)
        .partition(|name| each().all(|object| object.get(*name).is_some_and(Value::is_string)));
    columns.extend(figures);
    let mut table = rows(columns.iter().map(|name| name.as_str()));
    for object in each() {
        let shown = |name: &&String| match object.get(*name) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Null) | None => String::new(),
            Some(value @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_))) => {
                figure(value)
            }
        };
        table.add_row(columns.iter().map(shown));
    }
    table
}

/// A table with a header only; all columns but the first are right-aligned.
fn rows<'a>(header: impl IntoIterator<Item = &'a str>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header);
    for values in table.column_iter_mut().skip(1) {
        values.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn figure(value: &Value) -> String {
    match value.as_f64().filter(|_| value.is_f64()) {
        Some(number) => format!("{number:.2}"),
        None => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_a_row_per_figure() {
        let report = serde_json::json!({"workload": "80 kB", "review_us_p50": 41.256, "samples": 7});
        let text = table(&report).unwrap();
        assert!(
            text.contains("41.26") && text.contains("80 kB") && text.contains('7'),
            "{text}"
        );
    }

    #[test]
    fn each_object_of_a_list_has_a_row_that_begins_with_its_name() {
        let objects = serde_json::json!([{"a_pct": 1.255, "name": "x", "b": null}, {"a_pct": 2.0, "name": "y", "b": 3}]);
        let text = table(&serde_json::json!({"objects": objects})).unwrap();
        let words: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(
            words,
            [
                vec!["name", "a_pct", "b"],
                vec!["x", "1.25"],
                vec!["y", "2.00", "3"]
            ],
            "{text}"
        );
    }

    #[test]
    fn compared_objects_have_one_column_each() {
        let report = serde_json::json!({"auto": {"kills": 3, "us": 1.5}, "off": {"kills": 7, "us": 2.25}, "samples": 9});
        let text = table(&report).unwrap();
        let words: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        for row in [
            ["figure", "auto", "off"],
            ["kills", "3", "7"],
            ["us", "1.50", "2.25"],
        ] {
            assert!(words.contains(&row.to_vec()), "{text}");
        }
        assert!(words.contains(&vec!["samples", "9"]), "{text}");
    }
}
