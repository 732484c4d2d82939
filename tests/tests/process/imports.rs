//! Tests of the layers of each crate: no circle of imports, and the arrows that docs/architecture.md shows.
#![expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]

use std::collections::BTreeMap;

use cargo_metadata::{MetadataCommand, TargetKind};
use e2e::imports::Imports;
use xtask::workspace;

/// Layers of the webhook, each of which may import those after it. `args` and `start` have a row of their own below.
const WEBHOOK: [&str; 5] = ["hints", "control", "install", "admission", "store"];

/// The imports of each library of the workspace, by package.
fn libraries() -> BTreeMap<String, Imports> {
    let mut command = MetadataCommand::new();
    let metadata = command.current_dir(workspace::root()).no_deps().exec();
    let mut libraries = BTreeMap::new();
    for package in metadata.expect("cargo describes the workspace").packages {
        let targets = package.targets.iter();
        for library in targets.filter(|target| target.kind.contains(&TargetKind::Lib)) {
            let folder = library.src_path.parent().expect("a folder");
            libraries.insert(package.name.to_string(), Imports::read(folder.as_std_path()));
        }
    }
    libraries
}

#[test]
fn layers_of_a_crate_import_each_other_in_no_circle() {
    let libraries = libraries();
    let files: usize = libraries.values().map(|imports| imports.lines().len()).sum();
    assert!(files > 300, "the sources are read");
    let mut found = Vec::new();
    for (package, imports) in &libraries {
        for circle in imports.circles() {
            let files = imports.between_layers(&circle).join("\n    ");
            found.push(format!("{package}: {}\n    {files}", circle.join(", ")));
        }
    }
    assert!(found.is_empty(), "layers in a circle:\n{}", found.join("\n"));
}

#[test]
fn layers_of_the_webhook_import_only_those_below() {
    let libraries = libraries();
    let lines = libraries["headroom-webhook"].layer_lines();
    let found = lines.iter().filter_map(|line| {
        let (layer, imported) = line.split_once(" -> ")?;
        let allowed: &[&str] = match layer {
            "start" => return None,
            "args" => &[],
            layer => {
                let position = WEBHOOK.iter().position(|other| *other == layer);
                &WEBHOOK
                    [position.unwrap_or_else(|| panic!("docs/architecture.md lacks the layer {layer}")) + 1..]
            }
        };
        let is_allowed = |other: &str| allowed.contains(&other) || (other == "args" && layer != "install");
        (!imported.split(", ").all(is_allowed)).then_some(line)
    });
    let found: Vec<_> = found.collect();
    assert!(found.is_empty(), "{found:#?}");
}

/// Crates whose layers docs/architecture.md shows.
const SHOWN: [&str; 3] = ["agent", "crates/cli", "webhook"];

#[test]
fn the_architecture_page_shows_the_imports_between_layers() {
    let root = workspace::root();
    let page = std::fs::read_to_string(root.join("docs/architecture.md")).expect("a page");
    for member in SHOWN {
        let layers = Imports::read(root.join(member).join("src").as_ref()).layer_lines();
        let block = format!("```text\n{member}\n  {}\n```", layers.join("\n  "));
        println!("{block}");
        assert!(
            page.contains(&block),
            "docs/architecture.md does not show:\n{block}"
        );
    }
}
