//! Tests that every composition of overlays and components has one source of the CA bundle: without one, the API server could
//! not verify the webhook, and would refuse every pod.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests panic: a returned error has no stack"
)]

use std::fs;

use e2e::rendered_manifests::{Installation, OVERLAY, objects};
use serde_json::Value;

/// Folder of a user's own overlay.
const OWN: &str = "overlays/own";
/// A user's own overlay.
struct Composition {
    resources: &'static [&'static str],
    components: &'static [&'static str],
}

const fn composed(resources: &'static [&'static str], components: &'static [&'static str]) -> Composition {
    Composition {
        resources,
        components,
    }
}

const FILES: &[&str] = &["../certificate-files"];
const MANAGED: &[&str] = &["../../base"];

const COMPOSITIONS: [Composition; 14] = [
    composed(FILES, &[]),
    composed(FILES, &["koordinator"]),
    composed(FILES, &["koordinator", "koordinator-kinds"]),
    composed(FILES, &["koordinator-kinds", "koordinator", "ha"]),
    composed(FILES, &["ha", "koordinator", "steady-state-skip"]),
    composed(FILES, &["before-1.36", "accept-no-floor", "koordinator"]),
    composed(FILES, &["openshift", "koordinator"]),
    composed(MANAGED, &[]),
    composed(MANAGED, &["koordinator"]),
    composed(MANAGED, &["koordinator", "reconcile-entries"]),
    composed(&["../ha"], &["koordinator"]),
    composed(&["../configuration"], &["koordinator", "kubelet-use"]),
    composed(&["../cert-manager"], &[]),
    composed(&["../cert-manager"], &["koordinator", "before-1.30"]),
];

/// Source of the CA bundle in a composition.
#[derive(Debug, PartialEq, Eq)]
enum BundleSource {
    /// The webhook writes that of a file. The overlay with the file may render it as well.
    File,
    /// The webhook writes its own.
    Webhook,
    /// cert-manager writes it.
    CertManager,
}

/// Source of the CA bundle, by the webhook's flags.
fn source(objects: &[Value]) -> BundleSource {
    let mut deployments = objects.iter().filter(|object| object["kind"] == "Deployment");
    let webhook = deployments.next().expect("a Deployment");
    let flags = webhook["spec"]["template"]["spec"]["containers"][0]["args"].to_string();
    if flags.contains("--tls-ca-file=") {
        BundleSource::File
    } else if flags.contains("--certificates=cert-manager") {
        BundleSource::CertManager
    } else {
        BundleSource::Webhook
    }
}

/// Entries whose bundle does not come from the source: the API server could not verify the webhook.
fn misled_entries(objects: &[Value], source: &BundleSource) -> Vec<String> {
    let configurations = objects.iter().filter(|object| object["webhooks"].is_array());
    let misled = configurations.flat_map(|configuration| {
        let annotations = &configuration["metadata"]["annotations"];
        let is_injected = annotations["cert-manager.io/inject-ca-from"].is_string();
        let entries = configuration["webhooks"].as_array().into_iter().flatten();
        entries.filter(move |entry| {
            let has_bundle = entry["clientConfig"]["caBundle"].is_string();
            match source {
                BundleSource::File => is_injected,
                BundleSource::Webhook => has_bundle || is_injected,
                // The webhook writes it where cert-manager does not.
                BundleSource::CertManager => has_bundle,
            }
        })
    });
    misled.map(|entry| entry["name"].to_string()).collect()
}

#[test]
fn every_composition_has_one_source_of_the_ca_bundle() {
    let installation = Installation::render_overlay(OVERLAY);
    let own = installation.folder().join(OWN);
    fs::create_dir_all(&own).expect("a folder");
    for Composition {
        resources,
        components,
    } in COMPOSITIONS
    {
        let name = format!("{resources:?} with {components:?}");
        let list = |names: &[String]| format!("\n  - {}", names.join("\n  - "));
        let resources: Vec<String> = resources.iter().map(ToString::to_string).collect();
        let components: Vec<String> = components
            .iter()
            .map(|name| format!("../../components/{name}"))
            .collect();
        let text = format!(
            "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:{}\ncomponents:{}\n",
            list(&resources),
            if components.is_empty() {
                " []".to_owned()
            } else {
                list(&components)
            },
        );
        fs::write(own.join("kustomization.yaml"), text).expect("an overlay");
        let rendered = installation.run(&["kustomize", OWN]);
        assert!(rendered.status.success(), "{name}: {rendered:?}");
        let objects = objects(&rendered.stdout);
        let entries = objects.iter().filter(|object| object["webhooks"].is_array());
        let serves_pods = components.iter().any(|name| name.ends_with("/koordinator"));
        assert_eq!(entries.count() > 2, serves_pods, "{name}");
        let source = source(&objects);
        let is_from_files = resources.iter().any(|name| name.ends_with("certificate-files"));
        assert_eq!(source == BundleSource::File, is_from_files, "{name}");
        assert_eq!(misled_entries(&objects, &source), Vec::<String>::new(), "{name}");
        let secrets = objects.iter().filter(|object| object["kind"] == "Secret");
        assert_eq!(secrets.count(), usize::from(is_from_files), "{name}");
        let replicas = objects
            .iter()
            .filter(|object| object["kind"] == "Deployment")
            .map(|object| object["spec"]["replicas"].as_u64());
        let expected = if serves_pods || name.contains("ha") { 2 } else { 1 };
        for replicas in replicas {
            assert_eq!(replicas.unwrap_or(1), expected, "{name}");
        }
    }
}
