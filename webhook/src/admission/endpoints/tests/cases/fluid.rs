//! Objects of Fluid in the world of a case, and tests of pods with many Datasets.

use headroom_domain::names::FLUID_PLUGINS_PROFILE;

use super::{
    world::{fill, known},
    *,
};
use crate::store::{
    arrivals::Arrivals,
    fluid::{FluidObjects, FluidSources},
    informer::Store as _,
    known::KnownSources,
    sources,
};

/// Objects of Fluid in the namespace `ns`, by name.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct FluidNotes {
    /// Labels of PersistentVolumeClaims.
    claims: BTreeMap<String, Value>,
    /// Members of Datasets.
    datasets: BTreeMap<String, Value>,
    /// Members of runtimes of each type.
    runtimes: BTreeMap<String, BTreeMap<String, Value>>,
    /// Versions of the plugins in Fluid's ConfigMap, one after the other.
    plugins: Vec<String>,
    /// Names of sources that are not known.
    unknown: Vec<String>,
}

impl FluidNotes {
    pub(super) fn objects(self) -> FluidObjects {
        let stores = FluidSources::new(&Arrivals::default());
        let claims = self.claims.into_iter();
        fill(
            &stores.claims,
            claims.map(|(name, labels)| object(&name, json!({"metadata": {"labels": labels}}))),
        );
        let members = |objects: BTreeMap<String, Value>| {
            let objects = objects.into_iter();
            objects.map(|(name, members)| object(&name, members))
        };
        fill(&stores.datasets, members(self.datasets));
        for (kind, objects) in self.runtimes {
            let objects = members(objects);
            match kind.as_str() {
                "alluxio" => fill(&stores.alluxio, objects),
                "jindo" => fill(&stores.jindo, objects),
                "juicefs" => fill(&stores.juice_fs, objects),
                "thin" => fill(&stores.thin, objects),
                "efc" => fill(&stores.efc, objects),
                "vineyard" => fill(&stores.vineyard, objects),
                "cache" => fill(&stores.cache, objects),
                other => panic!("no runtime {other}"),
            }
        }
        for text in self.plugins {
            let config_map = json!({"metadata": {}, "data": {FLUID_PLUGINS_PROFILE: text}});
            stores.plugins.apply(serde_json::from_value(config_map).unwrap());
        }
        let known = if self.unknown.is_empty() {
            known()
        } else {
            known_without(&self.unknown)
        };
        FluidObjects {
            sources: stores,
            known,
        }
    }
}

fn known_without(unknown: &[String]) -> KnownSources {
    let known = KnownSources::default();
    for source in sources::ALL {
        let is_known = unknown.iter().all(|name| name != source.name);
        known.record(source, tokio::sync::watch::channel(is_known).1);
    }
    known
}

/// An object of that name in the namespace `ns`.
fn object(name: &str, mut members: Value) -> Value {
    members["metadata"]["namespace"] = "ns".into();
    members["metadata"]["name"] = name.into();
    if members["metadata"]["uid"].is_null() {
        members["metadata"]["uid"] = format!("uid-{name}").into();
    }
    members
}

/// A row with this world and pod.
fn section(world: &Value) -> CaseSection {
    let row = json!({"id": "0", "title": "many", "world": {"fluid": world}, "namespace": "ns", "expect": {}});
    serde_json::from_value(json!({
        "about": "many Datasets", "endpoint": "mutate-fluid-io-v1alpha1-schedulepod", "cases": "0",
        "resource": "pods", "rows": [row],
    }))
    .unwrap()
}

fn answer(world: &Value, pod: &Value) -> CaseAnswer {
    let section = section(world);
    let run = CaseRun {
        section: &section,
        row: &section.rows[0],
        stored: Value::Null,
        switches: switches(Compat::Headroom, ""),
        is_default: false,
    };
    run.answer(pod)
}

/// A world with Datasets whose clients need that many labels, and a pod that mounts all of them.
fn many(count: usize, labels: usize) -> (Value, Value) {
    let names: Vec<String> = (0..count).map(|number| format!("d{number:03}")).collect();
    let by_name = |value: &dyn Fn(&String) -> Value| -> Value {
        names.iter().map(|name| (name.clone(), value(name))).collect()
    };
    let selector = |name: &String| -> Value {
        let labels = (0..labels).map(|label| (format!("{name}-{label}"), json!("x")));
        json!({"spec": {"fuse": {"nodeSelector": labels.collect::<Value>()}}})
    };
    let world = json!({
        "claims": by_name(&|name| json!({format!("fluid.io/s-ns-{name}"): "true"})),
        "datasets": by_name(&|_| json!({"status": {"phase": "Bound", "runtimes": [{"type": "thin"}]}})),
        "runtimes": {"thin": by_name(&selector)},
    });
    let volumes = names
        .iter()
        .map(|name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}}));
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "namespace": "ns", "labels": {"fuse.serverful.fluid.io/inject": "true"}},
        "spec": {"volumes": volumes.collect::<Vec<_>>(), "containers": [{"name": "c"}]},
    });
    (world, pod)
}

#[test]
fn two_hundred_datasets_on_a_pod_are_all_required() {
    let (world, pod) = many(200, 2);
    let ExpectedAnswer::Patched(patched) = answer(&world, &pod).answer else {
        panic!("it is not patched");
    };
    let node = &patched["spec"]["affinity"]["nodeAffinity"];
    let terms = &node["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
    assert_eq!(terms.as_array().unwrap().len(), 1);
    assert_eq!(terms[0]["matchExpressions"].as_array().unwrap().len(), 400);
    let preferred = node["preferredDuringSchedulingIgnoredDuringExecution"].as_array();
    assert_eq!(preferred.unwrap().len(), 200);
    let names = &patched["metadata"]["annotations"]["fluid.io/datasets-in-use"];
    assert!(names.as_str().unwrap().starts_with("d000,d001,"));
    assert_eq!(answer(&world, &patched).answer, ExpectedAnswer::Unchanged);
}

#[test]
fn more_conditions_than_the_limit_are_refused_and_a_refusal_names_few_claims() {
    let (world, pod) = many(200, 10);
    let ExpectedAnswer::Denied { code, message, .. } = answer(&world, &pod).answer else {
        panic!("it is not refused");
    };
    assert_eq!(code, 500);
    assert!(message.contains("more than 1024 node conditions"), "{message}");
    let ExpectedAnswer::Denied { message, .. } = answer(&json!({}), &pod).answer else {
        panic!("it is not refused");
    };
    assert!(
        message.contains("d015 and 184 more]") && message.len() < 1_000,
        "{message}"
    );
}

#[test]
fn pods_of_any_number_of_claims_are_placed_or_refused_by_a_rule() {
    for (count, text) in [
        (455, "cannot be changed, with more than"),
        (512, "cannot be changed, with more than"),
        (513, "513 claims, at most 512 are placed"),
        (1_024, "1024 claims, at most 512 are placed"),
    ] {
        let (world, pod) = many(count, 2);
        match answer(&world, &pod).answer {
            ExpectedAnswer::Denied { message, .. } => {
                let is_known = message.contains(text) || message.contains("more than 1024 node conditions");
                assert!(is_known, "{count}: {message}");
            }
            ExpectedAnswer::Patched(_) if count <= 512 => {}
            other @ (ExpectedAnswer::Unchanged
            | ExpectedAnswer::Patched(_)
            | ExpectedAnswer::Failed { .. }) => panic!("{count}: {other:?}"),
        }
    }
}
