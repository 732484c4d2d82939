//! What the API server says of the policies that were generated for it.

use headroom_domain::names;
use k8s_openapi::api::admissionregistration::v1::{MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding};
use kube::{Api, Client};

use super::State;
use crate::endpoint::Access;

const GROUP: &str = "admissionregistration.k8s.io";
const POLICIES: &str = "mutatingadmissionpolicies";
const BINDINGS: &str = "mutatingadmissionpolicybindings";

/// API access that looking after the policies needs. What an API server serves, anybody may ask.
pub static ACCESS: &[Access] = &[get(POLICIES), get(BINDINGS)];

const fn get(resource: &'static str) -> Access {
    Access {
        group: GROUP,
        resource,
        names: &[names::FLOOR_POLICY, names::ANNOTATIONS_POLICY],
        verbs: &["get"],
    }
}

/// What a look found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// The floor.
    pub state: State,
    /// True if the policy that reverts foreign annotations and its binding are there.
    pub has_annotations_policy: bool,
}

/// Asks the API server.
pub(super) async fn look(client: &Client) -> kube::Result<Found> {
    let has_floor = is_bound(client, names::FLOOR_POLICY).await?;
    let has_annotations_policy = is_bound(client, names::ANNOTATIONS_POLICY).await?;
    let state = if has_floor {
        State::InForce
    } else if is_served(client).await? {
        State::Missing
    } else {
        State::Unsupported
    };
    Ok(Found {
        state,
        has_annotations_policy,
    })
}

/// True if the policy is there, and a binding of the same name puts it in force.
async fn is_bound(client: &Client, name: &str) -> kube::Result<bool> {
    let policies: Api<MutatingAdmissionPolicy> = Api::all(client.clone());
    let bindings: Api<MutatingAdmissionPolicyBinding> = Api::all(client.clone());
    let (policy, binding) = (
        policies.get_metadata_opt(name).await?,
        bindings.get_opt(name).await?,
    );
    let bound = binding.and_then(|binding| binding.spec?.policy_name);
    Ok(policy.is_some() && bound.as_deref() == Some(name))
}

/// True if the API server knows such policies; the answer to a question for one does not tell.
async fn is_served(client: &Client) -> kube::Result<bool> {
    let version = format!("{GROUP}/v1");
    let served = client.list_api_group_resources(&version).await?;
    Ok(served.resources.iter().any(|resource| resource.name == POLICIES))
}
