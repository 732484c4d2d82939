//! Tests of `Tree`, compared with the values that its text stands for.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn tree(text: &str) -> Tree<'_> {
    Tree::parse(text, 2).unwrap()
}

#[test]
fn a_value_is_found_by_its_path_on_every_level() {
    let node = tree(r#"{"metadata":{"annotations":{"a/b":"1","c\u0041":{"x":[1,{"y":2}]}}},"status":null}"#);
    assert_eq!(
        node.read(&["metadata", "annotations", "a/b"]).unwrap(),
        Some("1".to_owned())
    );
    let inner = node.get(&["metadata", "annotations", "cA", "x"]).unwrap();
    assert_eq!(inner.to_value().unwrap(), json!([1, {"y": 2}]));
    assert!(node.get(&["metadata", "annotations", "a/b", "deeper"]).is_none());
    assert!(node.get(&["metadata", "labels"]).is_none());
    assert!(node.get(&["status"]).unwrap().is_null());
    assert_eq!(node.names(&["metadata", "annotations"]), ["a/b", "cA"]);
}

#[test]
fn text_is_read_and_compared_whatever_is_escaped_in_it() {
    for text in [
        r#""""#,
        r#""plain""#,
        r#""{\"cpu\":1}""#,
        r#""\\\"\\""#,
        r#""\n\u0041é\"""#,
        r#""\ud83d\ude00""#,
        r#""\ud83d""#,
    ] {
        let expected = serde_json::from_str::<String>(text).ok();
        let tree = tree(text);
        assert_eq!(tree.read_text(&[]).as_deref(), expected.as_deref(), "{text}");
        let is_value = |text: &str| tree.is_value(&text.into());
        assert_eq!(
            is_value(expected.as_deref().unwrap_or_default()),
            expected.is_some()
        );
        assert!(!is_value(text) && !tree.is_value(&json!(0)));
    }
    for text in ["1", "null", "{}", r#"["a"]"#] {
        assert!(tree(text).read_text(&[]).is_none() && !tree(text).is_value(&text.into()));
    }
    assert_eq!(
        tree(r#"{"a":{"b":"c"}}"#).read_text(&["a", "b"]).as_deref(),
        Some("c")
    );
}

#[test]
fn the_elements_of_an_array_are_found_in_order() {
    let array = tree(r#"[ {"a":[1]} , "x", null,[],{} ]"#);
    let values: Vec<Value> = array
        .elements()
        .iter()
        .map(|tree| tree.to_value().unwrap())
        .collect();
    assert_eq!(json!(values), json!([{"a": [1]}, "x", null, [], {}]));
    assert_eq!(array.elements()[0].names(&[]), ["a"]);
    for text in ["[]", "{}", "7", "\"[1]\""] {
        assert_eq!(tree(text).elements().len(), 0, "{text}");
    }
}

#[test]
fn of_too_many_members_those_with_guarded_names_are_found_and_the_others_are_missed() {
    let named = |start: &str| {
        let members: Vec<String> = (0..20_000)
            .map(|number| format!(r#""{start}{number}":0"#))
            .collect();
        members.join(",")
    };
    let others = named("");
    let text = format!(r#"{{"headroom.sh/mode":"auto",{others},"headroom.sh/mode":"off"}}"#);
    let wide = || tree(&text);
    let found = wide();
    assert_eq!(found.read_text(&["headroom.sh/mode"]).as_deref(), Some("off"));
    assert!(found.get(&["headroom.sh/hint"]).is_none());
    assert_eq!(found.guarded_names(&[]), ["headroom.sh/mode"; 2]);
    assert_eq!(found.too_wide(), None);
    let asks: [fn(&Tree<'_>) -> bool; 3] = [
        |tree| tree.get(&["7"]).is_none(),
        |tree| tree.names(&[]).is_empty(),
        |tree| tree.to_value().is_err(),
    ];
    for ask in asks {
        let missed = wide();
        missed.get(&["headroom.sh/mode"]).unwrap();
        assert!(ask(&missed));
        assert_eq!(missed.too_wide(), Some(String::new()));
    }
    for too_many in [named("headroom.sh/"), others + r#","\u0061":0"#] {
        let text = format!(r#"{{"headroom.sh/mode":"off",{too_many}}}"#);
        let tree = tree(&text);
        assert!(tree.get(&["headroom.sh/mode"]).is_none() && tree.too_wide().is_some());
    }
}

#[test]
fn the_last_of_two_equal_members_counts() {
    let mut node = tree(r#"{"a":{"b":1,"b":{"c":1,"\u0063":2}},"x":0,"x":{"y":3}}"#);
    assert_eq!(node.read(&["a", "b", "c"]).unwrap(), Some(2));
    assert_eq!(node.read(&["x", "y"]).unwrap(), Some(3));
    assert_eq!(
        node.to_value().unwrap(),
        json!({"a": {"b": {"c": 2}}, "x": {"y": 3}})
    );
    assert_eq!(node.remove("x").unwrap().to_value().unwrap(), json!({"y": 3}));
    let mut node = tree(r#"{"a":0,"b":1,"b":2}"#);
    assert!(node.remove("a").is_some() && node.remove("c").is_none());
    assert_eq!(node.remove("b").unwrap().to_value().unwrap(), json!(2));
}

#[test]
fn a_wide_object_is_read_and_taken_from_as_a_narrow_one() {
    let members = (0..10_000).chain([7, 7]).enumerate();
    let members: Vec<String> = members.map(|(at, name)| format!("\"n{name}\":{at}")).collect();
    let text = format!("{{{}}}", members.join(","));
    let mut wide = tree(&text);
    // A search of each among all would take minutes.
    for name in wide.names(&[]) {
        let at: usize = wide.read(&[name]).unwrap().unwrap();
        assert_eq!(format!("n{}", if at < 10_000 { at } else { 7 }), name);
    }
    assert!(wide.get(&["n"]).is_none() && wide.get(&["n10000"]).is_none() && wide.get(&["o"]).is_none());
    for last in [10_001, 10_000, 7] {
        assert_eq!(wide.remove("n7").unwrap().to_value().unwrap(), json!(last));
    }
    assert!(wide.remove("n7").is_none());
    assert_eq!(wide.read(&["n9999"]).unwrap(), Some(9_999));
}

/// One more member, or element, than is opened.
fn too_many(open: char, one: &str, close: char) -> String {
    format!("{open}{}{one}{close}", format!("{one},").repeat(MAX_OPENED))
}

#[test]
fn what_is_too_wide_looks_empty_and_is_found_out_once_somebody_looked() {
    for wide in [
        too_many('{', r#""a":0"#, '}'),
        too_many('[', "0", ']'),
        too_many('[', "{}", ']'),
    ] {
        let text = format!(r#"{{"a":{{"b":{wide},"c":1}},"d":2}}"#);
        for levels in 0..4 {
            let node = Tree::parse(&text, levels).unwrap();
            assert_eq!(node.read(&["a", "c"]).unwrap(), Some(1));
            assert_eq!(node.too_wide(), None, "nobody looked");
            let b = node.get(&["a", "b"]).unwrap();
            assert!(b.get(&["a"]).is_none() && b.elements().is_empty() && b.names(&[]).is_empty());
            assert_eq!(node.too_wide().as_deref(), Some("a.b"));
        }
    }
}

#[test]
fn what_is_too_wide_is_not_read_and_that_is_found_out() {
    let few = r#"[{"x":{}}]"#;
    for wide in [
        too_many('[', few, ']'),
        format!(r#"{{"x":{}}}"#, too_many('[', "0", ']')),
    ] {
        let text = format!(r#"{{"a":{wide}}}"#);
        let node = Tree::parse(&text, 1).unwrap();
        let error = node.read::<Value>(&["a"]).unwrap_err();
        assert_eq!(error.to_string(), "more than 16384 values");
        assert_eq!(node.too_wide().as_deref(), Some("a"));
    }
    // Commas in a text are no values.
    let text = format!(r#"["{}"]"#, r#",\\[\""#.repeat(MAX_OPENED));
    assert!(Tree::parse(&text, 1).unwrap().to_value().is_ok());
}

#[test]
fn what_the_parser_says_of_a_long_text_is_short() {
    let text = format!(r#"{{"a":"{}"}}"#, "é".repeat(1_000_000));
    let error = Tree::parse(&text, 1).unwrap().read::<bool>(&["a"]).unwrap_err();
    let error = error.to_string();
    assert!(
        error.starts_with("invalid type: string \"éé") && error.len() < 300,
        "{error}"
    );
}

#[test]
fn a_value_of_another_shape_is_an_error_and_not_absent() {
    let node = tree(r#"{"a":{"b":7,"c":1e999}}"#);
    assert!(node.read::<String>(&["a", "b"]).is_err());
    assert!(node.get(&["a", "c"]).unwrap().to_value().is_err());
}

fn any_json() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".{0,6}".prop_map(Value::from),
    ];
    scalar.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::hash_map(".{0,3}", inner, 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Every object in `tree` has the members of `value`, all the way down.
fn agrees(tree: &Tree<'_>, value: &Value) -> bool {
    let members = value.as_object().into_iter().flatten();
    let all = members
        .into_iter()
        .all(|(name, inner)| tree.get(&[name]).is_some_and(|tree| agrees(tree, inner)));
    all && tree.to_value().unwrap() == *value
}

proptest! {
    #[test]
    fn a_tree_is_the_value_it_was_read_from(value in any_json(), levels in 0_u32..5, is_pretty in any::<bool>()) {
        let text = if is_pretty { format!("{value:#}") } else { value.to_string() };
        prop_assert!(agrees(&Tree::parse(&text, levels).unwrap(), &value));
    }

    #[test]
    fn counterparts_change_nothing(value in any_json(), other in any_json(), levels in 0_u32..5) {
        let pair = json!({"a": &value, "b": &value, "c": &other, "d": &value});
        let text = pair.to_string();
        prop_assert!(agrees(&Tree::parse(&text, levels).unwrap(), &pair));
    }
}
