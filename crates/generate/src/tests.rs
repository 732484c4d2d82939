//! Tests of generated files, and of the detection of outdated ones.

use tempfile::TempDir;

use super::*;

const CHECK: Generate = Generate { check: true };
const WRITE: Generate = Generate { check: false };

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

/// A workspace with the up-to-date sample files.
fn workspace_with_sample() -> TempDir {
    let root = tempfile::tempdir().unwrap();
    for folder in FOLDERS {
        fs::create_dir(root.path().join(folder)).unwrap();
    }
    WRITE.run_in(root.path(), &SAMPLE, &[]).unwrap();
    CHECK.run_in(root.path(), &SAMPLE, &[]).unwrap();
    root
}

fn check_error(root: &TempDir, files: &[File]) -> String {
    CHECK.run_in(root.path(), files, &[]).unwrap_err().to_string()
}

#[test]
fn every_generated_file_has_the_note_in_its_first_line() {
    for file in &files() {
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
    let drifts = drifts(&workspace::root(), &files(), SECTIONS).unwrap();
    let shown: Vec<String> = drifts.iter().map(Drift::description).collect();
    assert!(shown.is_empty(), "{shown:#?}");
}

#[test]
fn changed_file_is_reported_and_fixed() {
    let root = workspace_with_sample();
    let path = root.path().join("deploy/a.yaml");
    let good = fs::read_to_string(&path).unwrap();
    fs::write(&path, good.replace("a: 1", "a: 2")).unwrap();
    assert!(check_error(&root, &SAMPLE).ends_with(": deploy/a.yaml"));
    // `--check` writes nothing.
    assert!(fs::read_to_string(&path).unwrap().contains("a: 2"));
    WRITE.run_in(root.path(), &SAMPLE, &[]).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), good);
}

#[test]
fn missing_file_is_reported_and_created() {
    let root = workspace_with_sample();
    fs::remove_dir_all(root.path().join("docs/reference")).unwrap();
    assert!(check_error(&root, &SAMPLE).ends_with(": docs/reference/b.md"));
    WRITE.run_in(root.path(), &SAMPLE, &[]).unwrap();
    CHECK.run_in(root.path(), &SAMPLE, &[]).unwrap();
}

#[test]
fn file_that_is_no_longer_generated_is_reported_and_removed() {
    let root = workspace_with_sample();
    fs::write(root.path().join("docs/by-hand.md"), "# By hand\n").unwrap();
    let [first, _] = &SAMPLE;
    let rest = std::slice::from_ref(first);
    assert!(check_error(&root, rest).ends_with(": docs/reference/b.md"));
    WRITE.run_in(root.path(), rest, &[]).unwrap();
    assert!(!root.path().join("docs/reference/b.md").exists());
    assert!(root.path().join("docs/by-hand.md").exists());
    CHECK.run_in(root.path(), rest, &[]).unwrap();
}

#[test]
fn section_is_replaced_only_between_its_comments() {
    let section = PageSection {
        path: "docs/page.md",
        name: "rows",
        text: || Ok("| a |\n".to_owned()),
    };
    let page = |rows: &str| format!("# Page\n\n<!-- rows: {NOTE} -->\n{rows}<!-- end of rows -->\n\nMore.\n");
    let wanted = page("\n| a |\n\n");
    for rows in ["", "\n| b |\n", "\n| a |\n\n"] {
        assert_eq!(section.insert_into(&page(rows)).unwrap(), wanted);
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
    let error = section.insert_into("# Page\n").unwrap_err().to_string();
    assert!(
        error.starts_with("docs/page.md has no line \"<!-- rows: "),
        "{error}"
    );
}

#[test]
fn difference_is_described() {
    let drift = |found: Option<&str>, wanted: Option<&str>| Drift {
        path: "a.md".into(),
        found: found.map(str::to_owned),
        wanted: wanted.map(str::to_owned),
    };
    for (found, wanted, shown) in [
        (Some("1\n2\n3\n"), Some("1\n2b\n3\n"), "a.md, line 2:\n-2\n+2b"),
        (Some("1\n"), Some("1\n2\n"), "a.md, line 2:\n+2"),
        (None, Some("1\n"), "a.md: missing"),
        (Some("1\n"), None, "a.md: no longer generated"),
    ] {
        assert_eq!(drift(found, wanted).description(), shown);
    }
}
