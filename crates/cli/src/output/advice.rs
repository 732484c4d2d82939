//! Renders advice as a table for people and as JSON for programs.

mod headline;
mod page;

use std::fmt::{self, Write as _};

use headroom_domain::{ratio::Cents, resource::Resource};
use serde_json::{Value, json};

use super::{
    slo::lines::wrapped,
    table::{
        Cell,
        Column::{Number, Text},
        Layout, RankedColumn, Table,
    },
};
use crate::{
    advise::{
        Advice, CAVEATS, EmptyQuery,
        advice::{Figures, Group},
        error::IMPLAUSIBLE_CAUSE,
        plausibility::{Excess, ImplausibleNode},
    },
    escape::one_line,
    human_numbers::{percent, short},
};

const COLUMNS: [RankedColumn; 11] = [
    Text("POOL").always(),
    Number("NODES").ranked(6),
    Text("RESOURCE").always(),
    Number("P5").ranked(5),
    Number("P50").ranked(3),
    Number("P95").ranked(0),
    Number("ALLOCATABLE").ranked(4),
    Number("GAINED").ranked(1),
    Number("MISSED").ranked(2),
    Number("SATURATED").ranked(7),
    Number("FILLED").ranked(8),
];

/// Limit of nodes with a line of their own; the JSON has all.
const MOST_LEFT_OUT: usize = 10;

impl Advice {
    /// Renders the table for a layout, with the headline, the legend and the caveats.
    pub fn text(&self, layout: Layout) -> String {
        let rows = self.pools.iter().flat_map(|pool| {
            self.resources()
                .filter_map(|resource| Some(row(pool, resource, pool.figures.get(resource).as_ref()?)))
        });
        let rows: Vec<[String; COLUMNS.len()]> = rows.collect();
        let mut text = if rows.is_empty() {
            "There is at most one day of measurements; the estimator needs more.\n".to_owned()
        } else {
            let table = Table::new(&COLUMNS, rows.into_iter().map(|row| row.map(Cell::from))).render(layout);
            self.headline().join("\n") + "\n\n" + &table.plain()
        };
        text.push_str(&self.needs());
        for line in self.left_out_lines() {
            text.push_str(&wrapped(0, &line));
        }
        for EmptyQuery { name, asked } in &self.empty {
            let _infallible = writeln!(text, "{name} has no series: {asked}");
        }
        text.push('\n');
        text += &wrapped(
            0,
            "P5, P50, P95: percentiles of the ratio. GAINED: mean amount above raw allocatable. MISSED: hourly predictions that the same \
             pods exceeded within a day. SATURATED: frames with a peak above capacity. FILLED: such frames if similar pods had used \
             the gained amount.",
        );
        for caveat in CAVEATS {
            text += &wrapped(0, &format!("- {caveat}"));
        }
        text
    }

    /// Lines for the nodes that advertise more than is safe.
    fn needs(&self) -> String {
        let mut text = String::new();
        for resource in self.resources() {
            for (node, figures) in self.overcommitted(resource) {
                let _infallible = writeln!(
                    text,
                    "{} ({}): advertises more {resource} than is safe; {} of it would be safe; see --lo",
                    node.name, node.pool, figures.needed
                );
            }
        }
        text
    }

    /// Lines for the nodes that are in no figure, and for the usual causes.
    fn left_out_lines(&self) -> Vec<String> {
        let nodes = self.left_out.iter().take(MOST_LEFT_OUT);
        let mut lines: Vec<String> = nodes
            .map(|node| one_line(&format!("{node}; the node is left out")).into_owned())
            .collect();
        if let Some(more @ 1..) = self.left_out.len().checked_sub(MOST_LEFT_OUT) {
            lines.push(format!("{more} more nodes are left out; the JSON has all."));
        }
        if !lines.is_empty() {
            lines.push(format!("Of nodes that are left out, {IMPLAUSIBLE_CAUSE}."));
        }
        lines
    }

    /// Renders the advice as JSON.
    pub fn json(&self) -> Value {
        json!({
            "from_s": self.span.start_s(), "until_s": self.span.end_s(), "step_s": self.step_s,
            "theta_cpu_ppm": self.policy.target_ppm.cpu,
            "lo_cents": self.policy.bounds.cpu.min.0,
            "hi_cpu_cents": self.policy.bounds.cpu.max.0,
            "hi_memory_cents": self.policy.bounds.memory.max.0,
            "pools": self.pools.iter().map(|pool| self.group(pool)).collect::<Vec<_>>(),
            "nodes": self.nodes.iter().map(|node| self.group(node)).collect::<Vec<_>>(),
            "left_out": self.left_out.iter().map(json_of_left_out).collect::<Vec<_>>(),
            "empty_queries": self.empty.iter().map(|EmptyQuery { name, asked }| json!({"query": name, "asked": asked})).collect::<Vec<_>>(),
            "caveats": CAVEATS,
        })
    }

    fn group(&self, group: &Group) -> Value {
        let mut value = json!({
            "name": group.name, "pool": group.pool, "nodes": group.nodes, "pods": group.pods,
            "pods_at_risk": group.pods_at_risk,
        });
        for resource in self.resources() {
            let figures = group.figures.get(resource).as_ref();
            if let Some(object) = value.as_object_mut() {
                object.insert(
                    resource.name().to_owned(),
                    figures.map_or(Value::Null, |figures| {
                        json_of(resource, figures, group.gained_nodes_cents(resource))
                    }),
                );
            }
        }
        value
    }
}

fn row(group: &Group, resource: Resource, figures: &Figures) -> [String; COLUMNS.len()] {
    let [low, middle, high] = figures.ratio.map(|ratio| ratio.to_string());
    [
        group.name.clone(),
        group.nodes.to_string(),
        resource.to_string(),
        low,
        middle,
        high,
        short(resource, i128::from(figures.raw)),
        format!(
            "{} (+{})",
            short(resource, i128::from(figures.gained)),
            percent(figures.gained_ppm())
        ),
        figures.missed_ppm.map_or_else(|| "-".to_owned(), percent),
        percent(figures.saturated_ppm),
        percent(figures.would_saturate_ppm),
    ]
}

fn json_of_left_out(node: &ImplausibleNode) -> Value {
    let Excess {
        kind,
        resource,
        frames,
        of_frames,
        highest,
        capacity,
    } = node.excess;
    let unit = unit_of(resource);
    json!({
        "name": node.name, "excess": kind.name(), "resource": resource.name(), "frames": frames, "of_frames": of_frames,
        format!("highest_{unit}"): highest, format!("capacity_{unit}"): capacity,
    })
}

impl fmt::Display for ImplausibleNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Excess {
            kind,
            resource,
            frames,
            of_frames,
            highest,
            capacity,
        } = self.excess;
        let amount = |amount: u64| short(resource, i128::from(amount));
        write!(
            f,
            "{}: {} of {resource} above {} in {frames} of {of_frames} frames, up to {} of a capacity of {}",
            self.name,
            kind.name(),
            kind.limit(),
            amount(highest),
            amount(capacity)
        )
    }
}

/// Unit of a resource in the keys of JSON.
fn unit_of(resource: Resource) -> &'static str {
    match resource {
        Resource::Cpu => "milli",
        Resource::Memory => "bytes",
    }
}

fn json_of(resource: Resource, figures: &Figures, gained_nodes_cents: Option<u64>) -> Value {
    let Figures {
        frames,
        ratio: [Cents(low), Cents(middle), Cents(high)],
        needed,
        raw,
        gained,
        saturated_ppm,
        would_saturate_ppm,
        judged,
        missed_ppm,
    } = figures;
    let unit = unit_of(resource);
    json!({
        "frames": frames,
        "ratio_p5_cents": low, "ratio_p50_cents": middle, "ratio_p95_cents": high,
        "needed_p50_cents": needed.0,
        format!("raw_{unit}"): raw, format!("gained_{unit}"): gained, "gained_ppm": figures.gained_ppm(),
        "gained_nodes_cents": gained_nodes_cents,
        "saturated_ppm": saturated_ppm, "would_saturate_ppm": would_saturate_ppm,
        "judged": judged, "missed_ppm": missed_ppm,
    })
}
