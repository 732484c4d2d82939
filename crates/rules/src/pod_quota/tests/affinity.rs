//! Tests of the node affinity of a Pod in a tree.

use headroom_domain::selector::LabelSelector;

use super::*;

fn pool() -> Value {
    json!({"key": "pool", "operator": "In", "values": ["a"]})
}

fn required(terms: &Value) -> Value {
    json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}})
}

/// Results for an affinity under Headroom's behaviour and under Koordinator's.
fn ours_and_theirs(affinity: &Value, nodes: &Value) -> [Result<Value, String>; 2] {
    let nodes: LabelSelector = serde_json::from_value(nodes.clone()).unwrap();
    BOTH.map(|compat| {
        let mut affinity = affinity.clone();
        let done = require(&mut affinity, &nodes, &switches(compat));
        done.map(|()| affinity).map_err(|error| error.to_string())
    })
}

#[test]
fn a_pod_without_terms_gets_one() {
    let nodes = json!({"matchLabels": {"pool": "a"}, "matchExpressions": [
        {"key": "zone", "operator": "NotIn", "values": ["z1"]}, {"key": "gpu", "operator": "Exists"},
    ]});
    let own = [
        pool(),
        json!({"key": "zone", "operator": "NotIn", "values": ["z1"]}),
        json!({"key": "gpu", "operator": "Exists"}),
    ];
    let after = required(&json!([{"matchExpressions": own}]));
    for affinity in [
        Value::Null,
        json!({}),
        json!({"nodeAffinity": null}),
        required(&json!([])),
        required(&Value::Null),
    ] {
        assert_eq!(
            ours_and_theirs(&affinity, &nodes),
            [Ok(after.clone()), Ok(after.clone())]
        );
    }
}

#[test]
fn each_term_gets_the_conditions_and_preferences_stay() {
    let zone = json!({"key": "zone", "operator": "In", "values": ["z"]});
    let before = json!([{"matchExpressions": [zone]}, {"matchFields": [{"key": "metadata.name"}]}]);
    let after = json!([{"matchExpressions": [zone, pool()]}, {"matchFields": [{"key": "metadata.name"}], "matchExpressions": [pool()]}]);
    let preferred = json!([{"weight": 1, "preference": {}}]);
    let with = |terms: &Value| {
        let mut affinity = required(terms);
        affinity["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] = preferred.clone();
        affinity["podAffinity"] = json!({"x": 1});
        affinity
    };
    let nodes = json!({"matchLabels": {"pool": "a"}});
    assert_eq!(
        ours_and_theirs(&with(&before), &nodes),
        [Ok(with(&after)), Ok(with(&after))]
    );
}

#[test]
fn conditions_are_added_once_and_empty_terms_stay_empty() {
    let nodes = json!({"matchLabels": {"pool": "a"}});
    let there = required(&json!([{"matchExpressions": [pool()]}, {}, {"matchExpressions": []}]));
    let theirs = required(&json!([
        {"matchExpressions": [pool(), pool()]}, {"matchExpressions": [pool()]}, {"matchExpressions": [pool()]},
    ]));
    assert_eq!(ours_and_theirs(&there, &nodes), [Ok(there.clone()), Ok(theirs)]);
    // The tree has no node conditions.
    let unschedulable = required(&json!([{}]));
    assert_eq!(
        ours_and_theirs(&Value::Null, &json!({})),
        [Ok(Value::Null), Ok(unschedulable)]
    );
}

#[test]
fn an_invalid_affinity_is_an_error() {
    let nodes = json!({"matchLabels": {"pool": "a"}});
    for (affinity, text) in [
        (json!(1), "spec.affinity is not an object"),
        (
            json!({"nodeAffinity": []}),
            "spec.affinity.nodeAffinity is not an object",
        ),
        (
            required(&json!({})),
            "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms is not a list",
        ),
        (required(&json!(["x"])), "a node selector term is not an object"),
        (
            required(&json!([{"matchExpressions": 1, "matchFields": [1]}])),
            "matchExpressions of a node selector term is not a list",
        ),
    ] {
        let [ours, theirs] = ours_and_theirs(&affinity, &nodes);
        assert_eq!(ours, Err(text.to_owned()));
        assert_eq!(theirs, ours);
    }
    let many = required(&json!(vec![json!({"matchExpressions": [pool()]}); 2_049]));
    let [ours, _] = ours_and_theirs(&many, &json!({"matchLabels": {"pool": "a", "zone": "b"}}));
    assert_eq!(
        ours,
        Err("more than 4096 conditions would be added to spec.affinity".to_owned())
    );
}

/// The namespace of a tree's root decides which profiles select its nodes.
#[test]
fn tree_roots_are_found_by_parent() {
    let mut quotas = quotas();
    for (namespace, name, parent) in [
        ("owner", "root", ""),
        ("team", "middle", "root"),
        ("team", "leaf", "middle"),
        ("team", "orphan", "missing"),
        ("team", "loop", "loop"),
    ] {
        let quota = Quota {
            namespace: namespace.into(),
            name: name.into(),
            parent: parent.into(),
            ..Quota::default()
        };
        let key = (namespace.to_owned(), name.to_owned());
        quotas.quotas.insert(key, Arc::new(quota));
    }
    let root = |name: &str| {
        let quota = quotas.by_name(name).unwrap();
        root_namespace(&quota, &quotas)
    };
    for name in ["root", "middle", "leaf"] {
        assert_eq!(root(name).as_deref(), Some("owner"), "{name}");
    }
    assert_eq!((root("orphan"), root("loop")), (None, None));
}
