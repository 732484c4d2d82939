//! [`ReviewBuilder`] builds admission reviews of any object, as an API server posts them.

use serde_json::{Value, json};

/// A review with defaults: no dry run, an ordinary user.
#[derive(Debug, Clone)]
pub struct ReviewBuilder {
    request: Value,
}

impl ReviewBuilder {
    /// Creation of an object of a resource such as `pods` or `pods/binding`.
    pub fn create(resource: &str, object: &Value) -> Self {
        Self::new("CREATE", resource, object).with("object", object.clone())
    }

    /// Update of a stored object.
    pub fn update(resource: &str, old: &Value, new: &Value) -> Self {
        let builder = Self::new("UPDATE", resource, new).with("object", new.clone());
        builder.with("oldObject", old.clone())
    }

    /// Deletion of a stored object.
    pub fn delete(resource: &str, old: &Value) -> Self {
        Self::new("DELETE", resource, old).with("oldObject", old.clone())
    }

    /// Group, version, kind, name and namespace are taken from the object.
    fn new(operation: &str, resource: &str, object: &Value) -> Self {
        let (resource, sub_resource) = resource.split_once('/').unwrap_or((resource, ""));
        let api_version = object["apiVersion"].as_str().unwrap_or("v1");
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let metadata = |name: &str| object["metadata"][name].as_str().unwrap_or_default().to_owned();
        let request = json!({
            "uid": "review-1", "operation": operation, "name": metadata("name"), "namespace": metadata("namespace"),
            "kind": {"group": group, "version": version, "kind": object["kind"].as_str().unwrap_or_default()},
            "resource": {"group": group, "version": version, "resource": resource}, "subResource": sub_resource,
            "userInfo": {"username": "somebody", "groups": []}, "dryRun": false,
        });
        Self { request }
    }

    /// Sets the kind of an object that has none.
    #[must_use]
    pub fn kind(mut self, kind: &str) -> Self {
        self.request["kind"]["kind"] = kind.into();
        self
    }

    #[must_use]
    pub fn user(self, name: &str, groups: &[&str]) -> Self {
        self.with("userInfo", json!({"username": name, "groups": groups}))
    }

    #[must_use]
    pub fn dry_run(self) -> Self {
        self.with("dryRun", true.into())
    }

    /// Sets another member of the request; `null` is equivalent to its absence.
    #[must_use]
    pub fn with(mut self, member: &str, value: Value) -> Self {
        self.request[member] = value;
        self
    }

    pub fn build(self) -> String {
        let Self { request } = self;
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
            .to_string()
    }
}
