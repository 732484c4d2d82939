//! Tests of the scanner against Go's messages, and of the tree against another parser.

use proptest::prelude::*;
use rstest::rstest;

use super::*;

#[rstest]
#[case("", "unexpected end of JSON input")]
#[case("  ", "unexpected end of JSON input")]
#[case("invalid_content", "invalid character 'i' looking for beginning of value")]
#[case("{} x", "invalid character 'x' after top-level value")]
#[case("{} // c", "invalid character '/' after top-level value")]
#[case(
    r#"{"enable":true,}"#,
    "invalid character '}' looking for beginning of object key string"
)]
#[case("[1,]", "invalid character ']' looking for beginning of value")]
#[case("[1 2]", "invalid character '2' after array element")]
#[case(r#"{"a" 1}"#, "invalid character '1' after object key")]
#[case(r#"{"a":1 "b":2}"#, "invalid character '\"' after object key:value pair")]
#[case(
    "{'a':1}",
    r"invalid character '\'' looking for beginning of object key string"
)]
#[case("enable: true", "invalid character 'e' looking for beginning of value")]
#[case("\u{feff}{}", "invalid character 'ï' looking for beginning of value")]
#[case("trux", "invalid character 'x' in literal true (expecting 'e')")]
#[case("nul", "unexpected end of JSON input")]
#[case("01", "invalid character '1' after top-level value")]
#[case("-x", "invalid character 'x' in numeric literal")]
#[case("1.x", "invalid character 'x' after decimal point in numeric literal")]
#[case("1ex", "invalid character 'x' in exponent of numeric literal")]
#[case("\"a\nb\"", "invalid character '\\n' in string literal")]
#[case(r#""\x""#, "invalid character 'x' in string escape code")]
#[case(r#""\u00g0""#, "invalid character 'g' in \\u hexadecimal character escape")]
#[case(r#"{"a":"#, "unexpected end of JSON input")]
#[case(r#""a"#, "unexpected end of JSON input")]
fn invalid_json_is_refused_with_gos_message(#[case] text: &str, #[case] reason: &str) {
    assert_eq!(Tree::parse(text).unwrap_err().to_string(), reason);
}

#[test]
fn an_error_has_line_and_column() {
    let error = Tree::parse("{\n  \"ä\": x\n}").unwrap_err();
    assert_eq!((error.line, error.column), (2, 8));
}

#[test]
fn nesting_ends_at_gos_depth_without_recursion() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    let text = nested(10_000);
    assert_eq!(Tree::parse(&text).unwrap().root().written(), text);
    let error = Tree::parse(&nested(10_001)).unwrap_err();
    assert_eq!(error.to_string(), "exceeded max depth");
    assert!(Tree::parse(&"[".repeat(1 << 20)).is_err());
}

#[test]
fn members_keep_their_order_and_repetitions() {
    let tree = Tree::parse(r#" {"a" : 1, "b":[{"c":2},"x"], "a":null, "":{}} "#).unwrap();
    let members: Vec<_> = tree.root().members().collect();
    let written: Vec<_> = members
        .iter()
        .map(|(name, value)| (name.as_ref(), value.written()))
        .collect();
    assert_eq!(
        written,
        [("a", "1"), ("b", r#"[{"c":2},"x"]"#), ("a", "null"), ("", "{}")]
    );
    let elements: Vec<_> = members[1].1.elements().map(Value::written).collect();
    assert_eq!(elements, [r#"{"c":2}"#, "\"x\""]);
    assert_eq!(tree.root().elements().count() + members[1].1.members().count(), 0);
}

#[rstest]
#[case(r#""\u00e4\ud83e\udd80\"\/\b\f\n\r\t\\""#, "ä🦀\"/\u{8}\u{c}\n\r\t\\")]
#[case(r#""\ud83e""#, "\u{fffd}")]
#[case(r#""\ud83ex""#, "\u{fffd}x")]
#[case(r#""\ud83e\u0041""#, "\u{fffd}A")]
#[case(r#""\ud83e\n""#, "\u{fffd}\n")]
fn texts_are_unescaped_as_go_does(#[case] text: &str, #[case] plain: &str) {
    let tree = Tree::parse(text).unwrap();
    assert_eq!(tree.root().string().unwrap(), plain);
}

/// The value of the tree as a value of the other parser.
fn rebuilt(value: Value<'_>) -> serde_json::Value {
    match value.kind() {
        JsonKind::Object => value
            .members()
            .map(|(name, value)| (name.into_owned(), rebuilt(value)))
            .collect(),
        JsonKind::List => value.elements().map(rebuilt).collect(),
        JsonKind::Text => value.string().unwrap().into_owned().into(),
        JsonKind::Null | JsonKind::True | JsonKind::False | JsonKind::Number => {
            serde_json::from_str(value.written()).unwrap()
        }
    }
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused_as_by_another_reader(text in r#"[\[\]{}:, a0-9.eE+\-"\\truefalsn]{0,40}"#) {
        let read = Tree::parse(&text);
        match serde_json::from_str::<serde_json::Value>(&text) {
            Ok(value) => prop_assert_eq!(rebuilt(read.unwrap().root()), value),
            // Numbers beyond floats are valid for Go's scanner.
            Err(error) => prop_assert!(read.is_err() || error.to_string().contains("number out of range"), "{text}"),
        }
    }

    #[test]
    fn any_characters_are_read_or_refused(text in any::<String>()) {
        prop_assert_eq!(Tree::parse(&text).is_ok(), serde_json::from_str::<serde_json::Value>(&text).is_ok());
    }
}
