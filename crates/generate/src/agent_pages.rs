//! Generates the reference pages of the agent: its signals, and the fields of its status.

use std::fmt::Write as _;

use anyhow::Result;
use headroom_agent::local::{
    signals::{SIGNALS, Signal},
    status::{FIELDS, Place, StatusField},
};

/// Page of the agent's signals.
pub(super) fn signals() -> Result<String> {
    let mut page = "# Signals\n\n\
        The table lists each signal of the agent with its source, and the effect if it is missing. `kubectl headroom agent signals`\n\
        shows the state of each signal on a node: `ok`, `unsupported` (this kernel or machine does not have it) or `failed` (it\n\
        exists but cannot be read). If the source has both hooks and files, the agent uses the files without kernel programs, with\n\
        the resolution of clock ticks. A signal that is `ok` with only some of its files names what is missing.\n\n\
        Costs were measured on virtual machines with 2 CPUs (Linux 6.18 under KVM). The cost of a hook is the run time that the\n\
        kernel reports for its program, less that of an empty program, on an Intel and an AMD processor\n\
        ([journal](../journal/agent-overhead.md)). The cost of a file is the CPU time of an interpreter that opens, reads and closes\n\
        it on the AMD processor, which is an upper bound. Signals of the same file or hook share its cost.\n\n\
        | signal | description | unit | source | oldest kernel | measured cost | without it | metric |\n\
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

/// Page of the fields of an agent's status.
pub(super) fn status() -> Result<String> {
    let mut page = "# The status of an agent\n\n\
        These are the fields of the document at `/status` on the agent's admin port, of the messages of its debug service, and of\n\
        `kubectl headroom agent status -o json`. The admin port answers only requests from within the pod, as those of `kubectl\n\
        port-forward`. The last column shows the place of a field in the tables of `kubectl headroom agent status` and `signals`.\n\
        `[]` means each element of a list. In the debug service's messages, `is_primary` is named `primary`, `is_latched` is named\n\
        `latched`, and `measured` is a map.\n\n\
        | field | description | unit | in the tables |\n\
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
