//! `explain NODE`: prints why a node has its allocatable: two sentences for each resource, the inputs, and the
//! reasons of agent
//! and webhook. `--why` derives each number.

use std::{fmt, io::Write};

use headroom_domain::{
    capacity::{self, Term, Why},
    estimate::Reason,
    resource::Resource,
};
use serde_json::{Value, json};

use super::Session;
use crate::{
    args::{NodeName, OutputFormat},
    check::NextWrite,
    connect,
    derivation::{Derivation, SYMBOL},
    error::Error,
    human_numbers::exact,
    output::{
        self, NodeVerdict, derivation_json, measured_json, page, policy_json, report_json, row_members, words,
    },
    view::{NodeView, OpenPlace, Rule},
};

/// Why a node has its allocatable: a summary, then the deciding reasons. --why derives each number.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The rules are those that apply to a status write now. -o json and -o yaml print all fields, with or without --why.

Examples:
  kubectl headroom explain worker-1
  kubectl headroom explain node/worker-1 --why
  kubectl headroom explain worker-1 -o json | jq .derivation_cpu.slack_milli
  kubectl headroom explain worker-1 -o json | jq '.rules_cpu[] | select(.rule == \"admitted\")'")]
pub(crate) struct ExplainArgs {
    /// Node, as NAME or node/NAME.
    #[arg(value_name = "NODE")]
    name: NodeName,
    /// Derive each number: the agent's ratio, each rule of the webhook, and the signals measured last.
    #[arg(long, env = "HEADROOM_WHY")]
    why: bool,
}

impl ExplainArgs {
    pub(super) async fn run<W: Write>(self, session: Session<'_, W>) -> Result<(), Error> {
        let mut webhook = connect::open(&session.connect).await?;
        let node = webhook.one(self.name.into_string()).await?;
        let findings = webhook.findings().await?;
        session.screen.print(&match session.output {
            OutputFormat::Table | OutputFormat::Wide => {
                let explanation = Explanation {
                    node: &node,
                    has_derivation: self.why || session.output == OutputFormat::Wide,
                    next_write: NextWrite::new(&findings),
                };
                format!("{}{explanation}", output::leading_lines(&findings))
            }
            OutputFormat::Json | OutputFormat::Yaml => {
                let explained =
                    output::with_findings(explanation_json(&node, NextWrite::new(&findings)), &findings);
                format!("{explained:#}\n")
            }
            OutputFormat::Name => format!("node/{}\n", node.name),
        })
    }
}

#[derive(Debug)]
struct Explanation<'a> {
    node: &'a NodeView,
    has_derivation: bool,
    next_write: NextWrite,
}

impl fmt::Display for Explanation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { node, next_write, .. } = *self;
        for resource in Resource::ALL {
            let verdict = NodeVerdict {
                node,
                resource,
                next_write,
            };
            writeln!(f, "{verdict}")?;
        }
        writeln!(f)?;
        page::inputs(f, node)?;
        for resource in Resource::ALL {
            self.resource(f, resource)?;
        }
        match &node.hint {
            _ if !self.has_derivation => writeln!(f, "\n--why derives each number."),
            None => Ok(()),
            Some(hint) => page::signals(f, &hint.report.signals),
        }
    }
}

impl Explanation<'_> {
    fn resource(&self, f: &mut fmt::Formatter<'_>, resource: Resource) -> fmt::Result {
        let Self {
            node,
            has_derivation,
            next_write,
        } = *self;
        writeln!(f, "\n{resource}: {}", page::outcome(node, resource))?;
        if has_derivation {
            match Derivation::derive(node, resource) {
                Some(derivation) => write!(f, "{derivation}")?,
                None => writeln!(f, "  no agent has derived a ratio yet")?,
            }
        }
        let codes = node
            .hint
            .as_ref()
            .map(|hint| &hint.report.resources.get(resource).reasons);
        let agent = codes.into_iter().flatten().map(|code| {
            let about = Reason::from_code(code).map(Reason::about);
            in_words(code, about)
        });
        labelled(f, "agent", agent)?;
        if has_derivation {
            writeln!(f)?;
            rules(f, resource, node.rules.get(resource))?;
            writeln!(f, "  {:<10}{}", "", stored_state(node, resource, next_write))?;
            return projection(f, node, resource);
        }
        let webhook = node.why(resource).into_iter().map(|code| {
            let about = Why::from_code(code).map(Why::about);
            in_words(code, about)
        });
        labelled(f, "webhook", webhook)?;
        writeln!(f, "  {:<SYMBOL$}{}", "", stored_state(node, resource, next_write))?;
        projection(f, node, resource)
    }
}

/// Reason as text, with its code in brackets. A newer webhook may send codes that are unknown here.
fn in_words(code: &str, about: Option<&str>) -> String {
    about.map_or_else(|| code.to_owned(), |about| format!("{about} ({code})"))
}

/// Writes lines, of which the first has a label.
fn labelled(f: &mut fmt::Formatter<'_>, label: &str, lines: impl Iterator<Item = String>) -> fmt::Result {
    for (index, line) in lines.enumerate() {
        let label = if index == 0 { label } else { "" };
        writeln!(f, "  {label:<SYMBOL$}{line}")?;
    }
    Ok(())
}

/// Writes one line for each rule and one for each of its reasons.
fn rules(f: &mut fmt::Formatter<'_>, resource: Resource, rules: &[Rule]) -> fmt::Result {
    let terms: Vec<String> = rules.iter().map(|rule| term(resource, rule)).collect();
    let width = terms
        .iter()
        .map(|term| term.chars().count())
        .max()
        .unwrap_or_default();
    for (Rule { name, why, .. }, term) in rules.iter().zip(terms) {
        let about = capacity::Rule::from_name(name).map_or("", capacity::Rule::about);
        writeln!(f, "  {name:<10}{term:>width$}  {about}")?;
        for code in why {
            let about = Why::from_code(code).map(Why::about);
            writeln!(f, "  {:<10}{:>width$}    {}", "", "", in_words(code, about))?;
        }
    }
    Ok(())
}

fn term(resource: Resource, rule: &Rule) -> String {
    match rule.term {
        None => "-".to_owned(),
        Some(Term::Amount(amount)) => exact(resource, i128::from(amount)),
        Some(Term::Ratio(ratio)) => ratio.to_string(),
    }
}

/// Compares stored allocatable with the result of the rules.
fn stored_state(node: &NodeView, resource: Resource, next_write: NextWrite) -> String {
    let stored = node.allocatable.map(|stored| *stored.get(resource));
    let amount = |amount: u64| exact(resource, i128::from(amount));
    match (stored, node.result(resource)) {
        (None, _) => "allocatable is not stored".to_owned(),
        (Some(stored), None) => format!("allocatable {} is not changed", amount(stored)),
        (Some(stored), Some(result)) if stored == result => "allocatable is up to date".to_owned(),
        (Some(stored), Some(_)) => {
            format!("allocatable {} is stored; {}", amount(stored), next_write.about())
        }
    }
}

/// Writes the allocatable that mode `auto` would set on a node in another mode.
fn projection(f: &mut fmt::Formatter<'_>, node: &NodeView, resource: Resource) -> fmt::Result {
    let (Some(projection), Some(ratio)) = (node.projected, node.projected_ratio(resource)) else {
        return Ok(());
    };
    let amount = exact(resource, i128::from(*projection.get(resource)));
    writeln!(
        f,
        "  {:<SYMBOL$}with mode auto it would become {amount} ({ratio}), in steps",
        ""
    )
}

/// JSON of the node's row, policy, rules, derivations and report.
fn explanation_json(node: &NodeView, next_write: NextWrite) -> Value {
    let mut all = row_members(node);
    for resource in Resource::ALL {
        let verdict = NodeVerdict {
            node,
            resource,
            next_write,
        }
        .to_string();
        all.insert(format!("verdict_{}", words(resource).0), json!(verdict));
    }
    for resource in Resource::ALL {
        let rules = node
            .rules
            .get(resource)
            .iter()
            .map(|rule| rule_json(resource, rule));
        all.insert(format!("rules_{}", words(resource).0), rules.collect());
    }
    for resource in Resource::ALL {
        let terms = Derivation::derive(node, resource).map(|derivation| derivation_json(&derivation));
        all.insert(format!("derivation_{}", words(resource).0), json!(terms));
    }
    let signals = node.hint.as_ref().map(|hint| measured_json(&hint.report.signals));
    all.insert("signals".to_owned(), json!(signals));
    all.insert("hint".to_owned(), json!(node.hint.as_ref().map(report_json)));
    all.insert("policy".to_owned(), json!(node.policy.as_ref().map(policy_json)));
    all.insert("policy_refused".to_owned(), json!(node.policy_refused));
    all.insert("floor_trouble".to_owned(), json!(node.floor_trouble));
    let places = node.places.iter().map(place_json);
    all.insert("places".to_owned(), places.collect());
    Value::Object(all)
}

fn rule_json(resource: Resource, rule: &Rule) -> Value {
    let Rule { name, term, why } = rule;
    let (amount, ratio) = match term {
        None => (None, None),
        Some(Term::Amount(amount)) => (Some(amount), None),
        Some(Term::Ratio(ratio)) => (None, Some(ratio.nano())),
    };
    let unit = words(resource).1;
    json!({"rule": name, unit: amount, "ratio_nano": ratio, "why": why})
}

fn place_json(place: &OpenPlace) -> Value {
    let OpenPlace {
        owner,
        kind,
        amounts,
        closes_in,
    } = place;
    json!({
        "owner": owner,
        "kind": kind,
        "cpu_milli": amounts.cpu,
        "mem_bytes": amounts.memory,
        "closes_in_ms": u64::try_from(closes_in.as_millis()).unwrap_or(u64::MAX),
    })
}

#[cfg(test)]
mod tests;
