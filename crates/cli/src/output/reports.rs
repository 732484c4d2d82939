//! Renders the newest reports of agents as a table for people, and as lines of `key=value`.

use headroom_domain::{estimate::Reason, resource::Resource};

use super::{
    nodes::{brake_tone, hint_age},
    table::{
        Cell,
        Column::{Number, Text},
        Layout, RankedColumn, Table,
    },
};
use crate::{
    escape::one_line,
    human_numbers::{in_column, percent},
    styled_text::StyledText,
    view::{Hint, NodeView, brake_name, sees},
};

const COLUMNS: [RankedColumn; 16] = [
    Text("NODE").always(),
    Text("AGE").ranked(2),
    Text("SEES").ranked(4),
    Number("CPU-RATIO").always(),
    Number("CPU-TARGET").ranked(3),
    Text("CPU-BRAKE").ranked(1),
    Number("MEM-RATIO").ranked(5),
    Number("MEM-TARGET").ranked(7),
    Text("MEM-BRAKE").ranked(0),
    Number("HISTORY").ranked(6),
    Text("CPU-WHY").ranked(8),
    Text("MEM-WHY").ranked(9),
    Number("REPORT").wide(),
    Number("PODS-GENERATION").wide(),
    Number("CPU-EXPECTED").wide(),
    Number("MEM-EXPECTED").wide(),
];

pub fn hints(nodes: &[NodeView], layout: Layout) -> StyledText {
    let hints = nodes.iter().filter_map(|node| node.hint.as_ref());
    Table::new(&COLUMNS, hints.map(cells)).render(layout)
}

/// Renders a report as one line of `key=value`, with all columns except the reasons, which are sentences.
pub fn hint_line(node: &NodeView) -> String {
    let Some(hint) = &node.hint else {
        return String::new();
    };
    let pairs = COLUMNS.iter().zip(cells(hint));
    let pairs = pairs.filter(|(column, _)| !column.title().ends_with("-WHY"));
    let pairs: Vec<String> = pairs
        .map(|(column, cell)| {
            let value = one_line(&cell.text).replace(' ', "-");
            format!("{}={value}", column.title().to_lowercase())
        })
        .collect();
    pairs.join(" ") + "\n"
}

fn cells(hint: &Hint) -> [Cell; COLUMNS.len()] {
    let report = &hint.report;
    let [[cpu_ratio, cpu_target, cpu_brake, cpu_why, cpu_peak], memory] =
        Resource::ALL.map(|resource| of_resource(hint, resource));
    let [memory_ratio, memory_target, memory_brake, memory_why, memory_peak] = memory;
    let coverage = Resource::ALL.map(|resource| report.resources.get(resource).coverage_ppm);
    [
        report.node.as_str().into(),
        hint_age(hint),
        sees(hint).into(),
        cpu_ratio,
        cpu_target,
        cpu_brake,
        memory_ratio,
        memory_target,
        memory_brake,
        percent(coverage.into_iter().min().unwrap_or_default()).into(),
        cpu_why,
        memory_why,
        report.seq.to_string().into(),
        report.pods_generation.to_string().into(),
        cpu_peak,
        memory_peak,
    ]
}

/// Published ratio, target, brake, first reason and predicted peak.
fn of_resource(hint: &Hint, resource: Resource) -> [Cell; 5] {
    let part = hint.report.resources.get(resource);
    let why = part.reasons.first().map_or("-", String::as_str);
    [
        part.published.to_string().into(),
        part.target.to_string().into(),
        Cell {
            text: brake_name(part.brake).to_owned(),
            tone: brake_tone(part.brake),
        },
        Cell::from(Reason::from_code(why).map_or(why, |reason| reason.about())),
        in_column(resource, i128::from(part.predicted_peak)).into(),
    ]
}
