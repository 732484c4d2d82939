//! Tests of the house rules that no lint covers: first lines, lengths and names of files, places of unsafe code, links
//! and citations of pages.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests panic: a returned error has no stack"
)]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use cargo_metadata::{MetadataCommand, TargetKind};
use xtask::workspace;

/// Lines of a file, its tests aside.
const LENGTH: usize = 400;
/// Names that do not describe a file's content.
const EMPTY_NAMES: [&str; 7] = ["utils", "util", "helpers", "common", "manager", "data", "info"];
/// The keyword, separate from the text after it, so that this file is no example of it.
const KEYWORD: &str = "unsafe";
/// Text after the keyword where it starts unsafe code.
const UNSAFE_FORMS: [&str; 5] = ["{", "fn ", "impl ", "extern ", "trait "];
/// Lines above unsafe code among which its justification is.
const REACH: usize = 6;
/// Folders and files that may contain unsafe code.
const UNSAFE_PLACES: [&str; 2] = ["agent-ebpf/src", "agent/src/kernel"];
/// Packages whose roots cannot forbid it.
const UNSAFE_PACKAGES: [&str; 2] = ["headroom-agent", "headroom-agent-ebpf"];
/// Lints that the workspace denies in every member.
const DENIED: [&str; 20] = [
    "unsafe_code",
    "unreachable_pub",
    "unused_qualifications",
    "elided_lifetimes_in_paths",
    "unwrap_used",
    "expect_used",
    "panic",
    "todo",
    "indexing_slicing",
    "exit",
    "print_stdout",
    "print_stderr",
    "dbg_macro",
    "undocumented_unsafe_blocks",
    "allow_attributes",
    "allow_attributes_without_reason",
    "clone_on_ref_ptr",
    "future_not_send",
    "map_err_ignore",
    "let_underscore_must_use",
];
const NONE: [&str; 0] = [];

/// A file of the repository: its path from the root, and its text.
struct File {
    path: PathBuf,
    text: String,
}

/// All files with one of the endings, except built and hidden ones.
fn files(ending: &str) -> Vec<File> {
    fn collect(root: &Path, folder: &Path, ending: &str, files: &mut Vec<File>) {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().expect("a name").to_string_lossy();
            if path.is_dir() {
                if name != "target" && !name.starts_with('.') {
                    collect(root, &path, ending, files);
                }
            } else if path.extension().is_some_and(|found| found == ending) {
                files.push(File {
                    text: fs::read_to_string(&path).expect("a text"),
                    path: path.strip_prefix(root).expect("below the root").to_owned(),
                });
            }
        }
    }
    let root = workspace::root();
    let mut files = Vec::new();
    collect(&root, &root, ending, &mut files);
    assert!(!files.is_empty(), "no .{ending} below {}", root.display());
    files
}

/// Faults of a single source file.
fn complaints(File { path, text }: &File) -> Vec<String> {
    let mut found = Vec::new();
    if !text.starts_with("//! ") {
        found.push("its first line is not a description".to_owned());
    }
    let stem = path.file_stem().expect("a name").to_string_lossy();
    if stem == "mod" {
        found.push("a module's file has the module's name".to_owned());
    }
    if EMPTY_NAMES.contains(&stem.as_ref()) {
        found.push("its name describes no content".to_owned());
    }
    let length = text.lines().take_while(|line| *line != "#[cfg(test)]").count();
    let is_test = path.iter().any(|part| part == "tests" || part == "tests.rs");
    if length > LENGTH && !is_test {
        found.push(format!("{length} lines without its tests"));
    }
    found.extend(unsafe_lines(path, text));
    found
        .into_iter()
        .map(|what| format!("{}: {what}", path.display()))
        .collect()
}

fn unsafe_lines(path: &Path, text: &str) -> Vec<String> {
    let may = UNSAFE_PLACES.iter().any(|place| path.starts_with(place));
    let forms = UNSAFE_FORMS.map(|rest| format!("{KEYWORD} {rest}"));
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let code = line.split("//").next().unwrap_or_default();
        if !forms.iter().any(|form| code.contains(form.as_str())) {
            continue;
        }
        let above = &lines[index.saturating_sub(REACH)..index];
        if !may {
            found.push(format!("unsafe code in line {}", index + 1));
        } else if !above.iter().any(|line| line.contains("// SAFETY: ")) {
            found.push(format!("no SAFETY comment for line {}", index + 1));
        }
    }
    found
}

/// Links of a page that lead to no file.
fn dead_links(root: &Path, File { path, text }: &File) -> Vec<String> {
    let folder = root.join(path).parent().expect("a folder").to_owned();
    let links = text
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split([')', ' ']).next());
    links
        .filter(|link| !link.contains("://") && !link.starts_with("mailto:"))
        .filter(|link| {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() {
                root.join(path)
            } else {
                folder.join(file)
            };
            let is_there = match anchor {
                "" => target.exists(),
                anchor => fs::read_to_string(target).is_ok_and(|text| anchors(&text).contains(anchor)),
            };
            !is_there
        })
        .map(|link| format!("{}: {link}", path.display()))
        .collect()
}

/// Anchors of a page's headings.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings
        .map(|line| {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            let kept = title
                .chars()
                .filter(|character| character.is_alphanumeric() || "-_ ".contains(*character));
            kept.collect::<String>().replace(' ', "-")
        })
        .collect()
}

fn file(path: &str, text: &str) -> File {
    File {
        path: path.into(),
        text: text.to_owned(),
    }
}

#[test]
fn every_source_file_keeps_the_house_rules() {
    let found: Vec<String> = files("rs").iter().flat_map(complaints).collect();
    assert_eq!(found, NONE);
}

#[test]
fn each_broken_house_rule_is_detected() {
    let long = format!("//! Long.\n{}", "//\n".repeat(LENGTH));
    let block = format!("//! Block.\nfn f() {{ {KEYWORD} {{ g() }} }}\n");
    let justified = block.replace("fn f()", "// SAFETY: nothing is touched.\nfn f()");
    for (path, text, complaint) in [
        ("kit/src/a.rs", "use std::fs;\n", Some("first line")),
        ("kit/src/mod.rs", "//! A module.\n", Some("module's name")),
        (
            "kit/src/utils.rs",
            "//! All sorts.\n",
            Some("describes no content"),
        ),
        ("kit/src/long.rs", &long, Some("401 lines")),
        ("kit/src/long/tests.rs", &long, None),
        ("kit/src/a.rs", &long.replacen("//\n", "#[cfg(test)]\n", 1), None),
        ("kit/src/a.rs", &block, Some("unsafe code in line 2")),
        ("kit/src/a.rs", &justified, Some("unsafe code in line 3")),
        (
            "agent/src/kernel/probe/heap.rs",
            &block,
            Some("SAFETY comment for line 2"),
        ),
        ("agent/src/kernel/probe/heap.rs", &justified, None),
        ("agent/src/kernels.rs", &justified, Some("unsafe code")),
    ] {
        let found = complaints(&file(path, text));
        assert_eq!(found.len(), usize::from(complaint.is_some()), "{found:?}");
        assert!(
            found
                .iter()
                .all(|found| found.contains(complaint.unwrap_or_default())),
            "{found:?}"
        );
    }
}

#[test]
fn crate_roots_forbid_unsafe_code() {
    let mut command = MetadataCommand::new();
    let metadata = command.current_dir(workspace::root()).no_deps().exec();
    let mut roots = 0;
    for package in metadata.expect("cargo describes the workspace").packages {
        for target in package.targets {
            if UNSAFE_PACKAGES.contains(&package.name.as_str())
                || target.kind.contains(&TargetKind::CustomBuild)
            {
                continue;
            }
            let text = fs::read_to_string(&target.src_path).expect("a crate root");
            let forbids = text.lines().any(|line| line == "#![forbid(unsafe_code)]");
            assert!(forbids, "{} does not forbid unsafe code", target.src_path);
            roots += 1;
        }
    }
    assert!(roots > UNSAFE_PACKAGES.len());
}

#[test]
fn workspace_denies_the_required_lints() {
    let manifest = fs::read_to_string(workspace::root().join("Cargo.toml")).expect("the root manifest");
    for lint in DENIED {
        assert!(
            manifest.lines().any(|line| line == format!("{lint} = \"deny\"")),
            "{lint}"
        );
    }
}

#[test]
fn links_between_pages_resolve() {
    let root = workspace::root();
    let dead: Vec<String> = files("md")
        .iter()
        .flat_map(|page| dead_links(&root, page))
        .collect();
    assert_eq!(dead, NONE);
}

/// Pages that comments cite and that are not there, or have no such heading; and texts that are in no repository of ours.
fn dead_citations(root: &Path, File { path, text }: &File) -> Vec<String> {
    let comments = text.lines().filter_map(|line| Some(line.split_once("//")?.1));
    let words = comments.flat_map(|comment| comment.split([' ', '(', ')', '`', ',', ':', ';']));
    let pages = words.map(|word| word.trim_end_matches(['.', '!', '/']));
    pages
        .filter(|page| {
            let file = page.split('#').next().unwrap_or_default();
            Path::new(file).extension().is_some_and(|ending| ending == "md")
        })
        .filter(|page| {
            let (file, anchor) = page.split_once('#').unwrap_or((page, ""));
            let text = fs::read_to_string(root.join(file));
            !text.is_ok_and(|text| anchor.is_empty() || anchors(&text).contains(anchor))
        })
        .map(|page| format!("{}: {page}", path.display()))
        .collect()
}

#[test]
fn names_cited_in_comments_exist() {
    let root = workspace::root();
    let sources = files("rs");
    // This file has citations for examples.
    let others = sources.iter().filter(|file| !file.path.ends_with("sources.rs"));
    let dead: Vec<String> = others.flat_map(|file| dead_citations(&root, file)).collect();
    assert_eq!(dead, NONE);
}

#[test]
fn dead_citations_are_detected() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("a.md"), "# A\n## Here, we are\n").expect("a file");
    let text = "//! See a.md.\n// See a.md#here-we-are, and (a.md#there); b.md.\nlet name = \"c.md\";\n";
    assert_eq!(
        dead_citations(folder.path(), &file("x.rs", text)),
        ["x.rs: a.md#there", "x.rs: b.md"]
    );
}

#[test]
fn dead_links_are_detected() {
    let page =
        "[a](../LICENSE) [b](nowhere.md) [c](https://x.y/z) [d](#here-we-are) [e](#there)\n## Here, we are\n";
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("docs")).expect("a folder");
    for (path, text) in [("LICENSE", ""), ("docs/page.md", page)] {
        fs::write(folder.path().join(path), text).expect("a file");
    }
    assert_eq!(
        dead_links(folder.path(), &file("docs/page.md", page)),
        ["docs/page.md: nowhere.md", "docs/page.md: #there"]
    );
}
