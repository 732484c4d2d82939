//! An endpoint that takes milliseconds for each review, as one does that compares configuration with thousands of Nodes.

use std::{hint::spin_loop, time::Duration};

use headroom_testbed::thread::cpu_time;
use headroom_webhook::admission::{
    endpoint::{
        BrokenStep, Colocation, ConfigurationObject, Declaration, Denials, Endpoint, Entry, FailurePolicy,
        Kind, Namespaces, Objects, RequestLimits, Rule, SideEffects, Step, UnknownSource, When, Work,
    },
    refusal::DenialStyle,
    review::Operation,
};
use serde_json::json;

/// Its path.
pub(super) const PATH: &str = "/heavy";
/// CPU time of one review.
pub(super) const TAKES: Duration = Duration::from_millis(5);

static STEP: Step<Colocation> = Step {
    name: "burn",
    when: When::Always,
    about: "Takes 5 ms.",
    reads: &[],
    unknown: UnknownSource::IsHandled,
    run: |_ctx, _draft| {
        burn();
        Ok(())
    },
};

/// The endpoint.
pub(super) static ENDPOINT: Endpoint<Colocation> = Endpoint {
    declaration: Declaration {
        path: PATH,
        about: "Takes 5 ms.",
        kind: Kind::Validating,
        configuration: ConfigurationObject::SloConfiguration,
        gate: None,
        modifiers: &[],
        entries: &[Entry {
            name: "heavy.headroom.sh",
            rules: &[Rule {
                operations: &[Operation::Update],
                group: "",
                version: "v1",
                resource: "configmaps",
                sub_resource: "",
            }],
            namespaces: Namespaces::All,
            objects: Objects::All,
            conditions: &[],
            side_effects: SideEffects::None,
            failure_policy: FailurePolicy::Fail,
            timeout: Duration::from_secs(5),
        }],
        broken_step: BrokenStep::FailsTheCall,
        denial_style: DenialStyle::KOORDINATOR,
        denials: Denials::First,
        skips_deleting: false,
        work: Work::Offloaded,
        limits: RequestLimits::DEFAULT,
    },
    awaits: None,
    steps: &[&STEP],
};

fn burn() {
    let end = cpu_time() + TAKES;
    while cpu_time() < end {
        spin_loop();
    }
}

/// A review for it.
pub(super) fn review() -> Vec<u8> {
    let object = json!({
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {"name": "slo-controller-config", "namespace": "koordinator-system"},
        "data": {"colocation-config": "{\"enable\": true}"},
    });
    let resource = json!({"group": "", "version": "v1", "resource": "configmaps"});
    let review = json!({
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800003",
            "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
            "resource": resource,
            "name": "slo-controller-config",
            "namespace": "koordinator-system",
            "operation": "UPDATE",
            "userInfo": {"username": "admin", "groups": ["system:authenticated"]},
            "object": object,
            "oldObject": object,
            "dryRun": false,
        },
    });
    review.to_string().into_bytes()
}
