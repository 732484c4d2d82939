//! Generates the reference pages about the agent: its signals, and the fields of its status.

use std::fmt::Write as _;

use anyhow::Result;
use headroom_agent::local::{
    signals::{SIGNALS, Signal},
    status::{FIELDS, Place, StatusField},
};

/// What the agent measures.
pub(super) fn signals() -> Result<String> {
    let mut page = "# Signals\n\n\
        What the agent measures, where it comes from and what is lost without it. `kubectl headroom agent signals` shows on a\n\
        node how each is: `ok`, `unsupported` (this kernel or machine does not have it) or `failed` (it is there and cannot be\n\
        read). Where both hooks and files are named, the files alone serve where there are no kernel programs, in ticks. One that\n\
        is `ok` from a part of its files says what is missing.\n\n\
        Costs were measured on virtual machines with 2 CPUs (Linux 6.18 under KVM): those of hooks by the kernel's own count of\n\
        their runs, less that of an empty program, on two processors, Intel and AMD\n\
        ([journal](../journal/agent-overhead.md)), those of files on the latter as CPU time of opening, reading and closing\n\
        one by an interpreter, which is an upper bound. Signals of the same file or hook share its cost.\n\n\
        | signal | what it is | unit | source | oldest kernel | measured cost | without it | metric |\n\
        |---|---|---|---|---|---|---|---|\n"
        .to_owned();
    for signal in SIGNALS {
        let Signal {
            name,
            about,
            unit,
            hooks: _,
            files: _,
            plain: _,
            reading: _,
            need: _,
            part,
            kernel,
            cost,
            missing,
            metric,
            value: _,
        } = signal;
        let metric = metric.map_or_else(|| "-".to_owned(), |metric| format!("`{}`", metric.name));
        let (source, unit) = (signal.source(), unit.name());
        let partly = part.map_or_else(String::new, |part| {
            format!("; from {} alone, {}", part.rest, part.missing)
        });
        writeln!(
            page,
            "| {name} | {about} | {unit} | {source} | {kernel} | {cost} | {missing}{partly} | {metric} |"
        )?;
    }
    Ok(page)
}

/// The fields of an agent's status.
pub(super) fn status() -> Result<String> {
    let mut page = "# The status of an agent\n\n\
        What an agent says of itself: the document at `/status` on its admin port, which is answered to who asks from within its\n\
        pod, as `kubectl port-forward` does; the messages of its debug service; and `kubectl headroom agent status` with\n\
        `-o json` are these fields. The tables of `kubectl headroom agent status` and `signals` show those that have a place there.\n\
        `[]` stands for each element of a list. On the wire `is_primary` is `primary`, `is_latched` is `latched`, and `measured`\n\
        is a map.\n\n\
        | field | what it is | unit | in the tables |\n\
        |---|---|---|---|\n"
        .to_owned();
    for field in FIELDS {
        let StatusField {
            path,
            unit,
            about,
            place,
        } = field;
        let place = match place {
            Place::Line => "in a line".to_owned(),
            Place::Column(heading) => format!("column {heading}"),
            Place::Row(term, _) => format!("row {term}"),
            Place::Signal(name) => format!("signal {name}"),
            Place::DocumentOnly(reason) => format!("no: {reason}"),
        };
        writeln!(page, "| `{path}` | {about} | {} | {place} |", unit.name())?;
    }
    Ok(page)
}
