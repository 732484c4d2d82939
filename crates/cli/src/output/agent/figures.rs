//! The figures of an agent as a table: a row for each, so that each column has one unit.

use headroom_domain::{estimate::Reason, hint::Brake, ratio::Cents, resource::Resource};
use headroom_proto::status::ResourceStatus;

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
/// The table and, in words, the reasons below it.
pub(super) fn render(resources: &[ResourceStatus], layout: Layout) -> String {
    shown(&COLUMNS, rows(resources).into_iter(), layout) + &reasons(resources)
}

fn rows(resources: &[ResourceStatus]) -> Vec<[String; COLUMNS.len()]> {
    let of = |resource: Resource| resources.iter().find(|status| status.name == resource.name());
    let row = |(term, meaning, figure): &Figure| {
        let [cpu, memory] =
            Resource::ALL.map(|resource| of(resource).map_or_else(dash, |status| figure(resource, status)));
        [(*term).to_owned(), cpu, memory, (*meaning).to_owned()]
    };
    FIGURES.iter().map(row).collect()
}

/// What a figure is called, what it means, and how it is shown.
type Figure = (
    &'static str,
    &'static str,
    fn(Resource, &ResourceStatus) -> String,
);

const FIGURES: [Figure; 13] = [
    ("C", "physical capacity", |of, status| amount(of, status.capacity)),
    ("A", "raw allocatable", |of, status| amount(of, status.raw)),
    ("T", "safe use", |of, status| amount(of, status.safe)),
    ("P0", "expected peak", |of, status| amount(of, status.peak)),
    ("P", "predicted peak", |of, status| {
        amount(of, status.predicted_peak)
    }),
    ("Rw", "warm requests", |of, status| {
        amount(of, status.warm_requests)
    }),
    ("R", "requests of all pods bound", |of, status| {
        amount(of, status.bound)
    }),
    ("S", "slack", |of, status| in_column(of, i128::from(status.slack))),
    ("target", "where the ratio is going", |_, status| {
        Cents(status.target_cents).to_string()
    }),
    ("published", "the ratio", |_, status| {
        Cents(status.published_cents).to_string()
    }),
    ("coverage", "share of the history that is valid", |_, status| {
        percent(status.coverage_ppm)
    }),
    ("margin", "on the peak", |_, status| percent(status.margin_ppm)),
    ("brake", "keeps the ratio down", |_, status| {
        Brake::from_level(u32::from(status.brake))
            .map_or_else(|| status.brake.to_string(), |brake| brake_name(brake).to_owned())
    }),
];

fn amount(resource: Resource, amount: u64) -> String {
    in_column(resource, i128::from(amount))
}

/// The reasons in words.
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
