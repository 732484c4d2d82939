//! docs/slo-configuration.md shows what `kubectl headroom config` prints.
#![expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]

use std::{fs, path::Path};

use clap::Parser as _;
use kubectl_headroom::{args::Args, run, screen::Screen};
use xtask::workspace;

/// The section, with files as blocks of YAML and commands as blocks of a console.
fn section() -> String {
    let page = fs::read_to_string(workspace::root().join("docs/slo-configuration.md")).expect("the page");
    let (_, rest) = page.split_once("## Before it is written").expect("the section");
    let (section, _) = rest.split_once("\n## ").expect("its end");
    section.to_owned()
}

/// The blocks of that language, each with the text between the one before and it.
fn blocks<'s>(section: &'s str, language: &str) -> Vec<(&'s str, &'s str)> {
    let fence = format!("```{language}\n");
    let mut found = Vec::new();
    let mut rest = section;
    while let Some((before, after)) = rest.split_once(&fence) {
        let (block, behind) = after.split_once("```\n").expect("the end of a block");
        found.push((before, block));
        rest = behind;
    }
    found
}

/// The file that is named last before a block.
fn file_name(before: &str) -> &str {
    let name = before.rsplit('`').find(|word| is_file(word));
    name.expect("the name of a file")
}

fn is_file(word: &str) -> bool {
    Path::new(word)
        .extension()
        .is_some_and(|extension| extension == "yaml")
        && !word.contains(' ')
}

/// What a command prints, with files from that folder.
async fn printed(command: &str, folder: &Path) -> String {
    let words = command.split(' ').map(|word| {
        if is_file(word) {
            folder.join(word).display().to_string()
        } else {
            word.to_owned()
        }
    });
    let words = ["kubectl-headroom".to_owned()].into_iter().chain(words);
    let mut out = Vec::new();
    let args = Args::try_parse_from(words).expect("arguments");
    // Of a version that is refused that is an error; the page shows what is printed before.
    let _is_accepted = run(args, &mut Screen::plain(&mut out)).await.is_ok();
    String::from_utf8(out).expect("text")
}

#[tokio::test]
async fn the_page_shows_what_the_commands_print() {
    let section = section();
    let folder = tempfile::tempdir().expect("a folder");
    let files = blocks(&section, "yaml");
    assert_eq!(files.len(), 3);
    for (before, text) in files {
        fs::write(folder.path().join(file_name(before)), text).expect("write");
    }
    let commands = blocks(&section, "console");
    assert_eq!(commands.len(), 3);
    let mut wrong = String::new();
    for (_, block) in commands {
        let (command, shown) = block.split_once('\n').expect("a command and what it prints");
        let command = command.strip_prefix("$ kubectl headroom ").expect("a command");
        let found = printed(command, folder.path()).await;
        assert!(!found.is_empty(), "{command}");
        if found != shown {
            wrong.extend(["$ kubectl headroom ", command, "\n", &found, "\n"]);
        }
    }
    assert!(wrong.is_empty(), "the commands print:\n{wrong}");
}
