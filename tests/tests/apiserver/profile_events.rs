//! Events about invalid colocation profiles on a real API server, with the rights that the manifests give.
#![expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]

use std::time::Duration;

use e2e::{
    custom_kinds::PROFILES,
    stand::{Stand, count, until},
};
use headroom_testbed::{
    cluster::ClusterOptions,
    webhook::{GATES, Webhook},
};
use headroom_webhook::admission::endpoint::Family;
use k8s_openapi::api::core::v1::Event;
use kube::{
    Api,
    api::{DeleteParams, ListParams},
};
use serde_json::json;
use tokio::time::sleep;

use crate::slo_config::Kubectl;

/// Events that are published at once, and those of the seconds that a test may take.
const MOST_AT_ONCE: usize = 20 + 10;

/// The Events that `kubectl describe` would show of a profile.
async fn described(stand: &Stand, name: &str) -> Vec<Event> {
    let events: Api<Event> = Api::namespaced(stand.client.clone(), "default");
    let of_object = format!("involvedObject.kind=ClusterColocationProfile,involvedObject.name={name}");
    let found = events.list(&ListParams::default().fields(&of_object)).await;
    found.expect("a list of Events").items
}

async fn writes(webhook: &Webhook) -> u64 {
    count(webhook, "headroom_webhook_events_total{reason=\"ProfileInvalid\"").await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_profile_has_one_event_and_a_flood_of_them_few() {
    let stand = Stand::start_with(ClusterOptions::default()).await;
    PROFILES.install(&stand).await;
    PROFILES
        .create(&stand, "", "good", &json!({"labels": {"a": "b"}}))
        .await;
    let unequal =
        json!({"selector": {"matchExpressions": [{"key": "a", "operator": "Unequal", "values": ["b"]}]}});
    PROFILES.create(&stand, "", "bad", &unequal).await;
    let families = [Family::Nodes, Family::Koordinator];
    let first = stand.serving("webhook-0", "{}", &families, GATES).await;
    let second = stand.serving("webhook-1", "{}", &families, GATES).await;
    until("the Event is there", async || {
        !described(&stand, "bad").await.is_empty()
    })
    .await;
    // Both replicas have checked several times.
    sleep(Duration::from_secs(12)).await;
    let found = described(&stand, "bad").await;
    let [event] = found.as_slice() else {
        panic!("{found:?}");
    };
    assert_eq!(
        (event.type_.as_deref(), event.reason.as_deref()),
        (Some("Warning"), Some("ProfileInvalid"))
    );
    let note = event.message.as_deref().unwrap_or_default();
    assert!(
        note.contains("spec.selector is invalid: \"Unequal\" is not a valid"),
        "{note}"
    );
    assert!(event.involved_object.uid.is_some(), "{event:?}");
    assert_eq!(described(&stand, "good").await.len(), 0);
    let output = Kubectl::new(&stand).run(&["describe", "clustercolocationprofile", "bad"], "");
    let page = String::from_utf8_lossy(&output.stdout);
    assert!(
        page.contains("ProfileInvalid") && page.contains("\"Unequal\" is not a valid"),
        "{page}"
    );
    assert_eq!(
        writes(&first).await + writes(&second).await,
        1,
        "one replica alone writes"
    );

    // Many more: few Events, and the webhook continues.
    let events: Api<Event> = Api::namespaced(stand.client.clone(), "default");
    let deleted = events
        .delete_collection(&DeleteParams::default(), &ListParams::default())
        .await;
    deleted.expect("delete the Events");
    for number in 0..200 {
        PROFILES
            .create(&stand, "", &format!("bad-{number}"), &unequal)
            .await;
    }
    sleep(Duration::from_secs(12)).await;
    let all = events.list(&ListParams::default()).await.expect("a list").items;
    let of_profiles = all
        .iter()
        .filter(|event| event.reason.as_deref() == Some("ProfileInvalid"))
        .count();
    assert!((10..=MOST_AT_ONCE).contains(&of_profiles), "{of_profiles}");
}
