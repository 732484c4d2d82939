//! [`Names`] reads the types and functions that a package declares, tests included, from its sources. Used by
//! `tests/process/language.rs` and `tests/process/named_tests.rs`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use cargo_metadata::MetadataCommand;
use syn::{
    ImplItemFn, ItemEnum, ItemFn, ItemImpl, ItemStruct, ItemTrait, ItemType, ItemUnion, Macro, TraitItemFn,
    visit::{self, Visit},
};

/// Each name with the files that declare it, one entry for each declaration.
#[derive(Debug, Default)]
pub struct Names {
    /// Structs, enums, traits, unions and aliases.
    pub types: BTreeMap<String, Vec<PathBuf>>,
    /// Functions and methods. Methods of a trait count only in its declaration, because an implementation cannot
    /// choose their names.
    pub functions: BTreeMap<String, Vec<PathBuf>>,
}

/// The names of one file.
struct Reader<'n> {
    path: &'n Path,
    names: &'n mut Names,
}

/// Functions of all packages of a workspace, tests included.
///
/// # Panics
/// If cargo does not describe the workspace, or a file cannot be read or parsed.
#[expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]
pub fn workspace_functions(root: &Path) -> BTreeSet<String> {
    let mut command = MetadataCommand::new();
    let metadata = command.current_dir(root).no_deps().exec();
    let packages = metadata.expect("cargo describes the workspace").packages;
    let folders = packages.iter().map(|package| package.manifest_path.parent());
    let functions = folders.flat_map(|folder| {
        let folder = folder.expect("a folder").as_std_path();
        Names::read(folder).functions.into_keys()
    });
    functions.collect()
}

impl Names {
    /// Reads all files below the folder of a package, except those of packages below it.
    ///
    /// # Panics
    /// If a file cannot be read or parsed.
    pub fn read(root: &Path) -> Self {
        let mut names = Self::default();
        names.collect(root);
        names
    }

    #[expect(
        clippy::expect_used,
        clippy::panic,
        reason = "tests panic: a returned error has no stack"
    )]
    fn collect(&mut self, folder: &Path) {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                if !path.ends_with("target") && !path.join("Cargo.toml").exists() {
                    self.collect(&path);
                }
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let text = fs::read_to_string(&path).expect("a text");
                self.add(&path, &text)
                    .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            }
        }
    }

    /// Adds the names of a file.
    ///
    /// # Errors
    /// If it cannot be parsed.
    pub fn add(&mut self, path: &Path, text: &str) -> syn::Result<()> {
        let file = syn::parse_file(text)?;
        Reader { path, names: self }.visit_file(&file);
        Ok(())
    }
}

impl Reader<'_> {
    fn declare_type(&mut self, name: &syn::Ident) {
        let places = self.names.types.entry(name.to_string()).or_default();
        places.push(self.path.to_owned());
    }

    fn declare_function(&mut self, name: &syn::Ident) {
        let places = self.names.functions.entry(name.to_string()).or_default();
        places.push(self.path.to_owned());
    }
}

impl<'a> Visit<'a> for Reader<'_> {
    fn visit_item_struct(&mut self, item: &'a ItemStruct) {
        self.declare_type(&item.ident);
        visit::visit_item_struct(self, item);
    }

    fn visit_item_enum(&mut self, item: &'a ItemEnum) {
        self.declare_type(&item.ident);
        visit::visit_item_enum(self, item);
    }

    fn visit_item_union(&mut self, item: &'a ItemUnion) {
        self.declare_type(&item.ident);
        visit::visit_item_union(self, item);
    }

    fn visit_item_type(&mut self, item: &'a ItemType) {
        self.declare_type(&item.ident);
        visit::visit_item_type(self, item);
    }

    fn visit_item_trait(&mut self, item: &'a ItemTrait) {
        self.declare_type(&item.ident);
        visit::visit_item_trait(self, item);
    }

    fn visit_item_fn(&mut self, item: &'a ItemFn) {
        self.declare_function(&item.sig.ident);
        visit::visit_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'a TraitItemFn) {
        self.declare_function(&item.sig.ident);
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_item_impl(&mut self, item: &'a ItemImpl) {
        for member in &item.items {
            let syn::ImplItem::Fn(function) = member else {
                continue;
            };
            if item.trait_.is_none() {
                self.visit_impl_item_fn(function);
            } else {
                visit::visit_block(self, &function.block);
            }
        }
    }

    /// The input of a macro is not parsed; `fn NAME` in it most likely becomes a function.
    fn visit_macro(&mut self, call: &'a Macro) {
        let text = call.tokens.to_string();
        let words: Vec<&str> = text
            .split(|letter: char| !(letter.is_alphanumeric() || letter == '_'))
            .collect();
        for pair in words.windows(2) {
            if let ["fn", name] = pair
                && let Ok(name) = syn::parse_str(name)
            {
                self.declare_function(&name);
            }
        }
        visit::visit_macro(self, call);
    }

    fn visit_impl_item_fn(&mut self, item: &'a ImplItemFn) {
        self.declare_function(&item.sig.ident);
        visit::visit_impl_item_fn(self, item);
    }
}
