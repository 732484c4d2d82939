//! Checks every five seconds whether the API server has the floor policy as this version generates it. Administrators
//! can change or delete a policy or upgrade the API server at any time. A policy of another version does not count as
//! floor: policies and their bindings are compared whole with the generated ones.

use std::sync::Arc;

use headroom_domain::{installation::Installation, names};
use headroom_kit::log::chain;
use k8s_openapi::api::admissionregistration::v1::{MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding};
use kube::{
    Api, Client, Resource,
    api::{ApiResource, DynamicObject},
};
use serde::Serialize;
use serde_json::Value;
use tokio::{
    select,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::{INSTALL_CHECK_EVERY, INSTALL_CHECK_LIMIT};
use crate::{
    install::manifest::{
        difference::{differences, summary},
        policies::{self, PolicyAndBinding},
    },
    store::{
        access::{Access, ObjectNames},
        floor::{Floor, PolicyState, PolicyStates},
    },
};

const GROUP: &str = "admissionregistration.k8s.io";
const V1: &str = "v1";
/// Version of the component `floor-v1beta1`.
const BETA: &str = "v1beta1";
const POLICIES: &str = "mutatingadmissionpolicies";
const BINDINGS: &str = "mutatingadmissionpolicybindings";

/// API access for the check of the policies. Discovery needs no right.
pub static ACCESS: &[Access] = &[get(POLICIES), get(BINDINGS)];

const fn get(resource: &'static str) -> Access {
    let ours = ObjectNames::Ours(&[names::FLOOR_POLICY, names::ANNOTATIONS_POLICY]);
    Access::to(GROUP, resource, ours, &["get"])
}

/// Polls until `stop` is cancelled. The last state stays while the API server does not answer.
pub async fn follow(client: Client, floor: Arc<Floor>, stop: CancellationToken) {
    loop {
        let looked = select! {
            () = stop.cancelled() => return,
            looked = timeout(INSTALL_CHECK_LIMIT, fetch(&client, floor.installation())) => looked,
        };
        match looked {
            Ok(Ok(found)) => floor.record(found),
            Ok(Err(error)) => {
                warn!(error = %chain(&error), "could not read the floor's policies from the API server; retrying");
            }
            Err(_elapsed) => {
                warn!(limit = ?INSTALL_CHECK_LIMIT, "the API server did not return the floor's policies in time; retrying");
            }
        }
        select! {
            () = stop.cancelled() => return,
            () = sleep(INSTALL_CHECK_EVERY) => {}
        }
    }
}

/// Asks the API server for the policies of an installation.
///
/// # Errors
/// It does not answer, or refuses to.
pub async fn fetch(client: &Client, installation: &Installation) -> kube::Result<PolicyStates> {
    let mut found = PolicyStates::default();
    let [annotations, floor] = policies::all(installation);
    found.annotations = state_of(client, &annotations).await?;
    found.floor = state_of(client, &floor).await?;
    let states = [&mut found.floor, &mut found.annotations];
    if states.iter().any(|state| **state == PolicyState::Missing) && !is_served(client).await? {
        for state in states {
            *state = PolicyState::Unsupported;
        }
    }
    Ok(found)
}

async fn state_of(client: &Client, bound: &PolicyAndBinding) -> kube::Result<PolicyState> {
    let name = bound.policy.metadata.name.as_deref().unwrap_or_default();
    let policy = spec::<MutatingAdmissionPolicy>(client, name).await?;
    let binding = spec::<MutatingAdmissionPolicyBinding>(client, name).await?;
    Ok(compare(bound, policy.as_ref(), binding.as_ref()))
}

/// The state of a policy by the stored specifications of the policy and of its binding.
fn compare(bound: &PolicyAndBinding, policy: Option<&Value>, binding: Option<&Value>) -> PolicyState {
    let (Some(policy), Some(binding)) = (policy, binding) else {
        return PolicyState::Missing;
    };
    let mut all = differences("MutatingAdmissionPolicy.spec", policy, &json(&bound.policy.spec));
    let of_binding = json(&bound.binding.spec);
    all.extend(differences(
        "MutatingAdmissionPolicyBinding.spec",
        binding,
        &of_binding,
    ));
    if all.is_empty() {
        PolicyState::InForce
    } else {
        PolicyState::Differs(summary(&all))
    }
}

/// Generated object as JSON; an object that cannot be encoded, which is never generated, would differ from any stored
/// one.
fn json(object: &impl Serialize) -> Value {
    serde_json::to_value(object).unwrap_or_default()
}

/// The specification of an object with all its fields, those included that this version does not know; `None` if there
/// is no such object.
async fn spec<K: Resource<DynamicType = ()>>(client: &Client, name: &str) -> kube::Result<Option<Value>> {
    // Kubernetes 1.34 and 1.35 serve only the beta version, whose fields are the ones of v1.
    for version in [V1, BETA] {
        let mut resource = ApiResource::erase::<K>(&());
        resource.version = version.to_owned();
        resource.api_version = format!("{GROUP}/{version}");
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        if let Some(object) = api.get_opt(name).await? {
            return Ok(Some(object.data.get("spec").cloned().unwrap_or_default()));
        }
    }
    Ok(None)
}

/// True if the API server serves such policies; the answer to a request for one does not show that.
async fn is_served(client: &Client) -> kube::Result<bool> {
    for version in [V1, BETA] {
        match client
            .list_api_group_resources(&format!("{GROUP}/{version}"))
            .await
        {
            Ok(served) if served.resources.iter().any(|resource| resource.name == POLICIES) => {
                return Ok(true);
            }
            // It does not serve the version at all.
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Ok(_) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    /// Stored form of the policy and its binding once both are installed as generated.
    fn installed(bound: &PolicyAndBinding) -> (Value, Value) {
        let mut policy = json(&bound.policy.spec);
        policy["matchConstraints"]["matchPolicy"] = json!("Equivalent");
        policy["matchConstraints"]["namespaceSelector"] = json!({});
        policy["matchConstraints"]["objectSelector"] = json!({});
        (policy, json(&bound.binding.spec))
    }

    #[test]
    fn what_is_installed_as_generated_is_in_force_and_without_either_half_it_is_missing() {
        for bound in policies::all(&Installation::default()) {
            let (policy, binding) = installed(&bound);
            assert_eq!(
                compare(&bound, Some(&policy), Some(&binding)),
                PolicyState::InForce
            );
            assert_eq!(compare(&bound, Some(&policy), None), PolicyState::Missing);
            assert_eq!(compare(&bound, None, Some(&binding)), PolicyState::Missing);
        }
    }

    #[rstest]
    #[case::emptied(
        |policy: &mut Value, _: &mut Value| policy["mutations"] = json!([]),
        "MutatingAdmissionPolicy.spec.mutations is absent"
    )]
    #[case::doing_nothing(
        |policy: &mut Value, _: &mut Value| policy["mutations"][0]["jsonPatch"]["expression"] = json!("[]"),
        "MutatingAdmissionPolicy.spec.mutations[0].jsonPatch.expression is \"[]\""
    )]
    #[case::of_an_older_version(
        |policy: &mut Value, _: &mut Value| policy["variables"][0]["expression"] = json!("''"),
        "MutatingAdmissionPolicy.spec.variables[0].expression is \"''\""
    )]
    #[case::of_no_writes(
        |policy: &mut Value, _: &mut Value| {
            let conditions = policy["matchConditions"].as_array_mut().unwrap();
            conditions.push(json!({"name": "never", "expression": "false"}));
        },
        "is {\"expression\":\"false\",\"name\":\"never\"}, must be absent"
    )]
    #[case::of_other_resources(
        |policy: &mut Value, _: &mut Value| {
            policy["matchConstraints"]["resourceRules"][0]["resources"][0] = json!("pods");
        },
        "MutatingAdmissionPolicy.spec.matchConstraints.resourceRules[0].resources[0] is \"pods\""
    )]
    #[case::in_the_way(
        |policy: &mut Value, _: &mut Value| policy["failurePolicy"] = json!("Fail"),
        "MutatingAdmissionPolicy.spec.failurePolicy is \"Fail\", must be \"Ignore\""
    )]
    #[case::shadowed_by_another(
        |_: &mut Value, binding: &mut Value| binding["policyName"] = json!("another"),
        "MutatingAdmissionPolicyBinding.spec.policyName is \"another\", must be \"headroom-"
    )]
    #[case::bound_to_some_nodes(
        |_: &mut Value, binding: &mut Value| {
            binding["matchResources"] = json!({"objectSelector": {"matchLabels": {"a": "b"}}});
        },
        "MutatingAdmissionPolicyBinding.spec.matchResources is {\"objectSelector\":{\"matchLabels\":{\"a\":\"b\"}}}, must be absent"
    )]
    #[case::narrowed_by_what_nobody_knows_yet(
        |_: &mut Value, binding: &mut Value| binding["later"] = json!("x"),
        "MutatingAdmissionPolicyBinding.spec.later is \"x\", must be absent"
    )]
    fn modified_policies_are_not_in_force(
        #[case] change: impl Fn(&mut Value, &mut Value),
        #[case] told: &str,
    ) {
        for bound in policies::all(&Installation::default()) {
            let (mut policy, mut binding) = installed(&bound);
            change(&mut policy, &mut binding);
            let state = compare(&bound, Some(&policy), Some(&binding));
            assert!(
                matches!(&state, PolicyState::Differs(fields) if fields.contains(told)),
                "{state:?}"
            );
        }
    }
}
