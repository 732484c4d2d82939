//! Tests of the forms in which kubectl prints and accepts objects.

use headroom_rules::slo::Nodes as _;
use rstest::rstest;

use super::*;

fn manifest(text: &str) -> Manifest<'_> {
    Manifest::parse(Path::new("file"), text).unwrap()
}

const YAML: &str = "apiVersion: v1
kind: ConfigMap
metadata:
  name: slo-controller-config
  namespace: koordinator-system
data:
  system-config: |
    {\"clusterStrategy\": {}}
  colocation-config: '{}'
";

#[rstest]
#[case::yaml(YAML.to_owned())]
#[case::no_namespace(YAML.replace("  namespace: koordinator-system\n", ""))]
#[case::documents(format!("kind: Secret\ndata: [1]\n---\n# nothing\n---\n{YAML}---\nkind: ConfigMap\nmetadata: {{name: other}}\n"))]
#[case::other_namespace(format!("{YAML}---\n{}", YAML.replace("koordinator-system", "default")))]
#[case::list(format!("kind: List\nitems:\n- kind: Node\n  metadata: null\n- {}", YAML.trim().replace('\n', "\n  ")))]
#[case::list_of_a_kind(format!("kind: ConfigMapList\nitems:\n- {}", YAML.replace("kind: ConfigMap\n", "").trim().replace('\n', "\n  ")))]
#[case::json(r#"{"kind":"ConfigMap","metadata":{"name":"slo-controller-config"},"data":{"system-config":"{\"clusterStrategy\": {}}\n","colocation-config":"{}"}}"#.to_owned())]
#[case::flow_yaml(r#"{kind: ConfigMap, metadata: {name: slo-controller-config}, data: {system-config: "{\"clusterStrategy\": {}}\n", colocation-config: "{}"}}"#.to_owned())]
fn the_config_map_is_found(#[case] text: String) {
    let data = manifest(&text).config_map(&ConfigMapName::default()).unwrap();
    let texts: Vec<(&str, &str)> = data
        .iter()
        .map(|(key, text)| (key.as_str(), text.as_str()))
        .collect();
    assert_eq!(
        texts,
        [
            ("colocation-config", "{}"),
            ("system-config", "{\"clusterStrategy\": {}}\n")
        ]
    );
}

#[rstest]
#[case("", "nothing")]
#[case("kind: Secret\nmetadata: {name: a}", "Secret a")]
#[case(
    "metadata: {name: slo-controller-config}",
    "an object without kind slo-controller-config"
)]
#[case("kind: List\nitems: []", "nothing")]
fn other_objects_in_the_file_are_named(#[case] text: &str, #[case] found: &str) {
    let error = manifest(text).config_map(&ConfigMapName::default()).unwrap_err();
    let held = format!("; it contains {found}");
    assert!(error.to_string().ends_with(&held), "{error}");
}

#[rstest]
#[case("data: {a: 1}", "data[a] is not a string")]
#[case("data: {a: true}", "data[a] is not a string")]
#[case("data: {a: {b: c}}", "data[a] is not a string")]
#[case("data: [a]", "data[] is not a string")]
fn values_that_are_not_strings_are_refused(#[case] data: &str, #[case] reason: &str) {
    let text = format!("kind: ConfigMap\nmetadata: {{name: slo-controller-config}}\n{data}\n");
    let error = manifest(&text).config_map(&ConfigMapName::default()).unwrap_err();
    assert!(error.to_string().contains(reason), "{error}");
}

#[test]
fn a_config_map_without_data_is_empty() {
    for data in ["", "data:\n", "data: {}\n", "binaryData: {a: YQ==}\n"] {
        let text = format!("kind: ConfigMap\nmetadata: {{name: slo-controller-config}}\n{data}");
        assert!(
            manifest(&text)
                .config_map(&ConfigMapName::default())
                .unwrap()
                .is_empty()
        );
    }
}

#[test]
fn nodes_are_found_with_their_labels() {
    let text = "kind: NodeList\nitems:\n- metadata:\n    name: a\n    labels: {pool: x, gpu: \"true\"}\n- metadata: {name: b}\n";
    let nodes = manifest(text).nodes().unwrap();
    let mut seen = Vec::new();
    nodes.visit(&mut |name, labels| seen.push(format!("{name} {labels:?}")));
    assert_eq!(seen, [r#"a {"gpu": "true", "pool": "x"}"#, "b {}"]);
    assert!(manifest(YAML).nodes().is_err());
}

#[test]
fn many_nodes_in_yaml_are_read() {
    let node = |number: usize| {
        format!(
            "- kind: Node\n  metadata:\n    name: n{number}\n    labels:\n      pool: p\n  status: {{a: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50]}}\n"
        )
    };
    let text: String = (0..5000).map(node).collect();
    let text = format!("kind: List\nitems:\n{text}");
    assert_eq!(manifest(&text).nodes().unwrap().len(), 5000);
}
