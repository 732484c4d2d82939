//! [`ListSplitter`]: splits the body of a list into its items while it arrives, so that memory holds one item at a time.

use kube::core::ListMeta;
use serde::Deserialize;

/// Maximum size of a list without its items, in bytes.
const LONGEST_FRAME: usize = 1 << 20;
/// Start of the member with the items, without whitespace before the array.
const ITEMS: &[u8] = b"\"items\"";

/// A list as far as it has arrived.
#[derive(Debug, Default)]
pub(super) struct ListSplitter {
    /// The list without its items.
    frame: Vec<u8>,
    /// Start of an item that is not complete yet.
    item: Vec<u8>,
    /// Number of open objects and arrays.
    depth: usize,
    /// True within the array of items.
    is_in_items: bool,
    text: TextState,
}

/// Position relative to a JSON string.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum TextState {
    #[default]
    Outside,
    Inside,
    /// After a backslash.
    Escaped,
}

/// A body that is not a list.
#[derive(Debug, thiserror::Error)]
pub(super) enum SplitError {
    #[error("the list ends before it is complete")]
    Incomplete,
    #[error("the list has more than {LONGEST_FRAME} bytes besides its items")]
    LongFrame,
    #[error("a bracket of the list closes nothing")]
    Unbalanced,
    #[error("the list without its items cannot be read")]
    Frame(#[from] serde_json::Error),
}

#[derive(Deserialize)]
struct ListFrame {
    #[serde(default)]
    metadata: ListMeta,
}

impl ListSplitter {
    /// Takes the next bytes, and passes each item that they complete to `each`.
    ///
    /// # Errors
    /// The body is not a list.
    pub(super) fn push(&mut self, chunk: &[u8], mut each: impl FnMut(&[u8])) -> Result<(), SplitError> {
        // First byte of the chunk that is in neither the frame nor an item.
        let mut start = 0;
        let part = |from: usize, to: usize| chunk.get(from..to).unwrap_or_default();
        for (at, &byte) in chunk.iter().enumerate() {
            if self.text != TextState::Outside {
                self.text.advance(byte);
                continue;
            }
            match byte {
                b'"' => self.text = TextState::Inside,
                b'{' | b'[' => {
                    if self.is_between_items() {
                        start = at;
                    }
                    self.depth = self.depth.saturating_add(1);
                    if byte == b'[' && self.depth == 2 {
                        self.frame.extend_from_slice(part(start, at));
                        start = at;
                        self.is_in_items = self.frame_ends_before_items();
                        if self.is_in_items {
                            self.frame.push(byte);
                        }
                    }
                }
                b'}' | b']' => {
                    self.depth = self.depth.checked_sub(1).ok_or(SplitError::Unbalanced)?;
                    if self.is_between_items() {
                        self.item.extend_from_slice(part(start, at.saturating_add(1)));
                        each(&self.item);
                        self.item.clear();
                    } else if self.is_in_items && self.depth == 1 {
                        self.is_in_items = false;
                        start = at;
                    }
                }
                _ => {}
            }
        }
        let rest = part(start, chunk.len());
        if !self.is_in_items {
            self.frame.extend_from_slice(rest);
        } else if !self.is_between_items() {
            self.item.extend_from_slice(rest);
        }
        if self.frame.len() > LONGEST_FRAME {
            return Err(SplitError::LongFrame);
        }
        Ok(())
    }

    /// Metadata of a complete list.
    ///
    /// # Errors
    /// The list is not complete, or has no readable metadata.
    pub(super) fn finish(self) -> Result<ListMeta, SplitError> {
        if self.depth > 0 || self.text != TextState::Outside {
            return Err(SplitError::Incomplete);
        }
        let frame: ListFrame = serde_json::from_slice(&self.frame)?;
        Ok(frame.metadata)
    }

    const fn is_between_items(&self) -> bool {
        self.is_in_items && self.depth == 2
    }

    fn frame_ends_before_items(&self) -> bool {
        let key = self.frame.trim_ascii_end().strip_suffix(b":");
        key.is_some_and(|key| key.trim_ascii_end().ends_with(ITEMS))
    }
}

impl TextState {
    const fn advance(&mut self, byte: u8) {
        *self = match (*self, byte) {
            (Self::Inside, b'\\') => Self::Escaped,
            (Self::Inside, b'"') | (Self::Outside, _) => Self::Outside,
            (Self::Inside | Self::Escaped, _) => Self::Inside,
        };
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    /// Items and resource version of a body that arrives in chunks of `size` bytes.
    fn split(body: &str, size: usize) -> Result<(Vec<Value>, Option<String>), SplitError> {
        let (mut splitter, mut items) = (ListSplitter::default(), Vec::new());
        for chunk in body.as_bytes().chunks(size) {
            splitter.push(chunk, |item| items.push(serde_json::from_slice(item).unwrap()))?;
        }
        Ok((items, splitter.finish()?.resource_version))
    }

    #[test]
    fn items_are_split_at_any_chunk_border_and_wherever_the_metadata_is() {
        let first = json!({"a": "}]\"\\\\", "items": [[1], {"b": [{}]}]});
        for body in [
            format!(r#"{{"kind":"L","metadata":{{"resourceVersion":"7"}},"items":[{first}, {{"c":1}} ]}}"#),
            format!(
                "{{\"items\" : [\n{first},{{\"c\":1}}\n],\"metadata\":{{\"resourceVersion\":\"7\",\"x\":[1]}}}}"
            ),
        ] {
            for size in 1..body.len() {
                let (items, version) = split(&body, size).unwrap();
                assert_eq!(items, [first.clone(), json!({"c": 1})], "{size}: {body}");
                assert_eq!(version.as_deref(), Some("7"));
            }
        }
        for body in [r#"{"metadata":{}, "items":null}"#, r#"{"items":[]}"#, "{}"] {
            assert_eq!(split(body, 3).unwrap(), (Vec::new(), None), "{body}");
        }
    }

    #[test]
    fn incomplete_lists_and_other_bodies_are_errors() {
        for body in [
            "",
            r#"{"items":[{"a":1}"#,
            r#"{"items":["#,
            "}",
            "[1]",
            "x",
            r#"{"a":"#,
        ] {
            assert!(split(body, 4).is_err(), "{body}");
        }
        let long = format!(r#"{{"a":"{}","items":[]}}"#, "x".repeat(LONGEST_FRAME));
        assert!(matches!(split(&long, 1000), Err(SplitError::LongFrame)));
    }

    #[test]
    fn memory_holds_one_item_of_a_list() {
        let item = json!({"a": "x".repeat(100_000)}).to_string();
        let mut splitter = ListSplitter::default();
        splitter.push(br#"{"items":["#, |_| {}).unwrap();
        for _ in 0..100 {
            splitter.push(item.as_bytes(), |_| {}).unwrap();
            splitter.push(b",", |_| {}).unwrap();
            assert!(splitter.item.capacity() < 300_000 && splitter.frame.capacity() < 100);
        }
    }

    /// Texts of the bytes that a splitter reads.
    fn texts() -> impl Strategy<Value = String> {
        let bytes = prop::sample::select(vec!['"', '\\', '[', ']', '{', '}', ',', ':', 'a', 'ä']);
        prop::collection::vec(bytes, 0..8).prop_map(|chars| chars.into_iter().collect())
    }

    fn json_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i32>().prop_map(Value::from),
            texts().prop_map(Value::from)
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            let names = prop_oneof![texts(), Just("items".to_owned())];
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(names, inner, 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn items_equal_those_of_a_complete_parse(
            items in prop::collection::vec(prop::collection::btree_map(texts(), json_value(), 0..4), 0..5),
            other in json_value(),
            size in 1_usize..64,
        ) {
            let items: Vec<Value> = items.into_iter().map(|item| Value::Object(item.into_iter().collect())).collect();
            let list = json!({"a": other, "items": items, "metadata": {"resourceVersion": "1"}, "z": other});
            let (split, version) = split(&list.to_string(), size).unwrap();
            prop_assert_eq!(split, items);
            prop_assert_eq!(version.as_deref(), Some("1"));
        }
    }
}
