//! Tests of the chart's structure; the long tests compare what Helm renders with what kustomize renders.

use super::*;

#[test]
fn every_file_with_objects_has_a_template() {
    let chart = Chart::read().unwrap();
    let texts: Vec<String> = FILES
        .iter()
        .filter(|file| file.path.contains("/templates/"))
        .map(|file| (file.text)().unwrap())
        .collect();
    for source in &chart.sources {
        let text = chart.template(&source.path).unwrap();
        assert!(texts.contains(&text), "{} has no template", source.path);
    }
}

#[test]
fn every_component_is_a_profile() {
    let root = workspace::root().join(KUSTOMIZE);
    for entry in fs::read_dir(root.join("components")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let folder = format!("components/{name}");
        let is_profile = PROFILES
            .iter()
            .chain([&CONFIGURATION])
            .any(|profile| profile.folder == folder);
        assert!(is_profile, "{folder}");
    }
}

#[test]
fn no_template_contains_a_bundle_or_a_fixed_image() {
    for file in FILES.iter().filter(|file| file.path.contains("/templates/")) {
        let text = (file.text)().unwrap();
        assert!(!text.contains("caBundle:"), "{}", file.path);
        for line in text
            .lines()
            .filter(|line| line.trim_start().starts_with("image:"))
        {
            assert!(
                line.contains("include \"headroom.image\""),
                "{}: {line}",
                file.path
            );
        }
    }
}

#[test]
fn conditions_of_templates_are_balanced_and_name_profiles() {
    for file in FILES.iter().filter(|file| file.path.contains("/templates/")) {
        let text = (file.text)().unwrap();
        let count = |keyword: &str| {
            let starts = ["{{- ", "{{ "].map(|open| text.matches(&format!("{open}{keyword} ")).count());
            starts.iter().sum::<usize>()
        };
        let opened = ["if", "range", "define"].map(count).iter().sum::<usize>();
        assert_eq!(opened, count("end"), "{}", file.path);
        for name in text
            .split("has \"")
            .skip(1)
            .filter_map(|rest| rest.split('"').next())
        {
            let is_known = PROFILES
                .iter()
                .chain([&CONFIGURATION])
                .any(|profile| profile.name == name);
            assert!(is_known, "{}: {name}", file.path);
        }
    }
}

#[test]
fn unknown_values_and_wrong_types_break_the_schema() {
    let schema = jsonschema::validator_for(&values::schema()).unwrap();
    let defaults = values::defaults("", &Chart::read().unwrap().manifests).unwrap();
    assert!(schema.is_valid(&defaults), "{defaults}");
    for (pointer, value) in [
        ("/profiles", serde_json::json!(["no-such-profile"])),
        ("/profiles", serde_json::json!("ha")),
        ("/image/pullPolicy", serde_json::json!("Sometimes")),
        ("/uninstall/waitSeconds", serde_json::json!("240")),
        ("/uninstall/waitSeconds", serde_json::json!(1)),
        ("/network/apiServerPorts", serde_json::json!([70000])),
        ("/webhook/resources", serde_json::json!({"request": {}})),
        ("/agent", serde_json::json!({"replicas": 2})),
    ] {
        let mut values = defaults.clone();
        *values.pointer_mut(pointer).unwrap() = value.clone();
        assert!(!schema.is_valid(&values), "{pointer}: {value}");
    }
    let mut values = defaults;
    values["replicas"] = serde_json::json!(2);
    assert!(!schema.is_valid(&values));
}

#[test]
fn every_value_has_a_description() {
    fn undescribed(schema: &Value, path: &str, found: &mut Vec<String>) {
        let properties = schema.get("properties").and_then(Value::as_object);
        for (name, property) in properties.into_iter().flatten() {
            let path = format!("{path}/{name}");
            let is_plain = ["requests", "limits", "name", "repository"].contains(&name.as_str());
            if property.get("description").is_none() && !is_plain {
                found.push(path.clone());
            }
            undescribed(property, &path, found);
        }
    }
    let mut found = Vec::new();
    undescribed(&values::schema(), "", &mut found);
    assert_eq!(found, Vec::<String>::new());
}
