//! Renders the tree of quotas for people.

use std::fmt;

use headroom_proto::v1alpha1::{QuotaResource, QuotaStatus};

use super::{super::slo::lines::printable, resources::amount, write_sights};
use crate::{
    output::table::{
        Cell,
        Column::{Number, Text},
        Layout, RankedColumn, Table,
    },
    quota::{
        answers::{QuotaAnswers, SeenQuotas},
        drawing::DrawnQuota,
    },
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TreeTable {
    Amounts,
    /// Used, pending and left amounts.
    Usage,
}

const AMOUNTS: [RankedColumn; 5] = [
    Text("QUOTA").always(),
    Text("NAMESPACE").ranked(1),
    Text("RESOURCE").always(),
    Number("MIN").ranked(0),
    Number("MAX").always(),
];
const USAGE: [RankedColumn; 7] = [
    Text("QUOTA").always(),
    Number("PODS").ranked(2),
    Text("RESOURCE").always(),
    Number("USED").ranked(0),
    Number("CLAIMED").ranked(3),
    Number("LIMIT").ranked(1),
    Number("LEFT").always(),
];

pub(crate) struct TreePage<'a> {
    pub(crate) answers: &'a QuotaAnswers<SeenQuotas>,
    pub(crate) drawn: &'a [DrawnQuota<'a>],
    pub(crate) table: TreeTable,
    pub(crate) layout: Layout,
}

impl fmt::Display for TreePage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_sights(f, self.layout, self.answers, |seen| Some(&seen.sight))?;
        writeln!(f)?;
        if self.drawn.is_empty() {
            return writeln!(f, "the cluster has no ElasticQuota");
        }
        let rows = self.drawn.iter().flat_map(rows);
        f.write_str(&match self.table {
            TreeTable::Amounts => table(&AMOUNTS, rows.map(|row| row.amounts()), self.layout),
            TreeTable::Usage => table(&USAGE, rows.map(|row| row.usage()), self.layout),
        })
    }
}

fn table<const N: usize>(
    columns: &[RankedColumn; N],
    rows: impl Iterator<Item = [String; N]>,
    layout: Layout,
) -> String {
    Table::new(columns, rows.map(|row| row.map(Cell::from)))
        .render(layout)
        .plain()
}

/// A resource of a quota, if the quota has any. The first row of a quota has its name.
struct TreeRow<'q> {
    drawn: &'q DrawnQuota<'q>,
    resource: Option<&'q QuotaResource>,
    is_first: bool,
}

fn rows<'q>(drawn: &'q DrawnQuota<'q>) -> Vec<TreeRow<'q>> {
    let resources = &drawn.quota.resources;
    if resources.is_empty() {
        return vec![TreeRow {
            drawn,
            resource: None,
            is_first: true,
        }];
    }
    let row = |(place, resource)| TreeRow {
        drawn,
        resource: Some(resource),
        is_first: place == 0,
    };
    resources.iter().enumerate().map(row).collect()
}

impl TreeRow<'_> {
    fn amounts(&self) -> [String; 5] {
        let resource = self.resource;
        [
            self.name(),
            self.once(printable(&self.drawn.quota.namespace)),
            self.resource_name(),
            amount(resource.and_then(|resource| resource.min.as_ref())),
            amount(resource.and_then(|resource| resource.max.as_ref())),
        ]
    }

    fn usage(&self) -> [String; 7] {
        let resource = self.resource;
        let pods = self.drawn.quota.pods;
        [
            self.name(),
            self.once(pods.map_or_else(|| "-".to_owned(), |pods| pods.to_string())),
            self.resource_name(),
            amount(resource.and_then(|resource| resource.used.as_ref())),
            amount(resource.and_then(|resource| resource.claimed.as_ref())),
            amount(resource.and_then(|resource| resource.limit.as_ref())),
            amount(resource.and_then(|resource| resource.left.as_ref())),
        ]
    }

    fn once(&self, text: String) -> String {
        if self.is_first { text } else { String::new() }
    }

    fn resource_name(&self) -> String {
        self.resource
            .map_or_else(|| "-".to_owned(), |resource| printable(&resource.resource))
    }

    fn name(&self) -> String {
        if !self.is_first {
            // The lines of the tree continue to the next quota.
            return self.drawn.lines.replace("├─", "│ ").replace("└─", "  ");
        }
        let DrawnQuota { lines, quota, note } = self.drawn;
        let QuotaStatus {
            name,
            is_going,
            is_pending,
            unreadable,
            ..
        } = quota;
        let marks = [
            (!note.is_empty(), note.as_str()),
            (*is_going, "being deleted"),
            (*is_pending, "pending"),
            (!unreadable.is_empty(), "unreadable"),
        ];
        let marks: Vec<&str> = marks
            .into_iter()
            .filter(|(is_set, _)| *is_set)
            .map(|(_, mark)| mark)
            .collect();
        let marks = match marks.join(", ") {
            marks if marks.is_empty() => marks,
            marks => format!(" ({})", printable(&marks)),
        };
        format!("{lines}{}{marks}", printable(name))
    }
}
