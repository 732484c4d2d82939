//! [`Draft::rewrite`]: changes a part of a draft as a parsed value, all or nothing.

use serde_json::{Map, Value};

use super::{
    Draft, MAX_DEPTH, MAX_OPENED, PathValue, WriteError,
    edits::edited,
    written::{WriteKind, Written},
};

/// The longest way into an object on which members are recorded and patched one by one, in bytes of names and the
/// slashes before them. Each operation repeats the way to it, and a client chooses the names.
const LONGEST_WAY: usize = 512;

/// Most members that one rewrite records one by one. Each record takes many times the memory of a short member, and
/// steps write a few dozen.
const MOST_MEMBERS: usize = 1_024;

/// Most values in what is rewritten, before and after. Both are in memory at a time, and each value takes an allocation or
/// two.
const MOST_VALUES: usize = MAX_OPENED / 2;

/// A part of an object could not be rewritten.
#[derive(Debug, thiserror::Error)]
pub enum RewriteError {
    /// What is there cannot be read, or holds more than [`MAX_OPENED`] values.
    #[error("{path} cannot be read")]
    Read {
        /// Where, from the outside in.
        path: String,
        /// What the parser found.
        source: serde_json::Error,
    },
    /// The value, or the new one, is wider than anything that people or controllers write.
    #[error("{path} cannot be changed, with more than {MOST_VALUES} values")]
    TooWide {
        /// Where, from the outside in.
        path: String,
    },
    /// The new value could not be read again.
    #[error("{path} would be nested deeper than {MAX_DEPTH} levels")]
    TooDeep {
        /// Where, from the outside in.
        path: String,
    },
    /// The whole object would be something else than an object.
    #[error("the object would be no object")]
    NoObject,
    /// The object has no place for the new value.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// What a value has too much of.
enum Excess {
    Values,
    Levels,
}

/// How a rewrite is recorded. The patch does the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Detail {
    /// By the members that differ.
    Members,
    /// By the new value; of the whole object, by its members.
    Whole,
}

impl Draft<'_> {
    /// Has `change` work on the value at `path`, with the writes so far, and records what differs afterwards: in
    /// objects member by member, in arrays as a new value of the array. An absent value is `null`, and what is made
    /// `null` becomes absent; objects on the way are created. The empty path is the whole object.
    ///
    /// It is a transaction: whatever fails, nothing is recorded. The same change made again records nothing.
    ///
    /// # Errors
    /// What `change` returns; a [`RewriteError`] if the value cannot be read, or there is no place for the new one, or
    /// either holds more than 8,192 values or is deeper than [`MAX_DEPTH`] levels.
    pub fn rewrite<T, E: From<RewriteError>>(
        &mut self,
        path: &[&str],
        change: impl FnOnce(&mut Value) -> Result<T, E>,
    ) -> Result<T, E> {
        let before = self.value(path)?;
        check_size(&before, path)?;
        let mut after = before.clone();
        let result = change(&mut after)?;
        check_size(&after, path)?;
        if path.is_empty() && !after.is_object() {
            return Err(RewriteError::NoObject.into());
        }
        if after.is_null() && !before.is_null() {
            self.remove(path);
        } else {
            let (mut way, detail) = (path.to_vec(), Detail::new(&before, &after));
            self.record(&mut way, &before, &mut after, detail)
                .map_err(RewriteError::from)?;
        }
        Ok(result)
    }

    /// The value at `path` with the writes so far.
    fn value(&self, path: &[&str]) -> Result<Value, RewriteError> {
        match self.find(path) {
            PathValue::Nothing => Ok(Value::Null),
            PathValue::Written(value, _) => Ok(value.clone()),
            PathValue::Stored(tree) => tree.to_value(),
            PathValue::Edited(tree, edits) => edited(tree, edits),
        }
        .map_err(|source| RewriteError::Read {
            path: field(path),
            source,
        })
    }

    /// Records that `before`, which is at `path`, becomes `after`. If there is no place for that, the first write finds
    /// out: all others go into the objects of `before`.
    fn record<'v>(
        &mut self,
        path: &mut Vec<&'v str>,
        before: &'v Value,
        after: &'v mut Value,
        detail: Detail,
    ) -> Result<(), WriteError> {
        let is_by_member = match (before, &*after) {
            (Value::Object(before), Value::Object(after)) => {
                path.is_empty() || detail == Detail::Members && differ_by_member(before, after, path)
            }
            (_, _) => false,
        };
        match (before, after) {
            (Value::Object(before), after) if is_by_member => {
                self.record_members(path, before, after, detail)
            }
            (before, after) if *before == *after => Ok(()),
            (_, after) => self.write(path, Written::new(after.take(), WriteKind::Rewrite)),
        }
    }

    fn record_members<'v>(
        &mut self,
        path: &mut Vec<&'v str>,
        before: &'v Map<String, Value>,
        after: &'v mut Value,
        detail: Detail,
    ) -> Result<(), WriteError> {
        let Value::Object(after) = after else {
            return Ok(());
        };
        for name in before.keys().filter(|name| !after.contains_key(*name)) {
            path.push(name);
            self.remove(path);
            path.pop();
        }
        for (name, value) in after {
            path.push(name);
            match before.get(name) {
                Some(before) => self.record(path, before, value, detail)?,
                None => self.write(path, Written::new(value.take(), WriteKind::Rewrite))?,
            }
            path.pop();
        }
        Ok(())
    }
}

impl Detail {
    /// How the difference between two values is recorded.
    fn new(before: &Value, after: &Value) -> Self {
        if differences(before, after) > MOST_MEMBERS {
            Self::Whole
        } else {
            Self::Members
        }
    }
}

/// Number of members, however deep, that are in one of two values or differ between them.
fn differences(before: &Value, after: &Value) -> usize {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            let new = after.keys().filter(|name| !before.contains_key(*name)).count();
            let old = before.iter().map(|(name, before)| match after.get(name) {
                Some(after) => differences(before, after),
                None => 1,
            });
            new + old.sum::<usize>()
        }
        (before, after) => usize::from(before != after),
    }
}

/// True if it takes operations on members to make one object of another. Where no name stays, it takes one on the whole
/// object: so where all resources of a container are renamed.
pub(crate) fn differ_by_member(
    before: &Map<String, Value>,
    after: &Map<String, Value>,
    way: &[impl AsRef<str>],
) -> bool {
    let has_common = || before.keys().any(|name| after.contains_key(name));
    !is_deep(way) && (before.len() + after.len() < 2 || has_common())
}

/// True if a way is too long for operations on what is below.
pub(crate) fn is_deep(way: &[impl AsRef<str>]) -> bool {
    way.iter().map(|name| name.as_ref().len() + 1).sum::<usize>() > LONGEST_WAY
}

/// The path for people.
fn field(path: &[&str]) -> String {
    if path.is_empty() {
        "the object".to_owned()
    } else {
        path.join(".")
    }
}

/// What is rewritten at `path` must be smaller than what is read.
fn check_size(value: &Value, path: &[&str]) -> Result<(), RewriteError> {
    let around = u32::try_from(path.len()).unwrap_or(u32::MAX);
    let (levels, mut room) = (MAX_DEPTH.saturating_sub(around), MOST_VALUES);
    measure(value, levels, &mut room).map_err(|excess| match excess {
        Excess::Values => RewriteError::TooWide { path: field(path) },
        Excess::Levels => RewriteError::TooDeep { path: field(path) },
    })
}

/// Takes the values inside of `value` off the room, as a reader of its text counts them: an empty object or array is
/// one, too.
fn measure(value: &Value, levels: u32, room: &mut usize) -> Result<(), Excess> {
    let length = match value {
        Value::Array(elements) => elements.len(),
        Value::Object(members) => members.len(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return Ok(()),
    };
    let levels = levels.checked_sub(1).ok_or(Excess::Levels)?;
    *room = room.checked_sub(length.max(1)).ok_or(Excess::Values)?;
    match value {
        Value::Array(elements) => elements
            .iter()
            .try_for_each(|element| measure(element, levels, room)),
        Value::Object(members) => members
            .values()
            .try_for_each(|member| measure(member, levels, room)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use allocation_counter::AllocationInfo;
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::admission::{
        draft::{Fields as _, Tree},
        patch,
    };

    const POD: &str = r#"{"metadata":{"name":"p","labels":null,"x":1.0},"spec":{"containers":[{"name":"c"}],"nodeName":""}}"#;

    fn draft(text: &str) -> Draft<'_> {
        Draft::new(Tree::parse(text, 2).unwrap(), None)
    }

    /// What a closure returns that cannot fail.
    const DONE: Result<(), RewriteError> = Ok(());

    fn whole(draft: &Draft<'_>) -> Value {
        draft.read(&[]).unwrap().unwrap()
    }

    #[test]
    fn a_rewrite_sees_what_was_written_and_later_calls_see_what_it_wrote() {
        let mut draft = draft(POD);
        draft.set(&["spec", "priority"], 7).unwrap();
        draft.remove(&["spec", "nodeName"]);
        let seen: Result<Value, RewriteError> = draft.rewrite(&["spec"], |spec| {
            let seen = spec.clone();
            spec["containers"]
                .as_array_mut()
                .unwrap()
                .push(json!({"name": "d"}));
            spec["nodeName"] = json!("n");
            Ok(seen)
        });
        assert_eq!(
            seen.unwrap(),
            json!({"containers": [{"name": "c"}], "priority": 7})
        );
        let names = |draft: &Draft<'_>| {
            draft.with_elements(&["spec", "containers"], |containers| {
                let names = containers
                    .iter()
                    .map(|container| container.read::<String>(&["name"]));
                names.map(|name| name.unwrap().unwrap()).collect::<Vec<_>>()
            })
        };
        assert_eq!(names(&draft), ["c", "d"]);
        draft.set(&["spec", "nodeName"], "m").unwrap();
        let removed: Result<Value, RewriteError> = draft.rewrite(&["spec", "containers"], |containers| {
            Ok(containers.as_array_mut().unwrap().remove(0))
        });
        assert_eq!(removed.unwrap(), json!({"name": "c"}));
        assert_eq!(names(&draft), ["d"]);
        let spec = json!({"containers": [{"name": "d"}], "nodeName": "m", "priority": 7});
        assert_eq!(draft.read(&["spec"]).unwrap(), Some(spec));
    }

    #[test]
    fn what_is_absent_is_null_and_what_becomes_null_is_absent() {
        let mut draft = draft(POD);
        for path in [
            &["metadata", "labels"][..],
            &["metadata", "annotations"],
            &["status", "x", "y"],
        ] {
            let seen: Result<Value, RewriteError> = draft.rewrite(path, |value| Ok(value.clone()));
            assert_eq!(seen.unwrap(), Value::Null);
        }
        assert_eq!(draft.changes(), 0);
        for path in [&["metadata", "labels"][..], &["status", "x", "y"]] {
            draft
                .rewrite(path, |value| {
                    value["a"] = json!("b");
                    DONE
                })
                .unwrap();
            assert_eq!(draft.read(path).unwrap(), Some(json!({"a": "b"})));
            draft
                .rewrite(path, |value| {
                    value.take();
                    DONE
                })
                .unwrap();
            assert!(draft.read::<Value>(path).unwrap().is_none());
        }
        let metadata: Value = draft.read(&["metadata"]).unwrap().unwrap();
        assert!(metadata.get("labels").is_none());
    }

    #[test]
    fn only_members_that_differ_are_recorded() {
        let mut draft = draft(POD);
        draft
            .rewrite(&[], |pod| {
                pod["metadata"]["name"] = json!("q");
                pod["spec"]["containers"] = json!([{"name": "c"}]);
                DONE
            })
            .unwrap();
        assert_eq!(draft.changes(), 1);
        let replaces = serde_json::to_value(patch::operations(&draft)).unwrap();
        assert_eq!(
            replaces,
            json!([{"op": "replace", "path": "/metadata/name", "value": "q"}])
        );
        draft
            .rewrite(&[], |pod| {
                pod["metadata"]["name"] = json!("q");
                DONE
            })
            .unwrap();
        assert_eq!(draft.changes(), 1);
    }

    #[test]
    fn a_rewrite_that_fails_records_nothing() {
        let mut draft = draft(POD);
        draft.set(&["spec", "priority"], 7).unwrap();
        let (before, changes) = (whole(&draft), draft.changes());
        let result: Result<(), Box<dyn std::error::Error>> = draft.rewrite(&["spec"], |spec| {
            spec["priority"] = json!(8);
            Err("no such class".into())
        });
        assert_eq!(result.unwrap_err().to_string(), "no such class");
        for (path, value) in [
            (&["metadata", "name", "x"][..], json!(1)),
            (&["spec", "containers", "0"], json!({})),
            (&[], json!([])),
            (&[], Value::Null),
        ] {
            let error = draft.rewrite(path, |there| {
                *there = value;
                DONE
            });
            let expected = match path {
                [] => "the object would be no object".to_owned(),
                path => format!("{} lies inside a value that is not an object", path.join(".")),
            };
            assert_eq!(error.unwrap_err().to_string(), expected);
        }
        assert_eq!((whole(&draft), draft.changes()), (before, changes));
    }

    #[test]
    fn what_cannot_be_read_is_not_rewritten() {
        let mut draft = draft(r#"{"a":{"b":1e999}}"#);
        let error = draft.rewrite(&["a"], |_| DONE).unwrap_err();
        assert_eq!(error.to_string(), "a cannot be read");
        let error = draft.rewrite(&[], |_| DONE).unwrap_err();
        assert_eq!(error.to_string(), "the object cannot be read");
        assert_eq!(draft.changes(), 0);
    }

    #[test]
    fn what_is_too_wide_is_not_rewritten_and_that_is_found_out() {
        let text = format!(r#"{{"a":{{"b":[{}0]}}}}"#, "0,".repeat(MAX_OPENED));
        let mut draft = draft(&text);
        assert!(draft.rewrite(&["a", "b"], |_| DONE).is_err());
        assert_eq!(draft.too_wide().as_deref(), Some("a.b"));
    }

    /// An array in arrays, as deep as that.
    fn nested(depth: u32) -> Value {
        (0..depth).fold(json!(0), |inner, _| json!([inner]))
    }

    #[rstest]
    #[case::wide(json!(vec![0; MOST_VALUES]), json!(vec![0; MOST_VALUES + 1]), "s.x cannot be changed, with more than 8192 values")]
    #[case::empty(json!(vec![json!({}); MOST_VALUES / 2]), json!(vec![json!({}); MOST_VALUES / 2 + 1]), "s.x cannot be changed, with more than 8192 values")]
    #[case::deep(nested(MAX_DEPTH - 2), nested(MAX_DEPTH - 1), "s.x would be nested deeper than 127 levels")]
    fn what_is_rewritten_can_be_read_again_or_is_refused(
        #[case] most: Value,
        #[case] more: Value,
        #[case] reason: &str,
    ) {
        let mut draft = draft("{}");
        draft
            .rewrite(&["s", "x"], |value| {
                *value = most.clone();
                DONE
            })
            .unwrap();
        let error = draft
            .rewrite(&["s", "x"], |value| {
                *value = more;
                DONE
            })
            .unwrap_err();
        assert_eq!(error.to_string(), reason);
        assert_eq!(draft.read(&["s", "x"]).unwrap().as_ref(), Some(&most));
        let elements = draft.with_elements(&["s", "x"], |elements| elements.len());
        assert_eq!(elements, most.as_array().unwrap().len());
        let text = whole(&draft).to_string();
        assert!(
            Tree::parse(&text, 2)
                .unwrap()
                .get(&["s", "x"])
                .unwrap()
                .to_value()
                .is_ok()
        );
    }

    #[test]
    fn memory_is_bounded_whatever_an_object_consists_of() {
        let long = "n".repeat(170);
        for (open, values, element, close) in [
            ("[", 1, r#""v""#.to_owned(), "]"),
            ("[", 2, r#"{"a":"v"}"#.to_owned(), "]"),
            ("[", 3, format!(r#"{{"name":"@","{long}":"v"}}"#), "]"),
            ("{", 1, format!(r#""{long}@":"v""#), "}"),
            ("{", 2, r#""@":{"a":"v"}"#.to_owned(), "}"),
            ("{", 3, r#""@":{"a":{"b":"v"}}"#.to_owned(), "}"),
        ] {
            let count = MOST_VALUES / values - 1;
            let inside = (0..count).map(|at| element.replace('@', &at.to_string()));
            let text = format!(
                r#"{{"spec":{open}{}{close}}}"#,
                inside.collect::<Vec<_>>().join(",")
            );
            for path in [&["spec"][..], &[]] {
                let AllocationInfo { bytes_max, .. } = allocation_counter::measure(|| {
                    let mut draft = draft(&text);
                    let changed = draft.rewrite(path, |value| {
                        change_texts(value);
                        DONE
                    });
                    changed.unwrap();
                    let (patch, _) = patch::into_operations(draft);
                    assert_eq!(patch.len(), count);
                });
                assert!(bytes_max <= 16 << 20, "{bytes_max} for {element}");
            }
        }
    }

    /// Changes every text that is `v`.
    fn change_texts(value: &mut Value) {
        match value {
            Value::Array(elements) => elements.iter_mut().for_each(change_texts),
            Value::Object(members) => members.values_mut().for_each(change_texts),
            Value::String(text) if text == "v" => "w".clone_into(text),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
}
