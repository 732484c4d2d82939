//! The report as one HTML file that needs nothing else: tables, and the plots a capacity engineer asks for.

use std::{collections::BTreeMap, fmt::Write as _};

use serde::Serialize;
use serde_json::Value;

use super::{
    frontier::FrontierRow,
    plot::{Plot, Series, Shape, escaped},
    policy::{KINDS, OURS, RAW},
    report::Row,
    scene::{Points, Scene},
    study::Findings,
};

/// How the page looks; dark where the reader prefers that.
const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:64em;margin:2em auto;padding:0 1em;color:#222;background:#fff}\
table{border-collapse:collapse;font-size:13px}td,th{padding:.2em .7em;text-align:right;border-bottom:1px solid #ccc}\
td:first-child,th:first-child{text-align:left}svg{width:100%;height:auto;font:12px system-ui,sans-serif;fill:#222}\
.grid{stroke:#ddd;fill:none}.series{fill:none;stroke-width:1.8}div{overflow-x:auto}\
@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}svg{fill:#ddd}.grid{stroke:#444}}";

/// What is shown of one load.
#[derive(Debug, Clone)]
pub(super) struct Section {
    /// The load and what it is of.
    pub(super) title: String,
    /// The figures.
    pub(super) findings: Findings,
    /// A node's last day.
    pub(super) day: Scene,
    /// Margins of nodes.
    pub(super) margins: Vec<Points>,
    /// The reaction to a step of load.
    pub(super) step: Scene,
}

/// The page.
pub(super) fn html(parameters: &impl Serialize, sections: &[Section]) -> String {
    let parameters = serde_json::to_value(parameters).unwrap_or_default();
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>Headroom: bench estimator</title>\n<style>{STYLE}</style>\n\
         <h1>What each policy makes of the same pods</h1>\n<p>Simulated nodes that refill from an endless backlog. F is the 99th \
         percentile of a node's demand within five minutes, C its capacity, A what it has allocatable without amplification. Only \
         differences to raw mean anything.</p>\n<p><code>{}</code></p>\n",
        escaped(&parameters.to_string())
    );
    for section in sections {
        page.push_str(&section.html());
    }
    page.push_str("<h2>The policies</h2>\n<dl>\n");
    for kind in KINDS {
        push(
            &mut page,
            format_args!(
                "<dt><code>{}</code><dd>{}
",
                kind.name,
                escaped(kind.about)
            ),
        );
    }
    page.push_str("</dl>\n</html>\n");
    page
}

impl Section {
    fn html(&self) -> String {
        let Findings {
            policies,
            open_loop,
            frontier,
            dominance,
            ratio_shares,
        } = &self.findings;
        let mut html = format!("<h2>{}</h2>\n", escaped(&self.title));
        let mut add = |title: &str, body: String| {
            push(
                &mut html,
                format_args!("<h3>{}</h3>\n<div>{body}</div>\n", escaped(title)),
            );
        };
        add("Requests against violations", risk(policies, frontier).svg());
        add("All policies in the closed loop", table(policies));
        add(
            "Beside ours at equal capacity, beside the oracle at equal risk",
            table(dominance),
        );
        add(
            "Predictions on places that are raw's (open loop)",
            table(open_loop),
        );
        add("A node's last day under ours", day(&self.day).svg());
        add("Ratios: share of frames up to each", ratios(ratio_shares).svg());
        add(
            "Reaction to a step of load, at noon, that ends at midnight",
            day(&self.step).svg(),
        );
        add(
            "Margin on the predicted peak, by node",
            margins(&self.margins).svg(),
        );
        html
    }
}

fn risk(policies: &[Row], frontier: &[FrontierRow]) -> Plot {
    let place = |row: &Row| (row.requests_per_allocatable, row.violation_pct);
    let mut series: Vec<Series> = policies
        .iter()
        .map(|row| Series::new(row.name.as_str(), Shape::Dots, vec![place(row)]))
        .collect();
    let mut curves: BTreeMap<&str, Points> = BTreeMap::new();
    for point in frontier {
        curves.entry(&point.row.name).or_default().push(place(&point.row));
    }
    for (name, mut curve) in curves {
        curve.sort_by(|a, b| a.0.total_cmp(&b.0));
        series.push(Series::new(format!("{name} along theta"), Shape::Line, curve));
    }
    Plot {
        x: "requests per allocatable",
        y: "frames with F > C, %",
        series,
    }
}

fn day(scene: &Scene) -> Plot {
    let Scene {
        demand,
        predicted,
        allocatable,
        bound,
    } = scene;
    let span = |level: f64| demand.iter().map(|&(time, _)| (time, level)).collect();
    Plot {
        x: "hours",
        y: "CPUs, or as many times 4 GiB",
        series: vec![
            Series::new("demand F", Shape::Line, demand.clone()),
            Series::new("P and untrusted requests", Shape::Steps, predicted.clone()),
            Series::new("allocatable", Shape::Steps, allocatable.clone()),
            Series::new("bound requests R", Shape::Steps, bound.clone()),
            Series::new("capacity C", Shape::Line, span(32.0)),
            Series::new("raw allocatable A", Shape::Line, span(31.5)),
        ],
    }
}

fn ratios(shares: &BTreeMap<&'static str, Vec<f64>>) -> Plot {
    let curve = |shares: &[f64]| -> Points {
        let cents = (0..=400_u32).zip(shares).skip(49);
        cents
            .map(|(cents, share)| (f64::from(cents) / 100.0, 100.0 * share))
            .collect()
    };
    let moving = KINDS
        .iter()
        .filter(|kind| kind.name != RAW && !kind.name.starts_with("static"));
    Plot {
        x: "ratio",
        y: "frames, %",
        series: moving
            .filter_map(|kind| {
                Some(Series::new(
                    kind.name,
                    Shape::Steps,
                    curve(shares.get(kind.name)?),
                ))
            })
            .collect(),
    }
}

fn margins(margins: &[Points]) -> Plot {
    let series = (1..).zip(margins);
    Plot {
        x: "days",
        y: "margin, %",
        series: series
            .map(|(number, points): (u32, &Points)| {
                Series::new(format!("{OURS}, node {number}"), Shape::Steps, points.clone())
            })
            .collect(),
    }
}

/// Rows of one type as a table.
fn table(rows: &[impl Serialize]) -> String {
    let rows: Vec<Value> = rows
        .iter()
        .filter_map(|row| serde_json::to_value(row).ok())
        .collect();
    let mut columns: Vec<&String> = rows
        .first()
        .and_then(Value::as_object)
        .into_iter()
        .flat_map(|row| row.keys())
        .collect();
    columns.retain(|name| !["name", "source", "resource"].contains(&name.as_str()));
    let mut table = "<table><tr><th>policy".to_owned();
    for name in &columns {
        push(&mut table, format_args!("<th>{}", escaped(name)));
    }
    for row in &rows {
        let text = |name: &str| row.get(name).map_or_else(String::new, shown);
        push(&mut table, format_args!("\n<tr><td>{}", text("name")));
        for name in &columns {
            push(&mut table, format_args!("<td>{}", text(name)));
        }
    }
    table.push_str("\n</table>");
    table
}

/// Adds text. Writing to a string does not fail.
fn push(page: &mut String, text: std::fmt::Arguments<'_>) {
    page.write_fmt(text).ok();
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::String(text) => escaped(text),
        Value::Number(number) => number
            .as_f64()
            .map_or_else(String::new, |number| format!("{number:.2}")),
        Value::Array(_) | Value::Object(_) => escaped(&value.to_string()),
    }
}
