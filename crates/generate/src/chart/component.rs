//! [`Component`]: a component or overlay of kustomize, applied to objects of the chart in the cases in which it is active.

use std::path::Path;

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;
use serde_json::Value;

use super::tree::{Object, Tree, Variant, When};

/// The fields of a `kustomization.yaml` that components of Headroom use.
#[derive(Debug, Deserialize)]
pub(super) struct Component {
    /// Paths of other components that it includes.
    #[serde(default)]
    pub(super) components: Vec<String>,
    /// Files with objects, and for an overlay the base.
    #[serde(default)]
    pub(super) resources: Vec<String>,
    #[serde(default)]
    patches: Vec<Patch>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Patch {
    #[serde(default)]
    target: Option<Target>,
    #[serde(default, rename = "patch")]
    text: Option<String>,
    #[serde(default)]
    path: Option<String>,
}

/// Objects that a patch changes; absent fields match all objects.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Target {
    group: Option<String>,
    kind: Option<String>,
    name: Option<String>,
}

/// An operation of RFC 6902.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Operation {
    op: String,
    path: String,
    value: Value,
}

/// Fields whose elements a strategic merge patch finds by a key.
const MERGE_KEYS: [(&str, &str); 4] = [
    ("containers", "name"),
    ("volumeMounts", "mountPath"),
    ("volumes", "name"),
    ("webhooks", "name"),
];
/// Field that deletes the object of a strategic merge patch.
const DIRECTIVE: &str = "$patch";

impl Component {
    /// Parses the file in a folder.
    ///
    /// # Errors
    /// If it cannot be read, or uses a field of patches that is not known here.
    pub(super) fn read(folder: &Path) -> Result<Self> {
        let text = super::read(&folder.join("kustomization.yaml"))?;
        serde_saphyr::from_str(&text).with_context(|| format!("parse {}", folder.display()))
    }

    /// Applies the patches to all objects that they select.
    ///
    /// # Errors
    /// If a patch cannot be applied, or selects no object.
    pub(super) fn patch(&self, folder: &Path, when: &When, objects: &mut [Object]) -> Result<()> {
        for patch in &self.patches {
            let text = match (&patch.text, &patch.path) {
                (Some(text), None) => text.clone(),
                (None, Some(path)) => super::read(&folder.join(path))?,
                (None, None) | (Some(_), Some(_)) => bail!("a patch has either `patch` or `path`"),
            };
            let value: Value = serde_saphyr::from_str(&text).context("parse a patch")?;
            let own = Target::read(&value);
            let target = patch.target.as_ref().unwrap_or(&own);
            let mut count = 0;
            for object in objects.iter_mut().filter(|object| target.selects(&object.tree)) {
                apply(object, &value, when).with_context(|| format!("apply {text}"))?;
                count += 1;
            }
            if count == 0 {
                bail!("the patch selects no object: {target:?}");
            }
        }
        Ok(())
    }
}

impl Target {
    /// The object that a patch without target names.
    fn read(patch: &Value) -> Self {
        let text = |pointer| patch.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        Self {
            group: None,
            kind: text("/kind"),
            name: text("/metadata/name"),
        }
    }

    fn selects(&self, tree: &Tree) -> bool {
        let is = |wanted: &Option<String>, found: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| found == Some(wanted))
        };
        // The version of the object may depend on a component.
        let is_group = self.group.as_deref().is_none_or(|group| {
            tree.text(&["apiVersion"])
                .is_none_or(|version| version.split('/').next() == Some(group))
        });
        let name = tree.text(&["metadata", "name"]);
        let is_name = match &self.name {
            Some(pattern) => alternatives(pattern).iter().any(|one| name == Some(one)),
            None => true,
        };
        is_group && is(&self.kind, tree.text(&["kind"])) && is_name
    }
}

/// Names that a pattern such as `a-(b|c)` matches: the only kind of expression in the components.
fn alternatives(pattern: &str) -> Vec<String> {
    let parts = pattern
        .split_once('(')
        .and_then(|(start, rest)| rest.split_once(')').map(|(inner, end)| (start, inner, end)));
    match parts {
        None => vec![pattern.to_owned()],
        Some((start, inner, end)) => inner.split('|').map(|one| format!("{start}{one}{end}")).collect(),
    }
}

fn apply(object: &mut Object, patch: &Value, when: &When) -> Result<()> {
    let when = when.within(&object.when);
    if let Value::Array(operations) = patch {
        for operation in operations {
            let operation = Operation::deserialize(operation)?;
            operation.apply(&mut object.tree, &when)?;
        }
    } else if patch.get(DIRECTIVE).and_then(Value::as_str) == Some("delete") {
        object.when.add(&when.negated());
    } else {
        merge(&mut object.tree, patch, &when);
    }
    Ok(())
}

impl Operation {
    fn apply(self, tree: &mut Tree, when: &When) -> Result<()> {
        let Self { op, path, value } = self;
        if !["add", "replace"].contains(&op.as_str()) {
            bail!("operation {op} is not known");
        }
        let keys: Vec<String> = path
            .split('/')
            .skip(1)
            .map(|key| key.replace("~1", "/").replace("~0", "~"))
            .collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let (last, parents) = keys.split_last().context("a path has a key")?;
        let parent = tree
            .at(parents)
            .with_context(|| format!("{path} does not exist"))?;
        match parent {
            Tree::Map(_) => parent.set_if(last, when.clone(), (&value).into()),
            Tree::List(_) if *last == "-" => parent.push(Variant {
                when: when.clone(),
                tree: (&value).into(),
            }),
            Tree::List(_) | Tree::Scalar(_) | Tree::Inline(_) | Tree::Block(_) | Tree::Elements(_) => {
                bail!("{path} is no field and no end of a list")
            }
        }
        Ok(())
    }
}

/// Merges a strategic merge patch into a map.
fn merge(tree: &mut Tree, patch: &Value, when: &When) {
    let Value::Object(patch) = patch else { return };
    for (key, value) in patch {
        if value.is_null() {
            tree.remove_if(key, when);
            continue;
        }
        let new = Tree::from(value);
        let Tree::Map(fields) = tree else { return };
        let variants = fields.get_mut(key).map(Vec::as_mut_slice);
        match (variants, value) {
            (Some([Variant { tree: found, .. }]), _) if *found == new => {}
            (
                Some(
                    [
                        Variant {
                            tree: found @ Tree::Map(_),
                            ..
                        },
                    ],
                ),
                Value::Object(_),
            ) => merge(found, value, when),
            (
                Some(
                    [
                        Variant {
                            tree: found @ Tree::List(_),
                            ..
                        },
                    ],
                ),
                Value::Array(elements),
            ) if merge_key(key).is_some() => {
                let key = merge_key(key).unwrap_or_default();
                merge_list(found, elements, key, when);
            }
            _ => tree.set_if(key, when.clone(), new),
        }
    }
}

fn merge_key(field: &str) -> Option<&'static str> {
    let mut keys = MERGE_KEYS.iter();
    keys.find(|(name, _)| *name == field).map(|(_, key)| *key)
}

fn merge_list(list: &mut Tree, patch: &[Value], key: &str, when: &When) {
    for element in patch {
        let wanted = element.get(key).and_then(Value::as_str);
        let Tree::List(elements) = &mut *list else { return };
        let found = elements
            .iter_mut()
            .find(|variant| variant.tree.text(&[key]) == wanted);
        match found {
            Some(variant) => merge(&mut variant.tree, element, when),
            None => list.push(Variant {
                when: when.clone(),
                tree: element.into(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object() -> Object {
        let tree = json!({"kind": "A", "metadata": {"name": "a-b"}, "spec": {
            "containers": [{"name": "c", "args": ["--x"], "ports": [1]}], "replicas": 1,
        }});
        Object {
            when: When::default(),
            tree: (&tree).into(),
        }
    }

    fn on() -> When {
        When::all(["on".to_owned()])
    }

    #[test]
    fn operations_and_merges_keep_their_condition() {
        let mut changed = object();
        let operations = json!([{"op": "add", "path": "/spec/containers/0/args/-", "value": "--y"}]);
        apply(&mut changed, &operations, &on()).unwrap();
        let merged = json!({"spec": {"replicas": 2, "containers": [{"name": "c", "ports": null}]}});
        apply(&mut changed, &merged, &on()).unwrap();
        let text = super::super::emit::document(&changed);
        for part in [
            "- \"--x\"\n        {{- if on }}\n        - \"--y\"\n        {{- end }}",
            "{{- if not (on) }}\n      ports:",
            "  {{- if not (on) }}\n  replicas: 1\n  {{- end }}\n  {{- if on }}\n  replicas: 2\n  {{- end }}",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn a_patch_of_an_object_with_its_condition_is_unconditional() {
        let mut changed = Object {
            when: on(),
            ..object()
        };
        apply(&mut changed, &json!({"spec": {"replicas": 2}}), &on()).unwrap();
        assert_eq!(
            changed.tree.at(&["spec", "replicas"]),
            Some(&mut Tree::Scalar(json!(2)))
        );
        apply(
            &mut changed,
            &json!({"$patch": "delete"}),
            &When::all(["other".to_owned()]),
        )
        .unwrap();
        assert_eq!(changed.when.expression(), "and (not (other)) (on)");
    }

    #[test]
    fn unknown_operations_and_paths_are_errors() {
        for (op, path) in [
            ("remove", "/spec/replicas"),
            ("add", "/spec/replicas/x"),
            ("add", "/spec/containers/7/x"),
        ] {
            let operations = json!([{"op": op, "path": path, "value": 1}]);
            assert!(apply(&mut object(), &operations, &on()).is_err(), "{op} {path}");
        }
    }

    #[test]
    fn targets_select_by_kind_group_and_name() {
        assert_eq!(alternatives("a-(b|c)"), ["a-b", "a-c"]);
        let target = |name: &str| Target {
            group: None,
            kind: Some("A".to_owned()),
            name: Some(name.to_owned()),
        };
        assert!(target("a-(b|c)").selects(&object().tree));
        assert!(!target("a-(c|d)").selects(&object().tree));
    }
}
