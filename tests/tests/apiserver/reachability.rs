//! Tests of a replica's view of its own access: the API server reaches it, and grants its rights.
#![expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]

use std::fs;

use e2e::stand::{Stand, count, until};
use headroom_domain::names;
use headroom_testbed::{
    cluster::ClusterOptions,
    programs::get,
    webhook::{Served, Webhook, register},
};
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::{Api, api::PostParams};

const REACHABLE: &str = "headroom_webhook_reachable";
const MISSING_RIGHTS: &str = "headroom_webhook_missing_rights";

async fn readiness(webhook: &Webhook) -> (u16, String) {
    let (status, body) = get(webhook.admin, "/readyz?verbose").await.expect("an answer");
    (status.into(), String::from_utf8(body.to_vec()).expect("text"))
}

/// Removes the rule for a resource from the webhook's role.
async fn revoke(stand: &Stand, resource: &str) {
    let roles: Api<ClusterRole> = Api::all(stand.client.clone());
    let mut role = roles.get(names::WEBHOOK_CONFIGURATION).await.expect("the role");
    let rules = role.rules.as_mut().expect("rules");
    let before = rules.len();
    rules.retain(|rule| rule.resources.iter().flatten().all(|name| name != resource));
    assert_eq!(rules.len() + 1, before, "one rule for {resource}");
    roles
        .replace(names::WEBHOOK_CONFIGURATION, &PostParams::default(), &role)
        .await
        .expect("replace the role");
}

#[tokio::test(flavor = "multi_thread")]
async fn api_server_that_does_not_reach_the_webhook_is_reported_and_so_is_a_missing_right() {
    let stand = Stand::start_with(ClusterOptions::default()).await;
    stand.create_node("n1", "4", "8Gi").await;
    // The role is stored a moment before the API server's authorizer has it.
    revoke(&stand, "tokenreviews").await;
    let webhook = stand.webhook("webhook-0", "{}").await;
    let nowhere = "https://127.0.0.1:9";
    let served = Served::default();
    register(&stand.client, nowhere, &webhook.ca, &served)
        .await
        .expect("register");

    until("the API server does not reach it", async || {
        readiness(&webhook)
            .await
            .1
            .contains("without the webhook's answer")
    })
    .await;
    assert_eq!(readiness(&webhook).await.0, 200, "others may reach it");
    assert_eq!(count(&webhook, REACHABLE).await, 0);
    until("the missing right is found", async || {
        count(&webhook, MISSING_RIGHTS).await == 1
    })
    .await;
    let log = fs::read_to_string(webhook.process.log()).expect("a log");
    assert!(log.contains("create tokenreviews.authentication.k8s.io"), "{log}");

    stand.register(&webhook).await;
    until("the API server reaches it", async || {
        count(&webhook, REACHABLE).await == 1
    })
    .await;
    let (status, parts) = readiness(&webhook).await;
    assert!(status == 200 && parts.contains("reachability ok"), "{parts}");
}
