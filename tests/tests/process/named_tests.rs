//! Tests of the pages whose rows name the tests that show them: each of those is a function in the tree.

use std::{collections::BTreeSet, fs};

use e2e::names::workspace_functions;
use xtask::workspace;

const PAGES: [&str; 3] = ["SECURITY.md", "docs/compatibility.md", "docs/faults.md"];
/// Starts of the names of metrics: ours, and those of Koordinator's libraries.
const METRICS: [&str; 4] = [
    "headroom_",
    "koord_manager_",
    "controller_runtime_",
    "certwatcher_",
];
/// Minimum number of words in a test's name; a shorter name describes no behaviour.
const FEWEST_WORDS: usize = 4;

/// The tests that the rows of a page name.
fn named(page: &str) -> BTreeSet<&str> {
    let rows = page.lines().filter(|line| line.starts_with('|'));
    let quoted = rows.flat_map(|row| row.split('`').skip(1).step_by(2));
    let is_test = |name: &&str| {
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        let is_metric = METRICS.iter().any(|start| name.starts_with(start));
        !is_metric && name.bytes().all(is_plain) && name.split('_').count() >= FEWEST_WORDS
    };
    quoted.filter(is_test).collect()
}

#[test]
fn tests_named_by_pages_exist() {
    let functions = workspace_functions(&workspace::root());
    for page in PAGES {
        let text = fs::read_to_string(workspace::root().join(page)).expect("a page");
        let named = named(&text);
        assert!(named.len() > 10, "{page} is read: {named:?}");
        let missing: Vec<_> = named
            .into_iter()
            .filter(|name| !functions.contains(*name))
            .collect();
        assert!(
            missing.is_empty(),
            "{page} names tests that are not there: {missing:#?}"
        );
    }
}

#[test]
fn test_names_are_distinguished_from_other_words_of_a_row() {
    let page = "`not_in_a_row`\n| `floor` | `a_node_is_full`, `raw_one_two`, `headroom_lines_dropped_total`, `certwatcher_read_certificate_total` and `n1_on_this_kernel_too` | `shortage::x_y_z_a` |\n";
    assert_eq!(
        named(page),
        BTreeSet::from(["a_node_is_full", "n1_on_this_kernel_too"])
    );
}
