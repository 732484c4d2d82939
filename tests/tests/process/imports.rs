//! The files of one crate import each other in no circle.

use cargo_metadata::{MetadataCommand, TargetKind};
use e2e::imports::Imports;
use xtask::workspace;

#[test]
fn files_of_one_crate_import_each_other_in_no_circle() {
    let mut command = MetadataCommand::new();
    let metadata = command.current_dir(workspace::root()).no_deps().exec();
    let (mut rings, mut files) = (Vec::new(), 0);
    for package in metadata.expect("cargo describes the workspace").packages {
        let libraries = package.targets.iter();
        for library in libraries.filter(|target| target.kind.contains(&TargetKind::Lib)) {
            let folder = library.src_path.parent().expect("a folder");
            let imports = Imports::read(folder.as_std_path());
            let lines = imports.lines();
            files += lines.len();
            println!("{}\n    {}", package.name, lines.join("\n    "));
            rings.extend(
                imports
                    .rings()
                    .into_iter()
                    .map(|ring| (package.name.to_string(), ring)),
            );
        }
    }
    assert!(files > 300, "the sources are read");
    assert!(
        rings.is_empty(),
        "files import each other in a circle: {rings:#?}"
    );
}

/// Crates whose rooms docs/architecture.md shows.
const SHOWN: [&str; 2] = ["agent", "webhook"];

#[test]
fn the_page_shows_which_room_imports_which() {
    let root = workspace::root();
    let page = std::fs::read_to_string(root.join("docs/architecture.md")).expect("a page");
    for member in SHOWN {
        let rooms = Imports::read(root.join(member).join("src").as_ref()).rooms();
        let block = format!("```text\n{member}\n  {}\n```", rooms.join("\n  "));
        println!("{block}");
        assert!(
            page.contains(&block),
            "docs/architecture.md does not show:\n{block}"
        );
    }
}
