//! The component with Koordinator's kinds on a real API server: its schemas are accepted, report faults of an object
//! early, and never replace another owner's definitions.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests panic: a returned error has no stack"
)]

use e2e::{
    custom_kinds::PROFILES,
    stand::{Stand, until},
};
use headroom_testbed::cluster::ClusterOptions;
use headroom_webhook::install::manifest::custom_kinds;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api,
    api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

const NAMESPACE: &str = "default";

/// Applies a definition as `kubectl apply --server-side` does.
async fn apply(
    stand: &Stand,
    manager: &str,
    definition: &CustomResourceDefinition,
) -> kube::Result<CustomResourceDefinition> {
    let definitions: Api<CustomResourceDefinition> = Api::all(stand.client.clone());
    let name = definition.metadata.name.as_deref().expect("a name");
    let params = PatchParams::apply(manager);
    definitions.patch(name, &params, &Patch::Apply(definition)).await
}

/// The kind of a definition, as the client library needs to know it.
fn resource(definition: &CustomResourceDefinition) -> ApiResource {
    let spec = &definition.spec;
    let version = spec.versions[0].name.clone();
    ApiResource {
        group: spec.group.clone(),
        api_version: format!("{}/{version}", spec.group),
        version,
        kind: spec.names.kind.clone(),
        plural: spec.names.plural.clone(),
    }
}

/// The objects of a kind.
fn objects(stand: &Stand, definition: &CustomResourceDefinition) -> Api<DynamicObject> {
    let resource = resource(definition);
    if definition.spec.scope == "Namespaced" {
        Api::namespaced_with(stand.client.clone(), NAMESPACE, &resource)
    } else {
        Api::all_with(stand.client.clone(), &resource)
    }
}

/// Answer of the API server to an object: none, or the refusal.
async fn answer(stand: &Stand, definition: &CustomResourceDefinition, spec: &Value) -> Option<String> {
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let object = DynamicObject::new("one", &resource(definition)).data(json!({"spec": spec}));
    let created = objects(stand, definition).create(&dry, &object).await;
    created.err().map(|error| error.to_string())
}

/// A kind, the specification of an object, and a part of the API server's error; `None` if it accepts the object.
type SchemaRow<'d> = (&'d CustomResourceDefinition, Value, Option<&'static str>);

fn profile_rows(profile: &CustomResourceDefinition) -> Vec<SchemaRow<'_>> {
    let selector = json!({"matchLabels": {"app": "a"}});
    let bad_selector = json!({"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["1"]}]});
    let bad_operator = json!({"matchExpressions": [{"key": "a", "operator": "Bad", "values": ["1"]}]});
    vec![
        (profile, json!({}), None),
        (
            profile,
            json!({"selector": selector, "probability": "50%", "qosClass": "BE", "patch": {"spec": {"x": 1}}}),
            None,
        ),
        (profile, json!({"probability": 100, "qosClass": ""}), None),
        (
            profile,
            json!({"probability": 101}),
            Some("must be from 0 to 100, or from 0% to 100%"),
        ),
        (
            profile,
            json!({"probability": "50"}),
            Some("must be from 0 to 100, or from 0% to 100%"),
        ),
        (
            profile,
            json!({"qosClass": "be"}),
            Some("spec.qosClass: Unsupported value"),
        ),
        (
            profile,
            json!({"selector": bad_operator}),
            Some("operator: Unsupported value"),
        ),
        (
            profile,
            json!({"selector": bad_selector}),
            Some("Exists and DoesNotExist must have none"),
        ),
        (profile, json!({"patch": [1]}), Some("spec.patch: Invalid value")),
    ]
}

fn other_rows(definitions: &[CustomResourceDefinition]) -> Vec<SchemaRow<'_>> {
    let [_, reservation, quota, quota_profile] = definitions else {
        unreachable!("four kinds")
    };
    let selector = json!({"matchLabels": {"app": "a"}});
    let reserved = json!({
        "template": {"metadata": {}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        "owners": [{"labelSelector": selector}],
    });
    let with = |base: &Value, key: &str, value: Value| {
        let mut changed = base.clone();
        changed[key] = value;
        changed
    };
    vec![
        (reservation, reserved.clone(), None),
        (
            reservation,
            with(&reserved, "owners", json!([])),
            Some("spec.owners"),
        ),
        (
            reservation,
            with(&reserved, "owners", json!([{}])),
            Some("must have object, controller or labelSelector"),
        ),
        (
            reservation,
            json!({"owners": [{"object": {"name": "p"}}]}),
            Some("spec.template: Required value"),
        ),
        (
            reservation,
            with(&reserved, "allocatePolicy", json!("Loose")),
            Some("Unsupported value"),
        ),
        (
            quota,
            json!({"min": {"cpu": 1, "memory": "1Gi"}, "max": {"cpu": "40"}}),
            None,
        ),
        (
            quota,
            json!({"min": {"cpu": -1}}),
            Some("an amount must not be negative"),
        ),
        (
            quota,
            json!({"max": {"memory": "-1Gi"}}),
            Some("an amount must not be negative"),
        ),
        (quota, json!({"max": {"memory": "x"}}), Some("spec.max.memory")),
        (quota_profile, json!({"quotaName": "q", "nodeSelector": {}}), None),
        (
            quota_profile,
            json!({"nodeSelector": {}}),
            Some("spec.quotaName: Required value"),
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_of_koordinators_kinds_are_checked_by_their_schemas() {
    let stand = Stand::start_with(ClusterOptions::default()).await;
    let definitions = custom_kinds::definitions().expect("definitions");
    for definition in &definitions {
        apply(&stand, "headroom", definition).await.expect("a new kind");
    }
    for definition in &definitions {
        let none = objects(&stand, definition);
        until("the kind is served", async || {
            none.list(&kube::api::ListParams::default()).await.is_ok()
        })
        .await;
    }
    for (definition, spec, expected) in profile_rows(&definitions[0])
        .into_iter()
        .chain(other_rows(&definitions))
    {
        let answer = answer(&stand, definition, &spec).await;
        let is_expected = match (&answer, expected) {
            (None, None) => true,
            (Some(text), Some(part)) => text.contains(part),
            (Some(_), None) | (None, Some(_)) => false,
        };
        assert!(is_expected, "{spec}: {answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_definition_is_a_conflict_and_is_kept() {
    let stand = Stand::start_with(ClusterOptions::default()).await;
    PROFILES.install(&stand).await;
    let definitions: Api<CustomResourceDefinition> = Api::all(stand.client.clone());
    let name = format!("{}.{}", PROFILES.plural, PROFILES.group);
    let schema = async || {
        let stored = definitions.get(&name).await.expect("the definition");
        stored.spec.versions[0].schema.clone()
    };
    let before = schema().await;
    let ours = custom_kinds::definitions().expect("definitions");
    let refused = apply(&stand, "headroom", &ours[0]).await.expect_err("a conflict");
    let kube::Error::Api(status) = refused else {
        panic!("{refused}")
    };
    assert_eq!(
        (status.code, status.reason.as_str()),
        (409, "Conflict"),
        "{status:?}"
    );
    assert_eq!(schema().await, before);
    for definition in &ours[1..] {
        apply(&stand, "headroom", definition)
            .await
            .expect("kinds without another owner");
    }
}
