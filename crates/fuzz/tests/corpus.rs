//! Replays every input of the corpora through its fuzz target.
#![forbid(unsafe_code)]
#![expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]

use std::{
    collections::BTreeSet,
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
};

use headroom_fuzz::{TARGETS, Target};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/fuzz")
        .join(name)
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths
}

#[test]
fn corpus_inputs_pass_their_targets() {
    for Target { name, check } in TARGETS {
        let inputs = entries(&folder("corpus").join(name));
        assert!(
            inputs.len() > 3,
            "the corpus of {name} has only {} inputs",
            inputs.len()
        );
        for input in inputs {
            let bytes = fs::read(&input).expect("an input");
            let checked = catch_unwind(AssertUnwindSafe(|| check(&bytes)));
            assert!(checked.is_ok(), "{name}: {}", input.display());
        }
    }
}

#[test]
fn every_target_has_a_file_and_a_corpus() {
    let targets: BTreeSet<String> = TARGETS.iter().map(|target| target.name.to_owned()).collect();
    let names = |folder: PathBuf| -> BTreeSet<String> {
        let entries = entries(&folder).into_iter();
        let stems = entries.filter_map(|path| Some(path.file_stem()?.to_string_lossy().into_owned()));
        stems.collect()
    };
    assert_eq!(names(folder("fuzz_targets")), targets);
    assert_eq!(names(folder("corpus")), targets);
}
