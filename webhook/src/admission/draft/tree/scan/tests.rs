//! Tests of the JSON scanner, compared with the parser of `serde_json`.

use std::cell::Cell;

use proptest::prelude::*;
use rstest::rstest;
use serde::de::IgnoredAny;

use super::{lexical::plain, *};
use crate::admission::draft::Fields as _;

/// Verdict of the library on the same text.
fn is_json(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok()
}

#[rstest]
#[case("")]
#[case("  ")]
#[case("nul")]
#[case("truex")]
#[case("01")]
#[case("-")]
#[case("1.")]
#[case(".5")]
#[case("1e")]
#[case("1e+")]
#[case("+1")]
#[case("1 2")]
#[case("\"")]
#[case("\"\\")]
#[case("\"\\x\"")]
#[case("\"\\u12g4\"")]
#[case("\"tab\there\"")]
#[case("\"null\u{0}\"")]
#[case("[1,]")]
#[case("[,1]")]
#[case("[1 2]")]
#[case("[1}")]
#[case("{\"a\":1]")]
#[case("{\"a\" 1}")]
#[case("{a:1}")]
#[case("{\"a\":1,}")]
#[case("{\"a\":1,\"b\"}")]
#[case("{1:2}")]
#[case("\u{feff}{}")]
fn what_is_not_json_is_refused_on_every_level(#[case] text: &str) {
    assert!(!is_json(text));
    assert!(document(text, 0).is_err() && document(text, 3).is_err());
    let inside = format!("{{\"a\":{text}}}");
    assert!(document(&inside, 0).is_err() && document(&inside, 1).is_err() && document(&inside, 3).is_err());
}

#[test]
fn an_error_says_where() {
    assert_eq!(
        document("{\"a\":[1,x]}", 2).unwrap_err(),
        ScanError::Syntax { at: 8 }
    );
    assert_eq!(document("{\"a\":[1,", 2).unwrap_err(), ScanError::End);
    assert_eq!(ScanError::Syntax { at: 8 }.to_string(), "byte 8: not JSON");
}

#[rstest]
#[case("[", "]")]
#[case("{\"a\":", "}")]
fn nesting_up_to_the_limit_is_taken_and_one_more_refused(#[case] open: &str, #[case] close: &str) {
    let nested = |depth: usize| format!("{}1{}", open.repeat(depth), close.repeat(depth));
    for levels in [0, 1, 4] {
        let text = nested(MAX_DEPTH as usize);
        assert!(document(&text, levels).unwrap().to_value().is_ok());
        let error = document(&nested(MAX_DEPTH as usize + 1), levels)
            .map(|_| ())
            .unwrap_err();
        assert!(matches!(error, ScanError::TooDeep { .. }));
        assert!(document(&open.repeat(1_000_000), levels).is_err());
    }
}

#[rstest]
#[case::longer_number(r#"{"a":{"n":1},"b":{"n":12}}"#)]
#[case::longer_fraction(r#"{"a":{"n":1},"b":{"n":1.5}}"#)]
#[case::same(r#"{"a":{"n":[1,{"x":"y"}]},"b":{"n":[1,{"x":"y"}]}}"#)]
#[case::longer_object(r#"{"a":{"n":{}},"b":{"n":{"x":1}}}"#)]
#[case::prefix_of_a_string(r#"{"a":{"n":"1"},"b":{"n":"1\"2"}}"#)]
fn a_value_is_taken_for_its_counterpart_only_if_it_is(#[case] text: &str) {
    let expected: serde_json::Value = serde_json::from_str(text).unwrap();
    let tree = document(text, 3).unwrap();
    let found = tree.get(&["b", "n"]).unwrap().to_value().unwrap();
    assert_eq!(&found, expected.pointer("/b/n").unwrap());
}

#[test]
fn a_counterpart_followed_by_rubbish_is_refused() {
    assert!(document(r#"{"a":{"n":1},"b":{"n":1x}}"#, 3).is_err());
    assert!(document(r#"{"a":{"n":{}},"b":{"n":{}1}}"#, 3).is_err());
}

#[test]
fn a_name_that_no_string_can_hold_is_refused_on_every_level() {
    for text in [
        r#"{"\ud800":1}"#,
        r#"{"a":{"b":{"\ud800x":1}}}"#,
        r#"[{"\udc00":1}]"#,
    ] {
        for levels in 0..4 {
            assert!(
                matches!(document(text, levels), Err(ScanError::Syntax { .. })),
                "{text}"
            );
        }
    }
    let pair = document(r#"{"a":{"\ud83d\ude00":1}}"#, 1).unwrap();
    assert!(pair.get(&["a", "\u{1f600}"]).is_some());
}

thread_local! {
    /// Number of bytes read, each counted as often as it was read.
    static PASSED: Cell<usize> = const { Cell::new(0) };
}

/// Counts a pass of this thread over a text.
pub(crate) fn passed(bytes: usize) {
    PASSED.set(PASSED.get() + bytes);
}

/// Number of bytes that this thread has read since the last call.
pub(crate) fn take_passed() -> usize {
    PASSED.take()
}

/// A search of each member among all of its counterpart's would take minutes.
#[test]
fn wide_objects_are_read_in_passing() {
    let wide = |names: &mut dyn Iterator<Item = u32>| {
        let members: Vec<String> = names.map(|name| format!("\"{name:06}\":{name}")).collect();
        format!("{{{}}}", members.join(","))
    };
    let (up, down) = (wide(&mut (0..8_000)), wide(&mut (0..8_000).rev()));
    let text = format!("{{\"object\":{up},\"oldObject\":{down}}}");
    let tree = document(&text, 2).unwrap();
    assert_eq!(tree.get(&["oldObject"]).unwrap().names(&[]).len(), 8_000);
}

/// An object that exceeds the limit is read a second time, on each level to be opened.
#[test]
fn what_does_not_fit_is_passed_once_more_and_not_once_for_each_member() {
    let wide = format!("{{{}\"a\":{{}}}}", "\"a\":{},".repeat(100_000));
    let text = format!("{{\"a\":{wide},\"b\":{{\"c\":{wide}}},\"d\":{{\"c\":1}}}}");
    take_passed();
    let tree = document(&text, 4).unwrap();
    assert!(take_passed() <= 3 * text.len());
    assert_eq!(tree.read(&["d", "c"]).unwrap(), Some(1));
    assert_eq!(tree.too_wide(), None);
}

/// Text that is nearly JSON: pieces of it, in any order.
fn any_text() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        "\\",
        "\\u00e9",
        "\"a\"",
        "\"a\":",
        "{\"a\":1}",
        "1",
        "-",
        "0",
        ".5",
        "e3",
        "true",
        "null",
        " ",
        "\n",
        "\u{1}",
        "é",
        "abcdefgh",
        "[]",
        "{}",
    ]);
    proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

#[test]
fn every_byte_is_plain_or_not_at_every_place_of_a_block() {
    for byte in 0..=u8::MAX {
        let is_plain = byte >= 0x20 && byte != b'"' && byte != b'\\';
        for at in 0..17 {
            for others in [b' ', b'!', b'a', 0x7f, 0x80, 0xff] {
                let mut text = [others; 17];
                text[at] = byte;
                assert_eq!(
                    plain(&text),
                    if is_plain { 17 } else { at },
                    "{byte:#x} among {others:#x}"
                );
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn exactly_json_is_accepted(text in any_text(), levels in 0_u32..4) {
        prop_assert_eq!(document(&text, levels).is_ok(), is_json(&text), "{:?}", text);
    }

    #[test]
    fn in_json_a_value_ends_where_it_is_measured_to_end(text in any_text(), tail in "[,}\\] ][ -~]{0,9}") {
        let Ok(tree) = document(&text, 0) else {
            return Ok(());
        };
        let (text, end) = (tree.text, tree.text.len());
        let behind = [text, &tail].concat();
        prop_assert_eq!(behind_value(behind.as_bytes()), &behind.as_bytes()[end..], "{:?}", behind);
        prop_assert_eq!(behind_value(text.as_bytes()), b"", "{:?}", text);
    }

    #[test]
    fn strings_end_where_the_library_says(text in "[ -~é\u{0}-\u{1f}]{0,40}") {
        let quoted = format!("\"{text}\"");
        prop_assert_eq!(document(&quoted, 0).is_ok(), is_json(&quoted), "{:?}", quoted);
        let proper = serde_json::Value::from(text).to_string();
        prop_assert!(document(&proper, 0).is_ok());
    }
}
