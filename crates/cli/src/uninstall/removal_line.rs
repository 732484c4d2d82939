//! [`RemovalLine`]: one line of the output of `uninstall`, as text and as JSON.

use std::fmt;

use serde_json::{Value, json};

use super::{found_object::FoundObject, inventory::OwnObject, node_leftovers::NodeLeftovers, survey::Survey};

/// Line of the plan or of the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RemovalLine {
    Step(RemovalStep),
    /// An object, before (`is_done` false) or after its deletion.
    Object {
        object: String,
        fail_entries: Vec<String>,
        is_done: bool,
    },
    /// Annotations and conditions of a node.
    Node {
        node: String,
        keys: Vec<String>,
        is_done: bool,
    },
    /// Something that stays.
    Kept {
        object: String,
        reason: String,
    },
    Warning(String),
    End(RemovalEnd),
}

/// Last line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RemovalEnd {
    /// Nothing of the installation was found.
    Nothing,
    /// Only printed; the command that runs the plan.
    Planned {
        command: &'static str,
    },
    Removed,
    /// Nothing of it acts any more; a tool deletes the other objects.
    OutOfForce,
}

/// Steps in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RemovalStep {
    FailClosed,
    RawValues,
    Admission,
    Workloads,
    Nodes,
    Objects,
    Namespaces,
}

impl RemovalStep {
    pub const ALL: [Self; 7] = [
        Self::FailClosed,
        Self::RawValues,
        Self::Admission,
        Self::Workloads,
        Self::Nodes,
        Self::Objects,
        Self::Namespaces,
    ];

    /// Position, from 1.
    fn number(self) -> usize {
        Self::ALL.iter().take_while(|step| **step < self).count() + 1
    }

    const fn word(self) -> &'static str {
        match self {
            Self::FailClosed => "fail-closed",
            Self::RawValues => "raw-values",
            Self::Admission => "admission",
            Self::Workloads => "workloads",
            Self::Nodes => "nodes",
            Self::Objects => "objects",
            Self::Namespaces => "namespaces",
        }
    }

    const fn purpose(self) -> &'static str {
        match self {
            Self::FailClosed => {
                "delete the webhook configurations that fail closed, so that no write waits for Headroom"
            }
            Self::RawValues => "switch all nodes off and wait for raw allocatable",
            Self::Admission => "delete the other webhook configurations and the policies",
            Self::Workloads => "delete the webhook and the agents",
            Self::Nodes => "remove annotations and conditions from nodes",
            Self::Objects => "delete the other objects",
            Self::Namespaces => "delete the namespaces",
        }
    }
}

impl RemovalLine {
    pub fn object(found: &FoundObject, is_done: bool) -> Self {
        Self::Object {
            object: found.object.to_string(),
            fail_entries: found.fail_entries.clone(),
            is_done,
        }
    }

    pub fn node(left: &NodeLeftovers, is_done: bool) -> Self {
        let annotations = left.annotations.keys().cloned();
        let conditions = left.conditions.iter().map(|kind| format!("condition {kind}"));
        Self::Node {
            node: left.node.clone(),
            keys: annotations.chain(conditions).collect(),
            is_done,
        }
    }

    /// Lines about everything that stays, and about tools that would create objects again.
    pub fn notes(survey: &Survey) -> Vec<Self> {
        let kept = |object: &OwnObject, reason: &str| Self::Kept {
            object: object.to_string(),
            reason: reason.to_owned(),
        };
        let foreign = survey.foreign().map(|(object, reason)| kept(object, reason));
        let crowded = survey.crowded.iter().map(|(namespace, crowd)| Self::Kept {
            object: format!("Namespace {namespace}"),
            reason: format!("it contains objects of other users: {}", crowd.join(", ")),
        });
        let deleting = survey.found.iter().filter(|found| found.is_being_deleted);
        let deleting = deleting.map(|found| kept(&found.object, "Kubernetes is deleting it"));
        let definitions = survey.definitions.iter().map(|name| Self::Kept {
            object: format!("CustomResourceDefinition {name}"),
            reason: "other programs may use it".to_owned(),
        });
        let paths = survey.host_paths.iter().map(|path| Self::Kept {
            object: format!("folder {path} of each node"),
            reason: "the API server cannot delete it".to_owned(),
        });
        let all = foreign
            .chain(crowded)
            .chain(deleting)
            .chain(definitions)
            .chain(paths);
        tool_warnings(survey).into_iter().chain(all).collect()
    }

    pub fn json(&self) -> Value {
        match self {
            Self::Step(step) => json!({"step": step.word()}),
            Self::Object {
                object,
                fail_entries,
                is_done,
            } => json!({"object": object, "fail_entries": fail_entries, "done": is_done}),
            Self::Node { node, keys, is_done } => json!({"node": node, "keys": keys, "done": is_done}),
            Self::Kept { object, reason } => json!({"kept": object, "reason": reason}),
            Self::Warning(text) => json!({"warning": text}),
            Self::End(RemovalEnd::Nothing) => json!({"end": "nothing"}),
            Self::End(RemovalEnd::Planned { command }) => json!({"end": "planned", "command": command}),
            Self::End(RemovalEnd::Removed) => json!({"end": "removed"}),
            Self::End(RemovalEnd::OutOfForce) => json!({"end": "out-of-force"}),
        }
    }
}

/// One warning per tool that manages objects of the installation.
fn tool_warnings(survey: &Survey) -> Vec<RemovalLine> {
    let mut tools: Vec<&'static str> = survey.deletable().filter_map(|found| found.tool).collect();
    tools.sort_unstable();
    tools.dedup();
    let warning = |tool: &'static str| {
        let mut managed = survey.deletable().filter(|found| found.tool == Some(tool));
        let first = managed
            .next()
            .map(|found| found.object.to_string())
            .unwrap_or_default();
        let more = managed.count();
        RemovalLine::Warning(format!(
            "{tool} manages {first} and {more} more objects and creates them again: remove Headroom there first"
        ))
    };
    tools.into_iter().map(warning).collect()
}

impl fmt::Display for RemovalLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb =
            |is_done: &bool, done: &'static str, open: &'static str| if *is_done { done } else { open };
        match self {
            Self::Step(step) => write!(f, "{}. {}", step.number(), step.purpose()),
            Self::Object {
                object,
                fail_entries,
                is_done,
            } => {
                write!(f, "   {} {object}", verb(is_done, "deleted", "delete"))?;
                if fail_entries.is_empty() {
                    return Ok(());
                }
                write!(f, " (fails closed: {})", fail_entries.join(", "))
            }
            Self::Node { node, keys, is_done } => {
                let verb = verb(is_done, "removed from", "remove from");
                write!(f, "   {verb} {node}: {}", keys.join(", "))
            }
            Self::Kept { object, reason } => write!(f, "stays: {object}: {reason}"),
            Self::Warning(text) => write!(f, "warning: {text}"),
            Self::End(RemovalEnd::Nothing) => {
                write!(f, "nothing: the cluster contains nothing of this installation")
            }
            Self::End(RemovalEnd::Planned { command }) => {
                write!(f, "planned: nothing was changed; run `{command}`")
            }
            Self::End(RemovalEnd::Removed) => {
                write!(f, "removed: nothing of this installation is left in the cluster")
            }
            Self::End(RemovalEnd::OutOfForce) => {
                write!(f, "out of force: only objects that do not act are left")
            }
        }
    }
}
