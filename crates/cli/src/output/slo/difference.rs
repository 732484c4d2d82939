//! Renders the changes of each key, with the nodes that get them.

use std::fmt;

use headroom_rules::slo::{
    difference::{ChangeGroup, KeyDifference, UnreadableVersion, ValueChange},
    effective::EffectiveValue,
};
use serde_json::{Value, json};

use super::{
    lines::{WIDTH, printable, wrapped},
    value_json,
};

/// Changes that another version would make.
#[derive(Debug)]
pub(crate) struct ConfigDifference {
    pub(crate) keys: Vec<KeyDifference>,
    pub(crate) nodes: usize,
}

impl fmt::Display for ConfigDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { keys, nodes } = self;
        if keys.is_empty() {
            return writeln!(f, "no value changes on {nodes} nodes");
        }
        for (place, key) in keys.iter().enumerate() {
            if place > 0 {
                writeln!(f)?;
            }
            write_key(f, key)?;
        }
        Ok(())
    }
}

fn write_key(f: &mut fmt::Formatter<'_>, difference: &KeyDifference) -> fmt::Result {
    let KeyDifference {
        key,
        unreadable,
        groups,
    } = difference;
    writeln!(f, "{}", key.name)?;
    if let Some(UnreadableVersion { is_new, reason }) = unreadable {
        let which = if *is_new { "new" } else { "old" };
        let text = format!("the {which} version is unreadable, so nodes keep their values: {reason}");
        f.write_str(&wrapped(2, &text))?;
    }
    groups.iter().try_for_each(|group| write_group(f, group))
}

fn write_group(f: &mut fmt::Formatter<'_>, group: &ChangeGroup) -> fmt::Result {
    let ChangeGroup {
        changes,
        nodes,
        count,
    } = group;
    let names: Vec<&str> = nodes.iter().map(String::as_str).collect();
    let more = if *count > nodes.len() { ", ..." } else { "" };
    let plural = if *count == 1 { "" } else { "s" };
    let text = format!("{count} node{plural}: {}{more}", names.join(", "));
    f.write_str(&wrapped(2, &text))?;
    changes.iter().try_for_each(|change| write_change(f, change))
}

fn write_change(f: &mut fmt::Formatter<'_>, change: &ValueChange) -> fmt::Result {
    let ValueChange { path, before, after } = change;
    let [before, after] = [before, after].map(|value| printable(&side(value.as_ref())));
    let path = printable(path);
    let line = format!("    {path}: {before} -> {after}");
    if line.chars().count() <= WIDTH {
        return writeln!(f, "{line}");
    }
    writeln!(f, "    {path}:")?;
    let line = format!("      {before} -> {after}");
    if line.chars().count() <= WIDTH {
        return writeln!(f, "{line}");
    }
    f.write_str(&wrapped(6, &before))?;
    f.write_str(&wrapped(6, &format!("-> {after}")))
}

/// A value with its source, or a text that there is none.
fn side(value: Option<&EffectiveValue>) -> String {
    value.map_or_else(
        || "nothing".to_owned(),
        |value| format!("{value} ({})", value.origin),
    )
}

impl ConfigDifference {
    /// Renders the changes as JSON.
    pub(crate) fn json(&self) -> Value {
        let Self { keys, nodes } = self;
        let keys = keys.iter().map(|difference| {
            let KeyDifference {
                key,
                unreadable,
                groups,
            } = difference;
            let unreadable = unreadable.as_ref().map(|unreadable| {
                let UnreadableVersion { is_new, reason } = unreadable;
                json!({"version": if *is_new { "new" } else { "old" }, "reason": reason})
            });
            json!({
                "key": key.name,
                "unreadable": unreadable,
                "groups": groups.iter().map(group_json).collect::<Value>(),
            })
        });
        json!({"nodes": nodes, "keys": keys.collect::<Value>()})
    }
}

fn group_json(group: &ChangeGroup) -> Value {
    let ChangeGroup {
        changes,
        nodes,
        count,
    } = group;
    let changes = changes.iter().map(|change| {
        let ValueChange { path, before, after } = change;
        let [before, after] = [before, after].map(|value| value.as_ref().map(value_json));
        json!({"member": path, "before": before, "after": after})
    });
    json!({"count": count, "first_nodes": nodes, "changes": changes.collect::<Value>()})
}
