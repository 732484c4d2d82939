//! [`Evidence`]: answers of the API server and of the webhook's replicas. The rows read only this.

use headroom_domain::installation::Installation;
use headroom_proto::v1alpha1::GetInstallationResponse;

use super::kubernetes_version::KubernetesVersion;

/// An answer, or the reason why there is none.
pub type CheckAnswer<T> = Result<T, String>;

/// Known state of an installation, or of a cluster before the installation.
#[derive(Debug, Clone)]
pub struct Evidence {
    pub installation: Installation,
    pub client_version: String,
    /// Answers of the replicas that are reachable and not too old.
    pub replicas: CheckAnswer<Vec<GetInstallationResponse>>,
    /// Replicas that answer other requests but are older than this one.
    pub older_replicas: Vec<String>,
    /// Error messages of unreachable replicas.
    pub unreached: Vec<String>,
    /// True if the MutatingWebhookConfiguration for nodes exists.
    pub is_configured: CheckAnswer<bool>,
    /// True if the provider of the control plane gives its API servers no client certificate: EKS and GKE.
    pub is_hosted: CheckAnswer<bool>,
    pub kubernetes: CheckAnswer<KubernetesVersion>,
    /// True if the API server serves MutatingAdmissionPolicy v1.
    pub has_policies: CheckAnswer<bool>,
    /// Resources of the manifests that the user may not create.
    pub missing_rights: CheckAnswer<Vec<String>>,
    pub machines: CheckAnswer<Vec<Machine>>,
    /// Allocatable CPU of each Linux node minus the requests of its pods, in milli-cores.
    pub free_cpu: CheckAnswer<Vec<(String, i64)>>,
    /// True if Koordinator's MutatingWebhookConfiguration exists.
    pub has_koordinator: CheckAnswer<bool>,
    /// True if Fluid's own webhook places pods.
    pub has_fluid: CheckAnswer<bool>,
}

/// Machine of a Node, from `status.nodeInfo`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    pub node: String,
    /// Operating system: `linux` or `windows`.
    pub system: String,
    /// Architecture of the CPU, such as `amd64`.
    pub architecture: String,
    /// Kernel release, such as `6.1.0-13-amd64`.
    pub kernel: String,
}

impl Default for Evidence {
    fn default() -> Self {
        Self {
            installation: Installation::default(),
            client_version: env!("CARGO_PKG_VERSION").to_owned(),
            replicas: not_asked(),
            older_replicas: Vec::new(),
            unreached: Vec::new(),
            is_configured: not_asked(),
            is_hosted: not_asked(),
            kubernetes: not_asked(),
            has_policies: not_asked(),
            missing_rights: not_asked(),
            machines: not_asked(),
            free_cpu: not_asked(),
            has_koordinator: not_asked(),
            has_fluid: not_asked(),
        }
    }
}

fn not_asked<T>() -> CheckAnswer<T> {
    Err("not requested".to_owned())
}

impl Evidence {
    /// Evidence from a single replica; `None` if the replica is older than this request.
    pub fn of_replica(installation: Installation, answer: Option<GetInstallationResponse>) -> Self {
        let older = if answer.is_none() {
            vec!["the webhook".to_owned()]
        } else {
            Vec::new()
        };
        Self {
            installation,
            replicas: Ok(answer.into_iter().collect()),
            older_replicas: older,
            ..Self::default()
        }
    }

    /// Answers of the replicas; an error if there is none.
    pub(super) fn answers(&self) -> CheckAnswer<&[GetInstallationResponse]> {
        let answers = self.replicas.as_ref().map_err(Clone::clone)?;
        if answers.is_empty() {
            return Err(match self.older_replicas.first() {
                Some(_) => "the webhook is too old for this request".to_owned(),
                None => "no replica of the webhook answers".to_owned(),
            });
        }
        Ok(answers)
    }
}
