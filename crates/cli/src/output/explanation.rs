//! Why a node has the allocatable that it has: inputs, policy, derivation of the agent's ratio, each rule in order, result.

use std::fmt;

use headroom_domain::{
    capacity::{self, Term, Why},
    estimate::Reason,
    resource::Resource,
};
use serde_json::{Value, json};

use super::{
    json::{measured, members, policy},
    numbers::derivation_json,
    page,
};
use crate::{
    amount::exact,
    derivation::{Derivation, SYMBOL},
    output::numbers::words,
    view::{NodeView, Rule},
};

/// The explanation of one node.
#[derive(Debug)]
pub struct Explanation<'a>(pub &'a NodeView);

impl fmt::Display for Explanation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(node) = self;
        page::inputs(f, node)?;
        for resource in Resource::ALL {
            writeln!(f, "\n{resource}")?;
            match Derivation::derive(node, resource) {
                Some(derivation) => write!(f, "{derivation}")?,
                None => writeln!(f, "  no agent has derived a ratio yet")?,
            }
            if let Some(hint) = &node.hint {
                reasons(f, &hint.report.resources.get(resource).reasons)?;
            }
            writeln!(f)?;
            rules(f, resource, node.rules.get(resource))?;
            writeln!(f, "  {:<10}{}", "", standing(node, resource))?;
        }
        match &node.hint {
            None => Ok(()),
            Some(hint) => page::signals(f, &hint.report.signals),
        }
    }
}

/// The agent's reasons, one on a line, with what each means.
fn reasons(f: &mut fmt::Formatter<'_>, codes: &[String]) -> fmt::Result {
    for (index, code) in codes.iter().enumerate() {
        let label = if index == 0 { "reasons" } else { "" };
        let about =
            Reason::from_code(code).map_or_else(String::new, |reason| format!(": {}", reason.about()));
        writeln!(f, "  {label:<SYMBOL$}{code}{about}")?;
    }
    Ok(())
}

/// One line for each rule, and one for each of its reasons.
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
            let about = Why::from_code(code).map_or_else(String::new, |why| format!(": {}", why.about()));
            writeln!(f, "  {:<10}{:>width$}    {code}{about}", "", "")?;
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

/// How what is stored compares with what the rules say.
fn standing(node: &NodeView, resource: Resource) -> String {
    let stored = node.allocatable.map(|stored| *stored.get(resource));
    let amount = |amount: u64| exact(resource, i128::from(amount));
    match (stored, node.result(resource)) {
        (None, _) => "nothing is stored".to_owned(),
        (Some(stored), None) => format!("stored: {}; left alone", amount(stored)),
        (Some(stored), Some(result)) if stored == result => "stored as it is to be".to_owned(),
        (Some(stored), Some(_)) => format!("stored: {}; the next write sets it", amount(stored)),
    }
}

/// The same for machines: the row of the node, its policy and its rules.
pub fn json(node: &NodeView) -> Value {
    let mut all = members(node);
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
    let signals = node.hint.as_ref().map(|hint| measured(&hint.report.signals));
    all.insert("signals".to_owned(), json!(signals));
    all.insert("policy".to_owned(), json!(node.policy.as_ref().map(policy)));
    all.insert("policy_refused".to_owned(), json!(node.policy_refused));
    all.insert("floor_trouble".to_owned(), json!(node.floor_trouble));
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
