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
