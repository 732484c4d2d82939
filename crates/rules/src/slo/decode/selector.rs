//! Parses the label selector of an entry.

use headroom_domain::selector::{LabelSelector, LabelSelectorRequirement};

use super::{
    super::{
        json::{JsonKind, Value},
        nearest::nearest,
    },
    Reader, is_same_name, mismatch,
    trail::Trail,
};

const MEMBERS: [&str; 2] = ["matchLabels", "matchExpressions"];
const REQUIREMENT_MEMBERS: [&str; 3] = ["key", "operator", "values"];
/// Names of the types in Kubernetes' code.
const SELECTOR: &str = "LabelSelector";
const REQUIREMENT: &str = "LabelSelectorRequirement";

impl Reader {
    pub(super) fn selector(&mut self, trail: &Trail<'_>, value: Value<'_>) -> Option<LabelSelector> {
        if !value.is_object_or_null() {
            let go = "v1.LabelSelector";
            self.wrong_type(trail, value, "must be a JSON object", "NodeCfgProfile", go);
        }
        if value.kind() != JsonKind::Object {
            return None;
        }
        let mut selector = LabelSelector::default();
        for (name, member) in value.members() {
            let [labels, expressions] = MEMBERS.map(|known| is_same_name(&name, known));
            let trail = |name| Trail::Member(trail, name);
            if labels {
                self.match_labels(&trail("matchLabels"), member, &mut selector);
            } else if expressions {
                selector.match_expressions = self.match_expressions(&trail("matchExpressions"), member);
            } else {
                self.unknown_in(trail(&name), &MEMBERS);
            }
        }
        Some(selector)
    }

    fn match_labels(&mut self, trail: &Trail<'_>, value: Value<'_>, selector: &mut LabelSelector) {
        if value.is_null() {
            selector.match_labels.clear();
        } else if !value.is_object_or_null() {
            let go = "map[string]string";
            self.wrong_type(trail, value, "must be a JSON object", SELECTOR, go);
        }
        for (label, member) in value.members() {
            if let Some(text) = self.optional_text(&Trail::Named(trail, &label), member, SELECTOR) {
                selector.match_labels.insert(label.into_owned(), text);
            }
        }
    }

    fn match_expressions(&mut self, trail: &Trail<'_>, value: Value<'_>) -> Vec<LabelSelectorRequirement> {
        if !value.is_list_or_null() {
            let go = "[]v1.LabelSelectorRequirement";
            self.wrong_type(trail, value, "must be a list", SELECTOR, go);
        }
        let elements = value.elements().enumerate();
        elements
            .map(|(index, value)| self.requirement(&Trail::Element(trail, index), value))
            .collect()
    }

    fn requirement(&mut self, trail: &Trail<'_>, value: Value<'_>) -> LabelSelectorRequirement {
        let mut requirement = LabelSelectorRequirement::default();
        if !value.is_object_or_null() {
            let go = "v1.LabelSelectorRequirement";
            self.wrong_type(trail, value, "must be a JSON object", SELECTOR, go);
        }
        for (name, member) in value.members() {
            let known = REQUIREMENT_MEMBERS
                .into_iter()
                .find(|known| is_same_name(&name, known));
            let trail = Trail::Member(trail, known.unwrap_or(&name));
            let target = match known {
                Some("key") => &mut requirement.key,
                Some("operator") => &mut requirement.operator,
                Some(_) => {
                    requirement.values = self.texts(&trail, member);
                    continue;
                }
                None => {
                    self.unknown_in(trail, &REQUIREMENT_MEMBERS);
                    continue;
                }
            };
            if let Some(text) = self.optional_text(&trail, member, REQUIREMENT) {
                *target = text;
            }
        }
        requirement
    }

    fn texts(&mut self, trail: &Trail<'_>, value: Value<'_>) -> Vec<String> {
        if !value.is_list_or_null() {
            self.wrong_type(trail, value, "must be a list", REQUIREMENT, "[]string");
        }
        let elements = value.elements().enumerate();
        elements
            .filter_map(|(index, value)| {
                self.optional_text(&Trail::Element(trail, index), value, REQUIREMENT)
            })
            .collect()
    }

    fn wrong_type(
        &mut self,
        trail: &Trail<'_>,
        value: Value<'_>,
        expected: &str,
        go_struct: &str,
        go_type: &str,
    ) {
        let go = mismatch(value.kind().go_name(), go_struct, &format!("{trail:#}"), go_type);
        self.fault(trail, value, expected, go);
    }

    fn unknown_in(&mut self, trail: Trail<'_>, known: &'static [&'static str]) {
        if let Trail::Member(object, name) = trail {
            self.unknown(object, name, |base| {
                nearest(name, known.iter().copied()).map(|near| format!("{base}.{near}"))
            });
        }
    }
}
