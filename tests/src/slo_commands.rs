//! [`SloCommands`]: the commands of docs/slo-configuration.md with their output, and their input files.

use std::{ffi::OsStr, fs, path::Path};

use xtask::workspace;

/// The commands `kubectl headroom config` on the page.
#[derive(Debug)]
pub struct SloCommands {
    /// Input files: name and text.
    pub files: Vec<(String, String)>,
    /// Commands, each with its output.
    pub commands: Vec<(String, String)>,
}

impl SloCommands {
    pub fn load() -> Self {
        let file = workspace::root().join("docs/slo-configuration.md");
        let text = fs::read_to_string(file).expect("the page");
        let (_, section) = text.split_once("## Before it is written").expect("the section");
        let (section, _) = section.split_once("\n## ").expect("its end");
        let files = blocks(section, "yaml").into_iter();
        let commands = blocks(section, "console").into_iter().map(|(_, block)| {
            let (command, printed) = block.split_once('\n').expect("a command and what it prints");
            let command = command.strip_prefix("$ ").expect("a command");
            (command.to_owned(), printed.to_owned())
        });
        Self {
            files: files
                .map(|(before, text)| (file_name(before).to_owned(), text.to_owned()))
                .collect(),
            commands: commands.collect(),
        }
    }

    pub fn write_files(&self, folder: &Path) {
        for (name, text) in &self.files {
            fs::write(folder.join(name), text).expect("write");
        }
    }
}

/// Blocks of a language, each with the text between the previous block and it.
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

/// The last file name before a block.
fn file_name(before: &str) -> &str {
    let name = before.rsplit('`').find(|word| is_yaml_file(word));
    name.expect("the name of a file")
}

/// True for a YAML file name.
pub fn is_yaml_file(word: &str) -> bool {
    let is_yaml = |extension: &OsStr| extension == "yaml";
    Path::new(word).extension().is_some_and(is_yaml) && !word.contains(' ')
}
