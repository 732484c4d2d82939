//! Tests of Fluid's rules.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::{
    dataset::{Catalog, Claim, Dataset, DatasetError, MountedDataset, UnknownObjects, mounted},
    locality::{PodLocality, place},
    mounts::{Volume, claims, propagate, volumes_of},
    node_terms::{prefer_without_data, require_fuse},
    plugins::{Localities, Plugin, PluginProfile, PreferredLocality, ProfileDocument},
    runtime::{NodeCondition, Runtime, RuntimeKind},
    usage::in_use,
    *,
};
use crate::{
    SWITCHES,
    switch::{Compat, Switches},
};

#[derive(Default)]
struct FixtureCatalog {
    claims: BTreeMap<String, Claim>,
    datasets: BTreeMap<String, Dataset>,
    runtimes: BTreeMap<(RuntimeKind, String), Runtime>,
    unknown: Option<&'static str>,
}

impl FixtureCatalog {
    fn know<T: Clone>(
        &self,
        plural: &'static str,
        found: Option<&T>,
    ) -> Result<Option<Arc<T>>, UnknownObjects> {
        if self.unknown == Some(plural) {
            return Err(UnknownObjects(plural));
        }
        Ok(found.cloned().map(Arc::new))
    }
}

impl Catalog for FixtureCatalog {
    fn claim(&self, namespace: &str, name: &str) -> Result<Option<Arc<Claim>>, UnknownObjects> {
        self.know(
            "persistentvolumeclaims",
            self.claims.get(&format!("{namespace}/{name}")),
        )
    }

    fn dataset(&self, namespace: &str, name: &str) -> Result<Option<Arc<Dataset>>, UnknownObjects> {
        self.know("datasets", self.datasets.get(&format!("{namespace}/{name}")))
    }

    fn runtime(
        &self,
        kind: RuntimeKind,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Arc<Runtime>>, UnknownObjects> {
        let key = (kind, format!("{namespace}/{name}"));
        self.know(kind.plural(), self.runtimes.get(&key))
    }
}

fn catalog() -> FixtureCatalog {
    let mut catalog = FixtureCatalog::default();
    for kind in RuntimeKind::ALL {
        let name = format!("ns/{}", kind.name());
        let labels = BTreeMap::from([(format!("fluid.io/s-ns-{}", kind.name()), "true".to_owned())]);
        catalog
            .claims
            .insert(name.clone(), Claim::read(kind.name(), &labels));
        let status = json!({"phase": "Bound", "runtimes": [{"type": kind.name()}]});
        catalog
            .datasets
            .insert(name.clone(), Dataset::read("uid", &status.to_string()));
        let selector = json!({"nodeSelector": {"pool": kind.name()}});
        let spec = json!({"fuse": selector, "client": selector});
        catalog
            .runtimes
            .insert((kind, name), Runtime::read(kind, &spec.to_string(), "{}"));
    }
    catalog.claims.insert("ns/plain".to_owned(), Claim::default());
    catalog
}

fn names(names: &[&str]) -> BTreeSet<Box<str>> {
    names.iter().map(|&name| name.into()).collect()
}

fn upstream() -> Switches {
    Switches::preset(SWITCHES, Compat::Upstream)
}

fn dataset(claim: &str, selector: &[(&str, &str)]) -> MountedDataset {
    let selector = selector
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    MountedDataset {
        claim: claim.into(),
        name: claim.into(),
        worker_label: format!("fluid.io/s-ns-{claim}"),
        fuse_label: format!("fluid.io/f-ns-{claim}"),
        runtime: Arc::new(Runtime {
            fuse_selector: selector.collect(),
            ..Runtime::default()
        }),
    }
}

fn with_cache(claim: &str, conditions: &[(&str, &str)]) -> MountedDataset {
    let conditions = conditions
        .iter()
        .map(|(key, value)| NodeCondition::equals(key, value));
    MountedDataset {
        runtime: Arc::new(Runtime {
            cache_conditions: conditions.collect(),
            ..Runtime::default()
        }),
        ..dataset(claim, &[])
    }
}

fn required(terms: &Value) -> Value {
    json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}})
}

fn is(key: &str, value: &str) -> Value {
    json!({"key": key, "operator": "In", "values": [value]})
}

#[test]
fn every_runtime_kind_is_found_by_its_dataset() {
    let catalog = catalog();
    let all: Vec<&str> = RuntimeKind::ALL.map(RuntimeKind::name).to_vec();
    let found = mounted(&catalog, "ns", &names(&[&all[..], &["plain"]].concat()), false).unwrap();
    assert_eq!(found.len(), 7, "a claim of other storage is no Dataset");
    for dataset in &found {
        let is_global = &*dataset.name == "vineyard";
        let expected = if is_global { None } else { Some(&*dataset.name) };
        assert_eq!(
            dataset.runtime.fuse_selector.get("pool").map(String::as_str),
            expected,
            "the clients of Vineyard run on every node"
        );
        assert_eq!(dataset.worker_label, format!("fluid.io/s-ns-{}", dataset.name));
    }
    let claims: Vec<&str> = found.iter().map(|dataset| &*dataset.claim).collect();
    assert!(claims.is_sorted());
}

#[rstest]
#[case::claims(&["a", "plain"], "failed to collect runtime infos from PVCs [a plain]: failed to get the following PVCs [a]")]
#[case::dataset(&["lost"], r#"failed to collect runtime infos from PVCs [lost]: failed to build runtime info for PVC "ns/lost": datasets.data.fluid.io "lost" not found"#)]
#[case::runtime(&["no-runtime"], r#"…: alluxioruntimes.data.fluid.io "no-runtime" not found"#)]
#[case::unbound(&["unbound"], r#"…: dataset "ns/unbound" not bound"#)]
#[case::new(&["new"], r#"…: dataset "ns/new" not bound"#)]
#[case::not_ready(&["not-ready"], r#"…: dataset "ns/not-ready" not ready because no worker"#)]
#[case::no_type(&["no-type"], "…: fail to get runtimeInfo for runtime type: ")]
#[case::old_type(&["old-type"], "…: fail to get runtimeInfo for runtime type: goosefs")]
#[case::faulty(&["faulty"], r#"…: runtime "ns/faulty" cannot be used: nodeSelector has more than 64 labels"#)]
fn a_dataset_that_cannot_be_used_is_named(#[case] claims: &[&str], #[case] expected: &str) {
    let mut catalog = catalog();
    let mut add = |name: &str, status: Option<Value>| {
        let labels = BTreeMap::from([("fluid.io/s-x".to_owned(), "true".to_owned())]);
        let key = format!("ns/{name}");
        catalog.claims.insert(key.clone(), Claim::read(name, &labels));
        if let Some(status) = status {
            catalog
                .datasets
                .insert(key, Dataset::read("u", &status.to_string()));
        }
    };
    let alluxio = json!([{"type": "alluxio"}]);
    add("lost", None);
    add("no-runtime", Some(json!({"phase": "Bound", "runtimes": alluxio})));
    add("unbound", Some(json!({"phase": "NotBound", "runtimes": alluxio})));
    add("new", Some(json!({})));
    let conditions = json!([{"type": "NotReady", "message": "no worker"}]);
    add(
        "not-ready",
        Some(json!({"phase": "NotBound", "conditions": conditions})),
    );
    add("no-type", Some(json!({"phase": "Failed"})));
    add(
        "old-type",
        Some(json!({"phase": "Bound", "runtimes": [{"type": "goosefs"}]})),
    );
    add("faulty", Some(json!({"phase": "Bound", "runtimes": alluxio})));
    let many: BTreeMap<String, &str> = (0..65).map(|number| (format!("k{number}"), "")).collect();
    let spec = json!({"fuse": {"nodeSelector": many}}).to_string();
    let faulty = (RuntimeKind::Alluxio, "ns/faulty".to_owned());
    catalog
        .runtimes
        .insert(faulty, Runtime::read(RuntimeKind::Alluxio, &spec, "{}"));
    let text = mounted(&catalog, "ns", &names(claims), false)
        .unwrap_err()
        .to_string();
    match expected.strip_prefix('…') {
        Some(end) => assert!(text.ends_with(end), "{text}"),
        None => assert_eq!(text, expected),
    }
}

#[test]
fn an_unbound_dataset_is_accepted_without_the_check_and_only_with_a_runtime() {
    let mut catalog = catalog();
    let bound = json!({"phase": "NotBound", "runtimes": [{"type": "alluxio"}]}).to_string();
    catalog
        .datasets
        .insert("ns/alluxio".to_owned(), Dataset::read("u", &bound));
    let claims = names(&["alluxio"]);
    assert!(mounted(&catalog, "ns", &claims, false).is_err());
    assert_eq!(mounted(&catalog, "ns", &claims, true).unwrap().len(), 1);
    catalog
        .datasets
        .insert("ns/alluxio".to_owned(), Dataset::default());
    let error = mounted(&catalog, "ns", &claims, true).unwrap_err();
    assert!(error.to_string().ends_with("for runtime type: ") && !error.is_missing());
}

#[test]
fn objects_of_other_namespaces_are_never_found() {
    let error = mounted(&catalog(), "other", &names(&["alluxio"]), false).unwrap_err();
    assert!(error.is_missing(), "{error}");
}

#[test]
fn unknown_objects_are_no_refusal() {
    for plural in ["persistentvolumeclaims", "datasets", "alluxioruntimes"] {
        let catalog = FixtureCatalog {
            unknown: Some(plural),
            ..catalog()
        };
        let error = mounted(&catalog, "ns", &names(&["alluxio"]), false).unwrap_err();
        assert_eq!(error, DatasetError::Unknown(plural));
        assert!(mounted(&catalog, "ns", &names(&[]), false).unwrap().is_empty());
    }
    let unused = FixtureCatalog {
        unknown: Some("cacheruntimes"),
        ..catalog()
    };
    assert!(mounted(&unused, "ns", &names(&["alluxio"]), false).is_ok());
}

#[rstest]
#[case::short("d", "fluid.io/s-ns-d")]
#[case::sixty_two(&"d".repeat(48), &format!("fluid.io/s-ns-{}", "d".repeat(48)))]
#[case::sixty_three(&"d".repeat(49), "fluid.io/s-uid")]
fn long_labels_contain_the_uid(#[case] name: &str, #[case] expected: &str) {
    let mut catalog = catalog();
    let key = format!("ns/{name}");
    let claim = Claim {
        dataset: Some(name.into()),
    };
    catalog.claims.insert(key.clone(), claim);
    catalog
        .datasets
        .insert(key.clone(), catalog.datasets["ns/alluxio"].clone());
    catalog
        .runtimes
        .insert((RuntimeKind::Alluxio, key), Runtime::default());
    let found = mounted(&catalog, "ns", &names(&[name]), false).unwrap();
    assert_eq!(found[0].worker_label, expected);
}

#[rstest]
#[case::own(&[("fluid.io/s-ns-a", "true")], Some("a"))]
#[case::managed(&[("fluid.io/s-ns-a", "true"), ("fluid.io/managed-by", "b")], Some("b"))]
#[case::wrapped(&[("fluid.io/s-ns-a", "true"), ("fluid.io/wrapped-by", "c")], Some("c"))]
#[case::both(&[("fluid.io/s-x", ""), ("fluid.io/managed-by", "b"), ("fluid.io/wrapped-by", "c")], Some("b"))]
#[case::managed_alone(&[("fluid.io/managed-by", "b")], None)]
#[case::other(&[("fluid.io/t-ns-a", "true"), ("a", "b")], None)]
fn a_claim_names_its_dataset(#[case] labels: &[(&str, &str)], #[case] expected: Option<&str>) {
    let labels = labels
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    let claim = Claim::read("a", &labels.collect());
    assert_eq!(claim.dataset.as_deref(), expected);
}

#[rstest]
#[case::spec(json!("text"), json!({}), "spec cannot be read: ")]
#[case::key(json!({"fuse": {"nodeSelector": {"a/b/c": "x"}}}), json!({}), "nodeSelector has an invalid label: ")]
#[case::value(json!({"fuse": {"nodeSelector": {"a": "x".repeat(100_000)}}}), json!({}), "nodeSelector has an invalid label: ")]
#[case::operator(json!({}), json!([{"key": "a", "operator": "Is", "values": ["x"]}]), "status.cacheAffinity has an invalid condition: its operator is unknown")]
#[case::no_value(json!({}), json!([{"key": "a", "operator": "In"}]), "status.cacheAffinity has an invalid condition: its operator does not")]
#[case::many(json!({}), json!(vec![json!({"key": "a", "operator": "Exists"}); 65]), "status.cacheAffinity has more than 64 conditions")]
#[case::values(json!({}), json!([{"key": "a", "operator": "In", "values": vec!["x"; 65]}]), "status.cacheAffinity has more than 64 conditions")]
fn a_faulty_runtime_keeps_only_its_fault(
    #[case] spec: Value,
    #[case] conditions: Value,
    #[case] expected: &str,
) {
    let conditions = if conditions.is_array() {
        conditions
    } else {
        json!([])
    };
    let affinity = required(&json!([{"matchExpressions": conditions}]))["nodeAffinity"].take();
    let status = json!({"cacheAffinity": affinity}).to_string();
    let runtime = Runtime::read(RuntimeKind::Thin, &spec.to_string(), &status);
    let fault = runtime.fault.unwrap();
    assert!(fault.starts_with(expected) && fault.len() < 300, "{fault}");
    assert!(runtime.fuse_selector.is_empty() && runtime.cache_conditions.is_empty());
}

#[test]
fn several_datasets_must_all_have_their_client_on_the_node() {
    let datasets = [
        dataset("a", &[("x", "1")]),
        dataset("b", &[("x", "1"), ("y", "2")]),
    ];
    let mut affinity = Value::Null;
    require_fuse(&mut affinity, &datasets, &Switches::default()).unwrap();
    assert_eq!(
        affinity,
        required(&json!([{"matchExpressions": [is("x", "1"), is("y", "2")]}]))
    );
    let mut affinity = Value::Null;
    require_fuse(&mut affinity, &datasets, &upstream()).unwrap();
    assert_eq!(
        affinity,
        required(&json!([
            {"matchExpressions": [is("x", "1")]}, {"matchExpressions": [is("x", "1"), is("y", "2")]},
        ]))
    );
}

#[test]
fn datasets_whose_clients_run_everywhere_add_nothing() {
    let mut affinity = Value::Null;
    require_fuse(&mut affinity, &[dataset("a", &[])], &Switches::default()).unwrap();
    assert_eq!(affinity, Value::Null);
}

#[test]
fn own_terms_are_combined_and_keep_their_fields() {
    let own = json!([
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]},
        {"matchExpressions": []},
        {"matchExpressions": [is("z", "3")], "x-own": 1},
    ]);
    let mut affinity = required(&own);
    require_fuse(
        &mut affinity,
        &[dataset("a", &[("x", "1")])],
        &Switches::default(),
    )
    .unwrap();
    let fields = own[0]["matchFields"].clone();
    assert_eq!(
        affinity,
        required(&json!([
            {"matchFields": fields, "matchExpressions": [is("x", "1")]},
            {"matchExpressions": [is("z", "3"), is("x", "1")], "x-own": 1},
        ]))
    );
}

#[test]
fn a_pod_that_may_run_nowhere_stays_so_unless_switched() {
    let nowhere = required(&json!([{}, {"matchExpressions": null}]));
    let datasets = [dataset("a", &[("x", "1")])];
    let mut affinity = nowhere.clone();
    require_fuse(&mut affinity, &datasets, &Switches::default()).unwrap();
    assert_eq!(affinity, nowhere);
    require_fuse(&mut affinity, &datasets, &upstream()).unwrap();
    assert_eq!(affinity, required(&json!([{"matchExpressions": [is("x", "1")]}])));
}

#[test]
fn two_hundred_datasets_fit_and_more_conditions_than_the_limit_are_refused() {
    let many = |count: usize, labels: usize| -> Vec<MountedDataset> {
        let labels = |number| (0..labels).map(move |label| (format!("k{number}-{label}"), "v".to_owned()));
        (0..count)
            .map(|number| MountedDataset {
                runtime: Arc::new(Runtime {
                    fuse_selector: labels(number).collect(),
                    ..Runtime::default()
                }),
                ..dataset(&format!("d{number}"), &[])
            })
            .collect()
    };
    let mut affinity = Value::Null;
    require_fuse(&mut affinity, &many(200, 5), &Switches::default()).unwrap();
    let terms =
        &affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
    assert_eq!(terms[0]["matchExpressions"].as_array().unwrap().len(), 1_000);
    for switches in [Switches::default(), upstream()] {
        let mut affinity = Value::Null;
        let error = require_fuse(&mut affinity, &many(200, 64), &switches).unwrap_err();
        assert_eq!(error, TermError::TooMany);
    }
    let wide = vec![json!({"matchExpressions": [is("a", "b")]}); 1_100];
    let error = require_fuse(&mut required(&json!(wide)), &many(1, 1), &Switches::default());
    assert_eq!(error, Err(TermError::TooMany));
    let zones: Vec<(&str, &str)> = vec![("zone", "a"); 8];
    let datasets: Vec<_> = (0..40)
        .map(|number| with_cache(&format!("d{number}"), &zones))
        .collect();
    let labels = (0..40).map(|number| (format!("fluid.io/dataset.d{number}.sched"), "required".to_owned()));
    let localities = Localities {
        required: vec!["zone".to_owned()],
        ..Localities::default()
    };
    let (labels, node_selector) = (labels.collect(), BTreeMap::new());
    let pod = PodLocality {
        labels: &labels,
        node_selector: &node_selector,
    };
    let result = place(
        &mut Value::Null,
        pod,
        &datasets,
        (&localities, &Switches::default()),
    );
    assert_eq!(
        result,
        Err(TermError::TooMany),
        "8 alternatives for each of 40 Datasets"
    );
}

fn place_with(affinity: &mut Value, labels: &Value, selector: &Value, switches: &Switches) {
    let localities = Localities {
        preferred: vec![
            PreferredLocality {
                name: "fluid.io/node".to_owned(),
                weight: 100,
            },
            PreferredLocality {
                name: "zone".to_owned(),
                weight: 50,
            },
        ],
        required: vec!["fluid.io/node".to_owned(), "zone".to_owned()],
    };
    let datasets = [
        with_cache("a", &[("zone", "z1"), ("disk", "ssd")]),
        with_cache("b", &[]),
    ];
    let labels = serde_json::from_value(labels.clone()).unwrap();
    let node_selector = serde_json::from_value(selector.clone()).unwrap();
    let pod = PodLocality {
        labels: &labels,
        node_selector: &node_selector,
    };
    place(affinity, pod, &datasets, (&localities, switches)).unwrap();
}

#[test]
fn localities_are_preferred_in_the_order_of_claims() {
    let mut affinity = Value::Null;
    place_with(&mut affinity, &json!({}), &json!({}), &Switches::default());
    let term = |weight: i64, key: &str, value: &str| json!({"weight": weight, "preference": {"matchExpressions": [is(key, value)]}});
    let expected = json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        term(100, "fluid.io/s-ns-a", "true"), term(50, "zone", "z1"), term(100, "fluid.io/s-ns-b", "true"),
    ]}});
    assert_eq!(affinity, expected);
    place_with(&mut affinity, &json!({}), &json!({}), &Switches::default());
    assert_eq!(affinity, expected, "a second call adds nothing");
}

#[test]
fn a_label_requires_the_data_of_one_claim() {
    let labels = json!({
        "fluid.io/dataset.a.sched": "required", "fluid.io/dataset.b.sched": "Required", "fluid.io/dataset.c.sched": "required",
    });
    let mut affinity = Value::Null;
    place_with(&mut affinity, &labels, &json!({}), &Switches::default());
    let terms = json!([
        {"matchExpressions": [is("fluid.io/s-ns-a", "true")]}, {"matchExpressions": [is("zone", "z1")]},
    ]);
    let mut expected = required(&terms);
    expected["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] =
        json!([{"weight": 100, "preference": {"matchExpressions": [is("fluid.io/s-ns-b", "true")]}}]);
    assert_eq!(affinity, expected);
    let before = affinity.clone();
    place_with(&mut affinity, &labels, &json!({}), &Switches::default());
    assert_eq!(affinity, before);
}

#[rstest]
#[case::required(required(&json!([{"matchExpressions": [is("zone", "z9")]}])), json!({}), true, true)]
#[case::preferred(json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {"matchExpressions": [is("zone", "z9")]}}]}}), json!({}), true, true)]
#[case::selector(Value::Null, json!({"zone": "z9"}), true, false)]
#[case::other(required(&json!([{"matchExpressions": [is("disk", "x")]}])), json!({"disk": "x"}), false, false)]
fn a_pod_that_chose_a_locality_stays_as_it_is(
    #[case] affinity: Value,
    #[case] selector: Value,
    #[case] stays: bool,
    #[case] stays_upstream: bool,
) {
    for (switches, stays) in [(Switches::default(), stays), (upstream(), stays_upstream)] {
        let mut found = affinity.clone();
        place_with(&mut found, &json!({}), &selector, &switches);
        assert_eq!(found == affinity, stays, "{found}");
    }
}

#[test]
fn pods_without_data_prefer_nodes_without_it_once() {
    let mut affinity = json!({"podAffinity": {"x": 1}});
    prefer_without_data(&mut affinity).unwrap();
    let expected = json!([{"weight": 100, "preference": {"matchExpressions": [{"key": "fluid.io/dataset-num", "operator": "DoesNotExist"}]}}]);
    let preferred = "/nodeAffinity/preferredDuringSchedulingIgnoredDuringExecution";
    assert_eq!(affinity.pointer(preferred), Some(&expected));
    let before = affinity.clone();
    prefer_without_data(&mut affinity).unwrap();
    assert_eq!(affinity, before);
}

#[test]
fn mounts_of_datasets_get_a_propagation() {
    let volumes: Vec<Volume> = serde_json::from_value(json!([
        {"name": "v", "persistentVolumeClaim": {"claimName": "a"}},
        {"name": "w", "persistentVolumeClaim": {"claimName": "plain"}},
        {"name": "e", "emptyDir": {}},
    ]))
    .unwrap();
    assert_eq!(claims(&volumes), names(&["a", "plain"]));
    let datasets = [dataset("a", &[])];
    let of_datasets = volumes_of(&volumes, &datasets);
    let mut containers = json!([
        {"name": "c", "volumeMounts": [{"name": "v"}, {"name": "w"}, {"name": "v", "mountPropagation": "None"}, "text"]},
        {"name": "d"}, null,
    ]);
    propagate(&mut containers, &of_datasets);
    assert_eq!(
        containers,
        json!([
            {"name": "c", "volumeMounts": [
                {"name": "v", "mountPropagation": "HostToContainer"}, {"name": "w"},
                {"name": "v", "mountPropagation": "None"}, "text",
            ]},
            {"name": "d"}, null,
        ])
    );
}

#[rstest]
#[case::none(None, "a,b")]
#[case::present(Some(" c, a,,"), "a,b,c")]
fn the_names_of_datasets_are_sorted_and_stand_once(#[case] present: Option<&str>, #[case] expected: &str) {
    let names = in_use(present, &[dataset("b", &[]), dataset("a", &[])]);
    assert_eq!(names.as_deref(), Some(expected));
    let long = "x".repeat((256 << 10) + 1);
    assert_eq!(in_use(Some(&long), &[dataset("b", &[])]), None);
}

fn document(value: &Value) -> ProfileDocument {
    serde_json::from_value(value.clone()).unwrap()
}

#[test]
fn a_profile_lists_plugins_and_the_last_arguments_count() {
    let document = document(&json!({
        "plugins": {"serverful": {"withDataset": ["RequireNodeWithFuse", "FilePrefetcher", "RequireNodeWithFuse"]}},
        "pluginConfig": [
            {"name": "NodeAffinityWithCache", "args": "first"}, {"name": "Other", "args": "x"},
            {"name": "NodeAffinityWithCache", "args": "last"},
        ],
        "unknown": 1,
    }));
    assert_eq!(document.localities(), Some("last"));
    let profile = document.profile(Localities::default()).unwrap();
    assert!(profile.with_dataset.have(Plugin::RequireNodeWithFuse));
    assert!(!profile.with_dataset.have(Plugin::NodeAffinityWithCache));
    assert!(!profile.without_dataset.have(Plugin::PreferNodesWithoutCache));
    assert!(
        PluginProfile::default()
            .without_dataset
            .have(Plugin::PreferNodesWithoutCache)
    );
}

#[rstest]
#[case::unknown(json!({"serverful": {"withDataset": ["Nothing"]}}), json!({}), "unknown plugin name [Nothing]")]
#[case::serverless(json!({"serverless": {"withoutDataset": ["Nothing"]}}), json!({}), "unknown plugin name [Nothing]")]
#[case::long(json!({"serverful": {"withDataset": vec!["FuseSidecar"; 65]}}), json!({}), "serverful.withDataset has more than 64 entries")]
#[case::weight(json!({}), json!({"preferred": [{"name": "zone", "weight": 101}]}), "preferred locality \"zone\" has the weight 101, which is not in 1 to 100")]
#[case::no_weight(json!({}), json!({"preferred": [{"name": "zone"}]}), "preferred locality \"zone\" has the weight 0, which is not in 1 to 100")]
#[case::label(json!({}), json!({"required": ["a b"]}), "locality \"a b\" is no label: ")]
#[case::many(json!({}), json!({"required": vec!["a"; 65]}), "required has more than 64 entries")]
fn an_invalid_profile_is_refused(#[case] plugins: Value, #[case] localities: Value, #[case] expected: &str) {
    let localities: Localities = serde_json::from_value(localities).unwrap();
    let error = document(&json!({"plugins": plugins}))
        .profile(localities)
        .unwrap_err();
    assert!(error.to_string().starts_with(expected), "{error}");
}

/// True if a node with these labels meets the required terms of an affinity.
fn is_met(affinity: &Value, node: &BTreeMap<&str, &str>) -> bool {
    let terms =
        &affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
    let Some(terms) = terms.as_array().filter(|terms| !terms.is_empty()) else {
        return true;
    };
    terms.iter().any(|term| {
        let conditions = term["matchExpressions"].as_array().filter(|all| !all.is_empty());
        conditions.is_some_and(|conditions| {
            conditions.iter().all(|condition| {
                let value = node.get(condition["key"].as_str().unwrap());
                value.is_some_and(|value| condition["values"].as_array().unwrap().contains(&json!(value)))
            })
        })
    })
}

const KEYS: [&str; 3] = ["a", "b", "c"];
const VALUES: [&str; 2] = ["1", "2"];

fn selector() -> impl Strategy<Value = Vec<(&'static str, &'static str)>> {
    prop::collection::btree_map(
        prop::sample::select(KEYS.to_vec()),
        prop::sample::select(VALUES.to_vec()),
        0..3,
    )
    .prop_map(|labels| labels.into_iter().collect())
}

proptest! {
    #[test]
    fn nodes_must_meet_the_pods_terms_and_those_of_all_datasets(
        own in prop::collection::vec(selector(), 0..3), datasets in prop::collection::vec(selector(), 0..4),
        node in prop::collection::btree_map(prop::sample::select(KEYS.to_vec()), prop::sample::select(VALUES.to_vec()), 0..4),
    ) {
        let term = |labels: &Vec<(&str, &str)>| {
            json!({"matchExpressions": labels.iter().map(|(key, value)| is(key, value)).collect::<Vec<_>>()})
        };
        let before = required(&json!(own.iter().map(term).collect::<Vec<_>>()));
        let mounted: Vec<_> = datasets.iter().enumerate().map(|(at, labels)| dataset(&format!("d{at}"), labels)).collect();
        let mut affinity = before.clone();
        require_fuse(&mut affinity, &mounted, &Switches::default()).unwrap();
        let has = |labels: &Vec<(&str, &str)>| labels.iter().all(|(key, value)| node.get(key) == Some(value));
        prop_assert_eq!(is_met(&affinity, &node), is_met(&before, &node) && datasets.iter().all(has));
        let once = affinity.clone();
        require_fuse(&mut affinity, &mounted, &Switches::default()).unwrap();
        prop_assert_eq!(&affinity, &once);
        let mut by_upstream = before.clone();
        require_fuse(&mut by_upstream, &mounted, &upstream()).unwrap();
        let once = by_upstream.clone();
        require_fuse(&mut by_upstream, &mounted, &upstream()).unwrap();
        prop_assert_eq!(by_upstream, once);
    }

    #[test]
    fn any_text_is_read_as_a_runtime_or_a_dataset(text in ".{0,40}") {
        for kind in RuntimeKind::ALL {
            let runtime = Runtime::read(kind, &text, &text);
            prop_assert!(runtime.fault.is_some() || runtime.cache_conditions.is_empty());
        }
        prop_assert!(Dataset::read("u", &text).uid.len() == 1);
    }
}
