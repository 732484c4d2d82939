//! Commands of documentation pages: the lines of their `console` blocks that start with a dollar sign.

use std::{fs, path::Path};

use xtask::workspace;

/// Prefixes of the commands that an installer types one after the other in one shell.
pub const INSTALLER_COMMANDS: [&str; 3] = ["kubectl ", "openssl ", "cd "];

/// Commands of a page in order, each on one line, without the comment after two spaces and a `#`.
pub fn commands(page: &str) -> Vec<String> {
    let mut commands = Vec::new();
    for block in page.split("```console\n").skip(1) {
        let mut rest: Option<String> = None;
        for line in block.lines().take_while(|line| *line != "```") {
            let (mut command, part) = match (rest.take(), line.strip_prefix("$ ")) {
                (Some(before), _) => (before + " ", line.trim()),
                (None, Some(part)) => (String::new(), part),
                // Output of the command.
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

/// Commands of a page, relative to the root, that start with `start`.
pub fn page_commands(page: &str, start: &str) -> Vec<String> {
    let text = fs::read_to_string(workspace::root().join(page)).expect("a page");
    let mut commands = commands(&text);
    commands.retain(|command| command.starts_with(start));
    commands
}

/// Commands in code spans of a page that start with `start`. Journal entries are records and do not count.
pub fn inline(page: &str, start: &str) -> Vec<String> {
    let blocks = page.split("```").step_by(2);
    let spans = blocks.flat_map(|text| text.split('`').skip(1).step_by(2));
    let commands = spans.map(|span| span.split_whitespace().collect::<Vec<_>>().join(" "));
    commands.filter(|command| command.starts_with(start)).collect()
}

/// Text between this second-level heading and the next one.
pub fn section<'p>(page: &'p str, heading: &str) -> &'p str {
    let starts = format!("\n## {heading}\n");
    let (_, rest) = page.split_once(&starts).expect("the page has that heading");
    rest.split("\n## ").next().expect("a part")
}

/// User documentation relative to the root: pages of the root, of `docs` without its folders, and of the
/// installation.
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
