//! [`Installation`]: namespaces and object names of one installation of Headroom, so that a cluster can have several.

mod config_map;
mod family;

use std::{fmt, str::FromStr};

pub use self::{
    config_map::{ConfigMapName, ObjectName},
    family::Family,
};
use crate::names;

/// Longest name of a namespace in bytes, that of a DNS label.
const LONGEST_LABEL: usize = 63;
/// Longest suffix in bytes; Headroom's longest object name with it is still a DNS label.
const LONGEST_SUFFIX: usize = 32;

/// Namespaces and object names of one installation. The default is that of the shipped manifests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installation {
    /// Namespace of the webhook; default `headroom-system`.
    pub namespace: Namespace,
    /// Namespace of the agents; default `headroom-agent`.
    pub agent_namespace: Namespace,
    /// Suffix of the names of all of Headroom's objects; default empty.
    pub suffix: NameSuffix,
    /// Koordinator's ConfigMap, which Headroom reads and does not own.
    pub slo_config: ConfigMapName,
}

/// Name of a namespace; a DNS label of at most 63 bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespace(String);

/// Suffix of object names, such as `-b`; empty for the first installation of a cluster. At most 32 bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NameSuffix(String);

/// The text is not a valid Kubernetes name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The text is not a DNS label.
    #[error("{text:?} is not a namespace: use at most {LONGEST_LABEL} letters a-z, digits and inner hyphens")]
    Namespace {
        /// The rejected text, as given by the caller.
        text: String,
    },
    /// The text is not a DNS subdomain.
    #[error(
        "{text:?} is not an object name: use letters a-z, digits and inner hyphens, in labels separated by dots"
    )]
    Object {
        /// The rejected text, as given by the caller.
        text: String,
    },
    /// The text cannot be the end of a name.
    #[error(
        "{text:?} is not a name suffix: use at most {LONGEST_SUFFIX} letters a-z, digits and hyphens, not ending in a hyphen"
    )]
    Suffix {
        /// The rejected text, as given by the caller.
        text: String,
    },
}

impl Installation {
    /// Name of an object that is called `name` in the first installation: `name` and the suffix.
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

    /// Name of the webhook's service account, with the suffix.
    pub fn service_account(&self) -> String {
        self.named(names::WEBHOOK_SERVICE_ACCOUNT)
    }

    /// Name of the agents' service account.
    pub fn agent_service_account(&self) -> String {
        self.named(names::AGENT_SERVICE_ACCOUNT)
    }

    /// Name of the Lease; its holder runs the sweeps.
    pub fn lease(&self) -> String {
        self.named(names::LEASE)
    }

    /// Username of the webhook at the API server, `system:serviceaccount:NAMESPACE:NAME`.
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
    /// Name of the namespace as a string slice.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl NameSuffix {
    /// Suffix as a string slice; empty for the first installation.
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

/// Returns true if the text is a DNS label (RFC 1123).
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
    fn the_default_names_equal_those_of_the_manifests() {
        let first = Installation::default();
        assert_eq!(first.webhook_user(), names::WEBHOOK_USER);
        assert_eq!(first.service_host(), "headroom-webhook.headroom-system.svc");
        assert_eq!(first.hints_host(), "headroom-hints.headroom-system.svc");
        assert_eq!(first.lease(), names::LEASE);
        assert_eq!(first.agent_namespace.as_str(), names::AGENT_NAMESPACE);
    }

    #[test]
    fn a_second_installation_shares_no_name_with_the_first() {
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
    fn namespaces_and_suffixes_are_validated() {
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
