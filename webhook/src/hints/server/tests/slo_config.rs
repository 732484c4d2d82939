//! Tests of the debug service's answers about Koordinator's ConfigMap and about labels of nodes.

use headroom_domain::names;
use headroom_proto::v1alpha1::{
    GetSloConfigRequest, GetSloConfigResponse, ListNodeLabelsRequest, NodeLabels,
};
use headroom_rules::slo::version::LONGEST;
use rstest::rstest;
use serde_json::json;

use super::*;

/// A version of the ConfigMap with that text under a key.
fn config_map(version: &str, text: &str) -> k8s_openapi::api::core::v1::ConfigMap {
    serde_json::from_value(json!({
        "metadata": {"name": names::SLO_CONFIG, "resourceVersion": version},
        "data": {names::COLOCATION_CONFIG: text, "other": "{"},
    }))
    .unwrap()
}

async fn config(site: &Site) -> GetSloConfigResponse {
    let mut debug = DebugClient::new(site.channel(None).await);
    let request = asked_by(GetSloConfigRequest {}, Some("person"));
    debug.get_slo_config(request).await.unwrap().into_inner()
}

#[rstest]
#[case::nobody(None, Code::Unauthenticated)]
#[case::agent(Some("agent-n1"), Code::PermissionDenied)]
#[case::not_allowed(Some("nosy"), Code::PermissionDenied)]
#[tokio::test]
async fn the_configuration_is_for_those_who_may_see_nodes(#[case] token: Option<&str>, #[case] code: Code) {
    let site = Site::new().await;
    let mut debug = DebugClient::new(site.channel(None).await);
    let config = debug
        .get_slo_config(asked_by(GetSloConfigRequest {}, token))
        .await;
    assert_eq!(config.unwrap_err().code(), code);
    let labels = asked_by(ListNodeLabelsRequest::default(), token);
    assert_eq!(debug.list_node_labels(labels).await.unwrap_err().code(), code);
}

#[tokio::test]
async fn the_stored_version_is_shown_as_it_comes_and_goes() {
    let site = Site::new().await;
    let policies = &site.cluster.policies;
    policies.replace(Some(config_map("7", "{}")));
    let found = config(&site).await;
    assert_eq!(
        (
            found.namespace.as_str(),
            found.name.as_str(),
            found.known,
            found.needs_names
        ),
        (names::SLO_CONFIG_NAMESPACE, names::SLO_CONFIG, true, false)
    );
    let stored = found.stored.unwrap();
    assert_eq!((stored.resource_version.as_str(), stored.data.len()), ("7", 2));
    assert_eq!(stored.data[names::COLOCATION_CONFIG], "{}");
    assert_eq!(found.switches.len(), SWITCHES.len());

    // Texts that are none of ours are kept as well.
    policies.apply(config_map("8", "not JSON"));
    let stored = config(&site).await.stored.unwrap();
    assert_eq!(stored.data[names::COLOCATION_CONFIG], "not JSON");
    policies.delete(config_map("9", "{}"));
    let found = config(&site).await;
    assert!(found.known && found.stored.is_none());

    policies.apply(config_map("10", "{}"));
    policies.set_known(false);
    let found = config(&site).await;
    assert!(!found.known && found.stored.is_none());
}

#[tokio::test]
async fn texts_that_nobody_can_store_are_not_kept() {
    let site = Site::new().await;
    let policies = &site.cluster.policies;
    policies.replace(Some(config_map("1", &"x".repeat(LONGEST))));
    let found = config(&site).await;
    assert!(!found.known && found.stored.is_none());
    policies.apply(config_map("2", &"x".repeat(LONGEST - 100)));
    assert_eq!(config(&site).await.stored.unwrap().resource_version, "2");
}

#[tokio::test]
async fn labels_of_all_nodes_are_listed_page_by_page() {
    let site = Site::new().await;
    let long = "x".repeat(600);
    let mut names: Vec<String> = (0..5000).map(|i| format!("node-{i:04}")).collect();
    for name in &names {
        let mut node = amplified(3, "4800m", 120);
        node["metadata"]["name"] = name.as_str().into();
        node["metadata"]["labels"] = json!({"pool": name, "long": long});
        site.cluster.nodes.apply(serde_json::from_value(node).unwrap());
    }
    names.insert(0, "n1".to_owned());
    let mut debug = DebugClient::new(site.channel(None).await);
    let (mut listed, mut after, mut pages) = (Vec::new(), String::new(), 0);
    loop {
        let request = asked_by(
            ListNodeLabelsRequest {
                after,
                ..ListNodeLabelsRequest::default()
            },
            Some("person"),
        );
        let page = debug.list_node_labels(request).await.unwrap().into_inner();
        let bytes: usize = page.nodes.iter().map(NodeLabels::bytes).sum();
        assert!(page.known && bytes < 2 << 20, "{bytes}");
        listed.extend(page.nodes);
        pages += 1;
        if page.next.is_empty() {
            break;
        }
        after = page.next;
    }
    assert!(pages > 2, "{pages}");
    assert!(listed.iter().map(|node| &node.name).eq(&names));
    assert!(listed[1..].iter().all(|node| node.labels["pool"] == node.name));

    for (node, count) in [("node-0007", 1), ("gone", 0)] {
        let node = node.to_owned();
        let request = ListNodeLabelsRequest {
            node,
            ..ListNodeLabelsRequest::default()
        };
        let page = debug.list_node_labels(asked_by(request, Some("person"))).await;
        assert_eq!(page.unwrap().into_inner().nodes.len(), count);
    }

    site.cluster.nodes.set_known(false);
    let request = asked_by(ListNodeLabelsRequest::default(), Some("person"));
    assert!(!debug.list_node_labels(request).await.unwrap().into_inner().known);
}
