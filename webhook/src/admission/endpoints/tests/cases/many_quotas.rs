//! Trees as wide and as deep as users may write them: an answer names field and value, and is quick.

use std::collections::BTreeMap;

use super::{
    quotas::{QuotaNotes, known_quotas},
    *,
};

const MANY: usize = 20_000;
/// Maximum time of an answer without optimization.
const LONGEST: Duration = Duration::from_secs(2);

fn quota(name: &str, parent: &str, min: u32) -> QuotaNotes {
    let notes = json!({
        "name": name, "labels": {"parent": parent, "is-parent": "true"},
        "min": {"cpu": min, "memory": "1Gi"}, "max": {"cpu": 1_000_000, "memory": "1Ti"},
    });
    serde_json::from_value(notes).expect("a quota")
}

/// The message of the answer to a new quota, and how long it took.
fn refusal(known: &[QuotaNotes], name: &str, parent: &str, labels: &Value) -> (Option<String>, Duration) {
    let mut object = json!({
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota",
        "metadata": {"name": name, "namespace": "kube-system", "labels": {
            "quota.scheduling.koordinator.sh/parent": parent, "quota.scheduling.koordinator.sh/is-parent": "true",
        }},
        "spec": {"min": {"cpu": 1, "memory": "1Gi"}, "max": {"cpu": 1_000_000, "memory": "1Ti"}},
    });
    merge(&mut object["metadata"]["labels"], labels);
    let router = Router::new(Options {
        stores: Stores {
            quotas: Arc::new(known_quotas(known, &[], &BTreeMap::new())),
            known: world::known(),
            ..Stores::default()
        },
        ..options(FixtureCluster::default())
    });
    let path = "/validate-scheduling-sigs-k8s-io-v1alpha1-elasticquota";
    let endpoint = router.endpoint(path).expect("the endpoint");
    let review = ReviewBuilder::create("elasticquotas", &object).build();
    let began = Instant::now();
    let answer = router.answer(
        endpoint,
        review.as_bytes(),
        Deadline::after(began, Duration::from_secs(60)),
    );
    let took = began.elapsed();
    let body: Value = serde_json::from_slice(&answer.body).expect("a verdict");
    let message = body["response"]["status"]["message"].as_str();
    (message.map(str::to_owned), took)
}

#[test]
fn a_parent_of_twenty_thousand_quotas_has_an_answer_soon() {
    let children = (0..MANY).map(|number| quota(&format!("q{number}"), "wide", 1));
    let known: Vec<QuotaNotes> = [quota("wide", "koordinator-root-quota", 20_000)]
        .into_iter()
        .chain(children)
        .collect();
    let (message, took) = refusal(&known, "more", "wide", &json!({}));
    let expected = "checkMinQuotaSum all brothers' MinQuota > parent MinQuota, parent: wide";
    assert_eq!(message.as_deref(), Some(expected));
    assert!(took < LONGEST, "{took:?}");
    let (message, took) = refusal(&known, "first", "koordinator-root-quota", &json!({}));
    assert_eq!(message, None);
    assert!(
        took < LONGEST / 10,
        "what has no brothers does not wait for them: {took:?}"
    );
}

#[test]
fn a_tree_has_sixty_four_levels_at_most() {
    let mut known = vec![quota("l1", "koordinator-root-quota", 1)];
    known.extend((2..=64).map(|level| quota(&format!("l{level}"), &format!("l{}", level - 1), 1)));
    known.push(quota("free", "l62", 0));
    let force = json!({"quota.scheduling.koordinator.sh/allow-force-update": "true"});
    let (message, _) = refusal(&known, "l65", "l64", &force);
    assert_eq!(
        message.as_deref(),
        Some("l65 has parentName l64 but a tree has at most 64 levels")
    );
    assert_eq!(refusal(&known, "beside", "l63", &force).0, None);
}

#[test]
fn a_cycle_that_somebody_stored_ends_no_answer() {
    let known = [quota("a", "b", 5), quota("b", "c", 5), quota("c", "b", 5)];
    let (message, took) = refusal(
        &known,
        "below",
        "a",
        &json!({"quota.scheduling.koordinator.sh/is-root": "true"}),
    );
    assert_eq!(message, None, "its own place is no cycle");
    assert!(took < LONGEST, "{took:?}");
}
