//! [`Installation`]: where an installation of Headroom lives and what its objects are called, so that a cluster can have
//! several.

mod config_map;

use std::{fmt, str::FromStr};

pub use self::config_map::{ConfigMapName, ObjectName};
use crate::names;

/// The longest name of a namespace, in bytes: a DNS label.
const LONGEST_LABEL: usize = 63;
/// The longest suffix, in bytes: with it the longest of our names is still a DNS label.
const LONGEST_SUFFIX: usize = 32;

/// Where an installation lives and what its objects are called. The default is the one that the manifests have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installation {
    /// Namespace of the webhook.
    pub namespace: Namespace,
    /// Namespace of the agents.
    pub agent_namespace: Namespace,
    /// What every name of an object of ours ends in.
    pub suffix: NameSuffix,
    /// Koordinator's ConfigMap, which is not ours.
    pub slo_config: ConfigMapName,
}

/// Name of a namespace; a DNS label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespace(String);

/// What every name of an object of ours ends in, such as `-b`; empty for the first installation of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NameSuffix(String);

/// The text is no name that Kubernetes takes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// It is no DNS label.
    #[error("{text:?} is not made of at most {LONGEST_LABEL} letters a-z, digits and inner hyphens")]
    Namespace {
        /// The text.
        text: String,
    },
    /// It is no DNS subdomain.
    #[error(
        "{text:?} is not made of labels of letters a-z, digits and inner hyphens, with dots between them"
    )]
    Object {
        /// The text.
        text: String,
    },
    /// It cannot end a name.
    #[error(
        "{text:?} is not made of at most {LONGEST_SUFFIX} letters a-z, digits and hyphens, the last not a hyphen"
    )]
    Suffix {
        /// The text.
        text: String,
    },
}

impl Installation {
    /// The name of an object of ours that is `name` in the first installation.
    pub fn named(&self, name: &str) -> String {
        format!("{name}{}", self.suffix)
    }

    /// Name of the Service in front of the admission port.
    pub fn service(&self) -> String {
        self.named(names::WEBHOOK_SERVICE)
    }

    /// Host name of the Service in front of the admission port.
    pub fn service_host(&self) -> String {
        self.host(names::WEBHOOK_SERVICE)
    }

    /// Host name of the headless Service in front of the hint port.
    pub fn hints_host(&self) -> String {
        self.host(names::HINTS_SERVICE)
    }

    /// Name of the webhook's service account.
    pub fn service_account(&self) -> String {
        self.named(names::WEBHOOK_SERVICE_ACCOUNT)
    }

    /// Name of the agents' service account.
    pub fn agent_service_account(&self) -> String {
        self.named(names::AGENT_SERVICE_ACCOUNT)
    }

    /// Name of the lease whose holder sweeps.
    pub fn lease(&self) -> String {
        self.named(names::LEASE)
    }

    /// The user that the webhook is to the API server.
    pub fn webhook_user(&self) -> String {
        let Self { namespace, .. } = self;
        format!("system:serviceaccount:{namespace}:{}", self.service_account())
    }

    fn host(&self, service: &str) -> String {
        let Self { namespace, .. } = self;
        format!("{}.{namespace}.svc", self.named(service))
    }
}

impl Namespace {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl NameSuffix {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for Installation {
    fn default() -> Self {
        Self {
            namespace: Namespace(names::NAMESPACE.to_owned()),
            agent_namespace: Namespace(names::AGENT_NAMESPACE.to_owned()),
            suffix: NameSuffix::default(),
            slo_config: ConfigMapName::default(),
        }
    }
}

impl FromStr for Namespace {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        if !is_label(text) {
            let text = text.to_owned();
            return Err(NameError::Namespace { text });
        }
        Ok(Self(text.to_owned()))
    }
}

impl FromStr for NameSuffix {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let is_suffix = text.len() <= LONGEST_SUFFIX && has_label_bytes(text) && !text.ends_with('-');
        if !is_suffix {
            let text = text.to_owned();
            return Err(NameError::Suffix { text });
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for NameSuffix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// True for a DNS label.
fn is_label(text: &str) -> bool {
    (1..=LONGEST_LABEL).contains(&text.len())
        && has_label_bytes(text)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

fn has_label_bytes(text: &str) -> bool {
    text.bytes()
        .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second() -> Installation {
        Installation {
            namespace: "b".parse().unwrap(),
            agent_namespace: "c".parse().unwrap(),
            suffix: "-b".parse().unwrap(),
            ..Installation::default()
        }
    }

    #[test]
    fn the_default_has_the_names_of_the_manifests() {
        let first = Installation::default();
        assert_eq!(first.webhook_user(), names::WEBHOOK_USER);
        assert_eq!(first.service_host(), "headroom-webhook.headroom-system.svc");
        assert_eq!(first.hints_host(), "headroom-hints.headroom-system.svc");
        assert_eq!(first.lease(), names::LEASE);
        assert_eq!(first.agent_namespace.as_str(), names::AGENT_NAMESPACE);
    }

    #[test]
    fn no_name_of_a_second_installation_is_that_of_the_first() {
        let second = second();
        assert_eq!(
            second.webhook_user(),
            "system:serviceaccount:b:headroom-webhook-b"
        );
        assert_eq!(second.service_host(), "headroom-webhook-b.b.svc");
        assert_eq!(second.hints_host(), "headroom-hints-b.b.svc");
        assert_eq!(second.agent_service_account(), "headroom-agent-b");
        assert_eq!(second.named(names::WEBHOOK_CONFIGURATION), "headroom-webhook-b");
    }

    #[test]
    fn a_namespace_is_a_label_and_a_suffix_the_end_of_one() {
        let long = "a".repeat(LONGEST_LABEL + 1);
        for bad in ["", "-a", "a-", "A", "a.b", "a'b", "a_b", &long] {
            assert!(bad.parse::<Namespace>().is_err(), "{bad}");
        }
        for good in ["a", "a-b", "1", &long[1..]] {
            assert_eq!(good.parse::<Namespace>().unwrap().as_str(), good);
        }
        for bad in ["-", "a-", "B", ".b", "'", &long[..=LONGEST_SUFFIX]] {
            assert!(bad.parse::<NameSuffix>().is_err(), "{bad}");
        }
        for good in ["", "-b", "2", &long[..LONGEST_SUFFIX]] {
            assert_eq!(good.parse::<NameSuffix>().unwrap().as_str(), good);
        }
    }
}
