//! Tests of `pod explain`: files, replicas, pages, errors.

use headroom_proto::v1alpha1::{FieldWrite, PodDecision, ProfileVerdict};
use insta::assert_snapshot;
use rstest::rstest;
use serde_json::Value;

use super::*;

const POD: &str = "\
apiVersion: v1
kind: Pod
metadata: {name: web-0, namespace: shop, labels: {app: web}}
spec:
  containers:
  - {name: main, image: i, resources: {requests: {cpu: '1', memory: 1Gi}, limits: {cpu: '2', memory: 1Gi}}}
";

const CLUSTER: &str = r#"
apiVersion: v1
kind: List
items:
- apiVersion: config.koordinator.sh/v1alpha1
  kind: ClusterColocationProfile
  metadata: {name: a-batch}
  spec:
    selector: {matchLabels: {app: web}}
    qosClass: BE
    priorityClassName: koord-batch
    koordinatorPriority: 1000
    schedulerName: koord-scheduler
    labels: {"example.com/team": blue}
    patch: {spec: {terminationGracePeriodSeconds: 30}}
- kind: ClusterColocationProfile
  metadata: {name: b-gpu}
  spec: {selector: {matchExpressions: [{key: gpu, operator: In, values: [a100, h100]}]}}
- kind: ClusterColocationProfile
  metadata: {name: c-production}
  spec: {namespaceSelector: {matchLabels: {env: production}}, labels: {x: y}}
- kind: ClusterColocationProfile
  metadata: {name: d-broken}
  spec: {selector: {matchExpressions: [{key: a, operator: Unequal}]}}
- kind: ClusterColocationProfile
  metadata: {name: e-classless}
  spec: {selector: {matchLabels: {app: web}}, priorityClassName: nowhere}
- kind: ClusterColocationProfile
  metadata: {name: f-seldom}
  spec: {selector: {matchLabels: {app: web}}, probability: 30%, annotations: {seldom: "true"}}
- kind: PriorityClass
  metadata: {name: koord-batch}
  value: 5500
- kind: Namespace
  metadata: {name: shop, labels: {env: test}}
"#;

/// Files; `@NAME` in a command stands for the path of that file.
struct PodFiles(TempDir);

impl PodFiles {
    fn new() -> Self {
        let files = Self(tempfile::tempdir().unwrap());
        files.write("pod", POD);
        files.write("cluster", CLUSTER);
        files
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.path().join(name), text).unwrap();
    }

    async fn run(&self, command: &str) -> Result<String, String> {
        let folder = format!("{}/", self.0.path().display());
        let words = command.split(' ').map(|word| match word.strip_prefix('@') {
            Some(name) => format!("{folder}{name}"),
            None => word.to_owned(),
        });
        let args = Args::try_parse_from(["kubectl-headroom".to_owned()].into_iter().chain(words)).unwrap();
        let mut out = Vec::new();
        let ended = run(args, &mut Screen::plain(&mut out)).await;
        let words = |error: Error| headroom_kit::log::chain(&error).to_string().replace(&folder, "");
        ended.map_err(words).map(|()| String::from_utf8(out).unwrap())
    }
}

#[tokio::test]
async fn a_pod_in_a_file_is_explained_by_profiles_in_files() {
    let files = PodFiles::new();
    assert_snapshot!(
        files
            .run("pod explain -f @pod --profiles @cluster")
            .await
            .unwrap()
    );
    let json = files
        .run("pod explain -f @pod --profiles @cluster -o json")
        .await
        .unwrap();
    let json: Value = serde_json::from_str(&json).unwrap();
    let decision = &json["decisions"][0];
    assert_eq!(
        (&json["pod"], &json["replicas"]),
        (&"shop/web-0".into(), &Value::Null)
    );
    assert_eq!(json["missing"], serde_json::json!(["PriorityClass nowhere"]));
    assert_eq!(
        decision["profiles"][0],
        serde_json::json!({"name": "a-batch", "result": "applied", "reason": ""})
    );
    let writes = decision["writes"].as_array().unwrap();
    let of = |path: &str| writes.iter().find(|write| write["path"] == path).unwrap().clone();
    let class = serde_json::json!({"path": "spec.priorityClassName", "value": "\"koord-batch\"", "by": "profile a-batch"});
    assert_eq!(of("spec.priorityClassName"), class);
    assert_eq!(
        of("spec.containers[0].resources.requests.cpu")["value"],
        Value::Null
    );
}

#[tokio::test]
async fn a_namespace_without_a_file_is_missing() {
    let files = PodFiles::new();
    files.write("pod", &POD.replace("shop", "other"));
    let text = files
        .run("pod explain -f @pod --profiles @cluster")
        .await
        .unwrap();
    assert!(text.contains("missing: Namespace other; "), "{text}");
}

#[tokio::test]
async fn switches_and_several_pods_and_files_are_supported() {
    let files = PodFiles::new();
    files.write("pod", &format!("{POD}---\n{}", POD.replace("web-0", "web-1")));
    let (profiles, rest) = CLUSTER.split_once("- kind: PriorityClass").unwrap();
    files.write("profiles", profiles);
    files.write(
        "rest",
        &format!("kind: List\nitems:\n- kind: PriorityClass{rest}"),
    );
    let text = files
        .run("pod explain -f @pod --profiles @profiles @rest")
        .await
        .unwrap();
    assert!(
        text.contains("pod shop/web-0") && text.contains("\npod shop/web-1"),
        "{text}"
    );
    let failed = files
        .run("pod explain -f @pod --profiles @cluster --switches ProfileFailuresSkip=false")
        .await
        .unwrap();
    assert!(failed.contains("mutate-pod CREATE: failed\n"), "{failed}");
    assert!(
        failed.contains("colocation profile \"e-classless\" cannot be applied"),
        "{failed}"
    );
}

#[rstest]
#[case::no_profiles(
    "-f @pod",
    "no file contains a ClusterColocationProfile; pass those of the cluster with --profiles "
)]
#[case::no_file(
    "-f @none --profiles @cluster",
    "cannot read none: No such file or directory (os error 2)"
)]
#[case::no_pod(
    "-f @cluster --profiles @cluster",
    "cluster contains no Pod; it contains ClusterColocationProfile, "
)]
#[case::syntax("-f @bad --profiles @cluster", "bad is not YAML or JSON: ")]
#[case::twice(
    "-f @pod --profiles @cluster @cluster",
    "cluster: ClusterColocationProfile a-batch is defined twice"
)]
#[case::labels(
    "-f @labels --profiles @cluster",
    "labels: Pod p: metadata.labels: invalid value {\"a\":1}: "
)]
#[case::class(
    "-f @pod --profiles @class",
    "class: PriorityClass c: value: invalid value \"high\": must be a 32-bit integer"
)]
#[case::nameless(
    "-f @pod --profiles @nameless",
    "nameless: ClusterColocationProfile: metadata.name: invalid value null: a name is required"
)]
#[case::input("-f - --profiles -", "standard input (-) is given twice; ")]
#[case::switch("-f @pod --profiles @cluster --switches No=true", "unknown switch \"No\"")]
#[tokio::test]
async fn unusable_input_is_an_error_of_one_line(#[case] command: &str, #[case] reason: &str) {
    let files = PodFiles::new();
    files.write("bad", "a: [\n");
    files.write("labels", "{kind: Pod, metadata: {name: p, labels: {a: 1}}}");
    files.write("class", "{kind: PriorityClass, metadata: {name: c}, value: high}");
    files.write("nameless", "{kind: ClusterColocationProfile, spec: {}}");
    let error = files.run(&format!("pod explain {command}")).await.unwrap_err();
    assert!(error.starts_with(reason), "{error}");
}

#[test]
fn a_pod_and_a_file_exclude_each_other() {
    for wrong in [
        "pod explain",
        "pod explain web",
        "pod explain a/b -f x",
        "pod explain a/b --profiles x",
    ] {
        let words = ["kubectl-headroom"].into_iter().chain(wrong.split(' '));
        assert_eq!(Args::try_parse_from(words).unwrap_err().exit_code(), 2, "{wrong}");
    }
}

fn decision(at_ms: u64) -> PodDecision {
    PodDecision {
        at_ms,
        endpoint: "mutate-pod".to_owned(),
        operation: "CREATE".to_owned(),
        namespace: "shop".to_owned(),
        generate_name: "web-".to_owned(),
        review: format!("r{at_ms}"),
        outcome: "allowed".to_owned(),
        profiles: vec![ProfileVerdict {
            name: "a-\u{1b}[2J".to_owned(),
            result: "other-labels".to_owned(),
            reason: "spec.selector: label \"app\" is absent and must be \"web\"".to_owned(),
        }],
        writes: vec![FieldWrite {
            path: "metadata.labels.a".to_owned(),
            value: None,
            writer: "profile p".to_owned(),
        }],
        ..PodDecision::default()
    }
}

#[tokio::test]
async fn decisions_of_replicas_are_printed_newest_first() {
    let webhook = Running::start().await;
    let denied = PodDecision {
        endpoint: "validate-pod".to_owned(),
        name: "web-x7k2p".to_owned(),
        outcome: "denied".to_owned(),
        dry_run: true,
        reasons: vec!["spec.priority: Required value: must be specified".to_owned()],
        profiles: Vec::new(),
        writes: Vec::new(),
        ..decision(1_764_000_002_000)
    };
    *webhook.decisions.lock().unwrap() = ListPodDecisionsResponse {
        replica: "webhook-a".to_owned(),
        decisions: vec![decision(1_764_000_000_000), denied],
        left_out: 3,
        kept: 7,
        oldest_ms: Some(1_763_999_999_000),
    };
    assert_snapshot!(webhook.ask(&["pod", "explain", "shop/web-x7k2p"]).await.unwrap());
    let json = webhook
        .ask(&["pod", "explain", "shop/web-x7k2p", "-o", "json"])
        .await
        .unwrap();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["decisions"][1]["review"], "r1764000000000");
    assert_eq!(json["replicas"][0]["kept"], 7);
}

#[tokio::test]
async fn a_pod_without_a_kept_review_is_an_error() {
    let webhook = Running::start().await;
    webhook.decisions.lock().unwrap().replica = "webhook-a".to_owned();
    let error = webhook.ask(&["pod", "explain", "shop/web"]).await.unwrap_err();
    assert_eq!(error.exit_code(), 1);
    let text = error.to_string();
    assert!(
        text.contains("pod shop/web") && text.ends_with(": replica webhook-a keeps 0"),
        "{text}"
    );
}
