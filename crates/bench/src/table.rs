//! Renders the report of a bench as a table of figures for people.

use std::{fmt::Write as _, iter::once};

use anyhow::{Context as _, Result};
use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Map, Value};

/// What was done, then one row per figure; figures of several things that are compared stand side by side, and a list of
/// things has a row for each.
///
/// # Errors
/// If the report is no object.
pub fn table(report: &Value) -> Result<String> {
    let figures = report.as_object().context("a report is an object")?;
    let mut texts = String::new();
    let mut alone = rows(["figure", "value"]);
    let mut lists = Vec::new();
    let mut compared: Vec<(&str, &Map<String, Value>)> = Vec::new();
    for (name, value) in figures {
        match value {
            Value::String(text) => write!(texts, "{name}: {text}\n\n")?,
            Value::Object(of_one) => compared.push((name, of_one)),
            Value::Array(things) if things.iter().all(Value::is_object) => lists.push(list(things)),
            Value::Number(_) | Value::Null | Value::Bool(_) | Value::Array(_) => {
                alone.add_row([name.clone(), figure(value)]);
            }
        }
    }
    let mut tables = Vec::new();
    if let Some((_, first)) = compared.first() {
        let mut beside = rows(once("figure").chain(compared.iter().map(|(name, _)| *name)));
        for name in first.keys() {
            let values = compared
                .iter()
                .map(|(_, of_one)| of_one.get(name).map_or_else(String::new, figure));
            beside.add_row(once(name.clone()).chain(values));
        }
        tables.push(beside);
    }
    if alone.row_count() > 0 {
        tables.push(alone);
    }
    tables.extend(lists);
    let tables: Vec<String> = tables.iter().map(Table::trim_fmt).collect();
    Ok(format!("{texts}{}", tables.join("\n\n")))
}

/// A row for each thing; texts, which say what it is, come before figures.
fn list(things: &[Value]) -> Table {
    let objects = || things.iter().filter_map(Value::as_object);
    let (mut columns, figures): (Vec<&String>, Vec<&String>) = objects()
        .take(1)
        .flatten()
        .map(|(name, _)| name)
        .partition(|name| objects().all(|thing| thing.get(*name).is_some_and(Value::is_string)));
    columns.extend(figures);
    let mut table = rows(columns.iter().map(|name| name.as_str()));
    for thing in objects() {
        let shown = |name: &&String| match thing.get(*name) {
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

/// A table without rows yet; all columns but the first hold figures.
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
    fn each_thing_of_a_list_has_a_row_that_begins_with_its_name() {
        let things = serde_json::json!([{"a_pct": 1.255, "name": "x", "b": null}, {"a_pct": 2.0, "name": "y", "b": 3}]);
        let text = table(&serde_json::json!({"things": things})).unwrap();
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
    fn what_is_compared_stands_side_by_side() {
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
