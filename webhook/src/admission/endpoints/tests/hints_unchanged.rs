//! Tests that an admission review changes no known hint. The review may be a dry run, or be refused after the webhook.

use headroom_domain::{
    hint::{Contradiction, Note},
    names,
};

use super::*;
use crate::store::cluster::tests::{amplified, cluster, published};

/// A review of `n1`, stored at that version with that hint annotation.
fn review(user: &str, sub_resource: &str, version: u64, hint: &str) -> Value {
    let mut old = amplified(version, "4800m", 120);
    old["metadata"]["annotations"][names::HINT] = hint.into();
    let mut new = old.clone();
    new["metadata"]["annotations"][names::RATIO] = json!(r#"{"cpu":1.5}"#);
    new["status"]["allocatable"]["cpu"] = json!("4");
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "r1",
            "resource": {"group": "", "version": "v1", "resource": "nodes"},
            "subResource": sub_resource,
            "name": "n1",
            "operation": "UPDATE",
            "userInfo": {"username": user},
            "dryRun": true,
            "object": new,
            "oldObject": old,
        },
    })
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_or_refused_write_leaves_no_trace() {
    let cluster = Arc::new(cluster([amplified(3, "4800m", 120)], []));
    cluster.hints.offer(published(2, 120), cluster.now());
    let hints = Arc::clone(&cluster.hints);
    let router = Router::new(Options {
        stores: Stores::of_nodes(cluster),
        ..options(FixtureCluster::default())
    });
    let known = format!("{hints:?}");
    let note = Note::from_hint(&published(9, 150));
    let hint = note.to_string();
    let quarantined = note.in_quarantine(Some(Contradiction::Capacity)).to_string();
    for (path, sub_resource) in [("/mutate-node-status", "status"), ("/validate-node", "")] {
        for user in ["system:node:n1", "somebody", names::WEBHOOK_USER] {
            for (version, hint) in [(3, &hint), (4, &hint), (5, &quarantined), (6, &String::new())] {
                tokio::time::advance(Duration::from_secs(1)).await;
                let review = review(user, sub_resource, version, hint).to_string();
                let deadline = Deadline::after(Instant::now(), Duration::from_secs(60));
                let answer = router.answer(router.endpoint(path).unwrap(), review.as_bytes(), deadline);
                assert_eq!(answer.status, StatusCode::OK);
                assert_eq!(format!("{hints:?}"), known, "{path} {user} {version}");
            }
        }
    }
}
