//! [`Imports`] reads a crate's import graph, file by file, from the sources and finds its cycles. Its user is
//! `tests/process/imports.rs`.
//!
//! Every path in a `use`, in an expression or in a type counts. It leads, through re-exports, to the file that declares
//! the named item. Bodies of macros and test modules are not read.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use syn::{
    Attribute, ItemMod, ItemUse, UseTree, Visibility,
    visit::{self, Visit},
};

/// A module by its path from the crate root; empty for the root.
pub type Module = Vec<String>;

/// The files of one crate, each with the files that it imports.
#[derive(Debug, Default)]
pub struct Imports(BTreeMap<Module, BTreeSet<Module>>);

#[derive(Debug, Default)]
struct Source {
    paths: Vec<Vec<String>>,
    /// Re-exported names with their paths.
    exports: BTreeMap<String, Vec<String>>,
}

impl Imports {
    /// Reads all files below the folder of a crate's root.
    ///
    /// # Panics
    /// If a file cannot be read or parsed.
    #[expect(clippy::panic, reason = "tests panic: a returned error has no stack")]
    pub fn read(root: &Path) -> Self {
        let mut texts = BTreeMap::new();
        collect(root, &mut Vec::new(), &mut texts);
        let sources = texts.into_iter().map(|(module, text)| {
            let file = syn::parse_file(&text).unwrap_or_else(|error| panic!("{module:?}: {error}"));
            let mut source = Source::default();
            source.visit_file(&file);
            (module, source)
        });
        Self::between(&sources.collect())
    }

    fn between(sources: &BTreeMap<Module, Source>) -> Self {
        let imports = sources.iter().map(|(module, source)| {
            let named = source
                .paths
                .iter()
                .filter_map(|path| declares(sources, module, path));
            (module.clone(), named.filter(|other| other != module).collect())
        });
        Self(imports.collect())
    }

    /// Cycles of layers. A layer is a top-level module with everything below it. Each cycle lists the layers that
    /// import each other, directly or through other layers.
    pub fn circles(&self) -> Vec<Vec<String>> {
        let layers = self.layers();
        let mut circles = Vec::new();
        let mut known = BTreeSet::new();
        for layer in layers.keys() {
            let reached = reachable(&layers, layer);
            if !reached.contains(layer) || known.contains(layer) {
                continue;
            }
            let circle: Vec<String> = reached
                .into_iter()
                .filter(|other| reachable(&layers, other).contains(layer))
                .collect();
            known.extend(circle.iter().cloned());
            circles.push(circle);
        }
        circles
    }

    /// The imports between the layers of a cycle with the files that contain them, for the message of a failed test.
    pub fn between_layers(&self, circle: &[String]) -> Vec<String> {
        let in_circle = |layer: &String| circle.contains(layer);
        let mut found = Vec::new();
        for (module, others) in &self.0 {
            for other in others {
                let (Some(from), Some(to)) = (module.first(), other.first()) else {
                    continue;
                };
                if from != to && in_circle(from) && in_circle(to) {
                    found.push(format!("{} -> {}", module.join("::"), other.join("::")));
                }
            }
        }
        found
    }

    /// One line for each file that imports other files of its crate.
    pub fn lines(&self) -> Vec<String> {
        let imports = self.0.iter().filter(|(_, others)| !others.is_empty());
        imports
            .map(|(module, others)| {
                let others: Vec<_> = others.iter().map(|other| other.join("::")).collect();
                format!("{} -> {}", module.join("::"), others.join(", "))
            })
            .collect()
    }

    /// One line for each layer that imports other layers.
    pub fn layer_lines(&self) -> Vec<String> {
        let layers = self.layers().into_iter();
        let importing = layers.filter(|(_, others)| !others.is_empty());
        importing
            .map(|(layer, others)| {
                let others: Vec<_> = others.into_iter().collect();
                format!("{layer} -> {}", others.join(", "))
            })
            .collect()
    }

    fn layers(&self) -> BTreeMap<String, BTreeSet<String>> {
        let mut layers: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (module, others) in &self.0 {
            let Some(layer) = module.first() else { continue };
            let others = others.iter().filter_map(|other| other.first());
            let others = others.filter(|other| *other != layer).cloned();
            layers.entry(layer.clone()).or_default().extend(others);
        }
        layers
    }
}

/// All layers that `from` imports, directly or through others.
fn reachable(layers: &BTreeMap<String, BTreeSet<String>>, from: &str) -> BTreeSet<String> {
    let mut reached = BTreeSet::new();
    let mut left: Vec<&String> = layers.get(from).into_iter().flatten().collect();
    while let Some(next) = left.pop() {
        if reached.insert(next.clone()) {
            left.extend(layers.get(next).into_iter().flatten());
        }
    }
    reached
}

impl Source {
    fn import(&mut self, tree: &UseTree, mut path: Vec<String>, is_export: bool) {
        match tree {
            UseTree::Path(step) => {
                path.push(step.ident.to_string());
                self.import(&step.tree, path, is_export);
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.import(tree, path.clone(), is_export);
                }
            }
            UseTree::Name(name) if name.ident == "self" => self.name(path, None, is_export),
            UseTree::Name(name) => {
                path.push(name.ident.to_string());
                self.name(path, None, is_export);
            }
            UseTree::Rename(name) => {
                path.push(name.ident.to_string());
                self.name(path, Some(name.rename.to_string()), is_export);
            }
            UseTree::Glob(_) => self.name(path, None, false),
        }
    }

    fn name(&mut self, path: Vec<String>, other: Option<String>, is_export: bool) {
        if let (true, Some(name)) = (is_export, other.or_else(|| path.last().cloned())) {
            self.exports.insert(name, path.clone());
        }
        self.paths.push(path);
    }
}

impl<'ast> Visit<'ast> for Source {
    fn visit_item_use(&mut self, import: &'ast ItemUse) {
        if !is_for_tests(&import.attrs) {
            let is_export = !matches!(import.vis, Visibility::Inherited);
            self.import(&import.tree, Vec::new(), is_export);
        }
    }

    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        if !is_for_tests(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let steps = path.segments.iter().map(|segment| segment.ident.to_string());
        self.paths.push(steps.collect());
        visit::visit_path(self, path);
    }

    fn visit_attribute(&mut self, _: &'ast Attribute) {}
}

fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute
                .parse_args::<syn::Ident>()
                .is_ok_and(|condition| condition == "test")
    })
}

/// The module that declares the item of a path; `None` if it belongs to another crate.
fn declares(sources: &BTreeMap<Module, Source>, module: &Module, path: &[String]) -> Option<Module> {
    let (mut module, mut path) = (module.clone(), path.to_vec());
    // Chains of re-exports are short; the limit ends cyclic ones.
    for _ in 0..8 {
        let mut steps = path.iter().map(String::as_str).peekable();
        let mut full = match *steps.peek()? {
            "crate" => {
                steps.next();
                Vec::new()
            }
            "self" | "super" => module,
            _ => return None,
        };
        for step in steps {
            match step {
                "self" => {}
                "super" => drop(full.pop()),
                step => full.push(step.to_owned()),
            }
        }
        let known = (0..=full.len())
            .rev()
            .find(|length| sources.contains_key(&full[..*length]))?;
        let rest = full.split_off(known);
        let handed_on = rest
            .first()
            .and_then(|name| sources.get(&full)?.exports.get(name));
        let Some(handed_on) = handed_on.filter(|path| is_own(path)) else {
            return Some(full);
        };
        path.clone_from(handed_on);
        module = full;
    }
    None
}

fn is_own(path: &[String]) -> bool {
    path.first()
        .is_some_and(|first| ["crate", "self", "super"].contains(&first.as_str()))
}

/// Texts of all files below a folder by module, except those of tests and programs.
#[expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]
fn collect(folder: &Path, module: &mut Module, texts: &mut BTreeMap<Module, String>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let is_of_program = module.is_empty() && ["main", "bin"].contains(&name.as_str());
        if name == "tests" || is_of_program {
            continue;
        }
        let is_root = module.is_empty() && name == "lib";
        if !is_root {
            module.push(name);
        }
        if path.is_dir() {
            collect(&path, module, texts);
        } else if path.extension().is_some_and(|found| found == "rs") {
            let text = fs::read_to_string(&path).expect("a text");
            texts.entry(module.clone()).or_default().push_str(&text);
        }
        if !is_root {
            module.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn imports(files: &[(&str, &str)]) -> Imports {
        let sources = files.iter().map(|(module, text)| {
            let mut source = Source::default();
            source.visit_file(&syn::parse_file(text).unwrap());
            (module.split("::").map(str::to_owned).collect(), source)
        });
        Imports::between(&sources.collect())
    }

    #[test]
    fn a_circle_of_layers_is_found_in_every_form_of_path() {
        for (text, is_circle) in [
            ("use crate::a::{self, A};", true),
            ("pub fn f() { super::a::g() }", true),
            ("pub fn f(_: &crate::a::A) {}", true),
            ("use super::{d::D, a as other};", true),
            ("use crate::c::Reexported;", true),
            ("#[cfg(test)] mod tests { use crate::a::A; }", false),
            ("use a::A;", false),
            ("use super::d::D;", false),
        ] {
            let imports = imports(&[
                ("a", "use crate::b::B;"),
                ("b", text),
                ("c", "pub use crate::a::Reexported;"),
                ("d", "pub struct D;"),
                ("b::child", "use super::B;"),
            ]);
            let circles = imports.circles();
            assert_eq!(circles.is_empty(), !is_circle, "{text}: {circles:?}");
            assert!(
                !is_circle || circles[0].contains(&"b".to_owned()),
                "{text}: {circles:?}"
            );
        }
    }

    #[test]
    fn files_below_a_layer_count_as_the_layer() {
        let imports = imports(&[
            ("a", ""),
            ("a::child", "use crate::b::other::B; use super::A;"),
            ("b", "use self::other::B;"),
            ("b::other", "use crate::a::A; use super::C;"),
        ]);
        let circles = imports.circles();
        assert_eq!(circles, [["a", "b"]]);
        assert_eq!(
            imports.between_layers(&circles[0]),
            ["a::child -> b::other", "b::other -> a"]
        );
        assert_eq!(imports.layer_lines(), ["a -> b", "b -> a"]);
    }
}
