//! Tests of strategic merges: lists and their order, directives, `null`, and unknown members.

use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

use super::*;

fn merge(object: Value, patch: Value) -> Result<Value, String> {
    let patch = Patch::new(patch).map_err(|error| error.to_string())?;
    merged(object, &patch, &POD).map_err(|error| error.to_string())
}

/// Merges lists of the spec.
fn merge_spec(spec: &Value, patch: &Value) -> Result<Value, String> {
    let pod = merge(json!({"spec": spec}), json!({"spec": patch}))?;
    Ok(pod["spec"].clone())
}

fn named(names: &[&str]) -> Value {
    names.iter().map(|name| json!({"name": name})).collect()
}

#[rstest]
#[case::new_element_comes_first(&["c"], &["side"], &["side", "c"])]
#[case::after_what_the_patch_names(&["c", "d"], &["d", "side"], &["c", "d", "side"])]
#[case::order_of_the_patch(&["c"], &["side", "c"], &["side", "c"])]
#[case::stored_before_named(&["a", "b", "c"], &["c", "b"], &["a", "c", "b"])]
#[case::nothing(&["a", "b"], &[], &["a", "b"])]
fn a_merged_list_has_the_order_of_kubernetes(
    #[case] before: &[&str],
    #[case] patch: &[&str],
    #[case] after: &[&str],
) {
    let merged = merge_spec(
        &json!({"containers": named(before)}),
        &json!({"containers": named(patch)}),
    );
    assert_eq!(merged, Ok(json!({"containers": named(after)})));
}

#[rstest]
#[case::order(
    json!({"$setElementOrder/containers": named(&["c", "a"]), "containers": named(&["c"])}),
    &["b", "c", "a"]
)]
#[case::order_alone(json!({"$setElementOrder/containers": named(&["b", "a"])}), &["b", "a", "c"])]
#[case::delete(json!({"containers": [{"name": "b", "$patch": "delete"}]}), &["a", "c"])]
#[case::delete_what_is_not_there(json!({"containers": [{"name": "x", "$patch": "delete"}]}), &["a", "b", "c"])]
#[case::order_of_deleted_and_added(
    json!({"$setElementOrder/containers": named(&["x", "b"]), "containers": [{"name": "b", "$patch": "delete"}, {"name": "x"}, {"name": "b"}]}),
    &["a", "c", "x", "b"]
)]
#[case::replace(json!({"containers": [{"$patch": "replace"}, {"name": "x"}]}), &["x"])]
fn directives_are_followed(#[case] patch: Value, #[case] after: &[&str]) {
    let before = json!({"containers": named(&["a", "b", "c"])});
    assert_eq!(
        merge_spec(&before, &patch),
        Ok(json!({"containers": named(after)}))
    );
}

#[test]
fn lists_merge_by_one_key_each_and_others_are_replaced() {
    let before = json!({
        "containers": [{
            "name": "c",
            "ports": [{"containerPort": 80, "name": "a"}, {"containerPort": 80, "name": "b"}],
            "env": [{"name": "A", "value": "1"}],
            "volumeMounts": [{"mountPath": "/a", "name": "v"}],
            "command": ["x", "y"],
        }],
        "tolerations": [{"key": "a"}],
    });
    let patch = json!({
        "containers": [{
            "name": "c",
            "ports": [{"containerPort": 80, "hostPort": 1}],
            "env": [{"name": "A", "value": "2"}],
            "volumeMounts": [{"mountPath": "/a", "readOnly": true}],
            "command": ["z"],
        }],
        "tolerations": [{"key": "b"}],
    });
    let after = json!({
        "containers": [{
            "name": "c",
            "ports": [{"containerPort": 80, "name": "a", "hostPort": 1}, {"containerPort": 80, "name": "b"}],
            "env": [{"name": "A", "value": "2"}],
            "volumeMounts": [{"mountPath": "/a", "name": "v", "readOnly": true}],
            "command": ["z"],
        }],
        "tolerations": [{"key": "b"}],
    });
    assert_eq!(merge_spec(&before, &patch), Ok(after));
}

#[test]
fn a_volume_keeps_the_source_that_the_patch_retains() {
    let before = json!({"volumes": [{"name": "v", "hostPath": {"path": "/a"}}]});
    let volume = json!({"name": "v", "$retainKeys": ["name", "emptyDir"], "emptyDir": {}});
    let after = json!({"volumes": [{"name": "v", "emptyDir": {}}]});
    assert_eq!(merge_spec(&before, &json!({"volumes": [volume]})), Ok(after));
}

#[test]
fn texts_in_a_list_are_added_and_taken_out() {
    let before = json!({"metadata": {"finalizers": ["a", "b", "c"]}});
    let patch = json!({"metadata": {
        "finalizers": ["d", "b", "d"],
        "$deleteFromPrimitiveList/finalizers": ["a", "x"],
    }});
    let after = json!({"metadata": {"finalizers": ["d", "b", "c"]}});
    assert_eq!(merge(before, patch), Ok(after));
}

#[test]
fn a_value_that_is_both_deleted_and_added_stays() {
    let before = json!({"metadata": {"finalizers": ["a"]}});
    let patch = json!({"metadata": {"finalizers": ["a"], "$deleteFromPrimitiveList/finalizers": ["a"]}});
    assert_eq!(merge(before.clone(), patch), Ok(before));
}

#[test]
fn null_removes_existing_values_and_adds_none() {
    let before = json!({"metadata": {"labels": {"a": "1", "b": "2"}}, "spec": {"x": null}});
    let patch = json!({
        "metadata": {"labels": {"a": null, "z": null}, "annotations": {"n": null, "m": "1"}},
        "spec": {"containers": [{"name": "c", "resources": null, "env": [{"name": "A", "$patch": "delete"}]}]},
    });
    let after = json!({
        "metadata": {"labels": {"b": "2"}, "annotations": {"m": "1"}},
        "spec": {"x": null, "containers": [{"name": "c", "env": []}]},
    });
    assert_eq!(merge(before, patch), Ok(after));
}

#[test]
fn a_value_of_another_type_replaces_the_existing_one() {
    let before = json!({"spec": {"containers": named(&["a"]), "priority": 1, "nodeSelector": {"a": "b"}}});
    let patch = json!({"spec": {"containers": {"a": 1}, "priority": [1], "nodeSelector": "text"}});
    assert_eq!(merge(before, patch.clone()), Ok(patch));
}

#[test]
fn an_object_is_emptied_or_replaced_by_its_marker() {
    let before = json!({"nodeSelector": {"a": "1"}, "securityContext": {"runAsUser": 1, "fsGroup": 2}});
    let patch = json!({
        "nodeSelector": {"$patch": "delete"},
        "securityContext": {"$patch": "replace", "fsGroup": 3, "x": {"$patch": "delete"}},
    });
    let after = json!({"nodeSelector": {}, "securityContext": {"fsGroup": 3}});
    assert_eq!(merge_spec(&before, &patch), Ok(after));
}

#[test]
fn unknown_members_are_merged_and_kept() {
    let before = json!({"x-a": {"b": [1.50], "c": 1}, "containers": [{"name": "c", "x-d": [null]}]});
    let patch = json!({"x-a": {"c": 2, "d": [{"e": 1}]}, "containers": [{"name": "c", "x-f": {"g": 1}}]});
    let after = json!({
        "x-a": {"b": [1.50], "c": 2, "d": [{"e": 1}]},
        "containers": [{"name": "c", "x-d": [null], "x-f": {"g": 1}}],
    });
    assert_eq!(merge_spec(&before, &patch), Ok(after));
}

#[test]
fn lists_of_a_reservation_are_replaced_and_those_of_its_template_are_merged() {
    let before = json!({"spec": {
        "owners": [{"object": {"name": "a"}}],
        "template": {"spec": {"containers": named(&["c"])}},
    }});
    let patch = json!({"spec": {
        "owners": [{"object": {"name": "b"}}],
        "template": {"spec": {"containers": named(&["d"])}},
    }});
    let after = json!({"spec": {
        "owners": [{"object": {"name": "b"}}],
        "template": {"spec": {"containers": named(&["d", "c"])}},
    }});
    let patch = Patch::new(patch).unwrap();
    assert_eq!(merged(before, &patch, &RESERVATION), Ok(after));
}

#[rstest]
#[case(json!({"containers": [{"image": "i"}]}), "spec.containers: an element has no name")]
#[case(json!({"containers": ["a"]}), "spec.containers: elements are not of one type")]
#[case(json!({"containers": [[]]}), "spec.containers: elements are not of one type")]
#[case(json!({"containers": [{"name": "a", "$patch": "merge"}]}), "spec.containers: $patch can only be replace or delete")]
#[case(json!({"nodeSelector": {"$patch": 1}}), "spec.nodeSelector: $patch can only be replace or delete")]
#[case(json!({"$setElementOrder": []}), "spec: $setElementOrder needs the name of a list after a slash")]
#[case(json!({"$setElementOrder/containers": {}}), "spec.containers: $setElementOrder needs lists")]
#[case(json!({"$setElementOrder/volumes": []}), "")]
#[case(json!({"$setElementOrder/containers": named(&["a", "b"]), "containers": named(&["b", "a"])}), "spec.containers: the order of elements is not that of $setElementOrder")]
#[case(json!({"$deleteFromPrimitiveList/containers": named(&["a"])}), "spec.containers: $deleteFromPrimitiveList needs lists")]
#[case(json!({"$retainKeys": {}}), "spec: $retainKeys needs lists")]
#[case(json!({"$retainKeys": ["a"], "b": 1}), r#"spec: $retainKeys does not name "b", which the patch has"#)]
fn a_patch_that_does_not_apply_names_path_and_reason(#[case] patch: Value, #[case] reason: &str) {
    let before = json!({"containers": named(&["a", "b"]), "nodeSelector": {"a": "b"}});
    let merged = merge_spec(&before, &patch);
    assert_eq!(merged.err().unwrap_or_default(), reason);
}

#[test]
fn only_an_object_of_bounded_size_is_a_patch() {
    for (content, error) in [
        (json!("text"), PatchError::NoObject),
        (json!([1]), PatchError::NoObject),
        (json!({"a": vec![1; MOST_VALUES]}), PatchError::TooWide),
    ] {
        assert_eq!(Patch::new(content), Err(error));
    }
    let nested = |levels| (0..levels).fold(json!(1), |value, _| json!({"a": value}));
    assert!(Patch::new(nested(MOST_LEVELS)).is_ok());
    assert_eq!(Patch::new(nested(MOST_LEVELS + 1)), Err(PatchError::TooDeep));
}

#[test]
fn a_list_of_thousands_is_merged_without_comparing_each_with_each() {
    let list = |from: usize| -> Value {
        (from..from + 7_000)
            .map(|at| json!({"name": at.to_string()}))
            .collect()
    };
    let merged = merge_spec(
        &json!({"containers": list(0)}),
        &json!({"containers": list(3_500)}),
    )
    .unwrap();
    assert_eq!(merged["containers"].as_array().unwrap().len(), 10_500);
}

/// Arbitrary values, including members with a meaning for the merge.
fn anything() -> impl Strategy<Value = Value> {
    let name = prop::sample::select(vec![
        "spec",
        "metadata",
        "containers",
        "volumes",
        "env",
        "finalizers",
        "name",
        "x",
        "$patch",
        "$retainKeys",
        "$setElementOrder/containers",
        "$setElementOrder/finalizers",
        "$deleteFromPrimitiveList/finalizers",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        (0..3).prop_map(Value::from),
        prop::sample::select(vec!["a", "b", "replace", "delete"]).prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 5, move |inner| {
        let members = prop::collection::btree_map(name.clone(), inner.clone(), 0..5);
        prop_oneof![
            3 => members.prop_map(|members| json!(members)),
            1 => prop::collection::vec(inner, 0..4).prop_map(Value::from),
        ]
    })
}

/// A Pod-like object without directives.
fn plain() -> impl Strategy<Value = Value> {
    anything().prop_map(|value| directive::cleaned(&value).unwrap_or_default())
}

/// An object reduced to the values at these paths.
fn at_places(object: &Value, places: &[Vec<&str>]) -> Value {
    let members = |of: &Value, names: &[&str]| -> Value {
        let members = of.as_object().into_iter().flatten();
        members
            .filter(|(name, _)| names.contains(&name.as_str()))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    };
    if places.iter().any(Vec::is_empty) {
        return object.clone();
    }
    let outer: Vec<&str> = places.iter().map(|place| place[0]).collect();
    let mut shown = members(object, &outer);
    for (name, value) in shown.as_object_mut().unwrap() {
        let of: Vec<&Vec<&str>> = places.iter().filter(|place| place[0] == name).collect();
        if value.is_object() && of.iter().all(|place| place.len() == 2) {
            let inner: Vec<&str> = of.iter().map(|place| place[1]).collect();
            *value = members(value, &inner);
        }
    }
    shown
}

/// The object before the patch, except for the paths that the patch writes, which are as after it.
fn with_places(mut before: Value, after: &Value, places: &[Vec<&str>]) -> Value {
    for place in places {
        let (Some((last, around)), Some(mut members)) = (place.split_last(), before.as_object_mut()) else {
            return after.clone();
        };
        if let [name] = around {
            let outer = members.entry(*name).or_insert(Value::Null);
            if !outer.is_object() {
                *outer = json!({});
            }
            members = outer.as_object_mut().unwrap();
        }
        match place.iter().try_fold(after, |value, name| value.get(name)) {
            Some(value) => drop(members.insert((*last).to_owned(), value.clone())),
            None => drop(members.remove(*last)),
        }
    }
    before
}

proptest! {
    #[test]
    fn a_patch_reads_and_writes_only_its_places(object in plain(), patch in anything()) {
        if let (true, Ok(patch)) = (object.is_object(), Patch::new(patch)) {
            let places = patch.places();
            let after = merged(object.clone(), &patch, &POD);
            let of_places = merged(at_places(&object, &places), &patch, &POD);
            let of_places = of_places.map(|after| with_places(object, &after, &places));
            prop_assert_eq!(of_places, after);
        }
    }

    #[test]
    fn merged_objects_have_no_directives(object in plain(), patch in anything()) {
        if let Ok(patch) = Patch::new(patch) && let Ok(after) = merged(object, &patch, &POD) {
            prop_assert_eq!(directive::cleaned(&after).map(|value| value.to_string().contains('$')), Some(false));
        }
    }

    #[test]
    fn an_empty_patch_changes_nothing(object in plain()) {
        let patch = Patch::new(json!({})).unwrap();
        if object.is_object() {
            prop_assert_eq!(merged(object.clone(), &patch, &POD), Ok(object));
        }
    }

    #[test]
    fn a_patch_merged_twice_changes_nothing_the_second_time(labels in prop::collection::btree_map("[a-c]", "[a-c]?", 0..4), names in prop::collection::vec("[a-d]", 0..4)) {
        let containers: Vec<Value> = names.iter().map(|name| json!({"name": name, "image": "i"})).collect();
        let patch = json!({"metadata": {"labels": labels}, "spec": {"containers": containers}});
        let before = json!({"metadata": {"labels": {"a": "1"}}, "spec": {"containers": named(&["a", "b", "c"])}});
        let once = merge(before, patch.clone()).unwrap();
        prop_assert_eq!(merge(once.clone(), patch), Ok(once));
    }
}
