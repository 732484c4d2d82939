//! The commands that pages show: the lines of their blocks `console` that begin with a dollar.

use std::{fs, path::Path};

use xtask::workspace;

/// How the commands begin that whoever installs types one after the other in one shell.
pub const OF_AN_INSTALLER: [&str; 3] = ["kubectl ", "openssl ", "cd "];

/// The commands of a page in order, each in one line and without what is said of it behind two spaces and a `#`.
pub fn commands(page: &str) -> Vec<String> {
    let mut commands = Vec::new();
    for block in page.split("```console\n").skip(1) {
        let mut rest: Option<String> = None;
        for line in block.lines().take_while(|line| *line != "```") {
            let (mut command, part) = match (rest.take(), line.strip_prefix("$ ")) {
                (Some(before), _) => (before + " ", line.trim()),
                (None, Some(part)) => (String::new(), part),
                // What the command prints.
                (None, None) => continue,
            };
            let part = part.split("  # ").next().expect("a part").trim();
            if let Some(part) = part.strip_suffix('\\') {
                command += part.trim();
                rest = Some(command);
            } else {
                commands.push(command + part);
            }
        }
    }
    commands
}

/// The commands of a page below the root that begin like this.
pub fn page_commands(page: &str, start: &str) -> Vec<String> {
    let text = fs::read_to_string(workspace::root().join(page)).expect("a page");
    let mut commands = commands(&text);
    commands.retain(|command| command.starts_with(start));
    commands
}

/// The commands in code spans of a page that begin like this; entries of the journal are records, and no such page.
pub fn inline(page: &str, start: &str) -> Vec<String> {
    let blocks = page.split("```").step_by(2);
    let spans = blocks.flat_map(|text| text.split('`').skip(1).step_by(2));
    let commands = spans.map(|span| span.split_whitespace().collect::<Vec<_>>().join(" "));
    commands.filter(|command| command.starts_with(start)).collect()
}

/// What stands between that heading of second order and the next one.
pub fn section<'p>(page: &'p str, heading: &str) -> &'p str {
    let starts = format!("\n## {heading}\n");
    let (_, rest) = page.split_once(&starts).expect("the page has that heading");
    rest.split("\n## ").next().expect("a part")
}

/// The pages for people below the root: those of the root, of `docs` without its folders, and that of the installation.
pub fn pages(root: &Path) -> Vec<String> {
    let mut pages = vec!["deploy/kustomize/README.md".to_owned()];
    for folder in ["", "docs"] {
        for entry in fs::read_dir(root.join(folder)).expect("a folder") {
            let name = entry.expect("an entry").file_name();
            let name = Path::new(folder).join(name).display().to_string();
            if Path::new(&name).extension().is_some_and(|end| end == "md") {
                pages.push(name);
            }
        }
    }
    pages.sort_unstable();
    pages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_in_sentences_are_told_from_other_code() {
        let page = "`one a` and `one\nb`, not `two one c`\n```console\n$ one `d`\n```\nbut `one e`\n";
        assert_eq!(inline(page, "one "), ["one a", "one b", "one e"]);
    }

    #[test]
    fn a_section_ends_at_the_next_heading() {
        let page = "# Page\n\n## One\na\n### b\n\n## Two\nc\n";
        assert_eq!(
            (section(page, "One"), section(page, "Two")),
            ("a\n### b\n", "c\n")
        );
    }

    #[test]
    fn commands_are_told_from_what_they_print() {
        let page = "text\n```console\n$ one --flag   # why\nprinted\n$ two \\\n    --more=a  \\\n  --last\n```\n$ not here\n```console\n$ three | grep '#x'\n```\n";
        assert_eq!(
            commands(page),
            ["one --flag", "two --more=a --last", "three | grep '#x'"]
        );
    }
}
