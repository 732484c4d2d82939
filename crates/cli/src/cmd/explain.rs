//! `explain NODE`: prints the reasons for a node's allocatable. The page has inputs, policy, derivation of the agent's
//! ratio, each rule in order, and result.

use std::{fmt, io::Write};

use headroom_domain::{
    capacity::{self, Term, Why},
    estimate::Reason,
    resource::Resource,
};
use serde_json::{Value, json};

use super::Session;
use crate::{
    args::Format,
    connect,
    derivation::{Derivation, SYMBOL},
    error::Error,
    human_numbers::exact,
    output::{derivation_json, measured_json, page, policy_json, row_members, words},
    view::{NodeView, Rule},
};

/// Why a node has the allocatable it has: policy, report, each rule in order, result.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The rules are those of a write of the node's status, were it made now; above them stands how the agent came to its ratio,
line by line with its numbers, and why.

Examples:
  kubectl headroom explain worker-1
  kubectl headroom explain worker-1 --json | jq .derivation_cpu
  kubectl headroom explain worker-1 -o json | jq '.rules_cpu[] | select(.rule == \"admitted\")'")]
pub(crate) struct ExplainArgs {
    /// The node.
    name: String,
}

impl ExplainArgs {
    pub(super) async fn run<W: Write>(self, session: Session<'_, W>) -> Result<(), Error> {
        let node = connect::open(&session.connect).await?.one(self.name).await?;
        session.screen.print(&match session.format {
            Format::Table => Explanation(&node).to_string(),
            Format::Json => format!("{:#}\n", explanation_json(&node)),
        })
    }
}

/// The explanation of one node.
#[derive(Debug)]
pub(crate) struct Explanation<'a>(pub &'a NodeView);

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
pub(crate) fn explanation_json(node: &NodeView) -> Value {
    let mut all = row_members(node);
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
    all.insert("policy".to_owned(), json!(node.policy.as_ref().map(policy_json)));
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

#[cfg(test)]
mod tests {
    use headroom_proto::v1alpha1 as wire;
    use insta::assert_snapshot;

    use super::*;
    use crate::output::tests::status;

    #[test]
    #[expect(clippy::too_many_lines, reason = "the snapshot is one page")]
    fn an_explanation_tells_each_rule_with_its_reasons() {
        let mut status = status("worker-1");
        status.allocatable = Some(wire::Amounts {
            cpu_milli: 31_500,
            memory_bytes: 118 << 30,
        });
        status.rules_memory[1].why.push("from-a-newer-webhook".to_owned());
        let node = NodeView::try_from(status).unwrap();
        assert_snapshot!(Explanation(&node).to_string(), @r#"
        node worker-1, uid u1, 31 pods bound
        mode auto by the ConfigMap's entry "batch", floor requests
          cpu     bounds 1.00..2.00, target 90.0%, annotation up to 5.00
          memory  bounds 1.00..1.00, target 90.0%, annotation up to 5.00
        report 7 of boot b1, 3s old, production timing, pods of generation 4711
        agent sees FULL (ebpf), this replica nudges
        history counts since 3h ago: the agent found no checkpoint: the node is new, or the folder does not outlive the pod

        cpu
          C               32000m  physical capacity
          A               31500m  raw allocatable, the kubelet's own
          theta            90.0%  share that predicted use may reach
          T               28800m  safe use: the smaller of theta × C and A
          max H           13900m  highest peak of the history, 3h ago: without pods that left, with those that came
          P0              13900m  expected peak: max H
          M                10.0%  margin that the outcomes of earlier ratios call for
          m                10.0%  margin on the peak: M, at most 100.0%
          P               15290m  predicted peak: P0 × (1 + m), rounded up
          Rw              27090m  requests of the pods, each weighted by trust
          R               30000m  requests of all pods bound
          S                9100m  slack: T - P + Rw - A
          coverage        100.0%  share of the history that is valid: 288 of 288 frames
          S'               9100m  what counts of S: S × 288 / 288
          wanted          40600m  A + S'
          bounds      1.00..2.00  of the policy: what is wanted lies within
          A*              40600m  wanted, within bounds: what is wanted
          target            1.28  A* / A, rounded down
          brake             none  of the agent; why, its reasons tell
          step              1.28  at the target: it falls at once and rises slowly
          published         1.28  the step
          confidence       90.3%  the smaller of coverage and Rw / R
          reasons     slack: measured use leaves room above raw

          baseline  31500m  raw: what the kubelet itself makes of the machine
          ratio       1.28  by mode, annotation, hint and bounds
                              hint: a fresh hint is applied
          product   40320m  raw times the ratio, exclusive CPUs aside; cut off
          admitted  30000m  what the kubelet set aside for admitted pods; within the cap the result is not below it
          fit       30000m  with bound pods that fit into what is stored; they hold that, and no more
          cap       63000m  raw times the mode's maximum, or what was written last if more
          result    40320m  what allocatable is to be
                    stored: 31500m; the next write sets it

        memory
          C           134861553664B (125.6GiB)  physical capacity
          A           126701535232B (118.0GiB)  raw allocatable, the kubelet's own
          theta                          90.0%  share that predicted use may reach
          T           114031381708B (106.2GiB)  safe use: theta × A
          max H         77309411328B (72.0GiB)  highest peak of the history, 0s ago: without pods that left, with those that came
          H[t-1]        77309411328B (72.0GiB)  the last peak, likewise
          G                                 0B  worst climb of these peaks within 30m
          P0            77309411328B (72.0GiB)  expected peak: the larger of max H and H[t-1] + G
          M                              10.0%  margin that the outcomes of earlier ratios call for
          m                              10.0%  margin on the peak: M, at most 100.0%
          P             85040352461B (79.2GiB)  predicted peak: P0 × (1 + m), rounded up
          Rw           103079215104B (96.0GiB)  requests of the pods, each weighted by trust
          R           111669149696B (104.0GiB)  requests of all pods bound
          S               5368709119B (5.0GiB)  slack: T - P + Rw - A
          coverage                      100.0%  share of the history that is valid: 288 of 288 frames
          S'              5368709119B (5.0GiB)  what counts of S: S × 288 / 288
          wanted      132070244351B (123.0GiB)  A + S'
          bounds                    1.00..1.00  of the policy: the highest is less than what is wanted
          A*          126701535232B (118.0GiB)  wanted, within bounds: A × 1.00, rounded down
          target                          1.00  A* / A, rounded down
          brake                        L2 shed  of the agent; why, its reasons tell
          step                            1.00  at the target: it falls at once and rises slowly
          published                       1.00  the step
          confidence                     92.3%  the smaller of coverage and Rw / R
          reasons     direct-reclaim: tasks had to free memory of the machine themselves: at all, for 100 ms or for 1 s of a period (L1, L2 or L3)
                      clamped-max: the numbers want more than the highest ratio allowed

          baseline  126701535232B (118.0GiB)  raw: what the kubelet itself makes of the machine
          ratio                         1.00  by mode, annotation, hint and bounds
                                                hint: a fresh hint is applied
                                                clamped-max: the upper bound holds it down
                                                from-a-newer-webhook
          product   126701535232B (118.0GiB)  raw times the ratio, exclusive CPUs aside; cut off
          admitted  111669149696B (104.0GiB)  what the kubelet set aside for admitted pods; within the cap the result is not below it
          fit       111669149696B (104.0GiB)  with bound pods that fit into what is stored; they hold that, and no more
          cap       253403070464B (236.0GiB)  raw times the mode's maximum, or what was written last if more
          result    126701535232B (118.0GiB)  what allocatable is to be
                    stored as it is to be

        signals
          sigma8                        1.2%
          run-queue-p99                850us
          refaults                   120MB/s
          memory-spare                6.0GiB
        "#);
        assert_snapshot!(format!("{:#}", explanation_json(&node)["rules_mem"][1]), @r#"
        {
          "bytes": null,
          "ratio_nano": 1000000000,
          "rule": "ratio",
          "why": [
            "hint",
            "clamped-max",
            "from-a-newer-webhook"
          ]
        }
        "#);
    }
}
