//! Renders nodes as a table for people, a row each, and as lines of `key=value` for logs and pipes.

use headroom_domain::{
    hint::{Brake, Freshness},
    ratio::Cents,
    resource::{PerResource, Resource},
};

use super::table::{
    Cell,
    Column::{Number, Text},
    Layout, RankedColumn, Table,
};
use crate::{
    escape::one_line,
    human_numbers::{age, in_column},
    styled_text::{StyledText, Tone},
    view::{Hint, NodeView, brake_name, freshness_word, sees},
};

/// Columns of the table. Amounts have the unit of their resource: milli-cores or MiB.
const COLUMNS: [RankedColumn; 21] = [
    Text("NODE").always(),
    Text("MODE").ranked(5),
    Text("SEES").ranked(11),
    Number("CPU-USED").ranked(4),
    Number("CPU-PEAK").ranked(10),
    Number("CPU-RATIO").always(),
    Number(CPU_AUTO).ranked(7),
    Number("CPU-RAW").ranked(12),
    Number("CPU-ALLOC").ranked(6),
    Number("CPU-BOUND").ranked(13),
    Number("CPU-FREE").ranked(2),
    Number("MEM-USED").ranked(8),
    Number("MEM-PEAK").ranked(14),
    Number("MEM-RATIO").ranked(9),
    Number(MEMORY_AUTO).ranked(15),
    Number("MEM-RAW").ranked(17),
    Number("MEM-ALLOC").ranked(16),
    Number("MEM-BOUND").ranked(18),
    Number("MEM-FREE").ranked(3),
    Text("BRAKE").ranked(0),
    Text("AGE").ranked(1),
];

/// Ratio that mode `auto` would give to nodes in another mode. A table that is not wide has the column only if there
/// is such a node.
const CPU_AUTO: &str = "CPU-AUTO";
const MEMORY_AUTO: &str = "MEM-AUTO";

/// Renders the table of nodes: use, ratio, brakes.
pub fn top(nodes: &[NodeView], layout: Layout) -> StyledText {
    let has_projection = nodes.iter().any(|node| node.projected.is_some());
    let columns = COLUMNS.map(|column| match column.title() {
        CPU_AUTO | MEMORY_AUTO if !has_projection => column.wide(),
        _ => column,
    });
    Table::new(&columns, nodes.iter().map(cells)).render(layout)
}

/// Renders a node as one line of `key=value`, with all columns.
pub fn line(node: &NodeView) -> String {
    let pairs: Vec<String> = COLUMNS
        .iter()
        .zip(cells(node))
        .map(|(column, cell)| {
            let value = one_line(&cell.text).replace(' ', "-");
            format!("{}={value}", column.title().to_lowercase())
        })
        .collect();
    pairs.join(" ") + "\n"
}

fn cells(node: &NodeView) -> [Cell; COLUMNS.len()] {
    let missing = || "-".to_owned();
    let cpu = amounts(node, Resource::Cpu);
    let memory = amounts(node, Resource::Memory);
    let [
        cpu_used,
        cpu_peak,
        cpu_ratio,
        cpu_auto,
        cpu_raw,
        cpu_stored,
        cpu_bound,
        cpu_free,
    ] = cpu;
    let [
        memory_used,
        memory_peak,
        memory_ratio,
        memory_auto,
        memory_raw,
        memory_stored,
        memory_bound,
        memory_free,
    ] = memory;
    [
        node.name.as_str().into(),
        node.mode().map_or_else(missing, |mode| mode.to_string()).into(),
        node.hint.as_ref().map_or_else(missing, sees).into(),
        cpu_used,
        cpu_peak,
        cpu_ratio,
        cpu_auto,
        cpu_raw,
        cpu_stored,
        cpu_bound,
        cpu_free,
        memory_used,
        memory_peak,
        memory_ratio,
        memory_auto,
        memory_raw,
        memory_stored,
        memory_bound,
        memory_free,
        brakes(node),
        node.hint.as_ref().map_or_else(|| missing().into(), hint_age),
    ]
}

/// Used, peak, ratio, ratio in mode `auto`, raw, allocatable, bound and free.
fn amounts(node: &NodeView, resource: Resource) -> [Cell; 8] {
    let missing = || "-".to_owned();
    let known = |amount: Option<u64>| {
        let text = amount.map_or_else(missing, |amount| in_column(resource, i128::from(amount)));
        Cell::from(text)
    };
    let of = |amounts: Option<PerResource<u64>>| known(amounts.map(|of| *of.get(resource)));
    let ratio = |ratio: Option<Cents>| Cell::from(ratio.map_or_else(missing, |ratio| ratio.to_string()));
    let free = node.free(resource);
    [
        known(node.used(resource)),
        known(node.peak(resource)),
        ratio(node.ratio(resource)),
        ratio(node.projected_ratio(resource)),
        of(node.raw),
        of(node.allocatable),
        of(node.bound),
        Cell {
            text: free.map_or_else(missing, |free| in_column(resource, free)),
            tone: if free.is_some_and(|free| free < 0) {
                Tone::Alarm
            } else {
                Tone::Plain
            },
        },
    ]
}

/// Active brakes of all resources.
fn brakes(node: &NodeView) -> Cell {
    let Some(hint) = &node.hint else {
        return "-".into();
    };
    let brakes = Resource::ALL.map(|resource| (resource, hint.report.resources.get(resource).brake));
    let in_force = brakes.iter().filter(|(_, brake)| *brake != Brake::Off);
    let texts: Vec<String> = in_force
        .map(|(resource, brake)| format!("{resource} {}", brake_name(*brake)))
        .collect();
    let strongest = brakes.iter().map(|(_, brake)| *brake).max().unwrap_or_default();
    Cell {
        text: if texts.is_empty() {
            "-".to_owned()
        } else {
            texts.join(", ")
        },
        tone: brake_tone(strongest),
    }
}

pub(super) const fn brake_tone(brake: Brake) -> Tone {
    match brake {
        Brake::Off => Tone::Plain,
        Brake::Hold | Brake::Shed => Tone::Warning,
        Brake::Stop => Tone::Alarm,
    }
}

/// Age of a report, with its freshness unless it is fresh.
pub(super) fn hint_age(hint: &Hint) -> Cell {
    let (text, word) = (age(hint.age), freshness_word(hint.freshness));
    match hint.freshness {
        Freshness::Fresh => text.into(),
        Freshness::Hold => Cell {
            text: format!("{text} {word}"),
            tone: Tone::Warning,
        },
        Freshness::Stop => Cell {
            text: format!("{text} {word}"),
            tone: Tone::Alarm,
        },
    }
}
