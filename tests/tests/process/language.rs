//! Tests of names and wording in the sources: names by the role, comments with a subject, and plain phrases in every
//! text that users read.
#![expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]

use std::{fs, path::Path};

use cargo_metadata::{Metadata, MetadataCommand};
use e2e::{
    language::{self, Fault},
    names::Names,
};
use xtask::workspace;

/// Verbs that do not describe a function's action. `record`, `apply`, `observe`, `notify` and `get` do.
const EMPTY_VERBS: [&str; 20] = [
    "take", "takes", "look", "looks", "of", "tell", "tells", "told", "say", "says", "said", "hear", "heard",
    "hold", "holds", "held", "give", "gives", "given", "see",
];

fn complaints(package: &str, names: &Names) -> Vec<String> {
    let twice = names.types.iter().filter(|(_, places)| places.len() > 1);
    let twice = twice.map(|(name, places)| format!("{package}: several types are called {name}: {places:?}"));
    let empty = names
        .functions
        .iter()
        .filter(|(name, _)| EMPTY_VERBS.contains(&name.as_str()));
    let empty = empty
        .map(|(name, places)| format!("{package}: fn {name} needs a verb that names its effect: {places:?}"));
    twice.chain(empty).collect()
}

#[test]
fn functions_have_a_verb_and_types_of_a_package_have_distinct_names() {
    let mut command = MetadataCommand::new();
    let metadata = command.current_dir(workspace::root()).no_deps().exec();
    let (mut wrong, mut types) = (Vec::new(), 0);
    for package in metadata.expect("cargo describes the workspace").packages {
        let names = Names::read(package.manifest_path.parent().expect("a folder").as_std_path());
        types += names.types.len();
        wrong.extend(complaints(&package.name, &names));
    }
    assert!(types > 800, "the sources are read: {types}");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn bad_names_are_found() {
    let mut names = Names::default();
    let text = "struct State; mod a { enum State {} struct Other; } fn of() {} trait T { fn look(&self); }\n\
                impl Other { fn held() {} } impl Iterator for Other { fn take(self) {} }";
    names.add(Path::new("a.rs"), text).expect("Rust");
    let wrong = complaints("p", &names);
    let starts = [
        "p: several types are called State",
        "p: fn held",
        "p: fn look",
        "p: fn of",
    ];
    assert_eq!(wrong.len(), starts.len(), "{wrong:?}");
    assert!(
        wrong
            .iter()
            .zip(starts)
            .all(|(wrong, start)| wrong.starts_with(start)),
        "{wrong:?}"
    );
}

/// Places that contain a forbidden phrase for a reason: file, phrase, reason.
const EXCEPTIONS: [(&str, &str, &str); 5] = [
    ("crates/cli/src/output/findings.rs", "mend", "JSON key of `check`"),
    (
        "crates/domain/src/selector/syntax.rs",
        "no more than",
        "text of Kubernetes",
    ),
    (
        "webhook/src/admission/endpoints/quota_fields.rs",
        "no more than",
        "text of Kubernetes",
    ),
    (
        "docs/journal/hostile-bodies.md",
        "dear",
        "name of a removed bench",
    ),
    ("docs/reference/screens.md", "mend", "JSON key of `check`"),
];

/// The members of the workspace.
fn members() -> Metadata {
    let mut command = MetadataCommand::new();
    let metadata = command.current_dir(workspace::root()).no_deps().exec();
    metadata.expect("cargo describes the workspace")
}

/// All files below a folder with an ending, by their path from the root and their text.
fn files(folder: &Path, ending: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            let is_member = folder != workspace::root() && path.join("Cargo.toml").exists();
            let name = path.file_name().expect("a name").to_string_lossy();
            if name != "target" && !name.starts_with('.') && !is_member {
                found.extend(files(&path, ending));
            }
        } else if path.extension().is_some_and(|found| found == ending) {
            let name = path.strip_prefix(workspace::root()).expect("below the root");
            found.push((
                name.display().to_string(),
                fs::read_to_string(&path).expect("a text"),
            ));
        }
    }
    found
}

/// The sources of all members, each once.
fn sources() -> Vec<(String, String)> {
    let packages = members().packages.into_iter();
    let folders = packages.map(|package| package.manifest_path.parent().expect("a folder").to_owned());
    let found: Vec<_> = folders
        .flat_map(|folder| files(folder.as_std_path(), "rs"))
        .collect();
    assert!(found.len() > 1_000, "the sources are read: {}", found.len());
    found
}

fn listed(found: Vec<(String, Vec<Fault>)>) -> Vec<String> {
    let lines = found.into_iter().flat_map(|(file, faults)| {
        let faults = faults.into_iter().filter(|fault| {
            let is_exception =
                |(path, phrase, _): &&(&str, &str, &str)| *path == file && *phrase == fault.words;
            !EXCEPTIONS.iter().any(|exception| is_exception(&exception))
        });
        let lines: Vec<_> = faults.map(|fault| format!("{file}:{fault}")).collect();
        lines
    });
    lines.collect()
}

#[test]
fn doc_comments_have_a_subject() {
    let found = sources().into_iter();
    let found = listed(
        found
            .map(|(file, text)| (file, language::headless_comments(&text)))
            .collect(),
    );
    assert!(
        found.is_empty(),
        "{} comments:\n{}",
        found.len(),
        found.join("\n")
    );
}

#[test]
fn comments_have_plain_phrases() {
    // This file and its reader contain the phrases as examples.
    let others = sources()
        .into_iter()
        .filter(|(file, _)| !file.ends_with("language.rs"));
    let found = listed(
        others
            .map(|(file, text)| (file, language::phrases_in_comments(&text)))
            .collect(),
    );
    assert!(
        found.is_empty(),
        "{} comments:\n{}",
        found.len(),
        found.join("\n")
    );
}

#[test]
fn strings_of_programs_have_plain_phrases() {
    let programs = sources().into_iter();
    let programs = programs.filter(|(file, _)| {
        !file.starts_with("tests/") && !file.split('/').any(|part| part == "tests" || part == "tests.rs")
    });
    let found = programs.map(|(file, text)| {
        let faults = language::phrases_in_strings(&text);
        let faults = faults.unwrap_or_else(|error| panic!("{file}: {error}"));
        (file, faults)
    });
    let found = listed(found.collect());
    assert!(found.is_empty(), "{} strings:\n{}", found.len(), found.join("\n"));
}

#[test]
fn pages_have_plain_phrases() {
    let root = workspace::root();
    let mut pages = files(&root.join("docs"), "md");
    for page in ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"] {
        let text = fs::read_to_string(root.join(page)).expect("a page");
        pages.push((page.to_owned(), text));
    }
    let found = pages.into_iter();
    let found = listed(
        found
            .map(|(page, text)| (page, language::phrases_in_page(&text)))
            .collect(),
    );
    assert!(found.is_empty(), "{} lines:\n{}", found.len(), found.join("\n"));
}
