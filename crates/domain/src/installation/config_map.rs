//! [`ConfigMapName`]: namespace and name of a ConfigMap, such as Koordinator's `slo-controller-config`.

use std::{fmt, str::FromStr};

use super::{NameError, Namespace, is_label};
use crate::names;

/// Longest name of an object in bytes, that of a DNS subdomain.
const LONGEST_NAME: usize = 253;

/// Namespace and name of a ConfigMap. The default is `koordinator-system/slo-controller-config`, which configures all
/// nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigMapName {
    /// Namespace of the ConfigMap; default `koordinator-system`.
    pub namespace: Namespace,
    /// Name of the ConfigMap in its namespace; default `slo-controller-config`.
    pub name: ObjectName,
}

/// Name of an object; a DNS subdomain of at most 253 bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectName(String);

impl ConfigMapName {
    /// Koordinator's ConfigMap with the labels that pods must have, `pod-enhanced-validator-config`.
    pub fn label_rules() -> Self {
        Self {
            name: ObjectName(names::LABEL_RULES.to_owned()),
            ..Self::default()
        }
    }

    /// Fluid's ConfigMap with the plugins of its webhook, `webhook-plugins`.
    pub fn fluid_plugins() -> Self {
        Self {
            namespace: Namespace(names::FLUID_NAMESPACE.to_owned()),
            name: ObjectName(names::FLUID_PLUGINS.to_owned()),
        }
    }

    /// Returns true if namespace and name are those of this ConfigMap.
    pub fn is(&self, namespace: &str, name: &str) -> bool {
        (self.namespace.as_str(), self.name.as_str()) == (namespace, name)
    }
}

impl ObjectName {
    /// Name of the object as a string slice.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for ConfigMapName {
    fn default() -> Self {
        Self {
            namespace: Namespace(names::SLO_CONFIG_NAMESPACE.to_owned()),
            name: ObjectName(names::SLO_CONFIG.to_owned()),
        }
    }
}

impl FromStr for ObjectName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        if text.len() > LONGEST_NAME || !text.split('.').all(is_label) {
            let text = text.to_owned();
            return Err(NameError::Object { text });
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for ConfigMapName {
    /// Prints namespace and name as `NAMESPACE/NAME`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { namespace, name } = self;
        write!(f, "{namespace}/{name}")
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_config_map_is_koordinators() {
        let koordinators = ConfigMapName::default();
        assert_eq!(
            koordinators.to_string(),
            "koordinator-system/slo-controller-config"
        );
        assert_eq!(
            ConfigMapName::label_rules().to_string(),
            "koordinator-system/pod-enhanced-validator-config"
        );
        assert!(koordinators.is("koordinator-system", "slo-controller-config"));
        assert!(!koordinators.is("default", "slo-controller-config"));
        assert!(!koordinators.is("koordinator-system", "other"));
    }

    #[test]
    fn a_name_is_made_of_labels() {
        let long = vec!["a".repeat(63); 4].join(".");
        for bad in [
            "",
            ".",
            "a.",
            ".a",
            "a..b",
            "A",
            "a'b",
            "-a",
            "a.b-",
            &format!("{long}b"),
        ] {
            assert!(bad.parse::<ObjectName>().is_err(), "{bad}");
        }
        for good in ["a", "a.b", "a-b.1", &long[2..]] {
            assert_eq!(good.parse::<ObjectName>().unwrap().to_string(), good);
        }
    }
}
