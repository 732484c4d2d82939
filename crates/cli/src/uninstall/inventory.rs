//! [`inventory`]: the objects of an installation by kind and name, in the order in which they are deleted.

use std::fmt;

use headroom_domain::{installation::Installation, names};

use super::object_kind::{self as kinds, ObjectKind};

/// Object that the manifests or the webhook create.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct OwnObject {
    pub stage: Stage,
    pub kind: &'static ObjectKind,
    /// `None` for an object of the whole cluster.
    pub namespace: Option<String>,
    pub name: String,
}

/// Step in which an object is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// The API server no longer calls the webhook and no longer evaluates the policies.
    Admission,
    /// The processes end.
    Workloads,
    Objects,
    Namespaces,
}

impl Stage {
    /// True for objects that change nodes or answer the API server; the others are inert without them.
    pub const fn acts(self) -> bool {
        match self {
            Self::Admission | Self::Workloads => true,
            Self::Objects | Self::Namespaces => false,
        }
    }
}

/// Builds the list for one installation.
struct ObjectList<'i> {
    installation: &'i Installation,
    objects: Vec<OwnObject>,
}

/// All objects of an installation, with those of all components, in the order of deletion.
pub fn inventory(installation: &Installation) -> Vec<OwnObject> {
    let mut list = ObjectList {
        installation,
        objects: Vec::new(),
    };
    list.add_admission();
    list.add_namespaced();
    list.add_cluster_wide();
    let mut objects = list.objects;
    objects.sort_by_key(|object| object.stage);
    objects
}

impl ObjectList<'_> {
    fn add(&mut self, stage: Stage, kind: &'static ObjectKind, namespace: Option<&str>, all: &[&str]) {
        let objects = all.iter().map(|name| OwnObject {
            stage,
            kind,
            namespace: namespace.map(str::to_owned),
            name: self.installation.named(name),
        });
        self.objects.extend(objects);
    }

    fn add_admission(&mut self) {
        let configurations = [
            names::PODS_CONFIGURATION,
            names::QUOTAS_CONFIGURATION,
            names::SLO_CONFIGURATION,
            names::FLUID_CONFIGURATION,
            names::WEBHOOK_CONFIGURATION,
        ];
        for kind in [&kinds::MUTATING_CONFIGURATION, &kinds::VALIDATING_CONFIGURATION] {
            self.add(Stage::Admission, kind, None, &configurations);
        }
        let mutating = [names::FLOOR_POLICY, names::ANNOTATIONS_POLICY];
        let validating = [
            names::CHECKS_POLICY,
            names::OWN_CONFIGURATIONS_POLICY,
            names::OWN_SECRET_POLICY,
        ];
        self.add(Stage::Admission, &kinds::MUTATING_BINDING, None, &mutating);
        self.add(Stage::Admission, &kinds::MUTATING_POLICY, None, &mutating);
        // Of the component floor-v1beta1. An API server that serves both versions returns the same objects twice.
        self.add(Stage::Admission, &kinds::BETA_MUTATING_BINDING, None, &mutating);
        self.add(Stage::Admission, &kinds::BETA_MUTATING_POLICY, None, &mutating);
        self.add(Stage::Admission, &kinds::VALIDATING_BINDING, None, &validating);
        self.add(Stage::Admission, &kinds::VALIDATING_POLICY, None, &validating);
    }

    fn add_namespaced(&mut self) {
        let webhook = Some(self.installation.namespace.as_str());
        let agent = Some(self.installation.agent_namespace.as_str());
        let service = names::WEBHOOK_SERVICE;
        let daemon = names::AGENT_SERVICE_ACCOUNT;
        self.add(Stage::Workloads, &kinds::DEPLOYMENT, webhook, &[service]);
        self.add(Stage::Workloads, &kinds::DAEMON_SET, agent, &[daemon]);
        let mut add = |kind, namespace, all: &[&str]| self.add(Stage::Objects, kind, namespace, all);
        add(&kinds::DISRUPTION_BUDGET, webhook, &[service]);
        add(&kinds::NETWORK_POLICY, webhook, &[service]);
        add(&kinds::NETWORK_POLICY, agent, &[daemon]);
        add(&kinds::SERVICE, webhook, &[service, names::HINTS_SERVICE]);
        add(&kinds::LEASE, webhook, &[names::LEASE]);
        add(&kinds::SECRET, webhook, &[names::CERTIFICATES_SECRET]);
        add(&kinds::CONFIG_MAP, webhook, &[names::CONFIG_MAP]);
        add(&kinds::CONFIG_MAP, agent, &[names::AUTHORITIES_CONFIG_MAP]);
        let roles = [
            names::WEBHOOK_SERVICE_ACCOUNT,
            names::VIEWER,
            names::OPERATOR,
            names::WEBHOOK_CONSTRAINTS_ROLE,
        ];
        for kind in [&kinds::ROLE_BINDING, &kinds::ROLE] {
            add(kind, webhook, &roles);
            add(
                kind,
                agent,
                &[names::AGENT_CONSTRAINTS_ROLE, names::WEBHOOK_CONFIGURATION],
            );
            let configurations = [
                names::WEBHOOK_CONFIGURATION,
                names::PODS_CONFIGURATION,
                names::QUOTAS_CONFIGURATION,
                names::SLO_CONFIGURATION,
                names::FLUID_CONFIGURATION,
            ];
            let elsewhere = [
                names::SLO_CONFIG_NAMESPACE,
                names::NODE_EVENTS_NAMESPACE,
                names::FLUID_NAMESPACE,
            ];
            for namespace in elsewhere {
                add(kind, Some(namespace), &configurations);
            }
        }
        add(
            &kinds::SERVICE_ACCOUNT,
            webhook,
            &[names::WEBHOOK_SERVICE_ACCOUNT, names::VIEWER],
        );
        add(&kinds::SERVICE_ACCOUNT, agent, &[names::AGENT_SERVICE_ACCOUNT]);
        for namespace in [webhook, agent].into_iter().flatten() {
            self.objects.push(OwnObject {
                stage: Stage::Namespaces,
                kind: &kinds::NAMESPACE,
                namespace: None,
                name: namespace.to_owned(),
            });
        }
    }

    fn add_cluster_wide(&mut self) {
        let roles = [
            names::WEBHOOK_SERVICE_ACCOUNT,
            names::PODS_CONFIGURATION,
            names::QUOTAS_CONFIGURATION,
            names::SLO_CONFIGURATION,
            names::FLUID_CONFIGURATION,
            names::VIEWER,
            names::OPERATOR,
            names::DEBUG_ROLE,
            names::KUBELET_USE_ROLE,
        ];
        for kind in [&kinds::CLUSTER_ROLE_BINDING, &kinds::CLUSTER_ROLE] {
            self.add(Stage::Objects, kind, None, &roles);
        }
        let classes = [names::WEBHOOK_PRIORITY_CLASS, names::AGENT_PRIORITY_CLASS];
        self.add(Stage::Objects, &kinds::PRIORITY_CLASS, None, &classes);
        let constraints = [names::AGENT_CONSTRAINTS];
        self.add(Stage::Objects, &kinds::CONSTRAINTS, None, &constraints);
    }
}

/// Prints kind, namespace and name.
impl fmt::Display for OwnObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kind,
            namespace,
            name,
            stage: _,
        } = self;
        match namespace {
            Some(namespace) => write!(f, "{} {namespace}/{name}", kind.kind),
            None => write!(f, "{} {name}", kind.kind),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn bindings_precede_policies_and_roles_and_namespaces_are_last() {
        let all = inventory(&Installation::default());
        let position = |kind: &ObjectKind| all.iter().position(|object| object.kind == kind).unwrap();
        for (earlier, later) in [
            (&kinds::MUTATING_BINDING, &kinds::MUTATING_POLICY),
            (&kinds::VALIDATING_BINDING, &kinds::VALIDATING_POLICY),
            (&kinds::VALIDATING_POLICY, &kinds::DEPLOYMENT),
            (&kinds::DEPLOYMENT, &kinds::SERVICE),
            (&kinds::ROLE_BINDING, &kinds::ROLE),
            (&kinds::CLUSTER_ROLE_BINDING, &kinds::CLUSTER_ROLE),
        ] {
            assert!(
                position(earlier) < position(later),
                "{} {}",
                earlier.kind,
                later.kind
            );
        }
        assert!(
            all[all.len() - 2..]
                .iter()
                .all(|object| object.kind == &kinds::NAMESPACE)
        );
        let distinct: BTreeSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), all.len(), "each object once");
    }

    #[test]
    fn a_second_installation_shares_no_object_with_the_first() {
        let second = Installation {
            namespace: "b".parse().unwrap(),
            agent_namespace: "c".parse().unwrap(),
            suffix: "-b".parse().unwrap(),
            ..Installation::default()
        };
        let first: BTreeSet<_> = inventory(&Installation::default()).into_iter().collect();
        let shared: Vec<_> = inventory(&second)
            .into_iter()
            .filter(|object| first.contains(object))
            .collect();
        assert_eq!(shared, []);
    }
}
