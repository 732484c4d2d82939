//! [`Values`]: the chart's values with their defaults, `values.schema.json` and the commented `values.yaml`.

use std::{collections::BTreeMap, fmt::Write as _};

use anyhow::{Context as _, Result};
use schemars::{JsonSchema, generate::SchemaSettings};
use serde::Serialize;
use serde_json::{Map, Value};

use super::{
    profile::{PROFILES, ProfileName},
    tree::{Object, Tree},
};

/// Values of the chart `headroom`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Values {
    /// Profiles of the installation. The nodes' part is always installed.
    profiles: Vec<ProfileName>,
    /// Policy for all nodes, as in docs/configuration.md: the content of the webhook's configuration file. Without it, no node
    /// changes until its annotation requests it. Example: `{amplification: {mode: auto}}`.
    configuration: Map<String, Value>,
    /// Images of all pods.
    image: Images,
    /// The webhook.
    webhook: Webhook,
    /// The agents.
    agent: Agent,
    /// NetworkPolicies.
    network: Network,
    /// The Job that `helm uninstall` runs first. It restores raw allocatable on all nodes.
    uninstall: Uninstall,
    /// Take over an installation by kustomize; `helm install` then also needs `--take-ownership`.
    adopt: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Images {
    /// Registry and path before the repositories, without a slash at the end; empty for the names alone.
    registry: String,
    /// Tag of all images; the version of the chart if empty.
    tag: String,
    /// Condition for the kubelet to pull an image.
    pull_policy: PullPolicy,
    /// Secrets with credentials of the registry, in both namespaces.
    pull_secrets: Vec<SecretName>,
}

#[derive(Debug, Serialize, JsonSchema)]
enum PullPolicy {
    IfNotPresent,
    #[expect(dead_code, reason = "a value that users may set")]
    Always,
    #[expect(dead_code, reason = "a value that users may set")]
    Never,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SecretName {
    name: String,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Image {
    /// Repository after the registry.
    repository: &'static str,
    /// Digest such as `sha256:…`; it replaces the tag.
    digest: String,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Webhook {
    /// Image of the webhook.
    image: Image,
    /// Requests and limits.
    resources: Resources,
    /// Further flags of the webhook: see docs/reference/cli.md.
    extra_args: Vec<String>,
    /// Further labels that a node of the webhook has.
    node_selector: BTreeMap<String, String>,
    /// Taints of nodes that the webhook tolerates.
    tolerations: Vec<Map<String, Value>>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Agent {
    /// Image of the agents.
    image: Image,
    /// Requests and limits. A CPU limit would make the agent measure its own throttling.
    resources: Resources,
    /// Further flags of the agents: see docs/reference/cli.md.
    extra_args: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Resources {
    requests: BTreeMap<String, Quantity>,
    limits: BTreeMap<String, Quantity>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "a value that users may set")]
enum Quantity {
    Text(String),
    Number(f64),
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Network {
    /// Namespace whose pods may scrape metrics.
    metrics_namespace: String,
    /// Ports of the API server, through its Service and directly.
    api_server_ports: Vec<u16>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Uninstall {
    /// Switches the Job on. Without it, nodes keep amplified values and annotations: run `kubectl headroom uninstall` before.
    enabled: bool,
    /// Image of `kubectl-headroom`.
    image: Image,
    /// Seconds until the Job gives up waiting for raw allocatable. Helm's `--timeout`, by default 300 seconds, must be longer.
    #[schemars(range(min = 10))]
    wait_seconds: u32,
    /// Continue although the pods of a node need more than raw allocatable. A kubelet that restarts then fails such pods.
    force: bool,
}

impl Values {
    fn new(registry: &str) -> Self {
        let image = |repository| Image {
            repository,
            digest: String::new(),
        };
        let none = || Resources {
            requests: BTreeMap::new(),
            limits: BTreeMap::new(),
        };
        Self {
            profiles: Vec::new(),
            configuration: Map::new(),
            image: Images {
                registry: registry.to_owned(),
                tag: String::new(),
                pull_policy: PullPolicy::IfNotPresent,
                pull_secrets: Vec::new(),
            },
            webhook: Webhook {
                image: image("headroom-webhook"),
                resources: none(),
                extra_args: Vec::new(),
                node_selector: BTreeMap::new(),
                tolerations: Vec::new(),
            },
            agent: Agent {
                image: image("headroom-agent"),
                resources: none(),
                extra_args: Vec::new(),
            },
            network: Network {
                metrics_namespace: String::new(),
                api_server_ports: Vec::new(),
            },
            uninstall: Uninstall {
                enabled: true,
                image: image("kubectl-headroom"),
                wait_seconds: 240,
                force: false,
            },
            adopt: false,
        }
    }
}

/// The default values. Those that the manifests contain come from there.
pub(super) fn defaults(registry: &str, manifests: &Manifests) -> Result<Value> {
    let mut values = serde_json::to_value(Values::new(registry))?;
    let settings = [
        ("/webhook/resources", &manifests.webhook_resources),
        ("/agent/resources", &manifests.agent_resources),
        ("/network/metricsNamespace", &manifests.metrics_namespace),
        ("/network/apiServerPorts", &manifests.api_server_ports),
    ];
    for (pointer, default) in settings {
        let value = values
            .pointer_mut(pointer)
            .with_context(|| format!("no value {pointer}"))?;
        value.clone_from(default);
    }
    Ok(values)
}

/// Defaults that the manifests of the base contain.
#[derive(Debug, Default)]
pub(super) struct Manifests {
    pub(super) webhook_resources: Value,
    pub(super) agent_resources: Value,
    pub(super) metrics_namespace: Value,
    pub(super) api_server_ports: Value,
}

/// JSON Schema of the values.
pub(super) fn schema() -> Value {
    let settings = SchemaSettings::draft07().with(|settings| settings.inline_subschemas = true);
    let mut schema = settings
        .into_generator()
        .into_root_schema_for::<Values>()
        .to_value();
    drop_required(&mut schema);
    schema
}

/// Helm merges the defaults before it validates, and users may delete a default with `null`.
fn drop_required(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            if members.get("required").is_some_and(Value::is_array) && members.contains_key("properties") {
                members.remove("required");
            }
            members.values_mut().for_each(drop_required);
        }
        Value::Array(elements) => elements.iter_mut().for_each(drop_required),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// `values.yaml`: each value with its description and default.
pub(super) fn yaml(defaults: &Value) -> Result<String> {
    let mut text = String::from("# Values of the chart headroom. values.schema.json has their types.\n");
    members(&mut text, &schema(), defaults, 0)?;
    Ok(text)
}

fn members(text: &mut String, schema: &Value, values: &Value, indent: usize) -> Result<()> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let values = values.as_object().context("values are an object")?;
    let space = " ".repeat(indent);
    for (name, value) in values {
        let property = properties.and_then(|properties| properties.get(name));
        let about = property.and_then(|property| property.get("description")?.as_str());
        if let Some(about) = about {
            text.push('\n');
            for (index, line) in about.split('\n').enumerate() {
                writeln!(text, "{space}#{} {line}", if index == 0 { " --" } else { "" })?;
            }
        }
        if name == "profiles" {
            writeln!(text, "{space}#   nodes: the base; it changes nothing")?;
            for profile in &PROFILES {
                writeln!(text, "{space}#   {}: {}", profile.name, profile.about)?;
            }
        }
        let has_members = property.is_some_and(|property| property.get("properties").is_some());
        if has_members {
            writeln!(text, "{space}{name}:")?;
            members(text, property.unwrap_or(&Value::Null), value, indent + 2)?;
        } else {
            // JSON is YAML.
            writeln!(text, "{space}{name}: {value}")?;
        }
    }
    Ok(())
}

/// Reads a tree without conditions back as a value.
pub(super) fn plain(tree: &Tree) -> Option<Value> {
    Some(match tree {
        Tree::Scalar(value) => value.clone(),
        Tree::Map(fields) => {
            let fields = fields.iter().map(|(key, variants)| match variants.as_slice() {
                [variant] if variant.when.is_always() => Some((key.clone(), plain(&variant.tree)?)),
                _ => None,
            });
            Value::Object(fields.collect::<Option<_>>()?)
        }
        Tree::List(elements) => {
            let elements = elements.iter().filter(|element| element.when.is_always());
            Value::Array(
                elements
                    .map(|element| plain(&element.tree))
                    .collect::<Option<_>>()?,
            )
        }
        Tree::Inline(_) | Tree::Block(_) | Tree::Elements(_) => return None,
    })
}

/// The object of a kind with this name.
pub(super) fn find<'o>(objects: &'o mut [Object], kind: &str, name: &str) -> Result<&'o mut Object> {
    let is_it = |object: &&mut Object| {
        object.tree.text(&["kind"]) == Some(kind) && object.tree.text(&["metadata", "name"]) == Some(name)
    };
    let found = objects.iter_mut().find(is_it);
    found.with_context(|| format!("the manifests have no {kind} {name}"))
}
