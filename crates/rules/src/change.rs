//! What a rule changes in a Pod: single amounts of single containers, and annotations.
//!
//! A change names only what differs. [`Changes::apply`] writes it into the list of containers as JSON, where everything
//! else stays as it is.

use headroom_domain::amounts::Amounts;
use serde_json::{Map, Value};

use crate::container::{ContainerList, Resources};

/// What changes in one map of amounts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AmountsChange {
    /// Amounts that are new or differ.
    pub set: Amounts,
    /// Resources that are no longer named, with what there was of each.
    pub removed: Amounts,
}

/// What changes in one container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerChange {
    /// The list that the container is in.
    pub list: ContainerList,
    /// Its place in the list, counted from 0.
    pub index: usize,
    /// What changes in its requests.
    pub requests: AmountsChange,
    /// What changes in its limits.
    pub limits: AmountsChange,
}

/// What changes in the containers of a Pod; at most one change for each container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes(Vec<ContainerChange>);

/// What becomes of an annotation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnnotationChange {
    /// It stays as it is, or stays away.
    Keep,
    /// It becomes this text.
    Set(String),
    /// It goes.
    Remove,
}

/// The object has no place for a change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path} is not an object")]
pub struct ChangeError {
    /// The value, as in `spec.containers[0].resources`.
    path: String,
}

impl AmountsChange {
    /// What makes `after` of `before`. An amount that is only spelt differently does not differ.
    pub fn between(before: &Amounts, after: &Amounts) -> Self {
        Self {
            set: after.filtered(|name, amount| before.get(name) != Some(amount)),
            removed: before.filtered(|name, _| !after.contains(name)),
        }
    }

    /// True if nothing changes.
    pub fn is_empty(&self) -> bool {
        let Self { set, removed } = self;
        set.is_empty() && removed.is_empty()
    }

    /// Writes the change into amounts as JSON, which `path` names; they are created where they are absent or `null`.
    ///
    /// # Errors
    /// They are not an object. The value is to be dropped then.
    pub fn write(&self, amounts: &mut Value, path: &str) -> Result<(), ChangeError> {
        if self.is_empty() {
            return Ok(());
        }
        if amounts.is_null() {
            *amounts = Value::Object(Map::new());
        }
        let amounts = amounts.as_object_mut().ok_or_else(|| ChangeError {
            path: path.to_owned(),
        })?;
        self.apply(amounts);
        Ok(())
    }

    fn apply(&self, amounts: &mut Map<String, Value>) {
        for (name, _) in self.removed.iter() {
            amounts.remove(name);
        }
        for (name, amount) in self.set.iter() {
            amounts.insert(name.to_owned(), amount.to_string().into());
        }
    }
}

impl ContainerChange {
    /// What makes the resources `after` of `before`; `None` if that is nothing.
    pub fn between(list: ContainerList, index: usize, before: &Resources, after: &Resources) -> Option<Self> {
        let change = Self {
            list,
            index,
            requests: AmountsChange::between(&before.requests, &after.requests),
            limits: AmountsChange::between(&before.limits, &after.limits),
        };
        (!change.requests.is_empty() || !change.limits.is_empty()).then_some(change)
    }

    fn apply(&self, container: Option<&mut Value>) -> Result<(), ChangeError> {
        let mut nothing = Value::Null;
        // The container is there if the view came from this list; it is never created.
        let container = container.unwrap_or(&mut nothing);
        let Value::Object(container) = container else {
            return Err(ChangeError { path: self.path() });
        };
        self.apply_to_resources(container.entry("resources").or_insert(Value::Null))
    }

    /// Writes the change into the member `resources` of the container, which is created where it is `null`.
    ///
    /// # Errors
    /// It, or something in it on the way to the amounts, is not an object. The value is to be dropped then.
    pub fn apply_to_resources(&self, resources: &mut Value) -> Result<(), ChangeError> {
        let Self { requests, limits, .. } = self;
        let path = || format!("{}.resources", self.path());
        let resources = object(resources, path)?;
        for (name, change) in [("requests", requests), ("limits", limits)] {
            if !change.is_empty() {
                let amounts = resources.entry(name).or_insert(Value::Null);
                change.apply(object(amounts, || format!("{}.{name}", path()))?);
            }
        }
        Ok(())
    }

    fn path(&self) -> String {
        format!("spec.{}[{}]", self.list.name(), self.index)
    }
}

/// The object that a value is; it is created where it is `null`.
fn object(value: &mut Value, path: impl FnOnce() -> String) -> Result<&mut Map<String, Value>, ChangeError> {
    if value.is_null() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().ok_or_else(|| ChangeError { path: path() })
}

impl Changes {
    /// True if nothing changes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The changes, in the order of the containers.
    pub fn iter(&self) -> impl Iterator<Item = &ContainerChange> {
        self.0.iter()
    }

    /// The lists in which something changes, each once.
    pub fn lists(&self) -> impl Iterator<Item = ContainerList> {
        let is_changed = |list: &ContainerList| self.iter().any(|change| change.list == *list);
        ContainerList::ALL.into_iter().filter(is_changed)
    }

    /// Writes the changes of one list into that list, which is the value of the member [`ContainerList::name`] of `spec`.
    ///
    /// # Errors
    /// If a container that changes, or something on the way to its amounts, is not an object. The value is to be dropped then.
    pub fn apply(&self, list: ContainerList, value: &mut Value) -> Result<(), ChangeError> {
        for change in self.iter().filter(|change| change.list == list) {
            change.apply(value.get_mut(change.index))?;
        }
        Ok(())
    }
}

impl FromIterator<ContainerChange> for Changes {
    fn from_iter<I: IntoIterator<Item = ContainerChange>>(changes: I) -> Self {
        Self(changes.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn amounts(value: Value) -> Amounts {
        serde_json::from_value(value).unwrap()
    }

    fn resources(requests: Value, limits: Value) -> Resources {
        Resources {
            requests: amounts(requests),
            limits: amounts(limits),
        }
    }

    #[test]
    fn only_what_differs_in_amount_changes() {
        let before = amounts(json!({"a": "1000m", "b": "1", "c": "1"}));
        let change = AmountsChange::between(&before, &amounts(json!({"a": "1", "b": "2", "d": "0"})));
        assert_eq!(change.set, amounts(json!({"b": "2", "d": "0"})));
        assert_eq!(change.removed, amounts(json!({"c": "1"})));
        assert!(AmountsChange::between(&before, &before).is_empty());
    }

    #[test]
    fn amounts_are_written_where_there_are_none_and_nowhere_else() {
        let change = AmountsChange::between(&amounts(json!({"a": "1"})), &amounts(json!({"b": "2"})));
        let written = |mut value: Value| change.write(&mut value, "spec.overhead").map(|()| value);
        assert_eq!(written(json!({"a": "1", "c": 3})), Ok(json!({"b": "2", "c": 3})));
        assert_eq!(written(Value::Null), Ok(json!({"b": "2"})));
        let error = written(json!([])).unwrap_err().to_string();
        assert_eq!(error, "spec.overhead is not an object");
        let mut nothing = Value::Null;
        AmountsChange::default()
            .write(&mut nothing, "spec.overhead")
            .unwrap();
        assert!(nothing.is_null());
    }

    #[test]
    fn a_container_without_a_change_is_left_out() {
        let same = resources(json!({"a": "1"}), json!({}));
        assert_eq!(
            ContainerChange::between(ContainerList::Main, 0, &same, &same),
            None
        );
        assert!(Changes::default().is_empty() && Changes::default().lists().next().is_none());
    }

    fn changes() -> Changes {
        let (before, after) = (
            resources(json!({"old": "1", "kept": "1"}), json!({})),
            resources(json!({"new": "1k", "kept": "1"}), json!({"new": "1k"})),
        );
        [(ContainerList::Main, 1), (ContainerList::Init, 0)]
            .into_iter()
            .filter_map(|(list, index)| ContainerChange::between(list, index, &before, &after))
            .collect()
    }

    #[test]
    fn what_no_rule_knows_stays_as_it_is() {
        let mut list = json!([
            {"name": "a", "resources": {"requests": {"old": "1"}}},
            {"name": "b", "newer": {"x": [1]}, "resources": {
                "claims": [{"name": "c"}], "requests": {"old": "1", "kept": "1.0"}, "limits": null}},
        ]);
        changes().apply(ContainerList::Main, &mut list).unwrap();
        assert_eq!(
            list,
            json!([
                {"name": "a", "resources": {"requests": {"old": "1"}}},
                {"name": "b", "newer": {"x": [1]}, "resources": {
                    "claims": [{"name": "c"}], "requests": {"kept": "1.0", "new": "1k"}, "limits": {"new": "1k"}}},
            ])
        );
        assert!(changes().lists().eq(ContainerList::ALL));
    }

    #[test]
    fn maps_that_are_missing_are_created() {
        for container in [
            json!({}),
            json!({"resources": null}),
            json!({"resources": {"limits": {}}}),
        ] {
            let mut list = json!([container]);
            changes().apply(ContainerList::Init, &mut list).unwrap();
            let resources = json!({"requests": {"new": "1k"}, "limits": {"new": "1k"}});
            assert_eq!(list, json!([{"resources": resources}]));
        }
    }

    #[test]
    fn a_value_without_a_place_for_a_change_is_named() {
        for (list, path) in [
            (json!([]), "spec.initContainers[0]"),
            (json!("x"), "spec.initContainers[0]"),
            (json!([null]), "spec.initContainers[0]"),
            (json!([{"resources": 1}]), "spec.initContainers[0].resources"),
            (
                json!([{"resources": {"limits": []}}]),
                "spec.initContainers[0].resources.limits",
            ),
        ] {
            let error = changes()
                .apply(ContainerList::Init, &mut list.clone())
                .unwrap_err();
            assert_eq!(error.to_string(), format!("{path} is not an object"), "{list}");
        }
    }
}
