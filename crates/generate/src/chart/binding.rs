//! Binds fields of the manifests to the chart's values, labels and release.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use headroom_domain::names;
use serde_json::{Value, json};

use super::{
    tree::{ACTION, Object, Tree, Variant, When},
    values::{Manifests, find, plain},
};

/// Labels that the chart sets on all objects.
const LABELS: &str = "include \"headroom.labels\" $";

/// Binds all fields; returns the contents that become default values.
pub(super) fn bind(objects: &mut [Object]) -> Result<Manifests> {
    let mut manifests = Manifests::default();
    let pods = [
        ("Deployment", names::WEBHOOK_SERVICE, "webhook"),
        ("DaemonSet", names::AGENT_SERVICE_ACCOUNT, "agent"),
    ];
    for (kind, name, value) in pods {
        let object = find(objects, kind, name)?;
        let template = object
            .tree
            .at(&["spec", "template"])
            .context("a template of pods")?;
        let resources = bind_pods(template, value)?;
        match value {
            "webhook" => manifests.webhook_resources = resources,
            _ => manifests.agent_resources = resources,
        }
    }
    bind_webhook(objects)?;
    manifests.api_server_ports = bind_api_server_ports(objects)?;
    manifests.metrics_namespace = json!(MONITORING);
    for object in objects.iter_mut() {
        bind_namespaces(&mut object.tree);
        bind_object(object)?;
    }
    Ok(manifests)
}

/// The image, flags and resources of a pod template's container; returns the resources.
fn bind_pods(template: &mut Tree, value: &str) -> Result<Value> {
    let spec = template.at(&["spec"]).context("a specification of pods")?;
    spec.set_if(
        "imagePullSecrets",
        When::all(["$.Values.image.pullSecrets".to_owned()]),
        Tree::Block("toYaml $.Values.image.pullSecrets".to_owned()),
    );
    let container = spec.at(&["containers", "0"]).context("a container")?;
    container.set(
        "image",
        Tree::Inline(format!(
            "include \"headroom.image\" (list $ $.Values.{value}.image)"
        )),
    );
    container.set(
        "imagePullPolicy",
        Tree::Inline("$.Values.image.pullPolicy".to_owned()),
    );
    let resources = container
        .at(&["resources"])
        .and_then(|resources| plain(resources))
        .context("resources without conditions")?;
    container.set(
        "resources",
        Tree::Block(format!("toYaml $.Values.{value}.resources")),
    );
    let flags = [
        format!("{{{{- range $.Values.{value}.extraArgs }}}}"),
        "- {{ . | quote }}".to_owned(),
        "{{- end }}".to_owned(),
    ];
    let arguments = container.at(&["args"]).context("arguments")?;
    arguments.push(Variant::always(Tree::Elements(flags.into())));
    Ok(resources)
}

/// Nodes of the webhook, and its restart for another configuration.
fn bind_webhook(objects: &mut [Object]) -> Result<()> {
    let webhook = find(objects, "Deployment", names::WEBHOOK_SERVICE)?;
    let template = webhook
        .tree
        .at(&["spec", "template"])
        .context("a template of pods")?;
    let on = When::all(["has \"configuration\" $on".to_owned()]);
    let mut annotations = Tree::Map(BTreeMap::new());
    annotations.set(
        "checksum/config",
        Tree::Inline("toYaml $.Values.configuration | sha256sum".to_owned()),
    );
    let metadata = template.at(&["metadata"]).context("metadata")?;
    metadata.set_if("annotations", on, annotations);
    let spec = template.at(&["spec"]).context("a specification of pods")?;
    spec.set_if(
        "tolerations",
        When::all(["$.Values.webhook.tolerations".to_owned()]),
        Tree::Block("toYaml $.Values.webhook.tolerations".to_owned()),
    );
    let labels = [
        "{{- range $label, $value := $.Values.webhook.nodeSelector }}",
        "{{ $label | quote }}: {{ $value | quote }}",
        "{{- end }}",
    ];
    let selector = spec.at(&["nodeSelector"]).context("a node selector")?;
    selector.set(
        &format!("{ACTION} nodeSelector"),
        Tree::Elements(labels.map(str::to_owned).into()),
    );
    Ok(())
}

/// Replaces the API server's ports of the base; returns them.
fn bind_api_server_ports(objects: &mut [Object]) -> Result<Value> {
    let policy = find(objects, "NetworkPolicy", names::WEBHOOK_SERVICE)?;
    let rule = policy
        .tree
        .at(&["spec", "egress", "0"])
        .context("a rule for the API server")?;
    let ports = rule
        .at(&["ports"])
        .and_then(|ports| plain(ports))
        .context("ports without conditions")?;
    let ports: Option<Vec<Value>> = ports
        .as_array()
        .and_then(|ports| ports.iter().map(|port| port.get("port").cloned()).collect());
    let lines = [
        "{{- range $.Values.network.apiServerPorts }}",
        "- port: {{ . }}",
        "{{- end }}",
    ];
    rule.set("ports", Tree::Elements(lines.map(str::to_owned).into()));
    Ok(Value::from(ports.context("numbers of ports")?))
}

/// Namespace of the base whose pods scrape metrics.
const MONITORING: &str = "monitoring";

/// Replaces the namespace whose pods scrape metrics, wherever a selector names it.
fn bind_namespaces(tree: &mut Tree) {
    match tree {
        Tree::Scalar(value) if value == MONITORING => {
            *tree = Tree::Inline("$.Values.network.metricsNamespace | quote".to_owned());
        }
        Tree::Map(fields) => {
            for variant in fields.values_mut().flatten() {
                bind_namespaces(&mut variant.tree);
            }
        }
        Tree::List(elements) => {
            for variant in elements {
                bind_namespaces(&mut variant.tree);
            }
        }
        Tree::Scalar(_) | Tree::Inline(_) | Tree::Block(_) | Tree::Elements(_) => {}
    }
}

/// The labels of an object, and what Helm must know about it.
fn bind_object(object: &mut Object) -> Result<()> {
    let kind = object.tree.text(&["kind"]).unwrap_or_default().to_owned();
    let name = object
        .tree
        .text(&["metadata", "name"])
        .unwrap_or_default()
        .to_owned();
    if kind == "CustomResourceDefinition" {
        // Deleting a definition would delete all objects of its kind.
        let metadata = object.tree.at(&["metadata", "annotations"]);
        let annotations = metadata.context("annotations")?;
        annotations.set("helm.sh/resource-policy", Tree::Scalar(json!("keep")));
        // Other programs use the kinds, so they do not count as parts of Headroom.
        return Ok(());
    }
    let labels = object
        .tree
        .at(&["metadata", "labels"])
        .context("metadata of an object")?;
    labels.remove_if(names::PART_OF_LABEL, &When::default());
    labels.set(&format!("{ACTION} labels"), Tree::Block(LABELS.to_owned()));
    if kind == "Namespace" && name == names::NAMESPACE {
        // Helm creates the namespace of a release itself.
        let condition = format!("ne $.Release.Namespace {name:?}");
        object.when.add(&When::all([condition]));
    }
    Ok(())
}
