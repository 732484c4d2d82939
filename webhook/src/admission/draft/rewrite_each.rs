//! [`Draft::rewrite_each`]: several changes of one part of a draft, each all or nothing, read and recorded once.

use serde_json::Value;

use super::{
    Draft,
    rewrite::{RewriteError, check_size},
};

impl Draft<'_> {
    /// Has each of `changes` work on the value at `path`, on what those before it have left. One that fails leaves nothing; what
    /// came of the others is recorded once. It is as if each were a [`rewrite`](Self::rewrite) of its own.
    ///
    /// # Errors
    /// A [`RewriteError`] if the value cannot be read, or there is no place for the new one: nothing is recorded then. What one
    /// change returns, or why its value is not taken, is its own result.
    pub fn rewrite_each<T, E: From<RewriteError>>(
        &mut self,
        path: &[&str],
        changes: impl IntoIterator<Item = impl FnOnce(&mut Value) -> Result<T, E>>,
    ) -> Result<Vec<Result<T, E>>, RewriteError> {
        let before = self.value(path)?;
        check_size(&before, path)?;
        let mut after: Option<Value> = None;
        let mut results = Vec::new();
        for change in changes {
            let mut changed = after.as_ref().unwrap_or(&before).clone();
            let result = change(&mut changed);
            let result = result.and_then(|done| {
                if path.is_empty() && !changed.is_object() {
                    return Err(RewriteError::NoObject.into());
                }
                check_size(&changed, path)?;
                Ok(done)
            });
            if result.is_ok() {
                after = Some(changed);
            }
            results.push(result);
        }
        if let Some(after) = after {
            self.record_change(path, &before, after)?;
        }
        Ok(results)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::admission::{
        draft::{Fields as _, Tree},
        patch,
    };

    const POD: &str =
        r#"{"metadata":{"name":"p","labels":{"a":"1"}},"spec":{"containers":[{"name":"c"}],"nodeName":""}}"#;

    fn draft() -> Draft<'static> {
        Draft::new(Tree::parse(POD, 2).unwrap(), None)
    }

    /// Changes that people's profiles make, and two that fail.
    fn change(kind: usize, object: &mut Value) -> Result<(), RewriteError> {
        match kind {
            0 => object["metadata"]["labels"]["b"] = json!("2"),
            1 => object["metadata"]["labels"] = Value::Null,
            2 => object["spec"]["containers"]
                .as_array_mut()
                .unwrap()
                .push(json!({"name": "d"})),
            3 => object["spec"]["priority"] = json!(7),
            4 => object["metadata"]["annotations"] = json!({"x": "y"}),
            5 => *object = json!([]),
            _ => {
                object["spec"] = Value::Null;
                return Err(RewriteError::NoObject);
            }
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn many_changes_at_once_are_as_one_after_the_other(kinds in prop::collection::vec(0..7_usize, 0..8)) {
            let (mut at_once, mut each) = (draft(), draft());
            let changes = kinds.iter().map(|&kind| move |object: &mut Value| change(kind, object));
            let results = at_once.rewrite_each(&[], changes).unwrap();
            let results: Vec<bool> = results.iter().map(Result::is_ok).collect();
            let expected: Vec<bool> =
                kinds.iter().map(|&kind| each.rewrite(&[], |object| change(kind, object)).is_ok()).collect();
            prop_assert_eq!(results, expected);
            let whole = |draft: &Draft<'_>| draft.read::<Value>(&[]).unwrap().unwrap();
            prop_assert_eq!(whole(&at_once), whole(&each));
            let operations = |draft| serde_json::to_value(patch::into_operations(draft).0).unwrap();
            prop_assert_eq!(operations(at_once), operations(each));
        }
    }

    #[test]
    fn without_a_change_that_succeeds_nothing_is_recorded() {
        let mut draft = draft();
        let changes = [5, 6].map(|kind| move |object: &mut Value| change(kind, object));
        let results = draft.rewrite_each(&[], changes).unwrap();
        assert!(results.iter().all(Result::is_err));
        assert_eq!(draft.changes(), 0);
    }
}
