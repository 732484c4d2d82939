//! [`AgentConfigMap`]: the agents' ConfigMap with the CAs that they trust.

use futures::future::BoxFuture;
use headroom_domain::{installation::Installation, names};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use serde_json::json;
use tokio::time::timeout;

use super::{BundleTarget, MANAGER, PublishError, TargetState, WRITE_LIMIT};
use crate::{
    control::certificates::{
        api_object::{self, ReadObject},
        state::Bundle,
    },
    store::access::{Access, AccessNamespace, ObjectNames},
};

/// Key of the ConfigMap with the CAs.
const KEY: &str = "ca.crt";

/// API access that the ConfigMap needs. The manifests contain it without data.
pub static ACCESS: &[Access] = &[Access::to(
    "",
    "configmaps",
    ObjectNames::Ours(&[names::AUTHORITIES_CONFIG_MAP]),
    &["get", "patch", "watch"],
)
.in_namespace(AccessNamespace::Agents)];

/// The ConfigMap in the agents' namespace.
pub struct AgentConfigMap {
    client: Client,
    config_maps: Api<ConfigMap>,
    name: String,
    label: String,
}

impl AgentConfigMap {
    pub fn new(client: Client, installation: &Installation) -> Self {
        let namespace = installation.agent_namespace.as_str();
        let name = installation.named(names::AUTHORITIES_CONFIG_MAP);
        Self {
            config_maps: Api::namespaced(client.clone(), namespace),
            client,
            label: format!("ConfigMap {namespace}/{name}"),
            name,
        }
    }

    async fn write(&self, bundle: &Bundle) -> Result<TargetState, PublishError> {
        let ReadObject { object, .. } = api_object::read(&self.client, &self.config_maps, &self.name)
            .await
            .map_err(PublishError::Read)?;
        let stored: ConfigMap = object.ok_or(PublishError::Absent)?;
        let authorities = stored.data.as_ref().and_then(|data| data.get(KEY));
        let written = if authorities.is_some_and(|text| **text == *bundle.pem) {
            stored
        } else {
            let patch = Patch::Merge(json!({"data": {KEY: *bundle.pem}}));
            let params = PatchParams {
                field_manager: Some(MANAGER.to_owned()),
                ..PatchParams::default()
            };
            let patched = self.config_maps.patch(&self.name, &params, &patch);
            timeout(WRITE_LIMIT, patched)
                .await
                .map_err(|_elapsed| PublishError::Slow)?
                .map_err(|error| PublishError::Write(Box::new(error)))?
        };
        let version = written.metadata.resource_version.unwrap_or_default();
        Ok(TargetState::Stored { version })
    }
}

impl BundleTarget for AgentConfigMap {
    fn label(&self) -> String {
        self.label.clone()
    }

    fn publish<'a>(&'a self, bundle: &'a Bundle) -> BoxFuture<'a, Result<TargetState, PublishError>> {
        Box::pin(self.write(bundle))
    }

    fn changed<'a>(&'a self, version: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(api_object::changed(&self.config_maps, &self.name, version))
    }
}
