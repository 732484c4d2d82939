//! Renders nodes and reports as tables in the manner of kubectl: no borders, one row for each resource of a node.

use comfy_table::{CellAlignment, Table, presets};
use headroom_domain::{
    estimate::Profile,
    hint::{Brake, Freshness},
    resource::Resource,
};

use self::Column::{Number, Text};
use super::{escape::one_line, reasons};
use crate::{
    human_numbers::{age, percent, short},
    view::{Hint, NodeView, brake, freshness, source},
};

/// A column by its title: texts begin at its left, numbers end at its right.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Column {
    Text(&'static str),
    Number(&'static str),
}

/// Columns of the table of nodes. No cell has a blank in it.
const TOP: [Column; 13] = [
    Text("NODE"),
    Text("MODE"),
    Text("SOURCE"),
    Text("RESOURCE"),
    Number("USED"),
    Number("PEAK"),
    Number("RATIO"),
    Number("RAW"),
    Number("ALLOCATABLE"),
    Number("BOUND"),
    Number("FREE"),
    Text("BRAKE"),
    Text("AGE"),
];
/// Columns of `TOP` that belong to the node, not to a resource: shown in its first row only.
const OF_NODE: [usize; 4] = [0, 1, 2, 12];

/// Columns of the table of reports.
const HINTS: [Column; 16] = [
    Text("NODE"),
    Number("SEQ"),
    Text("AGE"),
    Text("SIGHT"),
    Text("TIMING"),
    Number("GENERATION"),
    Text("RESOURCE"),
    Number("CAPACITY"),
    Number("USAGE"),
    Number("P0"),
    Number("P"),
    Number("RW"),
    Number("PUBLISHED"),
    Number("TARGET"),
    Number("COVERAGE"),
    Text("REASONS"),
];

impl Column {
    /// Its title.
    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Text(title) | Self::Number(title) => title,
        }
    }
}

/// The table of nodes: what they use, how far they are amplified, what brakes them.
pub fn top(nodes: &[NodeView]) -> String {
    let rows = nodes.iter().flat_map(|node| {
        Resource::ALL.map(|resource| {
            let mut cells = cells(node, resource);
            if resource != Resource::Cpu {
                for column in OF_NODE {
                    if let Some(cell) = cells.get_mut(column) {
                        cell.clear();
                    }
                }
            }
            cells
        })
    });
    let mut text = table(&TOP, rows);
    // It is one floor for all nodes.
    if let Some(trouble) = nodes.iter().find_map(|node| node.floor_trouble.as_ref()) {
        text.extend([&one_line(trouble), "\n"]);
    }
    text
}

/// One line for each resource of a node, as `key=value`: for logs and pipes.
pub fn lines(node: &NodeView) -> String {
    let line = |resource| {
        let pairs: Vec<String> = TOP
            .iter()
            .zip(cells(node, resource))
            .map(|(column, cell)| format!("{}={cell}", column.title().to_lowercase()))
            .collect();
        pairs.join(" ") + "\n"
    };
    Resource::ALL.map(line).concat()
}

/// The table of reports.
pub fn hints(nodes: &[NodeView]) -> String {
    let rows = nodes
        .iter()
        .filter_map(|node| node.hint.as_ref())
        .flat_map(|hint| {
            Resource::ALL.map(|resource| {
                let (report, part) = (&hint.report, hint.report.resources.get(resource));
                let amount = |amount: u64| short(resource, i128::from(amount));
                [
                    report.node.clone(),
                    report.seq.to_string(),
                    hint_age(hint),
                    report.sight.to_string(),
                    report.timing.to_string(),
                    report.pods_generation.to_string(),
                    resource.to_string(),
                    amount(part.capacity),
                    amount(part.usage),
                    amount(part.peak),
                    amount(part.predicted_peak),
                    amount(part.warm_requests),
                    part.published.to_string(),
                    part.target.to_string(),
                    percent(part.coverage_ppm),
                    reasons(&part.reasons),
                ]
            })
        });
    table(&HINTS, rows)
}

fn cells(node: &NodeView, resource: Resource) -> [String; 13] {
    let missing = || "-".to_owned();
    let known =
        |amount: Option<u64>| amount.map_or_else(missing, |amount| short(resource, i128::from(amount)));
    let of = |amounts: Option<headroom_domain::resource::PerResource<u64>>| {
        known(amounts.map(|of| *of.get(resource)))
    };
    let part = node.hint.as_ref().map(|hint| hint.report.resources.get(resource));
    let braked = part.map_or_else(missing, |part| match part.brake {
        Brake::Off => missing(),
        Brake::Hold | Brake::Shed | Brake::Stop => {
            let reason = part.reasons.first().map_or("", String::as_str);
            format!("{}:{reason}", brake(part.brake))
        }
    });
    [
        node.name.clone(),
        node.mode().map_or_else(missing, |mode| mode.to_string()),
        node.hint.as_ref().map_or_else(missing, source_text),
        resource.to_string(),
        known(part.map(|part| part.usage)),
        known(part.map(|part| part.predicted_peak)),
        node.ratio(resource)
            .map_or_else(missing, |ratio| ratio.to_string()),
        of(node.raw),
        of(node.allocatable),
        of(node.bound),
        node.free(resource)
            .map_or_else(missing, |free| short(resource, free)),
        braked,
        node.hint.as_ref().map_or_else(missing, hint_age),
    ]
}

/// Where the numbers come from, and a word of warning when they are not meant for production.
fn source_text(hint: &Hint) -> String {
    let sight = hint.report.sight;
    match hint.report.timing {
        Profile::Production => format!("{}/{sight}", source(sight)),
        timing @ Profile::Demo => format!("{}/{sight}/{timing}", source(sight)),
    }
}

/// A report's age, and how much it counts where that is not in full.
pub(super) fn hint_age(hint: &Hint) -> String {
    match hint.freshness {
        Freshness::Fresh => age(hint.age),
        other @ (Freshness::Hold | Freshness::Stop) => format!("{}/{}", age(hint.age), freshness(other)),
    }
}

/// A table of these columns.
pub(crate) fn table<const N: usize>(
    columns: &[Column; N],
    rows: impl Iterator<Item = [String; N]>,
) -> String {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .force_no_tty()
        .set_header(columns.map(Column::title))
        .add_rows(rows.map(|row| row.map(|cell| one_line(&cell).into_owned())));
    for (column, kind) in table.column_iter_mut().zip(columns) {
        column.set_padding((0, 2));
        column.set_cell_alignment(match kind {
            Text(_) => CellAlignment::Left,
            Number(_) => CellAlignment::Right,
        });
    }
    table.trim_fmt() + "\n"
}
