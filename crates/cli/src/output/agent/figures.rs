//! Renders the figures of an agent as a table with the rows that `FIELDS` declares, so that each column has one unit.

use headroom_domain::{estimate::Reason, hint::Brake, ratio::Cents, resource::Resource};
use headroom_proto::status::{FIELDS, FieldUnit, Place, ResourceStatus, StatusField};

use super::{
    super::table::{
        Column::{Number, Text},
        Layout, RankedColumn,
    },
    dash, shown,
};
use crate::{
    human_numbers::{in_column, percent},
    view::brake_name,
};

const COLUMNS: [RankedColumn; 4] = [
    Text("").always(),
    Number("CPU").always(),
    Number("MEMORY").always(),
    Text("MEANING").wrapped(),
];
/// Renders the table, then the reasons as text.
pub(super) fn render(resources: &[ResourceStatus], layout: Layout) -> String {
    shown(&COLUMNS, rows(resources).into_iter(), layout) + &reasons(resources)
}

fn rows(resources: &[ResourceStatus]) -> Vec<[String; COLUMNS.len()]> {
    let of = |resource: Resource| resources.iter().find(|status| status.name == resource.name());
    let row = |field: &StatusField| {
        let Place::Row(term, reading) = field.place else {
            return None;
        };
        let [cpu, memory] = Resource::ALL.map(|resource| {
            let value = of(resource).and_then(reading);
            value.map_or_else(dash, |value| figure(resource, field.unit, value))
        });
        Some([term.to_owned(), cpu, memory, field.about.to_owned()])
    };
    FIELDS.iter().filter_map(row).collect()
}

/// Formats a figure in its unit.
fn figure(resource: Resource, unit: FieldUnit, value: i64) -> String {
    let small = u32::try_from(value).unwrap_or(u32::MAX);
    match unit {
        FieldUnit::OfResource => in_column(resource, value.into()),
        FieldUnit::Cents => Cents(small).to_string(),
        FieldUnit::Ppm => percent(small),
        FieldUnit::Level => {
            Brake::from_level(small).map_or_else(|| value.to_string(), |brake| brake_name(brake).to_owned())
        }
        FieldUnit::Flag => if value == 0 { "no" } else { "yes" }.to_owned(),
        FieldUnit::Count
        | FieldUnit::Text
        | FieldUnit::OfSignal
        | FieldUnit::Milli
        | FieldUnit::Bytes
        | FieldUnit::Seconds
        | FieldUnit::Millis
        | FieldUnit::Micros
        | FieldUnit::Nanos
        | FieldUnit::MegabytesPerSecond
        | FieldUnit::PerSecond => value.to_string(),
    }
}

/// Renders the reasons as text.
fn reasons(resources: &[ResourceStatus]) -> String {
    let of = |status: &ResourceStatus| {
        let words = |code: &String| {
            let words = Reason::from_code(code)
                .map_or_else(|| code.clone(), |reason| format!("{} ({code})", reason.about()));
            format!("{}: {words}\n", status.name)
        };
        status.reasons.iter().map(words).collect::<String>()
    };
    resources.iter().map(of).collect()
}
