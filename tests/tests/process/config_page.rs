//! Tests that docs/slo-configuration.md shows the output of `kubectl headroom config`.
#![expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]

use std::path::Path;

use clap::Parser as _;
use e2e::slo_commands::{SloCommands, is_yaml_file};
use kubectl_headroom::{Args, run, screen::Screen};

/// Output of a command with files from that folder.
async fn printed(command: &str, folder: &Path) -> String {
    let words = command.split(' ').map(|word| {
        if is_yaml_file(word) {
            folder.join(word).display().to_string()
        } else {
            word.to_owned()
        }
    });
    let words = ["kubectl-headroom".to_owned()].into_iter().chain(words);
    let mut out = Vec::new();
    let args = Args::try_parse_from(words).expect("arguments");
    // A refused version is an error; the page shows the output before it.
    let _is_accepted = run(args, &mut Screen::plain(&mut out)).await.is_ok();
    String::from_utf8(out).expect("text")
}

#[tokio::test]
async fn page_equals_the_commands_output() {
    let page = SloCommands::load();
    let folder = tempfile::tempdir().expect("a folder");
    assert_eq!((page.files.len(), page.commands.len()), (3, 3));
    page.write_files(folder.path());
    let mut wrong = String::new();
    for (command, shown) in &page.commands {
        let command = command.strip_prefix("kubectl headroom ").expect("a command");
        let found = printed(command, folder.path()).await;
        assert!(!found.is_empty(), "{command}");
        if found != *shown {
            wrong.extend(["$ kubectl headroom ", command, "\n", &found, "\n"]);
        }
    }
    assert!(wrong.is_empty(), "the commands print:\n{wrong}");
}
