//! Debug queries for Koordinator's ConfigMap: the stored version, the settings of its check, and the labels by which
//! its entries select nodes.

use headroom_proto::v1alpha1::{GetSloConfigResponse, ListNodeLabelsResponse, NodeLabels, StoredSloConfig};

use super::PAGE_BYTES;
use crate::{
    control::time_slices::Slices,
    hints::stream_context::{SloCheck, StreamContext},
    store::{node::Node, policies::StoredVersion},
};

/// ConfigMap, with the settings of its check.
pub(super) fn config(shared: &StreamContext) -> GetSloConfigResponse {
    let SloCheck {
        config_map,
        settings,
        switches,
    } = &shared.slo_check;
    let stored = shared.cluster.policies.stored();
    let switches = switches();
    let switches = switches.iter();
    GetSloConfigResponse {
        namespace: config_map.namespace.to_string(),
        name: config_map.name.to_string(),
        known: stored.is_some(),
        stored: stored.flatten().map(|stored| {
            let StoredVersion { version, data } = stored.as_ref();
            StoredSloConfig {
                resource_version: version.clone(),
                data: data.clone().into_iter().collect(),
            }
        }),
        needs_names: settings.needs_names,
        switches: switches.map(|(name, is_on)| (name.to_owned(), is_on)).collect(),
    }
}

/// Labels of `node`; if it is empty, a page of all nodes by name, starting after `after`.
pub(super) async fn labels(shared: &StreamContext, node: &str, after: &str) -> ListNodeLabelsResponse {
    let nodes = &shared.cluster.nodes;
    let mut page = ListNodeLabelsResponse {
        known: nodes.has_synced(),
        ..ListNodeLabelsResponse::default()
    };
    if !node.is_empty() {
        page.nodes = nodes.get(node).iter().map(|node| labelled(node)).collect();
        return page;
    }
    let mut bytes = 0;
    let mut slices = Slices::begin();
    for node in nodes.all().iter().filter(|node| node.name.as_str() > after) {
        if bytes >= PAGE_BYTES {
            page.next = page
                .nodes
                .last()
                .map_or_else(String::new, |last| last.name.clone());
            break;
        }
        let labelled = labelled(node);
        bytes += labelled.bytes();
        page.nodes.push(labelled);
        slices.rest().await;
    }
    page
}

fn labelled(node: &Node) -> NodeLabels {
    NodeLabels {
        name: node.name.clone(),
        labels: node.labels.clone().into_iter().collect(),
    }
}
