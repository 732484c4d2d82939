//! Renders the resources of a quota as a table: limits, use, and the rest.

use headroom_proto::v1alpha1::{QuotaResource, QuotaStatus};

use super::super::{
    slo::lines::printable,
    table::{
        Cell,
        Column::{Number, Text},
        Layout, RankedColumn, Table,
    },
};

const COLUMNS: [RankedColumn; 7] = [
    Text("RESOURCE").always(),
    Number("MIN").ranked(3),
    Number("MAX").ranked(2),
    Number("LIMIT").ranked(1),
    Number("USED").ranked(0),
    Number("CLAIMED").ranked(4),
    Number("LEFT").always(),
];

/// One row for each resource.
pub(super) fn resource_table(quota: &QuotaStatus, layout: Layout) -> String {
    let rows = quota.resources.iter().map(|resource| {
        let QuotaResource {
            resource: name,
            min,
            max,
            guaranteed: _,
            limit,
            limit_from,
            used,
            claimed,
            left,
        } = resource;
        let limit = match limit_from.as_str() {
            "admission" => format!("{} (admission)", amount(limit.as_ref())),
            _ => amount(limit.as_ref()),
        };
        [
            printable(name),
            amount(min.as_ref()),
            amount(max.as_ref()),
            limit,
            amount(used.as_ref()),
            amount(claimed.as_ref()),
            amount(left.as_ref()),
        ]
    });
    Table::new(&COLUMNS, rows.map(|row| row.map(Cell::from)))
        .render(layout)
        .plain()
}

/// Formats an amount; `-` if there is none.
pub(super) fn amount(text: Option<&String>) -> String {
    text.map_or_else(|| "-".to_owned(), |text| printable(text))
}
