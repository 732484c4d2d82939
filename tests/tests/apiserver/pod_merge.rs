//! Tests that strategic merges of random patches into random Pods equal the results of Kubernetes' own code.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests panic: a returned error has no stack"
)]

use std::{
    io::Write as _,
    process::{Command, Stdio},
    thread,
};

use e2e::random::Draw as _;
use headroom_rules::merge::{self, POD, Patch};
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;
use serde_json::{Map, Value, json};
use xtask::setup::controlplane::{self, Component};

/// Pairs of a Pod and a patch.
const PAIRS: u64 = 6_000;

/// Lists that are merged, of a Pod's spec and of a container: their keys, and values of those.
const SPEC_LISTS: [(&str, &str); 8] = [
    ("containers", "name"),
    ("initContainers", "name"),
    ("volumes", "name"),
    ("imagePullSecrets", "name"),
    ("hostAliases", "ip"),
    ("topologySpreadConstraints", "topologyKey"),
    ("schedulingGates", "name"),
    ("tolerations", ""),
];
const CONTAINER_LISTS: [(&str, &str); 4] = [
    ("env", "name"),
    ("ports", "containerPort"),
    ("volumeMounts", "mountPath"),
    ("volumeDevices", "devicePath"),
];
/// A key's value, derived from `word`.
fn key_value(key: &str, word: &str) -> Value {
    match key {
        "containerPort" => json!(8_000 + word.len() + usize::from(word.as_bytes()[0])),
        _ => word.into(),
    }
}

/// Members with texts, and in a patch with `null`.
fn texts(random: &mut ChaCha8Rng, is_patch: bool) -> Value {
    let words = random.words().into_iter();
    let members = words.map(|word| {
        let value = if is_patch && random.is_one_in(4) {
            Value::Null
        } else {
            random.word().into()
        };
        (word.to_owned(), value)
    });
    let mut members: Map<String, Value> = members.collect();
    mark(random, is_patch, &mut members);
    members.into()
}

/// Sometimes adds a directive about an object.
fn mark(random: &mut ChaCha8Rng, is_patch: bool, members: &mut Map<String, Value>) {
    if !is_patch {
        return;
    }
    if random.is_one_in(25) {
        let marker = ["replace", "delete", "merge"][random.below(3)];
        members.insert("$patch".to_owned(), marker.into());
    } else if random.is_one_in(12) {
        let mut retained: Vec<String> = members.keys().cloned().collect();
        retained.extend(random.words().into_iter().map(str::to_owned));
        if random.is_one_in(6) && !retained.is_empty() {
            retained.remove(0);
        }
        members.insert("$retainKeys".to_owned(), retained.into());
    }
}

fn element(random: &mut ChaCha8Rng, list: &str, key: &str, word: &str, is_patch: bool) -> Value {
    let mut element = Map::new();
    if !(key.is_empty() || is_patch && random.is_one_in(60)) {
        element.insert(key.to_owned(), key_value(key, word));
    }
    if is_patch && !key.is_empty() && random.is_one_in(8) {
        let marker = ["delete", "delete", "delete", "replace", "merge"][random.below(5)];
        element.insert("$patch".to_owned(), marker.into());
    }
    match list {
        "containers" | "initContainers" => fill_container(random, &mut element, is_patch),
        "volumes" => {
            let source = ["emptyDir", "hostPath", "configMap"][random.below(3)];
            element.insert(source.to_owned(), json!({"x": random.word()}));
            mark(random, is_patch, &mut element);
        }
        "ports" | "env" | "tolerations" => {
            let name = ["protocol", "value", "operator"][random.below(3)];
            let value = if is_patch && random.is_one_in(6) {
                Value::Null
            } else {
                random.word().into()
            };
            element.insert(name.to_owned(), value);
        }
        "hostAliases" => {
            element.insert("hostnames".to_owned(), random.words().into());
        }
        _ => {}
    }
    element.into()
}

fn fill_container(random: &mut ChaCha8Rng, container: &mut Map<String, Value>, is_patch: bool) {
    if random.is_one_in(2) {
        container.insert("image".to_owned(), random.word().into());
    }
    if random.is_one_in(3) {
        container.insert("command".to_owned(), random.words().into());
    }
    if random.is_one_in(2) {
        let resources = json!({"requests": texts(random, is_patch), "limits": texts(random, is_patch)});
        container.insert("resources".to_owned(), resources);
    }
    for (list, key) in CONTAINER_LISTS {
        if random.is_one_in(3) {
            add_list(random, container, list, key, is_patch);
        }
    }
}

/// Adds a list, and in a patch sometimes the order of its elements.
fn add_list(
    random: &mut ChaCha8Rng,
    members: &mut Map<String, Value>,
    list: &str,
    key: &str,
    is_patch: bool,
) {
    if is_patch && random.is_one_in(30) {
        members.insert(list.to_owned(), Value::Null);
        return;
    }
    let mut words = random.words();
    // A patch that adds an element twice merges the second with directives of the first, which Kubernetes has left there.
    if !is_patch && !key.is_empty() && random.is_one_in(15) {
        words.extend(words.first().copied());
    }
    let elements = words
        .iter()
        .map(|word| element(random, list, key, word, is_patch));
    let elements: Vec<Value> = elements.collect();
    if is_patch && !key.is_empty() && random.is_one_in(4) {
        let kept = elements.iter().filter(|element| element.get("$patch").is_none());
        let mut order: Vec<Value> = Vec::new();
        for value in kept.filter_map(|element| element.get(key)) {
            if random.is_one_in(3) {
                order.push(json!({key: key_value(key, random.word())}));
            }
            order.push(json!({key: value}));
        }
        order.extend(
            random
                .words()
                .into_iter()
                .map(|word| json!({key: key_value(key, word)})),
        );
        if random.is_one_in(8) {
            order.reverse();
        }
        members.insert(format!("$setElementOrder/{list}"), order.into());
    }
    if !elements.is_empty() || !random.is_one_in(3) {
        members.insert(list.to_owned(), elements.into());
    }
}

/// A Pod, or a patch of one.
fn pod(random: &mut ChaCha8Rng, is_patch: bool) -> Value {
    let mut metadata = Map::new();
    for name in ["labels", "annotations"] {
        if random.is_one_in(2) {
            metadata.insert(name.to_owned(), texts(random, is_patch));
        }
    }
    let finalizers = random.words();
    if is_patch && random.is_one_in(3) {
        let deleted = random.words().into_iter();
        let deleted: Vec<_> = deleted.filter(|word| !finalizers.contains(word)).collect();
        metadata.insert("$deleteFromPrimitiveList/finalizers".to_owned(), deleted.into());
    }
    if random.is_one_in(2) {
        metadata.insert("finalizers".to_owned(), finalizers.into());
    }
    if random.is_one_in(3) {
        add_list(random, &mut metadata, "ownerReferences", "uid", is_patch);
    }
    let mut spec = Map::new();
    for (list, key) in SPEC_LISTS {
        if random.is_one_in(2) {
            add_list(random, &mut spec, list, key, is_patch);
        }
    }
    for name in ["nodeSelector", "overhead"] {
        if random.is_one_in(3) {
            spec.insert(name.to_owned(), texts(random, is_patch));
        }
    }
    if random.is_one_in(3) {
        spec.insert("priority".to_owned(), random.below(9).into());
    }
    json!({"metadata": metadata, "spec": spec})
}

/// Pod as readers see it: no directives, no `null`, nothing with a marker.
fn seen(value: &Value) -> Option<Value> {
    match value {
        Value::Object(members) if members.contains_key("$patch") => None,
        Value::Object(members) => {
            let members = members
                .iter()
                .filter(|(name, value)| !name.starts_with('$') && !value.is_null());
            let members = members.filter_map(|(name, value)| Some((name.clone(), seen(value)?)));
            Some(Value::Object(members.collect()))
        }
        Value::Array(elements) => Some(elements.iter().filter_map(seen).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Some(value.clone()),
    }
}

/// True if something of a directive is in a value.
fn has_directives(value: &Value) -> bool {
    match value {
        Value::Object(members) => members
            .iter()
            .any(|(name, value)| name.starts_with('$') || has_directives(value)),
        Value::Array(elements) => elements.iter().any(has_directives),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Result of Kubernetes for the pairs; `None` if it refuses one.
fn oracle(pairs: &[(Value, Value)]) -> Vec<Option<Value>> {
    let built = controlplane::ensure(&[Component::PodMerge]).expect("build podmerge");
    let mut child = Command::new(&built[&Component::PodMerge].path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("run podmerge");
    let lines = pairs
        .iter()
        .map(|(pod, patch)| json!({"pod": pod, "patch": patch}).to_string() + "\n");
    let input: String = lines.collect();
    let mut stdin = child.stdin.take().expect("its input");
    let writer = thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().expect("its output");
    writer.join().expect("the writer").expect("write");
    assert!(output.status.success(), "podmerge fails");
    let text = String::from_utf8(output.stdout).expect("text");
    let results = text.lines().map(|line| {
        let result: Value = serde_json::from_str(line).expect("a result");
        result.get("pod").cloned()
    });
    results.collect()
}

#[test]
fn merged_pods_equal_kubernetes_results_for_thousands_of_patches() {
    let mut random = ChaCha8Rng::seed_from_u64(7);
    let pairs: Vec<(Value, Value)> = (0..PAIRS)
        .map(|_| (pod(&mut random, false), pod(&mut random, true)))
        .collect();
    let (mut merges, mut refusals, mut changes) = (0, 0, 0);
    for ((pod, patch), expected) in pairs.iter().zip(oracle(&pairs)) {
        let ours = Patch::new(patch.clone()).expect("a patch");
        let ours = merge::merged(pod.clone(), &ours, &POD);
        match (&ours, &expected) {
            (Ok(ours), Some(theirs)) => {
                assert_eq!(seen(ours), seen(theirs), "{patch} into {pod}");
                assert!(!has_directives(ours), "{ours}");
                merges += 1;
                changes += u64::from(ours != pod);
            }
            (Err(_), None) => refusals += 1,
            (_, _) => panic!("{ours:?} and not {expected:?} of {patch} into {pod}"),
        }
    }
    println!("{merges} merges, {changes} of them changes, {refusals} refusals");
    assert!(
        changes >= 2_000 && refusals >= 100,
        "{changes} changes, {refusals} refusals"
    );
}
