//! Tests that strategic merges of patches into pod templates equal a real API server's results: each pair is merged
//! here and sent there as a PATCH of a `PodTemplate`.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests panic: a returned error has no stack"
)]

use e2e::{random::Draw as _, stand::Stand};
use headroom_rules::merge::{self, POD, Patch as Merge};
use headroom_testbed::cluster::ClusterOptions;
use k8s_openapi::api::core::v1::PodTemplate;
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;
use serde_json::{Map, Value, json};

/// Pairs that both must have merged.
const MERGES: usize = 200;
/// Pairs that are tried: the API server refuses results that are no pod.
const TRIES: usize = 400;

/// Members of a map, and in a patch with `null`.
fn texts(random: &mut ChaCha8Rng, is_patch: bool) -> Value {
    let members = random.words().into_iter().map(|word| {
        let value = if is_patch && random_null(word) {
            Value::Null
        } else {
            word.into()
        };
        (word.to_owned(), value)
    });
    members.collect::<Map<_, _>>().into()
}

/// Random decision to remove a member: true for one word in five.
fn random_null(word: &str) -> bool {
    word == "c"
}

/// A container as the API server takes one; in a patch it may be taken away.
fn container(random: &mut ChaCha8Rng, word: &str, is_patch: bool) -> Value {
    if is_patch && random.is_one_in(8) {
        return json!({"name": word, "$patch": "delete"});
    }
    let mut container = json!({"name": word, "image": random.word()});
    if random.is_one_in(2) {
        container["command"] = json!(random.words());
    }
    if random.is_one_in(2) {
        container["env"] = list(
            random,
            is_patch,
            |random, word| json!({"name": word, "value": random.word()}),
        );
    }
    if random.is_one_in(2) {
        container["ports"] = list(random, is_patch, |random, word| {
            let port = 8_000 + u32::from(word.as_bytes()[0]);
            let protocol = ["TCP", "UDP"][random.below(2)];
            json!({"containerPort": port, "name": format!("p-{word}"), "protocol": protocol})
        });
    }
    if random.is_one_in(2) {
        let cpu = 1 + random.below(4);
        container["resources"] =
            json!({"requests": {"cpu": cpu.to_string()}, "limits": {"cpu": (cpu + 1).to_string()}});
    }
    container
}

/// A list with an element for some words; in a patch sometimes with the order of its elements.
fn list(
    random: &mut ChaCha8Rng,
    is_patch: bool,
    mut element: impl FnMut(&mut ChaCha8Rng, &'static str) -> Value,
) -> Value {
    let words = random.words();
    let elements: Vec<Value> = words.into_iter().map(|word| element(random, word)).collect();
    if is_patch && random.is_one_in(10) {
        Value::Null
    } else {
        elements.into()
    }
}

/// The order of the elements that stay, as kubectl writes it, before one that the patch does not have.
fn order(elements: &Value) -> Value {
    let elements = elements.as_array().map(Vec::as_slice).unwrap_or_default();
    let kept = elements.iter().filter(|element| element.get("$patch").is_none());
    kept.rev()
        .map(|element| json!({"name": element["name"]}))
        .collect()
}

fn volume(random: &mut ChaCha8Rng, word: &str, is_patch: bool) -> Value {
    let (source, content) = [
        ("emptyDir", json!({})),
        ("hostPath", json!({"path": "/x"})),
        ("configMap", json!({"name": "x"})),
    ][random.below(3)]
    .clone();
    let mut volume = json!({"name": word, source: content});
    if is_patch {
        // As kubectl writes it, so that the other source is removed.
        volume["$retainKeys"] = json!(["name", source]);
    }
    volume
}

/// A template, or a patch of one.
fn template(random: &mut ChaCha8Rng, is_patch: bool) -> Value {
    let mut containers: Vec<Value> = Vec::new();
    for word in random.words() {
        containers.push(container(random, word, is_patch));
    }
    if !is_patch && containers.is_empty() {
        containers.push(container(random, "a", false));
    }
    let containers = Value::from(containers);
    let mut spec = json!({"nodeSelector": texts(random, is_patch)});
    if is_patch && random.is_one_in(3) {
        spec["$setElementOrder/containers"] = order(&containers);
    }
    spec["containers"] = containers;
    spec["volumes"] = list(random, is_patch, |random, word| volume(random, word, is_patch));
    spec["imagePullSecrets"] = list(random, is_patch, |_, word| json!({"name": word}));
    spec["tolerations"] = list(
        random,
        is_patch,
        |_, word| json!({"key": word, "operator": "Exists"}),
    );
    spec["hostAliases"] = list(
        random,
        is_patch,
        |_, word| json!({"ip": format!("10.0.0.{}", word.as_bytes()[0]), "hostnames": [word]}),
    );
    if random.is_one_in(2) {
        spec["terminationGracePeriodSeconds"] = json!(random.below(60));
    }
    json!({"metadata": {"labels": texts(random, is_patch), "annotations": texts(random, is_patch)}, "spec": spec})
}

/// A `PodTemplate` with that template.
fn object(template: &Value) -> Option<PodTemplate> {
    serde_json::from_value(json!({"metadata": {"generateName": "t-"}, "template": template})).ok()
}

/// The template of an object as JSON, with the API server's defaults.
fn template_of(object: &PodTemplate) -> Value {
    let object = serde_json::to_value(object).expect("JSON");
    object["template"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn merged_pod_templates_equal_the_api_servers_results() {
    let stand = Stand::start_with(ClusterOptions::default()).await;
    let templates: Api<PodTemplate> = Api::namespaced(stand.client.clone(), "default");
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let dry_patch = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    let mut random = ChaCha8Rng::seed_from_u64(11);
    let (mut merges, mut changes) = (0, 0);
    for _ in 0..TRIES {
        let (before, patch) = (template(&mut random, false), template(&mut random, true));
        let before = object(&before).expect("a template");
        let stored = templates
            .create(&PostParams::default(), &before)
            .await
            .expect("a valid template");
        let name = stored.metadata.name.as_deref().expect("a name");
        let stored = template_of(&stored);
        let patched = Patch::Strategic(json!({"template": patch}));
        let theirs = templates.patch(name, &dry_patch, &patched).await;
        let ours = Merge::new(patch.clone()).expect("a patch");
        let ours = merge::merged(stored.clone(), &ours, &POD).ok();
        // The API server sets defaults in the result, and may reject it as an invalid pod.
        let ours = match ours.as_ref().and_then(object) {
            Some(object) => templates.create(&dry, &object).await.ok(),
            None => None,
        };
        match (theirs.ok(), ours) {
            (Some(theirs), Some(ours)) => {
                assert_eq!(template_of(&ours), template_of(&theirs), "{patch} into {stored}");
                merges += 1;
                changes += usize::from(template_of(&theirs) != stored);
            }
            (None, None) => {}
            (theirs, ours) => {
                let takes = [theirs.is_some(), ours.is_some()];
                unreachable!("one of the two is no pod, {takes:?}: {patch} into {stored}");
            }
        }
        if merges == MERGES {
            break;
        }
    }
    assert_eq!(merges, MERGES);
    assert!(changes >= MERGES / 2, "{changes} of {merges} changed something");
}
