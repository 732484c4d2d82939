//! Tests of the generated files, and of the detection of drift.

use tempfile::TempDir;

use super::*;

const CHECK: Generate = Generate { check: true };
const WRITE: Generate = Generate { check: false };

/// Two small files.
static SAMPLE: [File; 2] = [
    File {
        path: "deploy/a.yaml",
        text: || Ok("a: 1\n".to_owned()),
    },
    File {
        path: "docs/reference/b.md",
        text: || Ok("# B\n".to_owned()),
    },
];

/// A workspace in which the sample is up to date.
fn workspace_with_sample() -> TempDir {
    let root = tempfile::tempdir().unwrap();
    for folder in FOLDERS {
        fs::create_dir(root.path().join(folder)).unwrap();
    }
    WRITE.run_in(root.path(), &SAMPLE, &[]).unwrap();
    CHECK.run_in(root.path(), &SAMPLE, &[]).unwrap();
    root
}

fn complaint(root: &TempDir, files: &[File]) -> String {
    CHECK.run_in(root.path(), files, &[]).unwrap_err().to_string()
}

#[test]
fn every_file_can_be_generated_and_says_so_in_its_first_line() {
    for file in FILES {
        let content = file.content().unwrap();
        assert!(content.lines().next().unwrap().contains(NOTE), "{}", file.path);
        assert!(
            content.ends_with('\n') && !content.ends_with("\n\n"),
            "{}",
            file.path
        );
        assert_eq!(
            content,
            file.content().unwrap(),
            "{} differs from run to run",
            file.path
        );
        assert!(
            FOLDERS.iter().any(|folder| file.path.starts_with(folder)),
            "{}",
            file.path
        );
    }
}

#[test]
fn this_workspace_is_up_to_date() {
    let drifts = drifts(&workspace::root(), FILES, SECTIONS).unwrap();
    let shown: Vec<String> = drifts.iter().map(Drift::shown).collect();
    assert!(shown.is_empty(), "{shown:#?}");
}

#[test]
fn a_changed_file_is_named_and_mended() {
    let root = workspace_with_sample();
    let path = root.path().join("deploy/a.yaml");
    let good = fs::read_to_string(&path).unwrap();
    fs::write(&path, good.replace("a: 1", "a: 2")).unwrap();
    assert!(complaint(&root, &SAMPLE).ends_with(": deploy/a.yaml"));
    // Looking does not touch.
    assert!(fs::read_to_string(&path).unwrap().contains("a: 2"));
    WRITE.run_in(root.path(), &SAMPLE, &[]).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), good);
}

#[test]
fn a_missing_file_is_named_and_made() {
    let root = workspace_with_sample();
    fs::remove_dir_all(root.path().join("docs/reference")).unwrap();
    assert!(complaint(&root, &SAMPLE).ends_with(": docs/reference/b.md"));
    WRITE.run_in(root.path(), &SAMPLE, &[]).unwrap();
    CHECK.run_in(root.path(), &SAMPLE, &[]).unwrap();
}

#[test]
fn a_file_left_over_is_named_and_removed_and_others_are_left_alone() {
    let root = workspace_with_sample();
    fs::write(root.path().join("docs/by-hand.md"), "# By hand\n").unwrap();
    let [first, _] = &SAMPLE;
    let rest = std::slice::from_ref(first);
    assert!(complaint(&root, rest).ends_with(": docs/reference/b.md"));
    WRITE.run_in(root.path(), rest, &[]).unwrap();
    assert!(!root.path().join("docs/reference/b.md").exists());
    assert!(root.path().join("docs/by-hand.md").exists());
    CHECK.run_in(root.path(), rest, &[]).unwrap();
}

#[test]
fn a_section_is_written_between_its_comments_and_nothing_around_it_is_touched() {
    let section = PageSection {
        path: "docs/page.md",
        name: "rows",
        text: || Ok("| a |\n".to_owned()),
    };
    let page = |rows: &str| format!("# Page\n\n<!-- rows: {NOTE} -->\n{rows}<!-- end of rows -->\n\nMore.\n");
    let wanted = page("\n| a |\n\n");
    for rows in ["", "\n| b |\n", "\n| a |\n\n"] {
        assert_eq!(section.within(&page(rows)).unwrap(), wanted);
    }
    let root = workspace_with_sample();
    let path = root.path().join(section.path);
    fs::write(&path, page("")).unwrap();
    let sections = [section];
    let drifted = CHECK.run_in(root.path(), &SAMPLE, &sections).unwrap_err();
    assert!(drifted.to_string().ends_with(": docs/page.md"), "{drifted}");
    WRITE.run_in(root.path(), &SAMPLE, &sections).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), wanted);
    CHECK.run_in(root.path(), &SAMPLE, &sections).unwrap();

    let [section] = &sections;
    let error = section.within("# Page\n").unwrap_err().to_string();
    assert!(
        error.starts_with("docs/page.md has no line \"<!-- rows: "),
        "{error}"
    );
}

#[test]
fn what_is_wrong_is_shown() {
    let drift = |found: Option<&str>, wanted: Option<&str>| Drift {
        path: "a.md".into(),
        found: found.map(str::to_owned),
        wanted: wanted.map(str::to_owned),
    };
    for (found, wanted, shown) in [
        (Some("1\n2\n3\n"), Some("1\n2b\n3\n"), "a.md, line 2:\n-2\n+2b"),
        (Some("1\n"), Some("1\n2\n"), "a.md, line 2:\n+2"),
        (None, Some("1\n"), "a.md: missing"),
        (Some("1\n"), None, "a.md: left over, nothing generates it"),
    ] {
        assert_eq!(drift(found, wanted).shown(), shown);
    }
}
