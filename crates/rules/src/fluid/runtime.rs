//! [`Runtime`]: the parts of a Fluid runtime that decide where its pods run.

use std::collections::BTreeMap;

use headroom_domain::selector::{key_faults, value_faults};
use serde::Deserialize;
use serde_json::{Value, json};

/// Most labels of the nodes with a client.
const MOST_LABELS: usize = 64;
/// Most node conditions of a runtime's cached data.
const MOST_CONDITIONS: usize = 64;
/// Most values of one condition.
const MOST_VALUES: usize = 64;

/// Kind of a runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RuntimeKind {
    /// `AlluxioRuntime`.
    Alluxio,
    /// `JindoRuntime`.
    Jindo,
    /// `JuiceFSRuntime`.
    JuiceFs,
    /// `ThinRuntime`.
    Thin,
    /// `EFCRuntime`.
    Efc,
    /// `VineyardRuntime`.
    Vineyard,
    /// `CacheRuntime`.
    Cache,
}

/// Parts of a runtime that rules read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Runtime {
    /// Labels of the nodes on which its clients may run.
    pub fuse_selector: BTreeMap<String, String>,
    /// Node conditions of its cached data.
    pub cache_conditions: Vec<NodeCondition>,
    /// Fault for which no pod can be placed by it.
    pub fault: Option<String>,
}

/// One condition on the labels of a node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub struct NodeCondition {
    /// Label of the node.
    pub key: String,
    /// Kubernetes' word for the comparison.
    pub operator: String,
    /// Values to compare with.
    #[serde(default)]
    pub values: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RuntimeSpec {
    fuse: ClientSpec,
    client: ClientSpec,
}

/// Part that describes the clients of the data.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ClientSpec {
    node_selector: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RuntimeStatus {
    cache_affinity: Option<CacheAffinity>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct CacheAffinity {
    required_during_scheduling_ignored_during_execution: Option<CacheNodes>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct CacheNodes {
    node_selector_terms: Vec<CacheTerm>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct CacheTerm {
    match_expressions: Vec<NodeCondition>,
}

impl RuntimeKind {
    /// Every kind.
    pub const ALL: [Self; 7] = [
        Self::Alluxio,
        Self::Jindo,
        Self::JuiceFs,
        Self::Thin,
        Self::Efc,
        Self::Vineyard,
        Self::Cache,
    ];

    /// Kind with this name in the status of a Dataset.
    pub fn of_dataset(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Name in the status of a Dataset.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Alluxio => "alluxio",
            Self::Jindo => "jindo",
            Self::JuiceFs => "juicefs",
            Self::Thin => "thin",
            Self::Efc => "efc",
            Self::Vineyard => "vineyard",
            Self::Cache => "cache",
        }
    }

    /// Plural name of its resource.
    pub const fn plural(self) -> &'static str {
        match self {
            Self::Alluxio => "alluxioruntimes",
            Self::Jindo => "jindoruntimes",
            Self::JuiceFs => "juicefsruntimes",
            Self::Thin => "thinruntimes",
            Self::Efc => "efcruntimes",
            Self::Vineyard => "vineyardruntimes",
            Self::Cache => "cacheruntimes",
        }
    }
}

impl Runtime {
    /// Reads the JSON of a runtime's `spec` and `status`. A runtime that cannot be read, or has too many conditions,
    /// contains only its fault.
    pub fn read(kind: RuntimeKind, spec: &str, status: &str) -> Self {
        Self::parse(kind, spec, status).unwrap_or_else(|fault| Self {
            fault: Some(fault),
            ..Self::default()
        })
    }

    fn parse(kind: RuntimeKind, spec: &str, status: &str) -> Result<Self, String> {
        let spec: RuntimeSpec = serde_json::from_str(spec).map_err(|error| unreadable("spec", &error))?;
        let status: RuntimeStatus =
            serde_json::from_str(status).map_err(|error| unreadable("status", &error))?;
        let selector = match kind {
            // Its clients run on every node.
            RuntimeKind::Vineyard => None,
            RuntimeKind::Cache => spec.client.node_selector,
            RuntimeKind::Alluxio
            | RuntimeKind::Jindo
            | RuntimeKind::JuiceFs
            | RuntimeKind::Thin
            | RuntimeKind::Efc => spec.fuse.node_selector,
        };
        let fuse_selector = selector.unwrap_or_default();
        if fuse_selector.len() > MOST_LABELS {
            return Err(format!("nodeSelector has more than {MOST_LABELS} labels"));
        }
        for (key, value) in &fuse_selector {
            let faults = key_faults(key).or_else(|| value_faults(value));
            if let Some(fault) = faults {
                return Err(format!(
                    "nodeSelector has an invalid label: {}",
                    shortened(&fault)
                ));
            }
        }
        let affinity = status.cache_affinity.unwrap_or_default();
        let nodes = affinity.required_during_scheduling_ignored_during_execution;
        let terms = nodes.unwrap_or_default().node_selector_terms.into_iter();
        let mut cache_conditions = Vec::new();
        for condition in terms.flat_map(|term| term.match_expressions) {
            if cache_conditions.len() == MOST_CONDITIONS || condition.values.len() > MOST_VALUES {
                return Err(format!(
                    "status.cacheAffinity has more than {MOST_CONDITIONS} conditions, or one with more than {MOST_VALUES} values"
                ));
            }
            if let Some(fault) = condition.fault() {
                return Err(format!(
                    "status.cacheAffinity has an invalid condition: {}",
                    shortened(&fault)
                ));
            }
            cache_conditions.push(condition);
        }
        Ok(Self {
            fuse_selector,
            cache_conditions,
            fault: None,
        })
    }
}

impl NodeCondition {
    /// A label that must have this value.
    pub(super) fn equals(key: &str, value: &str) -> Self {
        Self {
            key: key.to_owned(),
            operator: "In".to_owned(),
            values: vec![value.to_owned()],
        }
    }

    /// Reads a member of a Pod; `None` if it is no condition.
    pub(super) fn from_json(value: &Value) -> Option<Self> {
        Self::deserialize(value).ok()
    }

    /// The condition as a member of a Pod.
    pub(super) fn to_json(&self) -> Value {
        let Self {
            key,
            operator,
            values,
        } = self;
        if values.is_empty() {
            json!({"key": key, "operator": operator})
        } else {
            json!({"key": key, "operator": operator, "values": values})
        }
    }

    /// Reason why the API server would refuse a Pod with this condition.
    fn fault(&self) -> Option<String> {
        let count = self.values.len();
        let is_complete = match self.operator.as_str() {
            "In" | "NotIn" => count > 0,
            "Exists" | "DoesNotExist" => count == 0,
            "Gt" | "Lt" => count == 1,
            _ => return Some("its operator is unknown".to_owned()),
        };
        if !is_complete {
            return Some("its operator does not allow that number of values".to_owned());
        }
        let faults = self.values.iter().find_map(|value| value_faults(value));
        key_faults(&self.key).or(faults)
    }
}

/// Most characters of a fault, which may quote a text of the runtime's author.
const LONGEST_FAULT: usize = 160;

/// Fault of a part; serde quotes texts of the object in full.
fn unreadable(part: &str, error: &serde_json::Error) -> String {
    format!("{part} cannot be read: {}", shortened(&error.to_string()))
}

fn shortened(text: &str) -> String {
    text.chars().take(LONGEST_FAULT).collect()
}
