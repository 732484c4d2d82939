//! Tests of colocation profiles of Reservations on a real API server, with the kinds of the component `koordinator`:
//! a profile fills fields that a Reservation lacks, a profile that cannot be applied causes a warning, and a
//! Reservation that the scheduler could not read is refused.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests panic: a returned error has no stack"
)]

use e2e::{
    custom_kinds::{CustomKind, PROFILES},
    stand::{Stand, count, until},
};
use headroom_testbed::{cluster::ClusterOptions, webhook::GATES};
use headroom_webhook::admission::endpoint::Family;
use http::Request;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::{Api, api::PostParams, client::Body};
use serde_json::{Value, json};

const RESERVATIONS: CustomKind = CustomKind {
    group: "scheduling.koordinator.sh",
    version: "v1alpha1",
    kind: "Reservation",
    plural: "reservations",
    is_namespaced: false,
};

/// Answer of the API server to a new object.
struct Created {
    status: u16,
    body: Value,
    /// The texts of its warnings, in one line.
    warnings: String,
}

/// A Reservation for the pods of an app: its template has no metadata, and its container no resources.
fn reservation(name: &str, app: &str) -> Value {
    json!({
        "apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Reservation",
        "metadata": {"name": name, "labels": {"app": app}},
        "spec": {
            "owners": [{"labelSelector": {"matchLabels": {"app": app}}}],
            "template": {"spec": {"containers": [{"name": "main", "image": "i"}]}},
        },
    })
}

async fn create(stand: &Stand, reservation: &Value, query: &str) -> Created {
    let request = Request::post(format!(
        "/apis/scheduling.koordinator.sh/v1alpha1/reservations{query}"
    ))
    .header("content-type", "application/json")
    .body(Body::from(reservation.to_string().into_bytes()))
    .expect("a request");
    let response = stand.client.send(request).await.expect("an answer");
    let status = response.status().as_u16();
    let warnings = response.headers().get_all("warning").iter();
    let warnings: Vec<String> = warnings
        .map(|text| text.to_str().expect("a text").to_owned())
        .collect();
    let body = response.into_body().collect_bytes().await.expect("a body");
    Created {
        status,
        body: serde_json::from_slice(&body).expect("JSON"),
        warnings: warnings.join("\n"),
    }
}

/// The profiles that the Reservations meet.
async fn create_profiles(stand: &Stand) {
    let limits = json!({"containers": [{"name": "main", "resources": {"limits": {"cpu": 2}}}]});
    let template = json!({"metadata": {"labels": {"written": "yes"}}, "spec": limits});
    let effects = json!({
        "qosClass": "LS", "priorityClassName": "koord-prod", "schedulerName": "koord-scheduler",
        "patch": {"metadata": {"name": "other"}, "spec": {"template": template, "foo": 1}},
    });
    let broken = json!({"priorityClassName": "absent", "labels": {"written": "yes"}});
    let unreadable = json!({"labels": {"written": "yes"}, "patch": {"spec": {"allocateOnce": "yes"}}});
    for (name, app, mut spec) in [
        ("good", "good", effects),
        ("broken", "broken", broken),
        ("unreadable", "broken", unreadable),
    ] {
        spec["selector"] = json!({"matchLabels": {"app": app}});
        PROFILES.create(stand, "", name, &spec).await;
    }
    let of_pods = json!({"namespaceSelector": {"matchLabels": {"team": "a"}}, "labels": {"of-pods": "yes"}});
    PROFILES.create(stand, "", "of-pods", &of_pods).await;
}

/// Checks that the profile's fields were written, with missing parents, and no others.
fn assert_written(good: &Created) {
    assert_eq!(good.status, 201, "{}", good.body);
    let (metadata, spec) = (&good.body["metadata"], &good.body["spec"]);
    assert_eq!(metadata["name"], "plain");
    assert!(
        good.warnings
            .contains("profile good: its patch may not write metadata.name"),
        "{}",
        good.warnings
    );
    assert_eq!(
        metadata["labels"],
        json!({"app": "good", "koordinator.sh/qosClass": "LS"})
    );
    assert_eq!(
        spec["template"],
        json!({
            "metadata": {"labels": {"written": "yes"}},
            "spec": {
                "containers": [{"name": "main", "image": "i", "resources": {"limits": {"cpu": 2}}}],
                "priorityClassName": "koord-prod", "priority": 9_500, "preemptionPolicy": "Never",
                "schedulerName": "koord-scheduler",
            },
        })
    );
    // Fields that the kind does not have are pruned.
    assert_eq!((&spec["ttl"], &spec["foo"]), (&json!("24h"), &Value::Null));
}

/// An invalid amount is refused, and the Reservation does not exist.
async fn assert_refused(stand: &Stand) {
    // The kind leaves the template unchecked.
    let mut unreadable = reservation("unreadable", "other");
    unreadable["spec"]["template"]["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "x"}});
    let refused = create(stand, &unreadable, "").await;
    let message = refused.body["message"].as_str().unwrap_or_default();
    assert_eq!(refused.status, 400, "{}", refused.body);
    assert!(
        message.starts_with(
            "admission webhook \"mreservation-create.koordinator.sh\" denied the request: spec.template.spec.containers[0]"
        ),
        "{message}"
    );
    assert!(
        RESERVATIONS
            .api(stand, "")
            .get_opt("unreadable")
            .await
            .expect("an answer")
            .is_none()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn profile_fills_absent_reservation_fields_and_a_failed_profile_is_a_warning() {
    let stand = Stand::start_with(ClusterOptions::default()).await;
    stand.install_kinds().await;
    let class = json!({"metadata": {"name": "koord-prod"}, "value": 9_500, "preemptionPolicy": "Never"});
    let class: PriorityClass = serde_json::from_value(class).expect("a class");
    let classes: Api<PriorityClass> = Api::all(stand.client.clone());
    let created = classes.create(&PostParams::default(), &class).await;
    created.expect("create the class");
    create_profiles(&stand).await;
    let gates = format!("{GATES},ReservationMutatingWebhook=true");
    let families = [Family::Nodes, Family::Koordinator];
    let webhook = stand.serving("webhook-0", "{}", &families, &gates).await;
    until("Reservations reach the webhook", async || {
        let created = create(&stand, &reservation("probe", "good"), "?dryRun=All").await;
        created.body["metadata"]["labels"]
            .get("koordinator.sh/qosClass")
            .is_some()
    })
    .await;

    let good = create(&stand, &reservation("plain", "good"), "").await;
    assert_written(&good);

    let broken = create(&stand, &reservation("broken", "broken"), "").await;
    assert_eq!(broken.status, 201, "{}", broken.body);
    assert_eq!(broken.body["metadata"]["labels"], json!({"app": "broken"}));
    for text in [
        "profile broken was not applied: PriorityClass",
        "profile unreadable was not applied: spec.patch",
    ] {
        assert!(broken.warnings.contains(text), "{}", broken.warnings);
    }
    let series = "headroom_webhook_profile_results_total{result=\"failed\"";
    assert_eq!(count(&webhook, series).await, 2);

    assert_refused(&stand).await;
}
