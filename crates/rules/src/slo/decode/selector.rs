//! Reads the label selector of an entry.

use headroom_domain::selector::{LabelSelector, LabelSelectorRequirement};

use super::{
    super::{
        json::{self, Value},
        nearest::nearest,
    },
    Reader, is_same_name, mismatch, shortened,
};

const MEMBERS: [&str; 2] = ["matchLabels", "matchExpressions"];
const REQUIREMENT_MEMBERS: [&str; 3] = ["key", "operator", "values"];

impl Reader {
    pub(super) fn selector(&mut self, path: &str, value: Value<'_>) -> Option<LabelSelector> {
        if !value.is_object_or_null() {
            let go = "v1.LabelSelector";
            self.wrong_type(path, value, "must be a JSON object", "NodeCfgProfile", go);
        }
        if value.kind() != json::Kind::Object {
            return None;
        }
        let mut selector = LabelSelector::default();
        for (name, member) in value.members() {
            let [labels, expressions] = MEMBERS.map(|known| is_same_name(&name, known));
            if labels {
                self.match_labels(&format!("{path}.matchLabels"), member, &mut selector);
            } else if expressions {
                let path = format!("{path}.matchExpressions");
                selector.match_expressions = self.match_expressions(&path, member);
            } else {
                self.unknown_in(path, &name, &MEMBERS);
            }
        }
        Some(selector)
    }

    fn match_labels(&mut self, path: &str, value: Value<'_>, selector: &mut LabelSelector) {
        if value.is_null() {
            selector.match_labels.clear();
        } else if !value.is_object_or_null() {
            let go = "map[string]string";
            self.wrong_type(path, value, "must be a JSON object", "LabelSelector", go);
        }
        for (label, member) in value.members() {
            let text = self.optional_text(&format!("{path}[{label}]"), member, "LabelSelector");
            if let Some(text) = text {
                selector.match_labels.insert(label.into_owned(), text);
            }
        }
    }

    fn match_expressions(&mut self, path: &str, value: Value<'_>) -> Vec<LabelSelectorRequirement> {
        if !value.is_list_or_null() {
            let go = "[]v1.LabelSelectorRequirement";
            self.wrong_type(path, value, "must be a list", "LabelSelector", go);
        }
        let elements = value.elements().enumerate();
        elements
            .map(|(index, value)| self.requirement(&format!("{path}[{index}]"), value))
            .collect()
    }

    fn requirement(&mut self, path: &str, value: Value<'_>) -> LabelSelectorRequirement {
        let mut requirement = LabelSelectorRequirement::default();
        if !value.is_object_or_null() {
            let go = "v1.LabelSelectorRequirement";
            self.wrong_type(path, value, "must be a JSON object", "LabelSelector", go);
        }
        for (name, member) in value.members() {
            let [key, operator, values] = REQUIREMENT_MEMBERS.map(|known| is_same_name(&name, known));
            let inner = format!("{path}.{}", shortened(&name));
            if key || operator {
                let target = if key {
                    &mut requirement.key
                } else {
                    &mut requirement.operator
                };
                if let Some(text) = self.optional_text(&inner, member, "LabelSelectorRequirement") {
                    *target = text;
                }
            } else if values {
                requirement.values = self.texts(&inner, member);
            } else {
                self.unknown_in(path, &name, &REQUIREMENT_MEMBERS);
            }
        }
        requirement
    }

    fn texts(&mut self, path: &str, value: Value<'_>) -> Vec<String> {
        if !value.is_list_or_null() {
            self.wrong_type(
                path,
                value,
                "must be a list",
                "LabelSelectorRequirement",
                "[]string",
            );
        }
        let elements = value.elements().enumerate();
        elements
            .filter_map(|(index, value)| {
                self.optional_text(&format!("{path}[{index}]"), value, "LabelSelectorRequirement")
            })
            .collect()
    }

    /// A text; `null` is an empty one.
    fn optional_text(&mut self, path: &str, value: Value<'_>, go_struct: &str) -> Option<String> {
        if value.is_null() {
            return Some(String::new());
        }
        self.text(path, go_struct, &go_path(path), value)
    }

    fn wrong_type(&mut self, path: &str, value: Value<'_>, expected: &str, go_struct: &str, go_type: &str) {
        let go = mismatch(value.kind().go_name(), go_struct, &go_path(path), go_type);
        self.fault(path, value, expected, go);
    }

    fn unknown_in(&mut self, base: &str, name: &str, known: &'static [&'static str]) {
        self.unknown(base, name, || {
            nearest(name, known.iter().copied()).map(|near| format!("{base}.{near}"))
        });
    }
}

/// Go's path has no places in lists and no names in maps.
fn go_path(path: &str) -> String {
    let parts = path.split('[');
    parts
        .enumerate()
        .map(|(index, part)| match part.split_once(']') {
            Some((_, rest)) if index > 0 => rest,
            _ => part,
        })
        .collect()
}
