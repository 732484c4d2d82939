//! Tests that a replica without a source that pods need is unready while another replica serves: a rollout without the
//! needed rights stops and names them. Alone, such a replica serves nodes.
#![expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]

use std::time::Duration;

use e2e::stand::{HAPPENS_WITHIN, Stand, until};
use headroom_domain::{installation::Installation, names};
use headroom_testbed::{accounts, programs::get, webhook::Webhook};
use headroom_webhook::admission::endpoint::Family;
use k8s_openapi::api::{coordination::v1::Lease, rbac::v1::ClusterRoleBinding};
use kube::{Api, api::DeleteParams};
use tokio::time::{Instant, sleep};

const POD_FAMILIES: &str = "nodes,koordinator";
/// Time for which the replica must stay unready: the lease lasts 8 s, and is left to others for 8 s more.
const UNREADY_FOR: Duration = Duration::from_secs(18);

/// Status and body of `/readyz?verbose`.
async fn readiness(webhook: &Webhook) -> (u16, String) {
    let (status, body) = get(webhook.admin, "/readyz?verbose").await.expect("an answer");
    (status.into(), String::from_utf8(body.to_vec()).expect("text"))
}

async fn lease(stand: &Stand) -> Option<Lease> {
    let leases: Api<Lease> = Api::namespaced(stand.client.clone(), names::NAMESPACE);
    leases
        .get_opt(&Installation::default().lease())
        .await
        .expect("the API server answers")
}

/// Replica that holds the lease, and the sources that it does not know.
async fn holder(stand: &Stand) -> Option<(String, String)> {
    let lease = lease(stand).await?;
    let holder = lease.spec?.holder_identity?;
    let annotations = lease.metadata.annotations.unwrap_or_default();
    let unknown = annotations.get("headroom.sh/unknown-sources").cloned();
    Some((holder, unknown.unwrap_or_default()))
}

async fn is_holder(stand: &Stand, replica: &str) -> bool {
    holder(stand)
        .await
        .is_some_and(|(holder, _)| holder.starts_with(&format!("{replica}_")))
}

/// Starts a replica that serves pods, without a wait for its readiness.
async fn start(stand: &Stand, name: &str) -> Webhook {
    let options = stand.webhook_options(name, "{}").flags(["--serve", POD_FAMILIES]);
    let webhook = Webhook::spawn(&options).expect("start the webhook");
    until("the replica answers", async || {
        get(webhook.admin, "/livez").await.is_ok()
    })
    .await;
    webhook
}

/// A replica whose service account has no rights for pods, beside one that serves nodes.
async fn is_unready_beside(stand: &Stand, new: &Webhook) {
    let began = Instant::now();
    while began.elapsed() < UNREADY_FOR {
        let (status, body) = readiness(new).await;
        assert_eq!(status, 503, "while another replica serves: {body}");
        sleep(Duration::from_millis(100)).await;
    }
    let (_, body) = readiness(new).await;
    let right = "elasticquotas (needs the right to get, list, watch elasticquotas.scheduling.sigs.k8s.io)";
    assert!(body.contains(right), "{body}");
    assert!(is_holder(stand, "webhook-old").await);
}

/// Alone it serves nodes. It leads after others had time to take the lease, and tells what it lacks. Another replica
/// that lacks the same is as good.
async fn is_ready_alone(stand: &Stand, new: &Webhook) {
    until("ready alone", async || readiness(new).await.0 == 200).await;
    until("it leads", async || is_holder(stand, "webhook-new").await).await;
    let (_, unknown) = holder(stand).await.expect("a holder");
    assert!(
        unknown.split(',').any(|name| name == "elasticquotas"),
        "{unknown}"
    );
    let same = stand
        .webhook_with("webhook-same", "{}", &["--serve", POD_FAMILIES])
        .await;
    assert_eq!(readiness(&same).await.0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn rollout_without_the_needed_rights_stops_and_names_them() {
    let stand = Stand::start().await;
    let old = stand
        .webhook_with("webhook-old", "{}", &["--serve", "nodes"])
        .await;
    until("it leads", async || is_holder(&stand, "webhook-old").await).await;
    let new = start(&stand, "webhook-new").await;
    is_unready_beside(&stand, &new).await;
    drop(old);
    is_ready_alone(&stand, &new).await;

    accounts::grant(
        &stand.client,
        &Installation::default(),
        &[Family::Nodes, Family::Koordinator],
    )
    .await
    .expect("grant rights");
    let knows_all = async || {
        holder(&stand)
            .await
            .is_some_and(|(_, unknown)| unknown.is_empty())
    };
    let began = Instant::now();
    while !knows_all().await {
        assert!(began.elapsed() < 4 * HAPPENS_WITHIN, "{:?}", holder(&stand).await);
        sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(readiness(&new).await.0, 200);

    // The next rollout loses a right: its replica stays unready beside the one that knows everything.
    let bindings: Api<ClusterRoleBinding> = Api::all(stand.client.clone());
    let deleted = bindings.delete("headroom-pods", &DeleteParams::default()).await;
    deleted.expect("delete the binding");
    let next = start(&stand, "webhook-next").await;
    sleep(Duration::from_secs(3)).await;
    let (status, body) = readiness(&next).await;
    let right = "namespaces (needs the right to get, list, watch namespaces)";
    assert!(status == 503 && body.contains(right), "{status} {body}");
    assert_eq!(
        readiness(&new).await.0,
        200,
        "the replica that serves stays ready"
    );
}
