//! Role and RoleBinding that let the webhook contend for its lease, in its own namespace and nowhere else. A lease
//! elsewhere is a node's heartbeat.

use headroom_domain::names;
use k8s_openapi::{
    api::rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

/// The role.
pub fn role() -> Role {
    let rule = |verbs: &[&str], names: Option<Vec<String>>| PolicyRule {
        api_groups: Some(vec!["coordination.k8s.io".to_owned()]),
        resources: Some(vec!["leases".to_owned()]),
        resource_names: names,
        verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
        ..PolicyRule::default()
    };
    Role {
        metadata: ours(),
        rules: Some(vec![
            // What is being created has no name yet that a rule could speak of.
            rule(&["create"], None),
            rule(&["get", "update"], Some(vec![names::LEASE.to_owned()])),
        ]),
    }
}

/// The webhook has it.
pub fn binding() -> RoleBinding {
    RoleBinding {
        metadata: ours(),
        role_ref: RoleRef {
            api_group: Some("rbac.authorization.k8s.io".to_owned()),
            kind: "Role".to_owned(),
            name: names::LEASE.to_owned(),
        },
        subjects: Some(vec![Subject {
            kind: "ServiceAccount".to_owned(),
            name: names::WEBHOOK_SERVICE_ACCOUNT.to_owned(),
            namespace: Some(names::NAMESPACE.to_owned()),
            ..Subject::default()
        }]),
    }
}

fn ours() -> ObjectMeta {
    ObjectMeta {
        name: Some(names::LEASE.to_owned()),
        namespace: Some(names::NAMESPACE.to_owned()),
        ..ObjectMeta::default()
    }
}
