//! Fetches Koordinator's ConfigMap and the labels of nodes from the webhook.

use headroom_proto::v1alpha1::{
    GetSloConfigRequest, GetSloConfigResponse, ListNodeLabelsRequest, ListNodeLabelsResponse, NodeLabels,
    StoredSloConfig,
};
use headroom_rules::{
    SWITCHES,
    slo::Data,
    switch::{Compat, Switches},
};
use tonic::Request;

use super::{Connection, LIMIT, check_order};
use crate::{
    error::Error,
    slo::{SloError, node_list::NodeList, stored_config::StoredConfig},
};

/// Koordinator's ConfigMap as the webhook knows it.
#[derive(Debug)]
pub struct SloConfigAnswer {
    pub namespace: String,
    pub name: String,
    /// `None` until the webhook knows the stored version.
    pub stored: Option<StoredConfig>,
}

impl Connection {
    /// Fetches the ConfigMap and the settings of its checks.
    ///
    /// # Errors
    /// The webhook refuses or is unreachable.
    pub async fn slo_config(&mut self) -> Result<SloConfigAnswer, Error> {
        let mut request = Request::new(GetSloConfigRequest {});
        request.set_timeout(LIMIT);
        let GetSloConfigResponse {
            namespace,
            name,
            known,
            stored,
            needs_names,
            switches,
        } = self.client.get_slo_config(request).await?.into_inner();
        let (data, version) = stored.map_or((None, String::new()), |stored| {
            let StoredSloConfig {
                resource_version,
                data,
            } = stored;
            (Some(data.into_iter().collect::<Data>()), resource_version)
        });
        let stored = known.then(|| StoredConfig {
            data,
            version,
            needs_names,
            switches: known_switches(&switches),
        });
        Ok(SloConfigAnswer {
            namespace,
            name,
            stored,
        })
    }

    /// Fetches the labels of all nodes, or of one, which may be unknown.
    ///
    /// # Errors
    /// The webhook refuses, is unreachable, or does not know all nodes yet.
    pub async fn node_labels(&mut self, node: Option<&str>) -> Result<NodeList, Error> {
        let (mut found, mut after) = (Vec::new(), String::new());
        loop {
            let mut request = Request::new(ListNodeLabelsRequest {
                after: after.clone(),
                node: node.unwrap_or_default().to_owned(),
            });
            request.set_timeout(LIMIT);
            let page = self.client.list_node_labels(request).await?.into_inner();
            let ListNodeLabelsResponse { nodes, next, known } = page;
            if !known {
                return Err(Error::from(SloError::NodesNotKnown));
            }
            found.extend(
                nodes
                    .into_iter()
                    .map(|NodeLabels { name, labels }| (name, labels.into_iter().collect())),
            );
            let before = std::mem::replace(&mut after, next);
            if after.is_empty() {
                return Ok(found.into_iter().collect());
            }
            check_order(&before, &after)?;
        }
    }
}

/// Switches that this program knows; those that the webhook lacks keep their defaults.
fn known_switches(switches: &std::collections::HashMap<String, bool>) -> Switches {
    let states = SWITCHES.iter().filter_map(|switch| {
        let is_on = switches.get(switch.name)?;
        Some(format!("{}={is_on}", switch.name))
    });
    let list: Vec<String> = states.collect();
    let preset = Switches::preset(SWITCHES, Compat::Headroom);
    preset.with(&list.join(",")).unwrap_or(preset)
}
