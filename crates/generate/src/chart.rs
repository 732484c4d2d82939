//! The Helm chart: templates of the objects that kustomize's base and components contain, so that both install the same.
//!
//! Each object keeps its fields. A component's patches are applied under the condition that its profile is on, and a few fields
//! take their content from the values.

mod binding;
mod component;
mod emit;
mod files;
mod hook;
mod profile;
mod tree;
mod values;

use std::{fs, path::Path};

use anyhow::{Context as _, Result};
use serde_json::Value;
use xtask::workspace;

pub(super) use self::files::FILES;
use self::{
    component::Component,
    profile::{CONFIGURATION, PROFILES, Profile},
    tree::{Object, When},
    values::Manifests,
};

const KUSTOMIZE: &str = "deploy/kustomize";
/// Settings of the publisher: see the file.
const PUBLISHER: &str = "deploy/publisher.yaml";

/// A file of the base or of a component, with its objects.
struct Source {
    /// Path below `deploy/kustomize`.
    path: String,
    objects: Vec<Object>,
}

/// All objects of the chart, by the files of kustomize that contain them.
struct Chart {
    sources: Vec<Source>,
    manifests: Manifests,
}

impl Chart {
    /// Reads kustomize's files, applies all components, and binds the values.
    fn read() -> Result<Self> {
        let root = workspace::root().join(KUSTOMIZE);
        let base = Component::read(&root.join("base"))?;
        let mut objects = Vec::new();
        let mut ranges = Vec::new();
        let mut add = |folder: &str, component: &Component, when: &When| -> Result<()> {
            for resource in component.resources.iter().filter(|path| !path.starts_with("..")) {
                let start = objects.len();
                objects.extend(parse(&root.join(folder).join(resource), when)?);
                ranges.push((format!("{folder}/{resource}"), start..objects.len()));
            }
            Ok(())
        };
        add("base", &base, &When::default())?;
        let profiles: Vec<&Profile> = PROFILES.iter().chain([&CONFIGURATION]).collect();
        let mut components = Vec::new();
        for profile in profiles {
            let component = Component::read(&root.join(profile.folder))?;
            let when = When::all([profile.condition()]);
            add(profile.folder, &component, &when)?;
            components.push((profile, component, when));
        }
        for (profile, component, when) in &components {
            component
                .patch(&root.join(profile.folder), when, &mut objects)
                .with_context(|| profile.folder)?;
        }
        let manifests = binding::bind(&mut objects)?;
        let sources = ranges.into_iter().map(|(path, range)| Source {
            path,
            objects: objects.get(range).unwrap_or_default().to_vec(),
        });
        Ok(Self {
            sources: sources.collect(),
            manifests,
        })
    }

    /// The template of one of kustomize's files.
    fn template(&self, path: &str) -> Result<String> {
        let source = self.sources.iter().find(|source| source.path == path);
        let source = source.with_context(|| format!("kustomize has no {path}"))?;
        let documents = source.objects.iter().map(emit::document);
        Ok(format!("{}{}", header(), documents.collect::<String>()))
    }
}

/// Action that reads the active components.
fn header() -> &'static str {
    "{{- $on := include \"headroom.components\" . | fromJsonArray }}\n"
}

/// Parses the documents of a file.
fn parse(path: &Path, when: &When) -> Result<Vec<Object>> {
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(&read(path)?).with_context(|| format!("parse {}", path.display()))?;
    let objects = documents.iter().map(|document| Object {
        when: when.clone(),
        tree: document.into(),
    });
    Ok(objects.collect())
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("read {}", path.display()))
}

#[cfg(test)]
mod tests;
