//! Changes of a rule to a Pod: amounts of containers, and annotations.
//!
//! A change contains only differences. [`Changes::apply`] writes it into the JSON list of containers and leaves all
//! other members unchanged.

use headroom_domain::amounts::Amounts;
use serde_json::{Map, Value};

use crate::container::{ContainerList, Resources};

/// Changes in one map of resource amounts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AmountsChange {
    /// Amounts that are new or differ.
    pub set: Amounts,
    /// Resources that are no longer present, with their previous amounts.
    pub removed: Amounts,
}

/// Changes in the requests and limits of one container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerChange {
    /// List that contains the container.
    pub list: ContainerList,
    /// Index of the container in its list, from 0.
    pub index: usize,
    /// Changes of the container's requests.
    pub requests: AmountsChange,
    /// Changes of the container's limits.
    pub limits: AmountsChange,
}

/// Changes in the containers of a Pod; at most one entry per container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes(Vec<ContainerChange>);

/// Change of one annotation of a Pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnnotationChange {
    /// The annotation stays present or absent, unchanged.
    Keep,
    /// The annotation gets this value.
    Set(String),
    /// The annotation must be removed from the Pod.
    Remove,
}

/// The object has a value of another type where a change must be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path} is not an object")]
pub struct ChangeError {
    /// Path of that value, such as `spec.containers[0].resources`.
    path: String,
}

impl AmountsChange {
    /// Computes the change from `before` to `after`. Two spellings of one amount are equal.
    pub fn between(before: &Amounts, after: &Amounts) -> Self {
        Self {
            set: after.filtered(|name, amount| before.get(name) != Some(amount)),
            removed: before.filtered(|name, _| !after.contains(name)),
        }
    }

    /// Returns true if no amount changes.
    pub fn is_empty(&self) -> bool {
        let Self { set, removed } = self;
        set.is_empty() && removed.is_empty()
    }

    /// Writes the change into JSON amounts at `path`, which errors name. Absent or `null` amounts are created.
    ///
    /// # Errors
    /// The value is not an object. It must be dropped then.
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
    /// Computes the change from the resources `before` to `after`; `None` if they are equal.
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
        // The container exists if the view was read from this list; it is never created.
        let container = container.unwrap_or(&mut nothing);
        let Value::Object(container) = container else {
            return Err(ChangeError { path: self.path() });
        };
        self.apply_to_resources(container.entry("resources").or_insert(Value::Null))
    }

    /// Writes the change into the member `resources` of the container, which is created if it is `null`.
    ///
    /// # Errors
    /// The value, or a value on the path to the amounts, is not an object. It must be dropped then.
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

/// Returns the object in a value, created if the value is `null`.
fn object(value: &mut Value, path: impl FnOnce() -> String) -> Result<&mut Map<String, Value>, ChangeError> {
    if value.is_null() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().ok_or_else(|| ChangeError { path: path() })
}

impl Changes {
    /// Returns true if no container changes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The changes, in the order of the containers.
    pub fn iter(&self) -> impl Iterator<Item = &ContainerChange> {
        self.0.iter()
    }

    /// Lists with at least one change, each once.
    pub fn lists(&self) -> impl Iterator<Item = ContainerList> {
        let is_changed = |list: &ContainerList| self.iter().any(|change| change.list == *list);
        ContainerList::ALL.into_iter().filter(is_changed)
    }

    /// Writes the changes of one list into that list, which is the value of the member [`ContainerList::name`] of
    /// `spec`.
    ///
    /// # Errors
    /// A changed container, or a value on the path to its amounts, is not an object. The list must be dropped then.
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
    fn only_amounts_that_differ_change() {
        let before = amounts(json!({"a": "1000m", "b": "1", "c": "1"}));
        let change = AmountsChange::between(&before, &amounts(json!({"a": "1", "b": "2", "d": "0"})));
        assert_eq!(change.set, amounts(json!({"b": "2", "d": "0"})));
        assert_eq!(change.removed, amounts(json!({"c": "1"})));
        assert!(AmountsChange::between(&before, &before).is_empty());
    }

    #[test]
    fn amounts_are_created_and_other_values_stay() {
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
    fn unknown_members_stay_unchanged() {
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
