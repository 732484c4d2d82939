//! Tests of mistakes: those of a profile skip it, and those of a pod refuse the pod.

use super::*;
use crate::pod_object::PlainPod;

/// Fault of a profile for pods.
fn fault(spec: &Value) -> Option<String> {
    KnownProfile::read(&spec.to_string(), None)
        .fault()
        .map(str::to_owned)
}

#[rstest]
#[case::label(json!({"labels": {"team": "my team!"}}), r#"spec.labels[team]: "my team!": a valid label must"#)]
#[case::long_label(json!({"labels": {"team": "x".repeat(64)}}), "spec.labels[team]: ")]
#[case::key(json!({"labels": {"a/b/c": "x"}}), r#"spec.labels: key "a/b/c": a valid label key"#)]
#[case::annotation_key(json!({"annotations": {"a b": "x"}}), r#"spec.annotations: key "a b": "#)]
#[case::mapping(json!({"labelKeysMapping": {"a": "not a key!"}}), r#"spec.labelKeysMapping: key "not a key!": "#)]
#[case::annotation_mapping(json!({"annotationKeysMapping": {"a": "/x"}}), r#"spec.annotationKeysMapping: key "/x": "#)]
#[case::suffix(json!({"labelSuffixes": {"team": "-"}}), r#"spec.labelSuffixes[team]: no value is valid with the suffix "-": "#)]
#[case::long_suffix(json!({"labelSuffixes": {"team": "x".repeat(63)}}), "spec.labelSuffixes[team]: no value is valid")]
#[case::suffix_of_own_label(json!({"labels": {"team": "x".repeat(60)}, "labelSuffixes": {"team": "-long"}}), "spec.labelSuffixes[team]: ")]
#[case::qos(json!({"qosClass": "my class"}), r#"spec.qosClass: "my class": "#)]
#[case::label_type(json!({"patch": {"metadata": {"labels": {"team": 7}}}}), "spec.patch.metadata.labels[team]: 7 is not a string")]
#[case::label_value(json!({"patch": {"metadata": {"labels": {"team": "a b"}}}}), r#"spec.patch.metadata.labels[team]: "a b": "#)]
#[case::annotation_type(json!({"patch": {"metadata": {"annotations": {"n": true}}}}), "spec.patch.metadata.annotations[n]: true is not a string")]
#[case::metadata(json!({"patch": {"metadata": "x"}}), r#"spec.patch.metadata: "x" is not an object"#)]
#[case::priority(json!({"patch": {"spec": {"priority": "5000"}}}), r#"spec.patch.spec.priority: "5000" is not a whole number"#)]
#[case::containers(json!({"patch": {"spec": {"containers": "oops"}}}), r#"spec.patch.spec.containers: "oops" is not a list"#)]
#[case::cpu(json!({"patch": {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "lots"}}}]}}}), r#"spec.patch.spec.containers[0].resources.requests[cpu]: "lots" is not a quantity"#)]
#[case::above_limit(json!({"patch": {"spec": {"initContainers": [{"name": "c", "resources": {"requests": {"cpu": 2}, "limits": {"cpu": "1500m"}}}]}}}), "spec.patch.spec.initContainers[0].resources.requests[cpu]: 2 is above the limit")]
#[case::overhead(json!({"patch": {"spec": {"overhead": {"cpu": "lots"}}}}), r#"spec.patch.spec.overhead[cpu]: "lots" is not a quantity"#)]
#[case::env(json!({"patch": {"spec": {"containers": [{"name": "c", "env": {"A": "b"}}]}}}), r#"spec.patch.spec.containers[0].env: {"A":"b"} is not a list"#)]
#[case::node_selector(json!({"patch": {"spec": {"nodeSelector": {"disk": "my disk"}}}}), r#"spec.patch.spec.nodeSelector[disk]: "my disk": "#)]
#[case::unnamed(json!({"patch": {"spec": {"containers": [{"image": "i"}]}}}), "spec.patch does not apply: spec.containers: an element has no name")]
#[case::unnamed_env(json!({"patch": {"spec": {"containers": [{"name": "c", "env": [{"value": "b"}]}]}}}), "spec.patch does not apply: spec.containers.env: an element has no name")]
#[case::directive(json!({"patch": {"spec": {"$patch": "merge"}}}), "spec.patch does not apply: spec: $patch can only be replace or delete")]
#[case::replaced(json!({"patch": {"spec": {"securityContext": {"$patch": "replace", "runAsUser": "root"}}}}), r#"spec.patch.spec.securityContext.runAsUser: "root" is not a whole number"#)]
#[case::no_spec(json!({"patch": {"spec": null}}), "spec.patch.spec: a pod cannot be without it")]
#[case::no_containers(json!({"patch": {"spec": {"containers": null}}}), "spec.patch.spec.containers: a pod cannot be without it")]
#[case::many_containers(json!({"patch": {"spec": {"containers": (0..257).map(|at| json!({"name": at.to_string()})).collect::<Vec<_>>()}}}), "spec.patch.spec: more than 256 containers")]
#[case::many_values(json!({"patch": {"spec": {"containers": [{"name": "c", "args": vec!["x"; 4_100]}]}}}), "spec.patch: contains more than 4096 values")]
fn a_constant_mistake_is_found_when_the_profile_is_read(#[case] spec: Value, #[case] expected: &str) {
    let fault = fault(&spec).expect("a fault");
    assert!(fault.starts_with(expected), "{fault}");
    assert!(fault.len() < 1_000, "{fault}");
}

#[rstest]
#[case(json!({"labels": {"example.com/Team": ""}, "annotations": {"Example.com/x": "any text!"}, "labelSuffixes": {"team": "-v1.0"}}))]
#[case(json!({"labelKeysMapping": {"not a key!": "ok"}, "annotationKeysMapping": {"?": "a/b"}}))]
#[case(json!({"patch": {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"a": null}}, "spec": {"priority": 5000, "x": 1}}}))]
#[case(json!({"patch": {"spec": {"containers": [{"name": "c", "env": [{"name": "A", "value": "b"}, {"name": "B", "$patch": "delete"}], "resources": {"limits": {"cpu": 1, "memory": "1Gi"}}}], "tolerations": [{"operator": "Exists"}]}}}))]
#[case(json!({"patch": {"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}], "volumes": [{"$retainKeys": ["name", "emptyDir"], "name": "v", "emptyDir": {"sizeLimit": "1Gi"}}]}}}))]
fn a_profile_without_mistakes_has_no_fault(#[case] spec: Value) {
    assert_eq!(fault(&spec), None);
}

#[test]
fn a_patch_that_fits_no_pod_may_fit_a_reservation() {
    let profile = compile(&json!({"patch": {"spec": {"containers": "oops"}}}));
    assert!(profile.defect(ProfileTarget::Pod).is_some());
    assert!(profile.defect(ProfileTarget::Reservation).is_none());
    let profile = compile(&json!({"patch": {"metadata": {"labels": {"a": 7}}}}));
    assert!(profile.defect(ProfileTarget::Reservation).is_some());
}

/// The pod and its warnings after all profiles, or the reason why it is refused.
fn reviewed(profiles: &[(&str, Value)], pod: &Value) -> Result<(Value, Vec<String>), ProfileStop> {
    let class = Arc::new(PriorityClass {
        value: 5_000,
        preemption_policy: None,
    });
    let known = profiles.iter().map(|(name, spec)| {
        let known = KnownProfile::read(&spec.to_string(), None);
        ((*name).into(), Arc::new(known))
    });
    let switches = ours();
    let rules = ProfileRules {
        profiles: &known.collect(),
        class: &|name| (name == "batch").then(|| Arc::clone(&class)),
        switches: &switches,
    };
    let created = CreatedObject {
        target: ProfileTarget::Pod,
        review: None,
        namespace: "ns",
        labels: serde_json::from_value(pod["metadata"]["labels"].clone()).unwrap_or_default(),
        namespace_labels: None,
    };
    let mut pod = PlainPod::new(pod.clone());
    rules.review(&created, &mut pod)?;
    Ok((pod.object, pod.warnings))
}

fn pod() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "namespace": "ns", "labels": {"team": "web"}},
        "spec": {"priority": 0, "containers": [{"name": "c", "image": "i"}]},
    })
}

#[rstest]
#[case::name(json!({"metadata": {"name": "x"}}), "spec.patch changes metadata.name")]
#[case::namespace(json!({"metadata": {"namespace": "x"}}), "spec.patch changes metadata.namespace")]
#[case::kind(json!({"kind": "Job"}), "spec.patch changes kind")]
#[case::whole(json!({"$patch": "delete"}), "spec.patch changes apiVersion")]
#[case::overhead(json!({"spec": {"overhead": {"cpu": "1"}}}), "spec.patch changes spec.overhead")]
#[case::no_containers(json!({"spec": {"containers": [{"$patch": "replace"}]}}), "spec.patch leaves the pod without containers")]
#[case::priority(json!({"spec": {"priority": 5000}}), "spec.patch writes priorityClassName, priority or preemptionPolicy")]
#[case::class(json!({"spec": {"priorityClassName": "batch"}}), "spec.patch writes priorityClassName, priority or preemptionPolicy")]
#[case::unknown_class(json!({"spec": {"priorityClassName": "none", "priority": 5000}}), "spec.patch writes priorityClassName")]
fn a_patch_that_the_api_server_would_refuse_skips_its_profile(#[case] patch: Value, #[case] reason: &str) {
    let profiles = [
        ("a", json!({"labels": {"x": "1"}, "patch": patch})),
        ("b", json!({"labels": {"y": "1"}})),
    ];
    let (after, warnings) = reviewed(&profiles, &pod()).unwrap();
    let mut expected = pod();
    expected["metadata"]["labels"]["y"] = json!("1");
    assert_eq!(after, expected);
    let [warning] = warnings.as_slice() else {
        panic!("{warnings:?}");
    };
    let start = format!("colocation profile a was not applied: {reason}");
    assert!(warning.starts_with(&start), "{warning}");
}

#[rstest]
#[case::unchanged(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "ns"}, "spec": {"priority": 0}}))]
#[case::one_class(json!({"spec": {"priorityClassName": "batch", "priority": 5000, "preemptionPolicy": null}}))]
fn a_patch_may_repeat_fields_and_write_a_whole_class(#[case] patch: Value) {
    let (_, warnings) = reviewed(&[("a", json!({"patch": patch}))], &pod()).unwrap();
    assert_eq!(warnings, Vec::<String>::new());
}

#[rstest]
#[case::long(json!({"labels": {"team": "x".repeat(62)}}), json!({"labelSuffixes": {"team": "-x"}}), "metadata.labels[team]: Forbidden: colocation profile \"must\" cannot be applied: label team would be longer than 63 bytes with its suffix")]
#[case::empty(json!({"labels": {"team": ""}}), json!({"labelSuffixes": {"team": "-x"}}), "metadata.labels[team]: Forbidden: colocation profile \"must\" cannot be applied: label team would be \"-x\" with its suffix: ")]
#[case::copied(json!({"labels": {"team": "x".repeat(62)}}), json!({"labelKeysMapping": {"team": "unit"}, "labelSuffixes": {"unit": "-x"}}), "metadata.labels[unit]: ")]
#[case::annotations(json!({"annotations": {"big": "x".repeat(200 << 10)}}), json!({"annotationKeysMapping": {"big": "one", "small": "two"}}), "")]
fn a_pod_cannot_shake_off_a_profile(#[case] metadata: Value, #[case] spec: Value, #[case] refusal: &str) {
    let mut pod = pod();
    pod["metadata"] = metadata;
    let result = reviewed(&[("must", spec)], &pod);
    match result {
        Err(ProfileStop::Object(error)) if !refusal.is_empty() => {
            assert!(error.to_string().starts_with(refusal), "{error}");
        }
        // One copy of the annotation is within the limit.
        Ok((_, warnings)) if refusal.is_empty() => assert_eq!(warnings, Vec::<String>::new()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_unnamed_element_of_the_pod_refuses_the_pod() {
    let spec = json!({"patch": {"spec": {"imagePullSecrets": [{"name": "ours"}]}}});
    let mut pod = pod();
    pod["spec"]["imagePullSecrets"] = json!([{}]);
    let Err(ProfileStop::Object(error)) = reviewed(&[("must", spec)], &pod) else {
        panic!("the pod is refused");
    };
    assert_eq!(error.field(), "spec.imagePullSecrets");
}

#[test]
fn two_profiles_that_do_not_go_together_are_the_fault_of_profiles() {
    let profiles = [
        ("a", json!({"labels": {"unit": "x".repeat(62)}})),
        (
            "b",
            json!({"labelSuffixes": {"unit": "-x"}, "labels": {"y": "1"}}),
        ),
    ];
    let (after, warnings) = reviewed(&profiles, &pod()).unwrap();
    assert_eq!(after["metadata"]["labels"]["unit"], json!("x".repeat(62)));
    assert_eq!(after["metadata"]["labels"].get("y"), None);
    assert_eq!(
        warnings,
        ["colocation profile b was not applied: label unit would be longer than 63 bytes with its suffix"]
    );
}

#[test]
fn suffixes_of_two_profiles_on_a_label_of_the_pod_refuse_the_pod() {
    let profiles = [
        ("a", json!({"labelSuffixes": {"team": "-a"}})),
        ("b", json!({"labelSuffixes": {"team": "-b"}})),
    ];
    let mut pod = pod();
    pod["metadata"]["labels"]["team"] = json!("x".repeat(61));
    let refused = reviewed(&profiles, &pod).unwrap_err();
    assert!(refused.to_string().contains("profile \"b\""), "{refused}");
}

proptest! {
    /// A patch that passes the check when it is read keeps the types of every pod.
    #[test]
    fn a_checked_patch_keeps_the_types_of_a_pod(
        pod in prop::collection::vec((place(), value()), 0..6),
        patch in prop::collection::vec((place(), value()), 0..6),
    ) {
        let object = |writes: Vec<([&'static str; 2], Value)>| {
            let mut object = json!({"metadata": {}, "spec": {}});
            for ([outer, inner], value) in writes {
                object[outer][inner] = value;
            }
            object
        };
        let (before, patch) = (object(pod), object(patch));
        let path = headroom_domain::field::Path::new("pod");
        let is_typed = |pod: &Value| crate::pod_types::check_pod(pod.as_object().unwrap(), &path).is_ok();
        let profile = compile(&json!({"patch": patch}));
        if is_typed(&before) && profile.defect(ProfileTarget::Pod).is_none() {
            let mut after = before.clone();
            if profile.apply(&mut after, ProfileTarget::Pod, &|_| None, &ours()).is_ok() {
                prop_assert!(is_typed(&after), "{} with {}: {}", before, patch, after);
            }
        }
    }
}

fn place() -> impl Strategy<Value = [&'static str; 2]> {
    prop::sample::select(vec![
        ["metadata", "labels"],
        ["metadata", "finalizers"],
        ["spec", "containers"],
        ["spec", "nodeSelector"],
        ["spec", "tolerations"],
        ["spec", "hostNetwork"],
        ["spec", "securityContext"],
    ])
}

fn value() -> impl Strategy<Value = Value> {
    prop::sample::select(vec![
        json!({"a": "b"}),
        json!({"a": 7}),
        json!({"a": null, "b": "c"}),
        json!({"$patch": "replace", "a": "c"}),
        json!(["a"]),
        json!([{"name": "a", "image": "i"}]),
        json!([{"name": "a", "env": [{"name": "X", "value": "y"}]}]),
        json!([{"name": "a", "env": {"X": "y"}}]),
        json!([{"name": "a", "$patch": "delete"}]),
        json!([{"key": "a"}]),
        json!(true),
        json!("text"),
        json!({"runAsUser": 1}),
        json!({"runAsUser": "root"}),
        json!({"$patch": "replace", "runAsUser": "root"}),
    ])
}
