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

/// A module by its path from the root of its crate; the root has none.
pub type Module = Vec<String>;

/// The files of one crate, each with those that it imports.
#[derive(Debug, Default)]
pub struct Imports(BTreeMap<Module, BTreeSet<Module>>);

/// What one file says.
#[derive(Debug, Default)]
struct Source {
    /// Paths that it names.
    paths: Vec<Vec<String>>,
    /// What it hands on under a name, and the path of that.
    exports: BTreeMap<String, Vec<String>>,
}

impl Imports {
    /// Reads all files below the folder of a crate's root.
    ///
    /// # Panics
    /// If a file cannot be read or is no Rust.
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
            let others = named.filter(|other| !is_family(module, other));
            (module.clone(), others.collect())
        });
        Self(imports.collect())
    }

    /// Rings: each a set of files of which every one imports another, in the end, itself. A file and what lies in its
    /// folder are one family and may import one another.
    pub fn rings(&self) -> Vec<Vec<String>> {
        let mut rings = Vec::new();
        let mut known = BTreeSet::new();
        for module in self.0.keys() {
            let reached = self.reached(module);
            if !reached.contains(module) || known.contains(module) {
                continue;
            }
            let ring: Vec<_> = reached
                .into_iter()
                .filter(|other| self.reached(other).contains(module))
                .collect();
            rings.push(ring.iter().map(|module| module.join("::")).collect());
            known.extend(ring);
        }
        rings
    }

    /// One line for each file that imports others of its crate.
    pub fn lines(&self) -> Vec<String> {
        let imports = self.0.iter().filter(|(_, others)| !others.is_empty());
        imports
            .map(|(module, others)| {
                let others: Vec<_> = others.iter().map(|other| other.join("::")).collect();
                format!("{} -> {}", module.join("::"), others.join(", "))
            })
            .collect()
    }

    /// One line for each room, a module of the root with all below it, that imports other rooms.
    pub fn rooms(&self) -> Vec<String> {
        let mut rooms: BTreeMap<&String, BTreeSet<&String>> = BTreeMap::new();
        for (module, others) in &self.0 {
            let Some(room) = module.first() else { continue };
            let others = others.iter().filter_map(|other| other.first());
            rooms
                .entry(room)
                .or_default()
                .extend(others.filter(|other| *other != room));
        }
        let rooms = rooms.into_iter().filter(|(_, others)| !others.is_empty());
        rooms
            .map(|(room, others)| {
                let others: Vec<_> = others.into_iter().map(String::as_str).collect();
                format!("{room} -> {}", others.join(", "))
            })
            .collect()
    }

    /// All that a file imports, and what that imports, and so on.
    fn reached(&self, from: &Module) -> BTreeSet<Module> {
        let mut reached = BTreeSet::new();
        let mut left: Vec<&Module> = self.0.get(from).into_iter().flatten().collect();
        while let Some(next) = left.pop() {
            if reached.insert(next.clone()) {
                left.extend(self.0.get(next).into_iter().flatten());
            }
        }
        reached
    }
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

fn is_family(one: &Module, other: &Module) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

/// The module whose file declares what a path names in a file; `None` where that is of another crate.
fn declares(sources: &BTreeMap<Module, Source>, module: &Module, path: &[String]) -> Option<Module> {
    let (mut module, mut path) = (module.clone(), path.to_vec());
    // Re-exports of re-exports are few; a bound ends those that go round.
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

/// The texts of all files below a folder by module, those of tests and programs aside.
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
    fn a_ring_is_found_however_its_paths_are_written() {
        let none = Vec::<Vec<String>>::new();
        for (text, is_ring) in [
            ("use crate::a::{self, A};", true),
            ("pub fn f() { super::a::g() }", true),
            ("pub fn f(_: &crate::a::A) {}", true),
            ("use super::{d::D, a as other};", true),
            ("use crate::c::Handed;", true),
            ("#[cfg(test)] mod tests { use crate::a::A; }", false),
            ("use a::A;", false),
            ("use super::d::D;", false),
        ] {
            let imports = imports(&[
                ("a", "use crate::b::B;"),
                ("b", text),
                ("c", "pub use crate::a::Handed;"),
                ("d", "pub struct D;"),
                ("b::child", "use super::B;"),
            ]);
            let rings = imports.rings();
            assert_eq!(rings.is_empty(), !is_ring, "{text}: {rings:?}");
            assert!(
                !is_ring || rings[0].contains(&"b".to_owned()),
                "{text}: {rings:?}"
            );
        }
        let family = imports(&[("a", "use self::child::B;"), ("a::child", "use super::A;")]);
        assert_eq!(family.rings(), none);
    }
}
