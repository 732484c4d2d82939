//! Compares a draft with the stored object, and puts stored values back into the draft.

use serde_json::Value;

use super::{
    Draft, Edits, Fields as _, PathValue, Tree, WriteError,
    tree::Member,
    written::{WriteKind, Written},
};

/// A stored value could not be put back.
#[derive(Debug, thiserror::Error)]
pub enum PutBackError {
    /// The stored value cannot be written.
    #[error("{path} is stored as a value that cannot be read")]
    Read { path: String, source: serde_json::Error },
    /// The object has no place for it.
    #[error(transparent)]
    Write(#[from] WriteError),
}

impl Draft<'_> {
    /// True if the value at `path` is certainly the stored one: neither the request nor a step changed it. False is
    /// no proof of a difference: one value has several JSON forms.
    pub fn is_as_stored(&self, path: &[&str]) -> bool {
        match (self.find(path), self.old.as_ref().map(|old| old.get(path))) {
            (PathValue::Nothing, Some(None)) => true,
            (PathValue::Stored(tree), Some(Some(old))) => tree.is_verbatim(old),
            (
                PathValue::Nothing
                | PathValue::Written(..)
                | PathValue::Stored(_)
                | PathValue::Edited(..)
                | PathValue::EditedElements(..),
                _,
            ) => false,
        }
    }

    /// True if the object at `path` has the stored members with the stored values, certain members aside. Absent and
    /// `null` are the same.
    ///
    /// # Errors
    /// If a value that has to be read for it cannot be.
    pub fn is_as_stored_but(&self, path: &[&str], but: &[&str]) -> Result<bool, serde_json::Error> {
        let Some(old) = &self.old else { return Ok(false) };
        let was = old.get(path);
        let (is, edits) = match self.find(path) {
            PathValue::Nothing => (None, None),
            // An array has no members.
            PathValue::Stored(tree) | PathValue::EditedElements(tree, _) => (Some(tree), None),
            PathValue::Edited(tree, edits) => (Some(tree), Some(edits)),
            PathValue::Written(value, written) => {
                let text = written.text(value);
                let written = Tree::parse(&text, 1).map_err(serde::de::Error::custom)?;
                return is_same(was, Some(&written), |name| but.contains(&name));
            }
        };
        let is_written = |name: &str| edits.is_some_and(|edits| edits.contains_key(name));
        for name in edits.into_iter().flat_map(Edits::keys).map(String::as_str) {
            let path = [path, &[name]].concat();
            if !but.contains(&name)
                && !self.is_as_stored(&path)
                && old.read::<Value>(&path)? != self.read(&path)?
            {
                return Ok(false);
            }
        }
        // The same text has the same members, however many.
        if let (Some(was), Some(is)) = (was, is)
            && was.is_verbatim(is)
        {
            return Ok(true);
        }
        is_same(was, is, |name| but.contains(&name) || is_written(name))
    }

    /// Restores the stored value at `path`; removes the member if none is stored.
    ///
    /// # Errors
    /// If the stored value cannot be read or there is no place for it.
    pub fn put_back(&mut self, path: &[&str]) -> Result<(), PutBackError> {
        if self.is_as_stored(path) {
            return Ok(());
        }
        let stored = self.old.as_ref().and_then(|old| old.get(path));
        let value = stored.map(Tree::to_value).transpose();
        let value = value.map_err(|source| PutBackError::Read {
            path: path.join("."),
            source,
        })?;
        match value {
            Some(value) => self.write(path, Written::new(value, WriteKind::Set))?,
            None => self.remove(path),
        }
        Ok(())
    }
}

impl Tree<'_> {
    /// True if both objects have the same members with the same values, certain members aside. Absent and `null` are
    /// the same.
    ///
    /// # Errors
    /// If a value that has to be read for it cannot be.
    pub fn is_same_but(&self, other: &Tree<'_>, but: &[&str]) -> Result<bool, serde_json::Error> {
        is_same(Some(self), Some(other), |name| but.contains(&name))
    }

    /// The member of that name, which most likely stands at that place.
    fn near(&self, at: usize, name: &str) -> Option<&Self> {
        match self.list().get(at) {
            Some((own, tree)) if own == name => Some(tree),
            Some(_) | None => self.get(&[name]),
        }
    }
}

fn members<'t, 'a>(tree: Option<&'t Tree<'a>>) -> &'t [Member<'a>] {
    tree.map(Tree::list).unwrap_or_default()
}

fn is_same(
    was: Option<&Tree<'_>>,
    is: Option<&Tree<'_>>,
    is_passed_over: impl Fn(&str) -> bool,
) -> Result<bool, serde_json::Error> {
    for (at, (name, was)) in members(was).iter().enumerate() {
        if is_passed_over(name) {
            continue;
        }
        let same = is.and_then(|is| is.near(at, name));
        if same.is_some_and(|is| is.is_verbatim(was)) {
            continue;
        }
        if was.read::<Value>(&[])? != same.map_or(Ok(None), |is| is.read(&[]))? {
            return Ok(false);
        }
    }
    let mut members = members(is).iter().enumerate();
    let is_stored = |at, name| was.is_some_and(|was| was.near(at, name).is_some());
    Ok(members.all(|(at, (name, value))| is_passed_over(name) || value.is_null() || is_stored(at, name)))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    const OLD: &str = r#"{"metadata":{"labels":{"a":"1","n":null},"annotations":{"b":"2"}},"x":[1]}"#;

    fn draft(new: &'static str) -> Draft<'static> {
        Draft::new(Tree::parse(new, 2).unwrap(), Some(Tree::parse(OLD, 2).unwrap()))
    }

    #[test]
    fn a_value_is_as_stored_until_somebody_changes_it() {
        let mut draft = draft(r#"{"metadata":{"labels":{"a":"1","n":null},"annotations":{"b":"3"}}}"#);
        assert!(draft.is_as_stored(&["metadata", "labels"]) && draft.is_as_stored(&["spec"]));
        assert!(!draft.is_as_stored(&["metadata", "annotations"]));
        draft.set(&["metadata", "labels", "a"], "2").unwrap();
        assert!(!draft.is_as_stored(&["metadata", "labels"]));
    }

    #[rstest]
    #[case::the_same(OLD, true)]
    #[case::in_other_words(
        r#"{"x": [ 1 ],"metadata":{"annotations":{"c":"3"},"labels":{"\u0061":"1"}}}"#,
        true
    )]
    #[case::another_value(r#"{"metadata":{"labels":{"a":"2"}},"x":[1]}"#, false)]
    #[case::one_less(r#"{"metadata":{"labels":{}},"x":[1]}"#, false)]
    #[case::one_more(r#"{"metadata":{"labels":{"a":"1","b":""}},"x":[1]}"#, false)]
    #[case::one_more_that_is_null(r#"{"metadata":{"labels":{"a":"1","b":null}},"x":[1]}"#, true)]
    #[case::an_object_less(r#"{"metadata":{},"x":[1]}"#, false)]
    fn members_are_compared_by_value(#[case] new: &'static str, #[case] is_same: bool) {
        let draft = draft(new);
        let labels = draft.is_as_stored_but(&["metadata", "labels"], &[]).unwrap();
        let metadata = draft
            .is_as_stored_but(&["metadata"], &["annotations", "labels"])
            .unwrap();
        let all = draft.is_as_stored_but(&[], &["metadata"]).unwrap();
        assert_eq!((labels, metadata, all), (is_same, true, true));
    }

    #[test]
    fn writes_of_steps_count_and_can_be_put_back() {
        let mut draft = draft(OLD);
        let is_same = |draft: &Draft<'_>| draft.is_as_stored_but(&["metadata"], &[]).unwrap();
        draft.set(&["metadata", "annotations", "b"], "3").unwrap();
        draft.set(&["metadata", "annotations", "c"], "4").unwrap();
        draft.set(&["metadata", "finalizers"], json!(["f"])).unwrap();
        draft.remove(&["metadata", "labels"]);
        assert!(!is_same(&draft));
        for path in [&["metadata", "annotations"][..], &["metadata", "finalizers"]] {
            draft.put_back(path).unwrap();
            assert!(!is_same(&draft));
        }
        draft.put_back(&["metadata", "labels"]).unwrap();
        assert!(is_same(&draft));
    }

    #[test]
    fn a_written_object_is_compared_as_it_is_after_each_write() {
        let mut draft = draft(r#"{"metadata":{"annotations":{"b":"2"}}}"#);
        let is_same = |draft: &Draft<'_>| draft.is_as_stored_but(&["metadata", "labels"], &[]).unwrap();
        draft
            .set(&["metadata", "labels"], json!({"a": "1", "b": "2"}))
            .unwrap();
        assert!(!is_same(&draft));
        draft.remove(&["metadata", "labels", "b"]);
        assert!(is_same(&draft));
        draft.set(&["metadata", "labels", "a"], "2").unwrap();
        assert!(!is_same(&draft));
    }

    #[test]
    fn without_a_stored_object_nothing_is_as_stored() {
        let draft = Draft::new(Tree::parse("{}", 2).unwrap(), None);
        assert!(!draft.is_as_stored(&["a"]) && !draft.is_as_stored_but(&[], &[]).unwrap());
    }
}
