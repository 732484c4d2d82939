//! Koordinator's format of a refusal: a reason and a message as JSON between underscores.

use std::collections::BTreeMap;

use serde_json::Value;

/// Reasons why a version is refused, in Koordinator's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The text of a key cannot be parsed.
    Parse,
    /// A value, a name or a selector is wrong.
    Parameter,
    /// Two entries select the same nodes.
    Overlap,
    /// Two entries select an existing node.
    NodeConflict,
}

impl Reason {
    /// Koordinator's word, including its misspellings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Parse => "ParseConfigFail",
            Self::Parameter => "ConfigParamInvalid",
            Self::Overlap => "NodeStrategiesOverlap",
            Self::NodeConflict => "ExistNodeConfict",
        }
    }
}

/// Returns a refusal with one sentence.
pub fn sentence(reason: Reason, text: &str) -> String {
    enveloped(reason, &quoted(text))
}

/// Returns a refusal with a sentence for each field, by path.
pub fn fields(reason: Reason, fields: &BTreeMap<String, String>) -> String {
    let members = fields
        .iter()
        .map(|(path, text)| format!("{}:{}", quoted(path), quoted(text)));
    enveloped(reason, &format!("{{{}}}", members.collect::<Vec<_>>().join(",")))
}

/// Returns a refusal of entries that select the same labels, or the given node.
pub fn entries<'n>(key: &str, names: impl IntoIterator<Item = &'n str>, node: Option<&str>) -> String {
    let names: Vec<String> = names.into_iter().map(quoted).collect();
    let (key, names) = (quoted(key), names.join(","));
    match node {
        None => enveloped(
            Reason::Overlap,
            &format!(r#"{{"config":{key},"strategies":[{names}]}}"#),
        ),
        Some(node) => {
            let node = quoted(node);
            let message = format!(r#"{{"config":{key},"strategies":[{names}],"exampleNodes":[{node}]}}"#);
            enveloped(Reason::NodeConflict, &message)
        }
    }
}

fn enveloped(reason: Reason, message: &str) -> String {
    format!(r#"___{{"reason":"{}","message":{message}}}___"#, reason.name())
}

/// JSON string as Go prints it, with HTML characters escaped.
fn quoted(text: &str) -> String {
    let escaped = Value::from(text).to_string();
    let special = [
        ('<', "\\u003c"),
        ('>', "\\u003e"),
        ('&', "\\u0026"),
        ('\u{2028}', "\\u2028"),
        ('\u{2029}', "\\u2029"),
    ];
    special.into_iter().fold(escaped, |text, (character, escape)| {
        text.replace(character, escape)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_koordinators_to_the_letter() {
        let names = ["<a>", "b&c", "", "\"\n"];
        assert_eq!(
            entries("cpu-burst-config", names, Some("n1")),
            r#"___{"reason":"ExistNodeConfict","message":{"config":"cpu-burst-config","strategies":["\u003ca\u003e","b\u0026c","","\"\n"],"exampleNodes":["n1"]}}___"#
        );
        assert_eq!(
            entries("k", ["a", "b"], None),
            r#"___{"reason":"NodeStrategiesOverlap","message":{"config":"k","strategies":["a","b"]}}___"#
        );
        assert_eq!(
            fields(
                Reason::Parameter,
                &[("b", "2"), ("a", "1")]
                    .map(|(path, text)| (path.to_owned(), text.to_owned()))
                    .into()
            ),
            r#"___{"reason":"ConfigParamInvalid","message":{"a":"1","b":"2"}}___"#
        );
        assert_eq!(
            sentence(Reason::Parse, "\u{2028}"),
            r#"___{"reason":"ParseConfigFail","message":"\u2028"}___"#
        );
    }
}
