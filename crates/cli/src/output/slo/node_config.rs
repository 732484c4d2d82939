//! Renders the ConfigMap's values for a node: the values of each key, with their sources.

use std::fmt;

use headroom_rules::slo::effective::{EffectiveKey, EffectiveValue};
use serde_json::{Value, json};

use super::{
    lines::{WIDTH, printable, wrapped},
    value_json,
};

/// Limits of path and value for which values are aligned in columns.
const WIDEST: [usize; 2] = [44, 24];

#[derive(Debug)]
pub(crate) struct NodeConfig {
    pub(crate) node: String,
    pub(crate) keys: Vec<EffectiveKey>,
}

impl fmt::Display for NodeConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { node, keys } = self;
        writeln!(f, "node {}", printable(node))?;
        keys.iter().try_for_each(|key| write_key(f, key))
    }
}

fn write_key(f: &mut fmt::Formatter<'_>, effective: &EffectiveKey) -> fmt::Result {
    let EffectiveKey {
        key,
        unreadable,
        selected_by,
        caveat,
        values,
    } = effective;
    writeln!(f, "\n{}", key.name)?;
    match selected_by.as_slice() {
        [] => {}
        [only] => f.write_str(&wrapped(2, &format!("entry {only} selects the node")))?,
        several => {
            let names = several.join(", ");
            let text = format!(
                "entries {names} all select the node: the first applies, and the webhook refuses such a version"
            );
            f.write_str(&wrapped(2, &text))?;
        }
    }
    if let Some(caveat) = caveat {
        f.write_str(&wrapped(2, caveat))?;
    }
    match unreadable {
        Some(reason) => {
            let text = format!("unreadable, so the node keeps its values: {reason}");
            f.write_str(&wrapped(2, &text))
        }
        None if values.is_empty() => writeln!(f, "  no values"),
        None => {
            let widths = widths(effective);
            values
                .iter()
                .try_for_each(|(path, value)| write_value(f, path, value, widths))
        }
    }
}

/// Widths of the columns of paths and values.
fn widths(effective: &EffectiveKey) -> [usize; 2] {
    let mut widths = [0, 0];
    for (path, value) in &effective.values {
        let lengths = [printable(path), printable(&value.to_string())];
        for ((width, widest), text) in widths.iter_mut().zip(WIDEST).zip(lengths) {
            let length = text.chars().count();
            if length <= widest {
                *width = length.max(*width);
            }
        }
    }
    widths
}

fn write_value(
    f: &mut fmt::Formatter<'_>,
    path: &str,
    value: &EffectiveValue,
    [of_path, of_value]: [usize; 2],
) -> fmt::Result {
    let (path, origin) = (printable(path), printable(&value.origin.to_string()));
    let value = printable(&value.to_string());
    let line = format!("  {path:<of_path$}  {value:<of_value$}  {origin}");
    if line.chars().count() <= WIDTH {
        return writeln!(f, "{line}");
    }
    writeln!(f, "  {path}")?;
    let line = format!("    {value}  {origin}");
    if line.chars().count() <= WIDTH {
        return writeln!(f, "{line}");
    }
    f.write_str(&wrapped(4, &value))?;
    f.write_str(&wrapped(4, &origin))
}

impl NodeConfig {
    /// Renders the values as JSON.
    pub(crate) fn json(&self) -> Value {
        let Self { node, keys } = self;
        let keys = keys.iter().map(|effective| {
            let EffectiveKey {
                key,
                unreadable,
                selected_by,
                caveat,
                values,
            } = effective;
            let values = values.iter().map(|(path, value)| {
                let mut all = value_json(value);
                if let Some(members) = all.as_object_mut() {
                    members.insert("member".to_owned(), json!(path));
                }
                all
            });
            json!({
                "key": key.name,
                "selected_by": selected_by,
                "caveat": caveat,
                "unreadable": unreadable,
                "values": values.collect::<Value>(),
            })
        });
        json!({"node": node, "keys": keys.collect::<Value>()})
    }
}
