//! Tests of the names in the sources: no function is named by a bare verb such as `take` or `look`, and no two types of
//! a package share a name.

use std::path::Path;

use cargo_metadata::MetadataCommand;
use e2e::names::Names;
use xtask::workspace;

/// What a reader cannot tell from `table.take(x)`: record, apply, observe, notify, get and the like say it.
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
    let empty = empty.map(|(name, places)| format!("{package}: fn {name} says not what it does: {places:?}"));
    twice.chain(empty).collect()
}

#[test]
fn names_say_the_role_and_no_type_has_that_of_another() {
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
fn each_bad_name_is_noticed() {
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
