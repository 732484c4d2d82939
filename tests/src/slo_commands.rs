//! [`SloCommands`]: the commands of docs/slo-configuration.md with what they print, and the files that they read.

use std::{ffi::OsStr, fs, path::Path};

use xtask::workspace;

/// What the page shows of `kubectl headroom config`.
#[derive(Debug)]
pub struct SloCommands {
    /// The files that the commands read: name and text.
    pub files: Vec<(String, String)>,
    /// The commands, each with what it prints.
    pub commands: Vec<(String, String)>,
}

impl SloCommands {
    /// The page as it stands.
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

    /// Writes the files that the commands read.
    pub fn write_files(&self, folder: &Path) {
        for (name, text) in &self.files {
            fs::write(folder.join(name), text).expect("write");
        }
    }
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
    let name = before.rsplit('`').find(|word| is_yaml_file(word));
    name.expect("the name of a file")
}

/// True of the name of a file of YAML.
pub fn is_yaml_file(word: &str) -> bool {
    let is_yaml = |extension: &OsStr| extension == "yaml";
    Path::new(word).extension().is_some_and(is_yaml) && !word.contains(' ')
}
