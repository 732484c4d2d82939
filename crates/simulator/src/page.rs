//! The simulator's report as one self-contained HTML file with tables and plots.

use std::collections::BTreeMap;

use headroom_plot::{Page, Plot, Series, Shape, table};
use serde::Serialize;
use serde_json::Value;

use super::{
    frontier::FrontierRow,
    illustrations::{Calibration, Points, Scene},
    policy::{KINDS, RAW},
    report::{PolicyRow, VIOLATION},
};
use crate::section::{Findings, Section};

pub(super) fn html(parameters: &impl Serialize, sections: &[Section]) -> String {
    let parameters = serde_json::to_value(parameters).unwrap_or_default();
    let mut page = Page::new("Headroom: bench estimator");
    page.heading("Results of all policies on the same pods");
    page.text(
        "Simulated nodes that refill from an endless backlog. F is the 99th percentile of a node's demand within five minutes, \
         C its capacity, A what it has allocatable without amplification. Only differences to raw mean anything.",
    );
    page.text(&format!("A frame in violation: {VIOLATION}."));
    page.code(&parameters.to_string());
    for section in sections {
        section.add_to(&mut page);
    }
    page.section("The policies");
    page.terms(KINDS.iter().map(|kind| (kind.name, kind.about)));
    page.finish()
}

impl Section {
    fn add_to(&self, page: &mut Page) {
        let Findings {
            policies,
            open_loop,
            frontier,
            dominance,
            paired,
            rollouts,
            elastic,
            ratio_shares,
        } = &self.findings;
        page.section(&self.title);
        page.figure("Requests against violations", &risk(policies, frontier).svg());
        page.figure("All policies in the closed loop", &by_policy(policies));
        page.figure(
            "Compared with headroom at equal capacity and with the oracle at equal risk",
            &by_policy(dominance),
        );
        page.figure(
            "headroom compared with these policies on the same nodes, by their theta",
            &by_policy(paired),
        );
        page.figure(
            "Predictions for pods placed by raw (open loop)",
            &by_policy(open_loop),
        );
        if !rollouts.is_empty() {
            page.figure("Rollouts on full nodes", &by_policy(rollouts));
        }
        if !elastic.is_empty() {
            page.figure("Static and elastic fleets", &by_policy(elastic));
        }
        page.figure("A node's last day under headroom", &day(&self.day).svg());
        page.figure("Ratios: cumulative share of frames", &ratios(ratio_shares).svg());
        page.figure(
            "Reaction to a step of load from noon to midnight",
            &day(&self.step).svg(),
        );
        page.figure(
            "Margin over time: M by node, of which up to 100 % is added to the peak",
            &margins(&self.calibrations).svg(),
        );
    }
}

fn risk(policies: &[PolicyRow], frontier: &[FrontierRow]) -> Plot {
    let place = |row: &PolicyRow| (row.requests_per_allocatable, row.violation_pct);
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
        step: None,
        with: None,
        series,
    }
}

fn day(scene: &Scene) -> Plot {
    let Scene {
        demand,
        predicted,
        charged,
        allocatable,
        bound,
    } = scene;
    let span = |level: f64| demand.iter().map(|&(time, _)| (time, level)).collect();
    Plot {
        x: "hours",
        y: "CPUs, or multiples of 4 GiB",
        step: Some(if demand.len() > 288 { 6.0 } else { 3.0 }),
        with: None,
        series: vec![
            Series::new("demand F", Shape::Line, demand.clone()),
            Series::new("predicted peak P", Shape::Steps, predicted.clone()),
            Series::new("P and untrusted requests", Shape::Steps, charged.clone()),
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
        step: None,
        with: None,
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

fn margins(calibrations: &[Calibration]) -> Plot {
    let mut series: Vec<Series> = (1_u32..)
        .zip(calibrations)
        .map(|(number, seen)| {
            let name = format!("M, node {number}");
            Series::new(name, Shape::Steps, seen.accumulated.clone())
        })
        .collect();
    let all = |turns: fn(&Calibration) -> &Points| calibrations.iter().flat_map(turns).copied().collect();
    series.push(Series::new(
        "amplification switched off",
        Shape::Dots,
        all(|seen| &seen.latched),
    ));
    series.push(Series::new(
        "amplification switched on again",
        Shape::Dots,
        all(|seen| &seen.released),
    ));
    Plot {
        x: "days",
        y: "M, %",
        step: None,
        with: Some(0.0),
        series,
    }
}

/// Renders rows of one type as a table.
fn by_policy(rows: &[impl Serialize]) -> String {
    let rows: Vec<Value> = rows
        .iter()
        .filter_map(|row| serde_json::to_value(row).ok())
        .collect();
    let mut columns: Vec<&str> = rows
        .first()
        .and_then(Value::as_object)
        .into_iter()
        .flat_map(|row| row.keys().map(String::as_str))
        .collect();
    columns.retain(|name| !["name", "source", "resource"].contains(name));
    let cells = |row: &Value| {
        let cell = |name: &&str| row.get(name).map_or_else(String::new, shown);
        ["name"].iter().chain(&columns).map(cell).collect()
    };
    let named = ["policy"].into_iter().chain(columns.iter().copied());
    table(named, rows.iter().map(cells))
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(number) => number
            .as_f64()
            .map_or_else(String::new, |number| format!("{number:.2}")),
        Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}
