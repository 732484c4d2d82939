//! Compares rendered objects with schemas from the API server's own OpenAPI document, by kubeconform.

use std::{collections::BTreeSet, fs, path::Path, process::Command};

use e2e::helm::Helm;
use headroom_testbed::cluster::{Cluster, ClusterOptions};
use serde_json::{Map, Value, json};
use xtask::setup::chart_tools::ChartTool;

use super::KUBE_VERSION;

/// Profiles that render objects of every kind of Kubernetes.
const PROFILES: &str =
    "--set=profiles={koordinator,koordinator-kinds,host-network,kubelet-use,reconcile-entries}";
const DEFINITIONS: &str = "#/definitions/";
const GROUP_VERSION_KIND: &str = "x-kubernetes-group-version-kind";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "builds Helm and kubeconform, which takes minutes"]
async fn rendered_objects_conform_to_the_schemas_of_the_api_server() {
    let cluster = Cluster::start(ClusterOptions::default()).await.expect("cluster");
    let client = cluster.client().await.expect("client");
    let request = http::Request::get("/openapi/v2")
        .body(Vec::new())
        .expect("a request");
    let document: Value = client.request(request).await.expect("the document");
    let folder = tempfile::tempdir().expect("a folder");
    write_schemas(&document, folder.path());
    for helm in Helm::both() {
        let chart = Helm::chart().display().to_string();
        let rendered = helm.run(&["template", "headroom", &chart, KUBE_VERSION, PROFILES]);
        assert!(rendered.status.success(), "{rendered:?}");
        let (code, text) = conforms(folder.path(), &rendered.stdout);
        assert_eq!(code, Some(0), "{text}");
        let valid = text
            .split("Valid: ")
            .nth(1)
            .and_then(|rest| rest.split(',').next());
        let valid: usize = valid.expect("a count").parse().expect("a number");
        assert!(valid > 60, "{text}");

        // A field that does not exist breaks it.
        let broken = String::from_utf8(rendered.stdout).expect("text");
        let broken = broken.replace("priorityClassName:", "priorityClass:");
        let (code, text) = conforms(folder.path(), broken.as_bytes());
        assert_eq!(code, Some(1), "{text}");
        assert!(text.contains("priorityClass"), "{text}");
    }
}

/// Exit code and output of kubeconform.
fn conforms(schemas: &Path, manifests: &[u8]) -> (Option<i32>, String) {
    let file = schemas.join("rendered.yaml");
    fs::write(&file, manifests).expect("write");
    let location = format!(
        "{}/{{{{ .ResourceKind }}}}{{{{ .KindSuffix }}}}.json",
        schemas.display()
    );
    let program = ChartTool::Kubeconform.ensure().expect("kubeconform");
    let mut command = Command::new(program);
    command
        .args(["-summary", "-schema-location", &location])
        .arg(&file);
    let output = command.output().expect("start kubeconform");
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

/// One file per kind and version, with all definitions that it refers to. Unknown fields are refused.
fn write_schemas(document: &Value, folder: &Path) {
    let all = document["definitions"].as_object().expect("definitions");
    for (name, definition) in all {
        for kind in definition[GROUP_VERSION_KIND].as_array().into_iter().flatten() {
            let text = |field: &str| kind[field].as_str().unwrap_or_default().to_lowercase();
            let group = text("group");
            let group = group.split('.').next().unwrap_or_default();
            let suffix = if group.is_empty() {
                text("version")
            } else {
                format!("{group}-{}", text("version"))
            };
            let mut used = BTreeSet::new();
            add_used(all, name, &mut used);
            let definitions: Map<String, Value> = used
                .into_iter()
                .map(|name| (name.clone(), closed(&name, &all[&name])))
                .collect();
            let schema = json!({"$ref": format!("{DEFINITIONS}{name}"), "definitions": definitions});
            let file = folder.join(format!("{}-{suffix}.json", text("kind")));
            fs::write(file, schema.to_string()).expect("write");
        }
    }
}

/// Adds a definition and those that it refers to.
fn add_used(all: &Map<String, Value>, name: &str, used: &mut BTreeSet<String>) {
    if used.insert(name.to_owned()) {
        let text = all[name].to_string();
        for rest in text.split(&format!("\"$ref\":\"{DEFINITIONS}")).skip(1) {
            add_used(all, rest.split('"').next().expect("a name"), used);
        }
    }
}

/// A definition that refuses unknown fields. The document describes numbers or text as text.
fn closed(name: &str, definition: &Value) -> Value {
    let mut definition = definition.clone();
    if ["IntOrString", "Quantity"]
        .iter()
        .any(|kind| name.ends_with(kind))
    {
        return json!({"type": ["string", "integer", "number"]});
    }
    let is_schema = name.contains("apiextensions");
    if definition["properties"].is_object() && !is_schema {
        definition["additionalProperties"] = json!(false);
    }
    definition
}
