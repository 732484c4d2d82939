//! Writes a [`Tree`] as the text of a Helm template: YAML with conditions around fields and elements.

use serde_json::Value;

use super::tree::{ACTION, Object, Tree, Variant, When};

/// Spaces by which a map in a map is indented.
const STEP: usize = 2;

/// The template of an object, with its own `---`.
pub(super) fn document(object: &Object) -> String {
    let mut lines = Lines::default();
    lines.within(0, &object.when, |lines| {
        lines.add(0, "---");
        lines.tree(0, &object.tree);
    });
    lines.text
}

#[derive(Default)]
struct Lines {
    text: String,
}

impl Lines {
    fn add(&mut self, indent: usize, line: &str) {
        self.text.extend([" ".repeat(indent).as_str(), line, "\n"]);
    }

    /// Adds lines, in a condition unless they are always there.
    fn within(&mut self, indent: usize, when: &When, add: impl FnOnce(&mut Self)) {
        if when.is_always() {
            add(self);
            return;
        }
        self.add(indent, &format!("{{{{- if {} }}}}", when.expression()));
        add(self);
        self.add(indent, "{{- end }}");
    }

    /// The fields of a map, or the elements of a list.
    fn tree(&mut self, indent: usize, tree: &Tree) {
        match tree {
            Tree::Map(fields) => {
                for (key, variants) in fields {
                    for Variant { when, tree } in variants {
                        self.within(indent, when, |lines| lines.field(indent, key, tree));
                    }
                }
            }
            Tree::List(elements) => {
                for Variant { when, tree } in elements {
                    self.within(indent, when, |lines| lines.element(indent, tree));
                }
            }
            Tree::Elements(lines) => {
                for line in lines {
                    self.add(indent, line);
                }
            }
            Tree::Block(expression) => {
                self.add(indent, &format!("{{{{- {expression} | nindent {indent} }}}}"));
            }
            Tree::Scalar(_) | Tree::Inline(_) => self.add(indent, &inline(tree).unwrap_or_default()),
        }
    }

    fn field(&mut self, indent: usize, key: &str, tree: &Tree) {
        if key.starts_with(ACTION) {
            self.tree(indent, tree);
            return;
        }
        let key = scalar(&Value::from(key));
        if let Tree::Scalar(Value::String(text)) = tree
            && is_literal(text)
        {
            self.add(indent, &format!("{key}: |-"));
            for line in text.split('\n') {
                let line = escaped(line);
                self.add(if line.is_empty() { 0 } else { indent + STEP }, &line);
            }
            return;
        }
        if let Some(value) = inline(tree) {
            self.add(indent, &format!("{key}: {value}"));
            return;
        }
        self.add(indent, &format!("{key}:"));
        self.tree(indent + STEP, tree);
    }

    /// An element. Its first line starts with the hyphen: a map must begin with an unconditional field.
    fn element(&mut self, indent: usize, tree: &Tree) {
        if matches!(tree, Tree::Elements(_)) {
            self.tree(indent, tree);
            return;
        }
        if let Some(value) = inline(tree) {
            self.add(indent, &format!("- {value}"));
            return;
        }
        // A hyphen on its own line allows a condition around the first field.
        self.add(indent, "-");
        self.tree(indent + STEP, tree);
    }
}

/// The value on one line; `None` if it needs several.
fn inline(tree: &Tree) -> Option<String> {
    match tree {
        Tree::Scalar(value) => Some(scalar(value)),
        Tree::Inline(expression) => Some(format!("{{{{ {expression} }}}}")),
        Tree::Map(fields) if fields.is_empty() => Some("{}".to_owned()),
        Tree::List(elements) if elements.is_empty() => Some("[]".to_owned()),
        Tree::Map(_) | Tree::List(_) | Tree::Block(_) | Tree::Elements(_) => None,
    }
}

/// True for text of several lines that a literal block keeps unchanged.
fn is_literal(text: &str) -> bool {
    text.contains('\n') && !text.ends_with('\n') && !text.starts_with([' ', '\n']) && !text.contains('\t')
}

/// A scalar as YAML. JSON is YAML, so text that YAML could read as another type is a JSON string.
fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) if is_plain(text) => text.clone(),
        Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_) => escaped(&value.to_string()),
    }
}

/// True for text that YAML reads as a string without quotes.
fn is_plain(text: &str) -> bool {
    let is_word = |character: char| character.is_ascii_alphanumeric() || "-_./$(".contains(character);
    let reserved = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '/')
        && text
            .chars()
            .all(|character| is_word(character) || character == ')')
        && !reserved.contains(&text.to_lowercase().as_str())
}

/// Text in which Helm finds no action.
fn escaped(text: &str) -> String {
    text.replace(ACTION, r#"{{ "{{" }}"#)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn conditions_surround_fields_elements_and_objects() {
        let mut tree = Tree::from(&json!({"a": "1", "list": ["x"], "text": "one\ntwo {{ no action }}"}));
        let on = || When::all(["has \"ha\" $on".to_owned()]);
        tree.set_if("a", on(), Tree::Scalar(json!(2)));
        let list = tree.at(&["list"]).unwrap();
        list.push(Variant {
            when: on(),
            tree: Tree::Scalar(json!("y z")),
        });
        let text = document(&Object { when: on(), tree });
        assert_eq!(
            text,
            "{{- if has \"ha\" $on }}\n---\n{{- if not (has \"ha\" $on) }}\na: \"1\"\n{{- end }}\n\
             {{- if has \"ha\" $on }}\na: 2\n{{- end }}\nlist:\n  - x\n  {{- if has \"ha\" $on }}\n  - \"y z\"\n  {{- end }}\n\
             text: |-\n  one\n  two {{ \"{{\" }} no action }}\n{{- end }}\n"
        );
    }

    #[test]
    fn text_that_looks_like_another_type_is_quoted() {
        for text in ["true", "1", "*", "", "50%", "a: b", "off", "Yes", "1e3", "-"] {
            assert_eq!(scalar(&json!(text)), format!("{text:?}"));
        }
        assert_eq!(scalar(&json!("a.b/c")), "a.b/c");
    }
}
