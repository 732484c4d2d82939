//! [`WebhookConfiguration`]: one of our webhook configurations, whose entries contain the CA bundle.
//!
//! A server-side apply writes `caBundle` alone. Afterwards its entry in `managedFields` is removed. Otherwise this
//! field would keep half an entry alive when its owner (Argo CD, Flux, Helm) removes the entry, and the API server would
//! refuse the owner's apply.

use std::{collections::BTreeMap, fmt::Debug, sync::Arc};

use arc_swap::ArcSwap;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures::future::BoxFuture;
use kube::{
    Api, Client, Resource,
    api::{ApiResource, DynamicObject, Patch, PatchParams},
};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::timeout;
use tracing::info;

use super::{BundleTarget, MANAGER, PublishError, TargetState, WRITE_LIMIT};
use crate::{
    admission::features::Features,
    control::{
        certificates::{
            api_object::{self, ReadObject},
            state::Bundle,
        },
        registration::entry::ExpectedEntry,
    },
};

/// Annotations of cert-manager by which it writes the bundle.
const INJECTED: [&str; 3] = [
    "cert-manager.io/inject-ca-from",
    "cert-manager.io/inject-ca-from-secret",
    "cert-manager.io/inject-apiserver-ca",
];

/// Writes of one check: own entries, the bundle, the end of the ownership, and each again after another writer.
const MOST_WRITES: u32 = 6;

/// The generated entries, for `--reconcile=entries`.
pub struct OwnEntries {
    pub entries: Vec<ExpectedEntry>,
    pub features: Arc<ArcSwap<Features>>,
}

/// A webhook configuration of one kind.
pub struct WebhookConfiguration {
    client: Client,
    api: Api<DynamicObject>,
    resource: ApiResource,
    name: String,
    fields: ReconciledFields,
}

/// Fields that are ours.
pub enum ReconciledFields {
    /// None: another tool writes the bundle, and this replica only compares it.
    Nothing,
    Bundle,
    /// The bundle, unless cert-manager's CA injector writes it.
    BundleUnlessInjected,
    Entries(OwnEntries),
}

impl WebhookConfiguration {
    /// The object of kind `K` with this name.
    pub fn new<K: Resource<DynamicType = ()>>(
        client: Client,
        name: String,
        fields: ReconciledFields,
    ) -> Self {
        let resource = ApiResource::erase::<K>(&());
        Self {
            api: Api::all_with(client.clone(), &resource),
            client,
            resource,
            name,
            fields,
        }
    }

    async fn write(&self, bundle: &Bundle) -> Result<TargetState, PublishError> {
        let ReadObject { object, .. } = api_object::read(&self.client, &self.api, &self.name)
            .await
            .map_err(PublishError::Read)?;
        let Some(mut stored): Option<DynamicObject> = object else {
            return Ok(TargetState::Absent);
        };
        let annotations = stored.metadata.annotations.as_ref();
        let injected = INJECTED
            .into_iter()
            .find(|key| annotations.is_some_and(|annotations| annotations.contains_key(*key)));
        let is_left = match (&self.fields, injected) {
            (ReconciledFields::Nothing, _) | (ReconciledFields::BundleUnlessInjected, Some(_)) => true,
            (ReconciledFields::Bundle | ReconciledFields::Entries(_), Some(annotation)) => {
                return Err(PublishError::Injected { annotation });
            }
            (_, None) => false,
        };
        let encoded = STANDARD.encode(bundle.pem.as_bytes());
        // Another writer may have changed the object before each of our writes, so each answer is checked again.
        for _ in 0..MOST_WRITES {
            let own = match &self.fields {
                ReconciledFields::Entries(own) => own.wanted(&stored, &encoded),
                ReconciledFields::Nothing
                | ReconciledFields::Bundle
                | ReconciledFields::BundleUnlessInjected => None,
            };
            let wrong: Vec<&str> = entries(&stored)
                .filter(|entry| bundle_of(entry) != Some(&encoded))
                .filter_map(name_of)
                .collect();
            if let Some(entries) = own {
                info!(object = self.label(), "writing our entries");
                stored = self.replace_entries(&stored, entries).await?;
            } else if !wrong.is_empty() {
                if is_left {
                    return Err(PublishError::NotOurs);
                }
                let managers = owners(&stored);
                info!(object = self.label(), entries = ?wrong, ?managers, "writing the CA bundle");
                stored = self.apply(&stored, &encoded).await?;
            } else if let Some(position) = position_of_ours(&stored) {
                stored = self.disown(position).await?;
            } else {
                let version = stored.metadata.resource_version.unwrap_or_default();
                return Ok(TargetState::Stored { version });
            }
        }
        Err(PublishError::Contested)
    }

    /// Writes the bundle into every entry that is present, and no other field.
    async fn apply(&self, stored: &DynamicObject, encoded: &str) -> Result<DynamicObject, PublishError> {
        let entries: Vec<Value> = entries(stored)
            .filter_map(name_of)
            .map(|name| json!({"name": name, "clientConfig": {"caBundle": encoded}}))
            .collect();
        let patch = Patch::Apply(json!({
            "apiVersion": self.resource.api_version,
            "kind": self.resource.kind,
            "metadata": {"name": self.name},
            "webhooks": entries,
        }));
        self.patch(&PatchParams::apply(MANAGER).force(), &patch).await
    }

    /// Removes our entry from the managed fields: the bundle stays, without an owner.
    async fn disown(&self, position: usize) -> Result<DynamicObject, PublishError> {
        let path = format!("/metadata/managedFields/{position}");
        let operations = json!([
            {"op": "test", "path": format!("{path}/manager"), "value": MANAGER},
            {"op": "remove", "path": path},
        ]);
        let patch = serde_json::from_value(operations)
            .map_err(|error| PublishError::Write(Box::new(kube::Error::SerdeError(error))))?;
        self.patch(&PatchParams::default(), &Patch::Json::<()>(patch))
            .await
    }

    async fn patch<P: Serialize + Debug + Sync>(
        &self,
        params: &PatchParams,
        patch: &Patch<P>,
    ) -> Result<DynamicObject, PublishError> {
        let patched = self.api.patch(&self.name, params, patch);
        timeout(WRITE_LIMIT, patched)
            .await
            .map_err(|_elapsed| PublishError::Slow)?
            .map_err(|error| PublishError::Write(Box::new(error)))
    }

    /// Replaces the list of entries, unless the object has changed meanwhile.
    async fn replace_entries(
        &self,
        stored: &DynamicObject,
        entries: Vec<Value>,
    ) -> Result<DynamicObject, PublishError> {
        let patch = Patch::Merge(json!({
            "metadata": {"resourceVersion": stored.metadata.resource_version},
            "webhooks": entries,
        }));
        let params = PatchParams {
            field_manager: Some(MANAGER.to_owned()),
            ..PatchParams::default()
        };
        self.patch(&params, &patch).await
    }
}

impl BundleTarget for WebhookConfiguration {
    fn label(&self) -> String {
        format!("{} {}", self.resource.kind, self.name)
    }

    fn publish<'a>(&'a self, bundle: &'a Bundle) -> BoxFuture<'a, Result<TargetState, PublishError>> {
        Box::pin(self.write(bundle))
    }

    fn changed<'a>(&'a self, version: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(api_object::changed(&self.api, &self.name, version))
    }
}

impl OwnEntries {
    /// All entries as they should be; `None` if they are. Entries of others stay where they are.
    fn wanted(&self, stored: &DynamicObject, encoded: &str) -> Option<Vec<Value>> {
        let gates = &self.features.load().gates;
        let mut own: BTreeMap<&str, &ExpectedEntry> =
            self.entries.iter().map(|entry| (entry.name(), entry)).collect();
        let (mut wanted, mut has_changed) = (Vec::new(), false);
        for entry in entries(stored) {
            let Some(expected) = name_of(entry).and_then(|name| own.remove(name)) else {
                wanted.push(entry.clone());
                continue;
            };
            if !expected.is_wanted(gates) {
                has_changed = true;
            } else if expected.differs(entry) {
                has_changed = true;
                wanted.push(expected.with_bundle(entry, encoded));
            } else {
                wanted.push(entry.clone());
            }
        }
        for expected in own.into_values().filter(|expected| expected.is_wanted(gates)) {
            has_changed = true;
            wanted.push(expected.with_bundle(&Value::Null, encoded));
        }
        has_changed.then_some(wanted)
    }
}

fn entries(stored: &DynamicObject) -> impl Iterator<Item = &Value> {
    let webhooks = stored.data.get("webhooks").and_then(Value::as_array);
    webhooks.into_iter().flatten()
}

fn name_of(entry: &Value) -> Option<&str> {
    entry.get("name")?.as_str()
}

fn bundle_of(entry: &Value) -> Option<&str> {
    entry.get("clientConfig")?.get("caBundle")?.as_str()
}

/// Managers that own a bundle, for the log.
fn owners(stored: &DynamicObject) -> Vec<String> {
    let managed = stored.metadata.managed_fields.iter().flatten();
    let owning = managed.filter(|fields| {
        let owned = fields.fields_v1.as_ref().map(|fields| fields.0.to_string());
        owned.is_some_and(|owned| owned.contains("f:caBundle"))
    });
    owning.filter_map(|fields| fields.manager.clone()).collect()
}

fn position_of_ours(stored: &DynamicObject) -> Option<usize> {
    let mut managed = stored.metadata.managed_fields.iter().flatten();
    managed.position(|fields| fields.manager.as_deref() == Some(MANAGER))
}
