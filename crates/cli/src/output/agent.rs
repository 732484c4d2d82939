//! Renders responses of an agent as tables for people and JSON for programs.

mod figures;
mod json;
mod refusals;

use std::time::Duration;

use headroom_domain::{hint::AgentMode, ratio::Cents, resource::Resource};
use headroom_proto::{
    status::{HistoryStatus, PodsStatus, ProgramStatus, SignalStatus, Status, StreamStatus},
    v1alpha1::{AgentBucket, AgentHistogram, AgentPod, Amounts},
};

pub use self::json::{histogram as histogram_json, pod as pod_json};
use super::{
    slo::lines::wrapped_at,
    table::{
        Cell,
        Column::{self, Number, Text},
        Layout, RankedColumn, Table, table,
    },
};
use crate::{
    human_numbers::{age, duration, in_column, percent, with_unit},
    view::mode_words,
};

/// Characters of the longest bar of a histogram.
const BAR: u64 = 30;

const PROGRAMS: [RankedColumn; 6] = [
    Text("HOOK").always(),
    Text("HEALTH").always(),
    Text("FLAVOUR").ranked(2),
    Number("RUNS").ranked(1),
    Number("NS/RUN").ranked(0),
    Text("REASON").wrapped(),
];
const STREAMS: [RankedColumn; 6] = [
    Text("SERVER").always(),
    Text("STATE").always(),
    Text("PRIMARY").ranked(1),
    Number("ACKED").ranked(2),
    Text("VERDICT").ranked(0),
    Text("PROBLEM").wrapped(),
];
const SIGNALS: [RankedColumn; 5] = [
    Text("SIGNAL").always(),
    Number("VALUE").always(),
    Text("HEALTH").ranked(0),
    Text("SOURCE").ranked(1),
    Text("MISSING").wrapped(),
];
const PODS: [RankedColumn; 8] = [
    Text("POD").always(),
    Number("CPU").always(),
    Number("CPU-REQUEST").ranked(1),
    Number("MEMORY").always(),
    Number("MEM-REQUEST").ranked(2),
    Number("TRUST").ranked(0),
    Number("EXCLUSIVE").ranked(4),
    Text("STATE").ranked(3),
];
const BUCKETS: [Column; 5] = [
    Number("UP TO"),
    Number("COUNT"),
    Number("SHARE"),
    Number("SO FAR"),
    Text(""),
];

/// Renders mode, derivation, kernel programs and streams of an agent.
pub fn status(status: &Status, layout: Layout) -> String {
    let Status {
        node,
        node_uid,
        boot_id,
        version,
        mode,
        mode_sentence,
        timing,
        // `FIELDS` gives the reason why this is in JSON only.
        source: _,
        programs,
        resources,
        pods,
        seq,
        generation,
        streams,
        // In a table of its own.
        signals: _,
        // `FIELDS` names the signal that has the same value.
        measured: _,
        history: HistoryStatus {
            age_s,
            beginning: _,
            why,
        },
    } = status;
    let uid = if node_uid.is_empty() {
        "not known yet"
    } else {
        node_uid
    };
    let head = [
        format!("agent {version} of node {node}, uid {uid}"),
        format!("sees {}, {timing} timing: {mode_sentence}", sight(mode)),
        format!("report {seq} of boot {boot_id}, pods of generation {generation}"),
        format!(
            "history counts since {} ago: {why}",
            age(Duration::from_secs(*age_s))
        ),
        pods_line(pods),
    ];
    let head = head
        .map(|line| wrapped_at(layout.text_width(), 0, &line))
        .concat();
    format!(
        "{head}\n{}\n{}\n{}",
        figures::render(resources, layout),
        if programs.is_empty() {
            "no kernel programs\n".to_owned()
        } else {
            shown(&PROGRAMS, programs.iter().map(program), layout) + &refusals::render(programs, layout)
        },
        if streams.is_empty() {
            "no hint server is known\n".to_owned()
        } else {
            shown(&STREAMS, streams.iter().map(stream), layout)
        },
    )
}

fn pods_line(pods: &PodsStatus) -> String {
    let PodsStatus {
        tracked,
        untracked,
        unreadable,
    } = pods;
    format!("pods by cgroup: {tracked} tracked, {untracked} untracked, {unreadable} unreadable")
}

/// Renders every signal with its health.
pub fn signals(signals: &[SignalStatus], layout: Layout) -> String {
    let rows = signals.iter().map(|signal| {
        let SignalStatus {
            name,
            source,
            health,
            unit: _,
            value: _,
            missing,
        } = signal;
        [
            name.clone(),
            value(signal),
            health.clone(),
            source.clone(),
            missing.clone().unwrap_or_else(dash),
        ]
    });
    shown(&SIGNALS, rows, layout)
}

/// Renders use and requests of pods.
pub fn pods(pods: &[AgentPod], layout: Layout) -> String {
    if pods.is_empty() {
        return "no pods\n".to_owned();
    }
    let amount = |resource, known: Option<u64>| {
        known.map_or_else(dash, |known| in_column(resource, i128::from(known)))
    };
    let rows = pods.iter().map(|pod| {
        let AgentPod {
            uid,
            used,
            request,
            trust_ppm,
            exclusive_cpus_milli,
            deleting,
        } = pod;
        let state = match (request, deleting) {
            (None, _) => "not in any server's directive",
            (Some(_), true) => "deleting",
            (Some(_), false) => "-",
        };
        let request = request.map(
            |Amounts {
                 cpu_milli,
                 memory_bytes,
             }| (cpu_milli, memory_bytes),
        );
        [
            uid.clone(),
            amount(Resource::Cpu, used.map(|used| used.cpu_milli)),
            amount(Resource::Cpu, request.map(|(cpu, _)| cpu)),
            amount(Resource::Memory, used.map(|used| used.memory_high_bytes)),
            amount(Resource::Memory, request.map(|(_, memory)| memory)),
            percent(*trust_ppm),
            amount(Resource::Cpu, Some(*exclusive_cpus_milli)),
            state.to_owned(),
        ]
    });
    shown(&PODS, rows, layout)
}

/// Renders histograms with shares and bars.
pub fn histograms(histograms: &[AgentHistogram]) -> String {
    let parts: Vec<_> = histograms.iter().map(histogram).collect();
    parts.join("\n")
}

fn histogram(histogram: &AgentHistogram) -> String {
    let AgentHistogram {
        metric,
        about,
        unit,
        buckets,
    } = histogram;
    let total: u64 = buckets
        .iter()
        .map(|bucket| bucket.count)
        .fold(0, u64::saturating_add);
    let most = buckets.iter().map(|bucket| bucket.count).max().unwrap_or(0);
    let mut so_far = 0_u64;
    let rows = buckets.iter().map(|bucket| {
        let AgentBucket { upper, count } = *bucket;
        so_far = so_far.saturating_add(count);
        let bar = usize::try_from(part(count, most, BAR)).unwrap_or(0);
        [
            upper.map_or_else(|| "more".to_owned(), |upper| bound(unit, upper)),
            count.to_string(),
            share(count, total),
            share(so_far, total),
            "#".repeat(bar),
        ]
    });
    let rows = table(&BUCKETS, rows);
    format!("{about}\n({metric}, since the agent's start)\n{rows}")
}

/// Renders the status as one line of `key=value`, for logs and pipes.
pub fn line(status: &Status) -> String {
    let of_node = [
        ("node", status.node.clone()),
        ("mode", status.mode.clone()),
        ("source", status.source.clone()),
        ("seq", status.seq.to_string()),
    ];
    let of_node = of_node.map(|(key, value)| format!("{key}={value}"));
    let ratios = status.resources.iter().map(|resource| {
        format!(
            "{0}-ratio={1} {0}-brake={2}",
            resource.name,
            Cents(resource.published_cents),
            resource.brake
        )
    });
    let signals = status
        .signals
        .iter()
        .map(|signal| format!("{}={}", signal.name, value(signal)));
    let pairs: Vec<_> = of_node.into_iter().chain(ratios).chain(signals).collect();
    pairs.join(" ") + "\n"
}

/// Words for a mode by its name. A newer agent may have other modes.
fn sight(mode: &str) -> &str {
    let known = AgentMode::ALL.into_iter().find(|known| known.name() == mode);
    match known {
        Some(known) => mode_words(known),
        None => mode,
    }
}

fn shown<const N: usize>(
    columns: &[RankedColumn; N],
    rows: impl Iterator<Item = [String; N]>,
    layout: Layout,
) -> String {
    let rows = rows.map(|row| row.map(Cell::from));
    Table::new(columns, rows).render(layout).plain()
}

fn program(program: &ProgramStatus) -> [String; 6] {
    let ProgramStatus {
        hook,
        health,
        flavour,
        reason,
        runs,
        run_time_ns,
        verifier_log: _,
    } = program;
    let mean = run_time_ns.checked_div(*runs);
    [
        hook.clone(),
        health.clone(),
        flavour.clone().unwrap_or_else(dash),
        if *runs == 0 { dash() } else { runs.to_string() },
        mean.map_or_else(dash, |mean| mean.to_string()),
        reason.clone().unwrap_or_else(dash),
    ]
}

fn stream(stream: &StreamStatus) -> [String; 6] {
    let StreamStatus {
        peer,
        state,
        is_primary,
        last_ack,
        last_problem,
    } = stream;
    let verdict = last_ack.as_ref().map(|ack| {
        if ack.reason.is_empty() {
            ack.verdict.clone()
        } else {
            format!("{}: {}", ack.verdict, ack.reason)
        }
    });
    [
        peer.to_string(),
        state.name().to_owned(),
        if *is_primary { "yes" } else { "-" }.to_owned(),
        last_ack.as_ref().map_or_else(dash, |ack| ack.seq.to_string()),
        verdict.unwrap_or_else(dash),
        last_problem.clone().unwrap_or_else(dash),
    ]
}

/// Value of a signal with its unit.
fn value(signal: &SignalStatus) -> String {
    signal
        .value
        .map_or_else(dash, |value| with_unit(value, &signal.unit))
}

fn bound(unit: &str, upper: u64) -> String {
    if unit == "ns" {
        duration(upper)
    } else {
        percent(u32::try_from(upper).unwrap_or(u32::MAX))
    }
}

fn share(count: u64, total: u64) -> String {
    percent(u32::try_from(part(count, total, 1_000_000)).unwrap_or(u32::MAX))
}

/// Returns `part` / `whole` × `of`, rounded down; 0 if `whole` is 0.
fn part(part: u64, whole: u64, of: u64) -> u64 {
    let product = u128::from(part) * u128::from(of);
    u64::try_from(product.checked_div(u128::from(whole)).unwrap_or(0)).unwrap_or(u64::MAX)
}

fn dash() -> String {
    "-".to_owned()
}

#[cfg(test)]
mod tests;
