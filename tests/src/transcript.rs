//! [`Transcript`] is the page with the output of each command at two widths of a terminal, and the parts of it that
//! do not change between runs.

use std::fmt::Write as _;

use crate::terminal::Printed;

const HEAD: &str = "\
<!-- Written by a real run: `HEADROOM_SCREENS=write cargo xtask test --kind apiserver screens`; the same test compares. -->

# Screens

What each command of `kubectl headroom` prints on terminals of 80 and of 120 columns, without colours. A test runs them all
in front of a real API server, a real webhook, a real agent and a real Prometheus server, and compares with this page;
ages, times, UIDs and generations may differ, and everything but the names of rows where something real is measured.

The cluster has four nodes. The agent of `worker-1` reports slack, the one of `worker-2` brakes on memory, and `worker-3`
has none. `worker-4` is in mode `static`, as before a cluster is switched on. The webhook writes compressed durations, and so says `demo timing`.
";

/// Parts of an output that do not change between runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sameness {
    /// All except ages, times, UIDs and generations of pods.
    Figures,
    /// Only the names of rows: all other cells are measured.
    Rows,
}

/// One command with its output.
#[derive(Debug)]
struct Screen {
    command: String,
    sameness: Sameness,
    narrow: Printed,
    wide: Printed,
}

/// Screens in the order of their commands.
#[derive(Debug, Default)]
pub struct Transcript(Vec<Screen>);

impl Transcript {
    /// Adds a command as a user types it, with its output at 80 and at 120 columns.
    pub fn add(&mut self, command: &str, sameness: Sameness, [narrow, wide]: [Printed; 2]) {
        self.0.push(Screen {
            command: command.to_owned(),
            sameness,
            narrow,
            wide,
        });
    }

    pub fn page(&self) -> String {
        let mut page = HEAD.to_owned();
        for screen in &self.0 {
            let Screen {
                command,
                narrow,
                wide,
                ..
            } = screen;
            write!(page, "\n## `{command}`\n").expect("memory");
            let [at_80, at_120] = [narrow, wide].map(|printed| masked(&printed.text, screen.sameness));
            let widths: &[_] = if at_80 == at_120 {
                &[("80 and 120 columns", narrow)]
            } else {
                &[("80 columns", narrow), ("120 columns", wide)]
            };
            for (columns, Printed { text, code, .. }) in widths {
                let code = code.filter(|code| *code != 0);
                let code = code.map(|code| format!(", exit code {code}")).unwrap_or_default();
                write!(page, "\n{columns}{code}:\n\n```text\n{}\n```\n", text.trim_end()).expect("memory");
            }
        }
        page
    }

    /// Unchanging parts of a page, this one or the one in the repository. Sections are found by their titles.
    pub fn lasting(&self, page: &str) -> Vec<String> {
        let sections = page.split("\n## ");
        sections.flat_map(|section| self.lasting_lines(section)).collect()
    }

    fn lasting_lines(&self, section: &str) -> Vec<String> {
        let title = section.lines().next().unwrap_or_default();
        let screen = self
            .0
            .iter()
            .find(|screen| title.trim_matches('`') == screen.command);
        match screen.map_or(Sameness::Figures, |screen| screen.sameness) {
            Sameness::Figures => masked(section, Sameness::Figures),
            Sameness::Rows => {
                let mut rows = vec![title.to_owned()];
                for row in section.lines().filter_map(row_name) {
                    if !rows.contains(&row) {
                        rows.push(row);
                    }
                }
                rows
            }
        }
    }
}

/// Name of a table's row, which ends with two blanks; `None` for other lines and for continued cells.
fn row_name(line: &str) -> Option<String> {
    let name = line.trim_start();
    let is_cell = line.len() - name.len() <= 3;
    let (name, _) = name.split_once("  ").filter(|_| is_cell)?;
    Some(without_figures(name))
}

/// Lines with variable parts masked.
fn masked(text: &str, sameness: Sameness) -> Vec<String> {
    text.lines().map(|line| masked_line(line, sameness)).collect()
}

/// A line with variable parts masked; several blanks become one.
fn masked_line(line: &str, sameness: Sameness) -> String {
    let mut before = "";
    let words = line.split_whitespace().map(|word| {
        let is_count_of_changes = std::mem::replace(&mut before, word) == "generation";
        match sameness {
            Sameness::Figures if !is_count_of_changes => without_moment(word),
            Sameness::Figures | Sameness::Rows => without_figures(word),
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Masks an age, a time or a UID in a word.
fn without_moment(word: &str) -> String {
    let bare = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    let (figure, rest) = bare.split_at(bare.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(0));
    let is_age = !figure.is_empty() && (rest == "s" || rest.starts_with("s/"));
    let is_uid = bare.len() == 36 && bare.split('-').count() == 5;
    let is_time = bare.len() >= 20 && bare.ends_with('Z') && bare.get(10..11) == Some("T");
    if is_age {
        word.replacen(figure, "#", 1)
    } else if is_uid {
        word.replace(bare, "UID")
    } else if is_time {
        word.replace(bare, "TIME")
    } else {
        word.to_owned()
    }
}

/// Replaces each number and its fraction by `#`.
fn without_figures(word: &str) -> String {
    let mut hidden = String::new();
    let mut characters = word.chars().peekable();
    while let Some(c) = characters.next() {
        let is_inside = hidden.ends_with('#');
        let goes_on = characters.peek().is_some_and(char::is_ascii_digit);
        if !(c.is_ascii_digit() || is_inside && goes_on && matches!(c, ',' | '.')) {
            hidden.push(c);
        } else if !is_inside {
            hidden.push('#');
        }
    }
    hidden
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_times_and_uids_may_differ_and_figures_where_they_are_measured() {
        assert_eq!(
            masked_line("pods of generation 4711, 2 of 3", Sameness::Figures),
            "pods of generation #, 2 of 3"
        );
        let line = "n1  1.5s/hold  2025-01-01T00:00:00Z  3 of 1,500m  (5f0c6a3e-0000-4000-8000-000000000001)";
        assert_eq!(
            masked_line(line, Sameness::Figures),
            "n1 #s/hold TIME 3 of 1,500m (UID)"
        );
        assert_eq!(
            masked_line("use 1,500m of 2.5 cores", Sameness::Rows),
            "use #m of # cores"
        );
    }

    #[test]
    fn a_page_says_how_a_command_ended_and_shows_equal_screens_once() {
        let printed = |text: &str, code| Printed {
            text: text.to_owned(),
            is_styled: false,
            code: Some(code),
        };
        let mut transcript = Transcript::default();
        transcript.add(
            "a",
            Sameness::Figures,
            [printed("same\n", 1), printed("same\n", 1)],
        );
        let [narrow, wide] = ["NAME  A\nidle  7\n      goes on\n", "NAME  A\nidle  8 goes on\n"];
        transcript.add("b", Sameness::Rows, [printed(narrow, 0), printed(wide, 0)]);
        let page = transcript.page();
        assert!(
            page.contains("## `a`\n\n80 and 120 columns, exit code 1:\n\n```text\nsame\n```\n"),
            "{page}"
        );
        assert!(
            page.contains("\n80 columns:\n") && page.contains("\n120 columns:\n"),
            "{page}"
        );
        let other = "# Page\n\n## `b`\n\nNAME  A\nidle  9\nnot a row\n";
        assert_eq!(transcript.lasting(other)[1..], ["`b`", "NAME", "idle"]);
    }
}
