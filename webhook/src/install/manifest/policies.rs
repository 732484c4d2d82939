//! Admission policies that the API server evaluates by itself, also while no webhook answers: the floor and the revert.
//! On request there are also checks, which refuse.
//!
//! The revert undoes writes to annotations by kubelets, and by all users except the webhook through `nodes/status`. Policies run before webhooks and in no
//! certain order among themselves. So everything that depends on an order is in one policy: the floor. The revert gives
//! the same result before and after the floor, because the floor reads its inputs from the stored object.

pub mod checks;
pub mod floor;
pub mod own_writes;

use headroom_domain::{installation::Installation, names};
use k8s_openapi::api::admissionregistration::v1::{
    JSONPatch, MatchCondition, MatchResources, MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding,
    MutatingAdmissionPolicyBindingSpec, MutatingAdmissionPolicySpec, Mutation, NamedRuleWithOperations,
    Variable,
};

use self::{checks::Checks, own_writes::own_writes};
use super::named;
use crate::admission::review::Operation;

/// A policy of the API server and the binding that puts it in force.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicyAndBinding {
    pub policy: MutatingAdmissionPolicy,
    /// Its binding, of the same name.
    pub binding: MutatingAdmissionPolicyBinding,
}

/// Parts of a policy. All conditions must hold; a variable may use those before it.
struct PolicyParts {
    name: &'static str,
    operations: &'static [Operation],
    resources: &'static [&'static str],
    conditions: Vec<(&'static str, String)>,
    variables: Vec<(String, String)>,
    patch: String,
}

/// All policies, in the order in which they are installed: the revert, and the floor.
pub fn all(installation: &Installation) -> [PolicyAndBinding; 2] {
    [revert(installation), floor::parts()].map(|parts| parts.bound(installation))
}

/// All policies that refuse: the checks of annotations, and those of the webhook's own writes.
pub fn refusing(installation: &Installation) -> [Checks; 3] {
    let [configurations, secret] = own_writes(installation, None);
    [checks::checks(installation), configurations, secret]
}

impl PolicyParts {
    fn bound(self, installation: &Installation) -> PolicyAndBinding {
        let Self {
            name,
            operations,
            resources,
            conditions,
            variables,
            patch,
        } = self;
        let name = installation.named(name);
        let conditions = conditions.into_iter().map(|(name, expression)| MatchCondition {
            name: name.to_owned(),
            expression,
        });
        let variables = variables
            .into_iter()
            .map(|(name, expression)| Variable { expression, name });
        let spec = MutatingAdmissionPolicySpec {
            // A status write is a heartbeat: it passes as it is where a policy breaks.
            failure_policy: Some("Ignore".to_owned()),
            match_conditions: Some(conditions.collect()),
            match_constraints: Some(MatchResources {
                resource_rules: Some(vec![rule(operations, resources)]),
                ..MatchResources::default()
            }),
            mutations: Some(vec![Mutation {
                json_patch: Some(JSONPatch {
                    expression: Some(patch),
                }),
                patch_type: "JSONPatch".to_owned(),
                apply_configuration: None,
            }]),
            param_kind: None,
            reinvocation_policy: Some("Never".to_owned()),
            variables: Some(variables.collect()),
        };
        PolicyAndBinding {
            policy: MutatingAdmissionPolicy {
                metadata: named(name.clone()),
                spec: Some(spec),
            },
            binding: MutatingAdmissionPolicyBinding {
                metadata: named(name.clone()),
                spec: Some(MutatingAdmissionPolicyBindingSpec {
                    policy_name: Some(name),
                    ..MutatingAdmissionPolicyBindingSpec::default()
                }),
            },
        }
    }
}

/// Writes of cluster-wide resources in the core group.
fn rule(operations: &[Operation], resources: &[&str]) -> NamedRuleWithOperations {
    let operations = operations.iter().map(|operation| operation.name().to_owned());
    let resources = resources.iter().map(|&resource| resource.to_owned());
    NamedRuleWithOperations {
        api_groups: Some(vec![String::new()]),
        api_versions: Some(vec!["v1".to_owned()]),
        operations: Some(operations.collect()),
        resources: Some(resources.collect()),
        scope: Some("Cluster".to_owned()),
        resource_names: None,
    }
}

/// Number of annotations, stored and sent ones together, up to which a policy passes over all of them. The cost grows
/// with the number, and a policy that exceeds its budget lets everything pass, or nothing. Beyond this number the
/// revert takes back all changes of annotations. Nodes have a few dozen.
const MOST_MERGED: usize = 5_000;

/// CEL: true for the credential of any kubelet: its user names a node, or it is in the group of nodes.
fn by_kubelet() -> String {
    format!(
        "request.userInfo.username.startsWith({})\n|| {}",
        text(names::NODE_USER_PREFIX),
        in_nodes_group()
    )
}

/// CEL: true for the kubelet of the object's own node. Kubelets with one user for all nodes are known by their group and
/// by the Node that they write.
fn by_own_kubelet() -> String {
    let prefix = text(names::NODE_USER_PREFIX);
    format!(
        "request.userInfo.username == {prefix} + object.metadata.name\n|| \
         (!request.userInfo.username.startsWith({prefix}) && {})",
        in_nodes_group()
    )
}

fn in_nodes_group() -> String {
    format!(
        "(has(request.userInfo.groups) && {} in request.userInfo.groups)",
        text(names::NODES_GROUP)
    )
}

/// Restores the annotations that a writer may not change, in one operation: one operation per annotation would let a
/// sender of thousands exceed the policy's budget. The writers are every kubelet, and each user except the webhook who
/// writes the status: users change annotations through `nodes`, which the checks cover. Nothing is refused: validation
/// sees the object after our own webhook, under the kubelet's name.
fn revert(installation: &Installation) -> PolicyParts {
    let was = annotations("oldObject");
    let changed = format!("oldObject == null || {} != {was}", annotations("object"));
    let protected = protected("k");
    let path = "/metadata/annotations";
    PolicyParts {
        name: names::ANNOTATIONS_POLICY,
        operations: &[Operation::Create, Operation::Update],
        resources: &["nodes", "nodes/status"],
        conditions: vec![
            (
                "not-permitted",
                format!(
                    "{}
|| (has(request.subResource) && request.subResource == 'status'
  && request.userInfo.username != {})",
                    by_kubelet(),
                    text(&installation.webhook_user())
                ),
            ),
            ("annotations-differ", changed),
        ],
        variables: vec![
            variable("now", annotations("object")),
            variable("was", format!("oldObject == null ? {{}} : {was}")),
            variable(
                "isWide",
                format!("size(variables.now) + size(variables.was) > {MOST_MERGED}"),
            ),
            variable(
                "restored",
                format!(
                    "variables.was.filter(k, ({protected})\n  && !(k in variables.now && variables.now[k] == variables.was[k]))"
                ),
            ),
            variable(
                "dropped",
                format!("variables.now.filter(k, ({protected})\n  && !(k in variables.was))"),
            ),
            variable(
                "kept",
                format!(
                    "variables.isWide ? variables.was
  : (variables.was.filter(k, {protected}) + variables.now.filter(k, !({protected})))
      .transformMapEntry(i, k, {{k: ({protected}) ? variables.was[k] : variables.now[k]}})"
                ),
            ),
        ],
        patch: format!(
            "!variables.isWide && size(variables.restored) + size(variables.dropped) == 0 ? []
  : [JSONPatch{{op: 'add', path: {}, value: variables.kept}}]",
            text(path)
        ),
    }
}

fn variable(name: &str, expression: String) -> (String, String) {
    (name.to_owned(), expression)
}

/// CEL for the annotations of an object, empty if it has none.
pub(super) fn annotations(object: &str) -> String {
    format!("{object}.metadata.?annotations.orValue({{}})")
}

/// CEL that is true if a node's own credential may not change the annotation whose key is in variable `key`: the
/// ratio, the saved raw values and all of Headroom's except the floor policy's note.
fn protected(key: &str) -> String {
    let listed: Vec<_> = names::PROTECTED.iter().map(|key| text(key)).collect();
    format!(
        "{key} in [{}] || ({key}.startsWith({}) && {key} != {})",
        listed.join(", "),
        text(names::DOMAIN),
        text(names::KUBELET_RAW)
    )
}

/// CEL for the JSON pointer to the annotation whose key the expression gives.
fn annotation_path(key: &str) -> String {
    format!("'/metadata/annotations/' + jsonpatch.escapeKey({key})")
}

/// A CEL string literal for text without quotes of its own kind and without backslashes.
pub(super) fn text(text: &str) -> String {
    format!("'{text}'")
}

#[cfg(test)]
mod tests;
