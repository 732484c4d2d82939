//! Tests that no composition of overlays and components renders an entry that fails closed without a CA: the API server
//! could not verify the webhook, and would refuse every pod.
#![expect(
    clippy::indexing_slicing,
    reason = "tests panic: a returned error has no stack"
)]

use std::fs;

use e2e::rendered_manifests::{Installation, OVERLAY, objects};
use serde_json::Value;

/// Folder of a user's own overlay.
const OWN: &str = "overlays/own";
/// A Secret that takes part in rendering only: kustomize leaves it out of its output. For certificates that another
/// program writes, such as cert-manager.
const LOCAL_CA: &str = "
secretGenerator:
  - name: headroom-webhook-certs
    namespace: headroom-system
    literals: [ca.crt=PEM]
    options:
      disableNameSuffixHash: true
      annotations: {config.kubernetes.io/local-config: 'true'}";

/// A user's own overlay: what it consists of, and whether it must render.
struct Composition {
    resources: &'static [&'static str],
    components: &'static [&'static str],
    has_local_ca: bool,
    renders: bool,
}

const fn composed(resources: &'static [&'static str], components: &'static [&'static str]) -> Composition {
    Composition {
        resources,
        components,
        has_local_ca: false,
        renders: true,
    }
}

const FILES: &[&str] = &["../certificate-files"];

const COMPOSITIONS: [Composition; 12] = [
    composed(FILES, &[]),
    composed(FILES, &["koordinator"]),
    composed(FILES, &["koordinator", "koordinator-kinds"]),
    composed(FILES, &["koordinator-kinds", "koordinator", "ha"]),
    composed(FILES, &["ha", "koordinator", "steady-state-skip"]),
    composed(FILES, &["before-1.36", "accept-no-floor", "koordinator"]),
    composed(FILES, &["openshift", "koordinator"]),
    composed(&["../ha"], &["koordinator"]),
    composed(&["../configuration"], &["koordinator", "kubelet-use"]),
    composed(&["../../base"], &[]),
    Composition {
        renders: false,
        ..composed(&["../../base"], &["koordinator"])
    },
    Composition {
        has_local_ca: true,
        ..composed(&["../../base"], &["koordinator"])
    },
];

/// Entries of the rendered objects that fail closed without a CA.
fn open_entries(objects: &[Value]) -> Vec<String> {
    let webhooks = objects.iter().filter_map(|object| object["webhooks"].as_array());
    let entries = webhooks.flatten().filter(|entry| {
        let bundle = entry["clientConfig"]["caBundle"].as_str().unwrap_or_default();
        entry["failurePolicy"] == "Fail" && bundle.is_empty()
    });
    entries.map(|entry| entry["name"].to_string()).collect()
}

#[test]
fn no_composition_renders_an_entry_that_fails_closed_without_a_ca() {
    let installation = Installation::render_overlay(OVERLAY);
    let own = installation.folder().join(OWN);
    fs::create_dir_all(&own).expect("a folder");
    for composition in COMPOSITIONS {
        let Composition {
            resources,
            components,
            has_local_ca,
            renders,
        } = composition;
        let name = format!("{resources:?} with {components:?}, local CA: {has_local_ca}");
        let list = |names: &[String]| format!("\n  - {}", names.join("\n  - "));
        let resources: Vec<String> = resources.iter().map(ToString::to_string).collect();
        let components: Vec<String> = components
            .iter()
            .map(|name| format!("../../components/{name}"))
            .collect();
        let local = if has_local_ca { LOCAL_CA } else { "" };
        let text = format!(
            "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:{}\ncomponents:{}{local}\n",
            list(&resources),
            if components.is_empty() {
                " []".to_owned()
            } else {
                list(&components)
            },
        );
        fs::write(own.join("kustomization.yaml"), text).expect("an overlay");
        let rendered = installation.run(&["kustomize", OWN]);
        assert_eq!(rendered.status.success(), renders, "{name}: {rendered:?}");
        if !renders {
            let error = String::from_utf8_lossy(&rendered.stderr).into_owned();
            assert!(error.contains("headroom-webhook-certs"), "{name}: {error}");
            continue;
        }
        let objects = objects(&rendered.stdout);
        let entries = objects.iter().filter(|object| object["webhooks"].is_array());
        let serves_pods = components.iter().any(|name| name.ends_with("/koordinator"));
        assert_eq!(entries.count() > 2, serves_pods, "{name}");
        assert_eq!(open_entries(&objects), Vec::<String>::new(), "{name}");
        let is_secret = |object: &&Value| object["kind"] == "Secret" && has_local_ca;
        assert_eq!(objects.iter().find(is_secret), None, "{name}");
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
