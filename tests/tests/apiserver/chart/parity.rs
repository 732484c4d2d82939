//! Compares the objects that Helm renders for profiles with those that kustomize renders for the components.

use std::collections::BTreeMap;

use e2e::{
    helm::{Helm, profiles_flag},
    rendered_manifests::Installation,
};
use headroom_domain::names;
use serde_json::{Value, json};

use super::KUBE_VERSION;

/// Profiles, and an overlay and components with the same content.
struct ChartComposition {
    profiles: &'static [&'static str],
    overlay: &'static str,
    components: &'static [&'static str],
    /// Version of the API server.
    version: &'static str,
}

/// An overlay of the base alone.
const BASE: &str = "overlays/own";
const V35: &str = "--kube-version=1.35.0";

const fn same(profiles: &'static [&'static str]) -> ChartComposition {
    ChartComposition {
        profiles,
        overlay: BASE,
        components: profiles,
        version: KUBE_VERSION,
    }
}

const COMPOSITIONS: [ChartComposition; 19] = [
    same(&[]),
    same(&["koordinator"]),
    same(&["koordinator", "koordinator-kinds"]),
    same(&["ha"]),
    same(&["host-network"]),
    same(&["ha", "host-network"]),
    same(&["selinux"]),
    same(&["openshift"]),
    same(&["openshift", "checkpoint-in-pod"]),
    same(&["floor-v1beta1"]),
    same(&["reconcile-entries"]),
    same(&["steady-state-skip", "kubelet-use"]),
    same(&["agent-socket", "more-api-server-ports"]),
    ChartComposition {
        version: V35,
        ..same(&["before-1.36"])
    },
    ChartComposition {
        version: V35,
        ..same(&["before-1.36", "accept-no-floor", "koordinator"])
    },
    ChartComposition {
        version: "--kube-version=1.29.0",
        ..same(&["before-1.36", "before-1.30"])
    },
    ChartComposition {
        overlay: "overlays/cert-manager",
        components: &[],
        ..same(&["cert-manager"])
    },
    ChartComposition {
        overlay: "overlays/cert-manager",
        components: &["koordinator"],
        ..same(&["cert-manager", "koordinator"])
    },
    ChartComposition {
        components: &["certificate-files"],
        ..same(&["files"])
    },
];

/// Labels whose values name the tool.
const OF_TOOL: [&str; 4] = [
    "app.kubernetes.io/instance",
    "app.kubernetes.io/managed-by",
    "app.kubernetes.io/version",
    "helm.sh/chart",
];
/// Annotations that only Helm needs.
const OF_HELM: [&str; 1] = ["helm.sh/resource-policy"];

#[test]
#[ignore = "builds Helm, which takes minutes"]
fn each_profile_renders_the_objects_of_its_kustomization() {
    for helm in Helm::both() {
        for ChartComposition {
            profiles,
            overlay,
            components,
            version,
        } in COMPOSITIONS
        {
            let charted = helm.template(profiles, &[version]).expect("rendered");
            let charted = by_name(charted);
            let wanted = by_name(kustomized(overlay, components));
            let keys = |all: &BTreeMap<String, Value>| all.keys().cloned().collect::<Vec<_>>();
            assert_eq!(keys(&charted), keys(&wanted), "{profiles:?}");
            for (key, object) in &wanted {
                assert_eq!(charted.get(key), Some(object), "{profiles:?}: {key}");
            }
        }
    }
}

#[test]
#[ignore = "builds Helm, which takes minutes"]
fn no_profile_renders_a_bundle_and_each_fails_closed_for_pods_only() {
    for helm in Helm::both() {
        for ChartComposition {
            profiles, version, ..
        } in COMPOSITIONS
        {
            let linted = helm.run(&[
                "lint",
                &Helm::chart().display().to_string(),
                "--strict",
                version,
                &profiles_flag(profiles),
            ]);
            assert!(linted.status.success(), "{profiles:?}: {linted:?}");
            let rendered = helm.template(profiles, &[version]).expect("rendered");
            let configurations = rendered.iter().filter(|object| object["webhooks"].is_array());
            let mut closed = 0;
            for configuration in configurations {
                for entry in configuration["webhooks"].as_array().into_iter().flatten() {
                    assert_eq!(entry["clientConfig"].get("caBundle"), None, "{profiles:?}");
                    let is_closed = entry["failurePolicy"] == "Fail";
                    closed += usize::from(is_closed);
                    let is_of_nodes = configuration["metadata"]["name"] == names::WEBHOOK_CONFIGURATION;
                    assert!(!(is_closed && is_of_nodes), "{profiles:?}");
                }
            }
            assert_eq!(closed > 0, profiles.contains(&"koordinator"), "{profiles:?}");
        }
    }
}

#[test]
#[ignore = "builds Helm, which takes minutes"]
fn the_configuration_is_mounted_and_its_change_replaces_the_pods() {
    for helm in Helm::both() {
        let rendered = |mode: &str| {
            let set = format!("--set=configuration.amplification.mode={mode}");
            by_name(helm.template(&[], &[KUBE_VERSION, &set]).expect("rendered"))
        };
        let (first, second) = (rendered("auto"), rendered("guard"));
        let file = &first["ConfigMap headroom-system/headroom-config"]["data"]["config.yaml"];
        assert_eq!(file, "amplification:\n  mode: auto");
        let webhook = "Deployment headroom-system/headroom-webhook";
        let template = |all: &BTreeMap<String, Value>| all[webhook]["spec"]["template"].clone();
        assert_ne!(template(&first), template(&second));
        let kustomized = Installation::render_overlay("overlays/configuration");
        let mut wanted = by_name(kustomized.objects)[webhook].clone();
        let mut charted = first[webhook].clone();
        charted["spec"]["template"]["metadata"]
            .as_object_mut()
            .expect("metadata")
            .remove("annotations");
        // The name of kustomize's ConfigMap ends in a hash.
        for volume in wanted["spec"]["template"]["spec"]["volumes"]
            .as_array_mut()
            .expect("volumes")
        {
            if volume["name"] == "config" {
                volume["configMap"]["name"] = json!(names::CONFIG_MAP);
            }
        }
        sort(&mut wanted);
        assert_eq!(charted, wanted);
    }
}

/// Objects of an overlay with components.
fn kustomized(overlay: &'static str, components: &[&str]) -> Vec<Value> {
    let mut installation = Installation::render_overlay(overlay);
    for component in components {
        installation.add_component(component);
    }
    installation.objects
}

/// Objects by kind, namespace and name, without what differs on purpose: labels of the tool, the hook of Helm, the order of
/// lists, and defaults that only the chart states.
fn by_name(objects: Vec<Value>) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    for mut object in objects {
        let metadata = &mut object["metadata"];
        if metadata["annotations"]["helm.sh/hook"].is_string() {
            continue;
        }
        for (field, keys) in [("labels", &OF_TOOL[..]), ("annotations", &OF_HELM[..])] {
            let all = metadata.get_mut(field).and_then(Value::as_object_mut);
            if let Some(all) = all {
                all.retain(|key, _| !keys.contains(&key.as_str()));
            }
            if metadata[field].as_object().is_none_or(serde_json::Map::is_empty) {
                metadata.as_object_mut().expect("metadata").remove(field);
            }
        }
        let pointer = "/spec/template/spec/containers/0";
        if let Some(container) = object.pointer_mut(pointer).and_then(Value::as_object_mut) {
            container.remove("imagePullPolicy");
        }
        sort(&mut object);
        let name = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        let kind = object["kind"].as_str().expect("a kind");
        let key = format!("{kind} {}/{}", name("namespace"), name("name"));
        assert_eq!(found.insert(key.clone(), object), None, "{key} is there twice");
    }
    found
}

/// Sorts all lists: kustomize and the chart may order merged elements differently.
fn sort(value: &mut Value) {
    match value {
        Value::Array(elements) => {
            elements.iter_mut().for_each(sort);
            elements.sort_by_key(Value::to_string);
        }
        Value::Object(fields) => fields.values_mut().for_each(sort),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
