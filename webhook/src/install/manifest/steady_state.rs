//! Option `steady-state-skip`: a match condition that keeps the API server from calling `/mutate-node-status` for a
//! kubelet's write that changes nothing.
//!
//! Behind the floor policy, a mere heartbeat of an amplified node is such a write: policies run first, and the floor
//! has restored the stored values. Writes of all other users pass the condition, with any content: the leader's sweep
//! triggers admission by a write without content.

use headroom_domain::names;
use k8s_openapi::api::admissionregistration::v1::{MatchCondition, MutatingWebhookConfiguration};
use serde::Serialize;
use serde_json::Value;

use super::policies::{annotations, text};
use crate::admission::{endpoint::Entry, endpoints::NODE_STATUS_ENTRY};

const NAME: &str = "changes-something";

/// A patch of the webhook configuration that kustomize merges by the names of its entries.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KustomizePatch {
    api_version: &'static str,
    kind: &'static str,
    metadata: Named,
    webhooks: [Conditions; 1],
}

#[derive(Debug, Serialize)]
struct Named {
    name: &'static str,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Conditions {
    name: &'static str,
    match_conditions: [MatchCondition; 1],
}

/// The option as a patch for kustomize.
pub fn kustomize_patch() -> KustomizePatch {
    KustomizePatch {
        api_version: <MutatingWebhookConfiguration as k8s_openapi::Resource>::API_VERSION,
        kind: <MutatingWebhookConfiguration as k8s_openapi::Resource>::KIND,
        metadata: Named {
            name: names::WEBHOOK_CONFIGURATION,
        },
        webhooks: [Conditions {
            name: NODE_STATUS_ENTRY,
            match_conditions: [condition()],
        }],
    }
}

/// Puts the option into a configuration.
pub fn skip(configuration: &mut MutatingWebhookConfiguration) {
    let entries = configuration.webhooks.iter_mut().flatten();
    for entry in entries.filter(|entry| entry.name == NODE_STATUS_ENTRY) {
        entry.match_conditions = Some(conditions());
    }
}

/// A generated entry with the option, if the option is for it.
pub fn with_condition(entry: &Entry, generated: &Value) -> Option<Value> {
    let mut with = generated.clone();
    let members = with.as_object_mut().filter(|_| entry.name == NODE_STATUS_ENTRY)?;
    members.insert(
        "matchConditions".to_owned(),
        serde_json::to_value(conditions()).ok()?,
    );
    Some(with)
}

/// All conditions of the entry with the option.
pub fn conditions() -> Vec<MatchCondition> {
    vec![condition()]
}

/// Match condition that is true if the API server must call the webhook. An error would skip the call, so no part of
/// the condition can fail.
fn condition() -> MatchCondition {
    let [is_annotated, was_annotated] = ["object", "oldObject"].map(annotations);
    let [is_labelled, was_labelled] =
        ["object", "oldObject"].map(|object| format!("{object}.metadata.?labels.orValue({{}})"));
    let expression = [
        "oldObject == null".to_owned(),
        format!(
            "request.userInfo.username != {} + object.metadata.name",
            text(names::NODE_USER_PREFIX)
        ),
        "object.?status != oldObject.?status".to_owned(),
        format!("{is_annotated} != {was_annotated}"),
        format!("{is_labelled} != {was_labelled}"),
    ]
    .join("\n|| ");
    MatchCondition {
        expression,
        name: NAME.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use headroom_domain::installation::Installation;
    use headroom_kit::gate::GateSet;

    use super::*;
    use crate::{
        admission::{
            endpoint::Family,
            endpoints::{gates, served},
        },
        install::manifest::{Address, Client, mutating, yaml},
    };

    #[test]
    fn the_patch_is_the_golden_one_and_says_what_the_option_does() {
        let patch = kustomize_patch();
        insta::assert_snapshot!(yaml(&patch).unwrap());

        let client = Client {
            address: Address::Service,
            ca_bundle: None,
        };
        let gates = GateSet::parse(gates(), "").unwrap();
        let first = Installation::default();
        let mut configuration = mutating(&first, &served(&[Family::Nodes]), &gates, &client).remove(0);
        let before = configuration.clone();
        skip(&mut configuration);
        let entries = configuration.webhooks.as_mut().unwrap();
        let entry = entries.iter_mut().find(|entry| entry.name == NODE_STATUS_ENTRY);
        let conditions = entry.unwrap().match_conditions.take();
        assert_eq!(conditions.unwrap(), patch.webhooks[0].match_conditions);
        assert_eq!(configuration, before);
    }
}
