//! Every quotation in docs/extending.md stands in the file that the page names.
#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "tests panic: a returned error has no stack"
)]

use std::{fs, path::Path};

use xtask::workspace;

/// Line that marks an omission in a quotation.
const ELISION: &str = "// ...";

/// Quotations of a page that are not in the file that the last link above them leads to.
fn misquoted(page: &Path) -> (usize, Vec<String>) {
    let text = fs::read_to_string(page).expect("a page");
    let folder = page.parent().expect("a folder");
    let (mut quoted, mut wrong) = (0, Vec::new());
    let mut parts = text.split("```rust\n");
    let mut before = parts.next().expect("a beginning").to_owned();
    for part in parts {
        let (quotation, after) = part.split_once("\n```").expect("an end of each quotation");
        let link = before.rsplit("](").next().and_then(|rest| rest.split(')').next());
        let file = folder.join(link.expect("a link above each quotation"));
        let source = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let mut rest = source.as_str();
        for piece in quotation.split(ELISION) {
            let piece = piece.trim_matches('\n');
            match rest.split_once(piece) {
                Some((_, later)) => rest = later,
                None => wrong.push(format!("{}: {piece}", file.display())),
            }
        }
        quoted += 1;
        after.clone_into(&mut before);
    }
    (quoted, wrong)
}

#[test]
fn paths_quoted_by_the_page_exist() {
    let (quoted, wrong) = misquoted(workspace::root().join("docs/extending.md").as_ref());
    assert!(
        quoted >= 9,
        "each of the four is followed in quotations: {quoted}"
    );
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn misquotations_are_detected() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("a.rs"), "fn a() {}\nfn b() {}\n").expect("a file");
    let page = folder.path().join("page.md");
    let quotations = "In [a](a.rs):\n\n```rust\nfn a() {}\n// ...\nfn b() {}\n```\n\nand [it](a.rs):\n\n```rust\nfn c() {}\n```\n";
    fs::write(&page, quotations).expect("a page");
    let (quoted, wrong) = misquoted(&page);
    assert_eq!((quoted, wrong.len()), (2, 1), "{wrong:?}");
    assert!(wrong[0].ends_with("a.rs: fn c() {}"), "{wrong:?}");
}
