//! [`ObjectKind`]: kinds of Kubernetes objects that an installation consists of or that a namespace may contain.

use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject},
    core::PartialObjectMeta,
};

/// A kind of object, with the resource that serves it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectKind {
    /// API group; empty for the core group.
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
}

const ADMISSION: &str = "admissionregistration.k8s.io";
const RBAC: &str = "rbac.authorization.k8s.io";

pub static MUTATING_CONFIGURATION: ObjectKind = v1(
    ADMISSION,
    "MutatingWebhookConfiguration",
    "mutatingwebhookconfigurations",
);
pub static VALIDATING_CONFIGURATION: ObjectKind = v1(
    ADMISSION,
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
);
pub static MUTATING_POLICY: ObjectKind =
    v1(ADMISSION, "MutatingAdmissionPolicy", "mutatingadmissionpolicies");
pub static MUTATING_BINDING: ObjectKind = v1(
    ADMISSION,
    "MutatingAdmissionPolicyBinding",
    "mutatingadmissionpolicybindings",
);
pub static BETA_MUTATING_POLICY: ObjectKind = ObjectKind {
    version: "v1beta1",
    ..v1(ADMISSION, "MutatingAdmissionPolicy", "mutatingadmissionpolicies")
};
pub static BETA_MUTATING_BINDING: ObjectKind = ObjectKind {
    version: "v1beta1",
    ..v1(
        ADMISSION,
        "MutatingAdmissionPolicyBinding",
        "mutatingadmissionpolicybindings",
    )
};
pub static VALIDATING_POLICY: ObjectKind = v1(
    ADMISSION,
    "ValidatingAdmissionPolicy",
    "validatingadmissionpolicies",
);
pub static VALIDATING_BINDING: ObjectKind = v1(
    ADMISSION,
    "ValidatingAdmissionPolicyBinding",
    "validatingadmissionpolicybindings",
);
pub static CLUSTER_ROLE: ObjectKind = v1(RBAC, "ClusterRole", "clusterroles");
pub static CLUSTER_ROLE_BINDING: ObjectKind = v1(RBAC, "ClusterRoleBinding", "clusterrolebindings");
pub static ROLE: ObjectKind = v1(RBAC, "Role", "roles");
pub static ROLE_BINDING: ObjectKind = v1(RBAC, "RoleBinding", "rolebindings");
pub static PRIORITY_CLASS: ObjectKind = v1("scheduling.k8s.io", "PriorityClass", "priorityclasses");
pub static CONSTRAINTS: ObjectKind = v1(
    "security.openshift.io",
    "SecurityContextConstraints",
    "securitycontextconstraints",
);
pub static DEPLOYMENT: ObjectKind = v1("apps", "Deployment", "deployments");
pub static DAEMON_SET: ObjectKind = v1("apps", "DaemonSet", "daemonsets");
pub static DISRUPTION_BUDGET: ObjectKind = v1("policy", "PodDisruptionBudget", "poddisruptionbudgets");
pub static NETWORK_POLICY: ObjectKind = v1("networking.k8s.io", "NetworkPolicy", "networkpolicies");
pub static SERVICE: ObjectKind = v1("", "Service", "services");
pub static SERVICE_ACCOUNT: ObjectKind = v1("", "ServiceAccount", "serviceaccounts");
pub static LEASE: ObjectKind = v1("coordination.k8s.io", "Lease", "leases");
pub static SECRET: ObjectKind = v1("", "Secret", "secrets");
pub static CONFIG_MAP: ObjectKind = v1("", "ConfigMap", "configmaps");
pub static NAMESPACE: ObjectKind = v1("", "Namespace", "namespaces");
pub static POD: ObjectKind = v1("", "Pod", "pods");
pub static CLAIM: ObjectKind = v1("", "PersistentVolumeClaim", "persistentvolumeclaims");
pub static STATEFUL_SET: ObjectKind = v1("apps", "StatefulSet", "statefulsets");
pub static REPLICA_SET: ObjectKind = v1("apps", "ReplicaSet", "replicasets");
pub static JOB: ObjectKind = v1("batch", "Job", "jobs");
pub static CRON_JOB: ObjectKind = v1("batch", "CronJob", "cronjobs");
pub static DEFINITION: ObjectKind = v1(
    "apiextensions.k8s.io",
    "CustomResourceDefinition",
    "customresourcedefinitions",
);

const fn v1(group: &'static str, kind: &'static str, plural: &'static str) -> ObjectKind {
    ObjectKind {
        group,
        version: "v1",
        kind,
        plural,
    }
}

impl ObjectKind {
    /// Client for the objects of this kind, in one namespace or in the whole cluster.
    pub fn api(&self, client: &Client, namespace: Option<&str>) -> Api<DynamicObject> {
        let resource = self.resource();
        match namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
            None => Api::all_with(client.clone(), &resource),
        }
    }

    /// Metadata of an object; `None` if it does not exist or the API server does not serve the kind.
    ///
    /// # Errors
    /// The API server refuses or does not answer.
    pub async fn find_metadata(
        &self,
        client: &Client,
        namespace: Option<&str>,
        name: &str,
    ) -> kube::Result<Option<PartialObjectMeta<DynamicObject>>> {
        if_found(self.api(client, namespace).get_metadata(name).await)
    }

    /// A whole object; see [`Self::find_metadata`].
    ///
    /// # Errors
    /// The API server refuses or does not answer.
    pub async fn find(
        &self,
        client: &Client,
        namespace: Option<&str>,
        name: &str,
    ) -> kube::Result<Option<DynamicObject>> {
        if_found(self.api(client, namespace).get(name).await)
    }

    /// Value of `apiVersion` of an object.
    pub fn api_version(&self) -> String {
        self.resource().api_version
    }

    fn resource(&self) -> ApiResource {
        let Self {
            group,
            version,
            kind,
            plural,
        } = self;
        let api_version = if group.is_empty() {
            (*version).to_owned()
        } else {
            format!("{group}/{version}")
        };
        ApiResource {
            group: (*group).to_owned(),
            version: (*version).to_owned(),
            api_version,
            kind: (*kind).to_owned(),
            plural: (*plural).to_owned(),
        }
    }
}

/// The answer about an unserved kind is no Status object, so its code decides.
fn if_found<T>(answer: kube::Result<T>) -> kube::Result<Option<T>> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error),
    }
}
