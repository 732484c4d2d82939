//! Tests that no policy comes near its cost limit at the worst Node writes that a kubelet or a user can send, by the
//! API server's own code. A policy that exceeds its budget fails, and admits the very writes that it must block.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests panic: a returned error has no stack"
)]

use std::{
    fs,
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

use headroom_domain::names;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use xtask::setup::controlplane::{self, Component};

/// Bytes of annotations that the API server stores with an object.
const STORED_AT_MOST: usize = 256 << 10;
/// Of an expression's limit, and of a policy's budget, in percent.
const USES_AT_MOST: u64 = 80;
/// The alphabet of short keys.
const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

/// Cost of an expression at a write.
#[derive(Debug, Deserialize)]
struct Row {
    policy: String,
    write: String,
    expression: String,
    cost: u64,
    limit: u64,
    #[serde(default)]
    error: String,
}

impl Row {
    fn text(&self) -> String {
        let Self {
            policy,
            write,
            expression,
            cost,
            limit,
            error,
        } = self;
        format!("{policy}, {expression}, at {write}: {cost} of {limit} {error}")
    }
}

/// Every policy in the generated manifests, and conditions of webhooks as policies that do nothing.
fn policies() -> Vec<Value> {
    let manifests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/kustomize");
    let mut documents = Vec::new();
    read(&manifests, &mut documents);
    let policies = documents.iter().filter(|document| {
        let kind = document["kind"].as_str().unwrap_or_default();
        kind.ends_with("AdmissionPolicy")
    });
    let webhooks = documents
        .iter()
        .filter_map(|document| document["webhooks"].as_array());
    let conditions = webhooks
        .flatten()
        .filter(|webhook| webhook["matchConditions"].is_array())
        .map(|webhook| {
            json!({
                "metadata": {"name": webhook["name"]},
                "spec": {
                    "matchConditions": webhook["matchConditions"],
                    "matchConstraints": {"resourceRules": [{"resources": ["nodes/status"]}]},
                },
            })
        });
    policies.cloned().chain(conditions).collect()
}

/// The documents of all manifests in a folder.
fn read(folder: &Path, documents: &mut Vec<Value>) {
    for entry in fs::read_dir(folder).expect("the manifests") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            read(&path, documents);
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            let text = fs::read_to_string(&path).expect("a manifest");
            let parsed: Vec<Value> = serde_saphyr::from_multiple(&text).expect("YAML");
            documents.extend(parsed);
        }
    }
}

/// An amplified Node of 30 kB with further annotations, as it is stored.
fn stored(annotations: Map<String, Value>) -> Value {
    let marker = json!({
        "at": "2026-01-01T12:00:00Z", "cpu": "6", "memory": "10Gi", "uid": "u1",
        "from": {"cpu": {"capacity": "4", "raw": "4"}, "memory": {"capacity": "8Gi", "raw": "8Gi"}},
    });
    let mut all = json!({
        names::MARKER: marker.to_string(),
        names::RATIO: r#"{"cpu":1.5}"#,
        names::RAW_ALLOCATABLE: r#"{"cpu":"4","memory":"8Gi"}"#,
    });
    all.as_object_mut().expect("an object").extend(annotations);
    let digest = "0123456789abcdef".repeat(4);
    let image = |image: u32| json!({"names": vec![format!("example.com/{image}@sha256:{digest}"); 5]});
    let condition =
        |name: String| json!({"type": name, "status": "True", "lastHeartbeatTime": "2026-01-01T12:00:00Z"});
    let others = (0..12).map(|number| condition(format!("Pressure{number}")));
    let conditions: Vec<Value> = others.chain([condition("Ready".to_owned())]).collect();
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "n1", "uid": "u1", "resourceVersion": "7", "annotations": all},
        "status": {
            "capacity": {"cpu": "4", "memory": "8Gi"},
            "allocatable": {"cpu": "6", "memory": "10Gi", "pods": "110"},
            "conditions": conditions,
            "images": (0..50).map(image).collect::<Vec<_>>(),
        },
    })
}

/// Write of that Node's kubelet, with a ratio of its own and further annotations.
fn sent(old: &Value, annotations: Map<String, Value>) -> Value {
    let mut new = old.clone();
    new["status"]["allocatable"] = json!({"cpu": "4", "memory": "8Gi", "pods": "110"});
    new["status"]["conditions"][12]["lastHeartbeatTime"] = json!("2026-01-01T12:00:10Z");
    new["metadata"]["annotations"][names::RATIO] = json!(r#"{"cpu":9}"#);
    let all = new["metadata"]["annotations"].as_object_mut().expect("an object");
    all.extend(annotations);
    new
}

/// The maximum number of annotations without values that can be stored next to ours, or this number.
fn filled(prefix: &str, width: usize, at_most: usize) -> Map<String, Value> {
    let mut left = STORED_AT_MOST - 2048;
    let mut filled = Map::new();
    for number in 0..at_most {
        let key = format!("{prefix}{:->width$}", short(number));
        let Some(rest) = left.checked_sub(key.len()) else {
            break;
        };
        left = rest;
        filled.insert(key, json!(""));
    }
    filled
}

/// A number in as few letters as possible.
fn short(number: usize) -> String {
    let mut letters = Vec::new();
    let mut rest = number + 1;
    while rest > 0 {
        rest -= 1;
        letters.push(char::from(LETTERS[rest % LETTERS.len()]));
        rest /= LETTERS.len();
    }
    letters.into_iter().rev().collect()
}

/// A write of a Node with as many annotations as can be stored that switches it off.
fn switched_off() -> (&'static str, Value, Value) {
    let old = stored(filled("", 1, usize::MAX));
    let mut new = old.clone();
    new["metadata"]["annotations"][names::MODE] = json!("off");
    ("mode off on a wide node", old, new)
}

/// The worst that a kubelet can do to its Node's annotations, by name.
fn writes() -> Vec<(&'static str, Value, Value)> {
    let mut all = merged();
    all.extend(thousands());
    all.push(switched_off());
    all
}

/// Writes with as many annotations as the policy examines one by one.
fn merged() -> Vec<(&'static str, Value, Value)> {
    let none = || stored(Map::new());
    let most = |count| filled("example.com/x", 30, count);
    let half = stored(filled("headroom.sh/x", 80, 2_400));
    let mut labelled = sent(&none(), most(4_900));
    labelled["metadata"]["labels"] = json!({"a": "b"});
    vec![
        ("heartbeat with a forged ratio", none(), sent(&none(), Map::new())),
        ("as many as are merged", none(), sent(&none(), most(4_900))),
        ("half of them stored", half, sent(&none(), most(2_500))),
        ("another label", none(), labelled),
    ]
}

/// Writes of as many annotations as can be stored.
fn thousands() -> Vec<(&'static str, Value, Value)> {
    let none = || stored(Map::new());
    let ours = || filled(names::DOMAIN, 1, usize::MAX);
    let short = || filled("", 1, usize::MAX);
    let as_stored = || Map::from_iter([(names::RATIO.to_owned(), json!(r#"{"cpu":1.5}"#))]);
    let other = |mut annotations: Map<String, Value>| {
        annotations.values_mut().for_each(|value| *value = json!("x"));
        annotations
    };
    vec![
        ("keys of ours", none(), sent(&none(), ours())),
        ("short keys", none(), sent(&none(), short())),
        ("long keys", none(), sent(&none(), filled("x", 250, usize::MAX))),
        (
            "stored keys of ours",
            stored(ours()),
            sent(&stored(ours()), other(ours())),
        ),
        (
            "stored short keys",
            stored(short()),
            sent(&stored(short()), Map::new()),
        ),
        (
            "stored short keys removed",
            stored(short()),
            sent(&none(), Map::new()),
        ),
        (
            "stored short keys as they are",
            stored(short()),
            sent(&stored(short()), as_stored()),
        ),
    ]
}

/// Costs of a policy's expressions at the writes that it matches.
fn costs(program: &Path, policy: &Value) -> Vec<Row> {
    let rules = policy["spec"]["matchConstraints"]["resourceRules"].as_array();
    let resources = rules
        .expect("rules")
        .iter()
        .filter_map(|rule| rule["resources"].as_array());
    let is_of_status = resources.flatten().any(|resource| resource == "nodes/status");
    let users = [format!("{}n1", names::NODE_USER_PREFIX), "admin".to_owned()];
    let writes = users.iter().flat_map(|user| {
        let writes = writes().into_iter();
        writes.map(move |(name, old, new)| {
            let subresource = if is_of_status { "status" } else { "" };
            json!({"name": name, "user": user, "subresource": subresource, "object": new, "oldObject": old})
        })
    });
    let input = json!({"policies": [policy], "writes": writes.collect::<Vec<_>>()});
    let mut child = Command::new(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("run celcost");
    let mut stdin = child.stdin.take().expect("its input");
    stdin.write_all(input.to_string().as_bytes()).expect("write");
    drop(stdin);
    let output = child.wait_with_output().expect("its output");
    assert!(
        output.status.success(),
        "celcost fails on {}",
        policy["metadata"]["name"]
    );
    let text = String::from_utf8(output.stdout).expect("text");
    text.lines()
        .map(|line| serde_json::from_str(line).expect("a row"))
        .collect()
}

#[test]
fn policy_expressions_stay_far_below_their_cost_limit_on_worst_case_writes() {
    let built = controlplane::ensure(&[Component::CelCost]).expect("build celcost");
    let program = &built[&Component::CelCost].path;
    let policies = policies();
    assert!(policies.len() >= 3, "floor, revert and checks at least");
    let mut beyond = Vec::new();
    for policy in &policies {
        let rows = costs(program, policy);
        assert!(
            rows.iter().any(|row| row.expression.ends_with("together")),
            "{} matches nothing",
            policy["metadata"]["name"]
        );
        let most_expensive = rows
            .iter()
            .max_by_key(|row| row.cost * 100 / row.limit)
            .expect("a row");
        println!("{}", most_expensive.text());
        let is_beyond = |row: &Row| !row.error.is_empty() || row.cost * 100 > row.limit * USES_AT_MOST;
        beyond.extend(rows.iter().filter(|row| is_beyond(row)).map(Row::text));
    }
    assert!(beyond.is_empty(), "{beyond:#?}");
}
