//! Tests of the stores of Fluid's objects.

use serde_json::{Value, json};
use tokio::sync::watch;

use super::*;
use crate::store::{informer::Store, sources};

fn parse<T: serde::de::DeserializeOwned>(object: &Value) -> T {
    serde_json::from_str(&object.to_string()).unwrap()
}

fn metadata(namespace: &str) -> Value {
    json!({"namespace": namespace, "name": "d", "uid": "u", "labels": {"fluid.io/s-ns-d": "true"}})
}

#[test]
fn objects_are_found_in_their_namespace_while_their_source_is_known() {
    let known = KnownSources::default();
    let sources = FluidSources::new(&Arrivals::default());
    let status = json!({"phase": "Bound", "runtimes": [{"type": "cache"}]});
    sources.claims.apply(parse(&json!({"metadata": metadata("ns")})));
    sources
        .datasets
        .apply(parse(&json!({"metadata": metadata("ns"), "status": status})));
    let spec = json!({"client": {"nodeSelector": {"a": "b"}}});
    sources
        .cache
        .apply(parse(&json!({"metadata": metadata("ns"), "spec": spec})));
    let objects = FluidObjects {
        sources: sources.clone(),
        known: known.clone(),
    };
    assert_eq!(
        objects.claim("ns", "d"),
        Err(UnknownObjects("persistentvolumeclaims"))
    );
    assert_eq!(
        objects.runtime(RuntimeKind::Cache, "ns", "d"),
        Err(UnknownObjects("cacheruntimes"))
    );
    for source in sources::ALL {
        known.record(source, watch::channel(true).1);
    }
    let claim = objects.claim("ns", "d").unwrap().unwrap();
    assert_eq!(claim.dataset.as_deref(), Some("d"));
    assert_eq!(&*objects.dataset("ns", "d").unwrap().unwrap().runtime, "cache");
    let runtime = objects.runtime(RuntimeKind::Cache, "ns", "d").unwrap().unwrap();
    assert_eq!(runtime.fuse_selector["a"], "b");
    for (namespace, name) in [("other", "d"), ("ns", "e")] {
        assert_eq!(objects.claim(namespace, name), Ok(None));
        assert_eq!(objects.dataset(namespace, name), Ok(None));
    }
    for kind in RuntimeKind::ALL {
        let is_there = objects.runtime(kind, "ns", "d").unwrap().is_some();
        assert_eq!(is_there, kind == RuntimeKind::Cache);
    }
    sources.claims.delete(parse(&json!({"metadata": metadata("ns")})));
    assert_eq!(objects.claim("ns", "d"), Ok(None));
}

#[test]
fn an_object_with_any_specification_spoils_no_list() {
    let sources = FluidSources::new(&Arrivals::default());
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let metadata = metadata("ns").to_string();
    let text = format!(r#"{{"metadata": {metadata}, "spec": {deep}, "status": {deep}}}"#);
    sources.thin.apply(serde_json::from_str(&text).unwrap());
    assert!(sources.thin.get("ns/d").unwrap().fault.is_some());
    sources.datasets.apply(serde_json::from_str(&text).unwrap());
    assert_eq!(
        &*sources.datasets.get("ns/d").unwrap().phase,
        "",
        "it is not bound"
    );
}
