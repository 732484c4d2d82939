//! [`Evidence`]: what the API server and the replicas of the webhook said. The rows are decided by it alone.

use headroom_domain::installation::Installation;
use headroom_proto::v1alpha1::GetInstallationResponse;

use super::kubernetes_version::KubernetesVersion;

/// What somebody said, or why nobody did.
pub type Testimony<T> = Result<T, String>;

/// What is known of an installation, or of a cluster before one.
#[derive(Debug, Clone)]
pub struct Evidence {
    /// The installation that is asked for.
    pub installation: Installation,
    /// The version of this program.
    pub client_version: String,
    /// What each replica says that answers.
    pub replicas: Testimony<Vec<GetInstallationResponse>>,
    /// Replicas that answer other questions and do not know this one: they are older.
    pub older_replicas: Vec<String>,
    /// Why replicas that should answer do not.
    pub unreached: Vec<String>,
    /// Whether the MutatingWebhookConfiguration of nodes is there.
    pub is_configured: Testimony<bool>,
    /// The API server's version.
    pub kubernetes: Testimony<KubernetesVersion>,
    /// Whether the API server has MutatingAdmissionPolicy v1.
    pub has_policies: Testimony<bool>,
    /// What the user may not create of what is to be installed.
    pub missing_rights: Testimony<Vec<String>>,
    /// The machines behind the Nodes.
    pub machines: Testimony<Vec<Machine>>,
    /// Whether Koordinator's MutatingWebhookConfiguration is there.
    pub has_koordinator: Testimony<bool>,
}

/// What a Node says of its machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// The Node.
    pub node: String,
    /// `linux` or `windows`.
    pub system: String,
    /// As in `amd64`.
    pub architecture: String,
    /// As in `6.1.0-13-amd64`.
    pub kernel: String,
}

impl Default for Evidence {
    /// Nobody was asked.
    fn default() -> Self {
        Self {
            installation: Installation::default(),
            client_version: env!("CARGO_PKG_VERSION").to_owned(),
            replicas: not_asked(),
            older_replicas: Vec::new(),
            unreached: Vec::new(),
            is_configured: not_asked(),
            kubernetes: not_asked(),
            has_policies: not_asked(),
            missing_rights: not_asked(),
            machines: not_asked(),
            has_koordinator: not_asked(),
        }
    }
}

/// What was not asked.
fn not_asked<T>() -> Testimony<T> {
    Err("it was not asked".to_owned())
}

impl Evidence {
    /// What a single replica says, which does not know the question if it is older.
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

    /// What replicas say; an error where none says anything.
    pub(super) fn answers(&self) -> Testimony<&[GetInstallationResponse]> {
        let answers = self.replicas.as_ref().map_err(Clone::clone)?;
        if answers.is_empty() {
            return Err(match self.older_replicas.first() {
                Some(_) => "the webhook is older than this question".to_owned(),
                None => "no replica of the webhook answers".to_owned(),
            });
        }
        Ok(answers)
    }
}
