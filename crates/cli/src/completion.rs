//! Completes command lines of `kubectl headroom`. kubectl calls a program named `kubectl_complete-headroom` with the
//! words
//! so far, and reads candidates and, in the last line, a directive.

use std::time::Duration;

use clap::{Arg, ArgAction, Command, CommandFactory as _, Parser as _, ValueHint};
use tokio::time::timeout;

use crate::{cmd::Args, connect};

/// Program name under which kubectl requests completion from a plugin.
pub const PROGRAM: &str = "kubectl_complete-headroom";

/// Limit of fetching node names; without an answer, none are offered.
const NODES_WITHIN: Duration = Duration::from_secs(2);
/// kubectl's directive that lets the shell complete file names.
const FILES: u8 = 0;
/// kubectl's directive that turns completion of file names off.
const NO_FILES: u8 = 4;

/// Candidates for the last word.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Candidates {
    /// Each word with a short description, which may be empty.
    words: Vec<(String, String)>,
    has_nodes: bool,
    has_files: bool,
}

/// Returns one candidate a line, then the directive. `words` follow `kubectl headroom`; the last one is incomplete
/// and may
/// be empty.
pub async fn complete(words: &[String]) -> String {
    let mut candidates = candidates(&Args::command(), words);
    let last = words.last().map_or("", String::as_str);
    if candidates.has_nodes {
        let nodes = nodes(words).await;
        candidates
            .words
            .extend(nodes.into_iter().map(|name| (name, String::new())));
    }
    let begins = candidates.words.iter().filter(|(word, _)| word.starts_with(last));
    let mut answer: String = begins.map(line).collect();
    let directive = if candidates.has_files { FILES } else { NO_FILES };
    answer.extend([":", &directive.to_string(), "\n"]);
    answer
}

fn line((word, about): &(String, String)) -> String {
    if about.is_empty() {
        format!("{word}\n")
    } else {
        format!("{word}\t{about}\n")
    }
}

/// Candidates of the last word, from the command line alone.
fn candidates(root: &Command, words: &[String]) -> Candidates {
    let Some((last, before)) = words.split_last() else {
        return Candidates::default();
    };
    let mut command = root;
    let mut positionals = 0;
    let mut awaits: Option<&Arg> = None;
    for word in before {
        if awaits.take().is_some() {
            continue;
        }
        if let Some(flag) = word.strip_prefix('-').filter(|flag| !flag.is_empty()) {
            awaits = flag_of(root, command, flag).filter(|arg| takes_value(arg) && !word.contains('='));
        } else if let Some(found) = command.find_subcommand(word) {
            (command, positionals) = (found, 0);
        } else {
            positionals += 1;
        }
    }
    if let Some(arg) = awaits {
        return values(arg, "");
    }
    if let Some((flag, _)) = last.strip_prefix("--").and_then(|flag| flag.split_once('=')) {
        let arg = flag_of(root, command, &format!("-{flag}"));
        return arg.map_or_else(Candidates::default, |arg| values(arg, &format!("--{flag}=")));
    }
    if last.starts_with('-') {
        return flags(root, command);
    }
    let mut found = Candidates::default();
    for subcommand in command
        .get_subcommands()
        .filter(|subcommand| !subcommand.is_hide_set())
    {
        let about = first_line(subcommand.get_about());
        found.words.push((subcommand.get_name().to_owned(), about));
    }
    if let Some(arg) = command.get_positionals().nth(positionals) {
        let of_arg = values(arg, "");
        found.words.extend(of_arg.words);
        found.has_nodes |= of_arg.has_nodes;
        found.has_files |= of_arg.has_files;
    }
    found
}

/// Finds a flag, of the command or a global one. `flag` may begin with another `-`.
fn flag_of<'c>(root: &'c Command, command: &'c Command, flag: &str) -> Option<&'c Arg> {
    let is_named = |arg: &&Arg| match flag.strip_prefix('-') {
        Some(long) => arg.get_long() == Some(long.split('=').next().unwrap_or(long)),
        None => arg.get_short().is_some_and(|short| flag.starts_with(short)),
    };
    let own = command.get_arguments().find(is_named);
    own.or_else(|| root.get_arguments().find(is_named))
}

fn takes_value(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Set | ArgAction::Append)
}

/// Long flags of the command, and global ones.
fn flags(root: &Command, command: &Command) -> Candidates {
    let is_same = std::ptr::eq(root, command);
    let of_all = root.get_arguments().filter(|_| !is_same);
    let shown = command
        .get_arguments()
        .chain(of_all)
        .filter(|arg| !arg.is_hide_set());
    let words = shown.filter_map(|arg| Some((format!("--{}", arg.get_long()?), first_line(arg.get_help()))));
    Candidates {
        words: words.collect(),
        ..Candidates::default()
    }
}

/// Values of an argument, each behind a prefix.
fn values(arg: &Arg, prefix: &str) -> Candidates {
    let names = arg.get_value_names().unwrap_or_default();
    let is_named = |name: &str| names.iter().any(|known| known.as_str() == name);
    let shown = arg
        .get_possible_values()
        .into_iter()
        .filter(|value| !value.is_hide_set());
    let words = shown.map(|value| {
        (
            format!("{prefix}{}", value.get_name()),
            first_line(value.get_help()),
        )
    });
    Candidates {
        words: words.collect(),
        has_nodes: is_named("NODE"),
        has_files: is_named("FILE")
            || is_named("DIR")
            || matches!(arg.get_value_hint(), ValueHint::FilePath | ValueHint::AnyPath),
    }
}

fn first_line(text: Option<&clap::builder::StyledStr>) -> String {
    let text = text.map(ToString::to_string).unwrap_or_default();
    text.lines().next().unwrap_or_default().to_owned()
}

/// Names of all nodes, requested with the connection flags in `words`; empty on failure or after the limit.
async fn nodes(words: &[String]) -> Vec<String> {
    let root = Args::command();
    let before = words.split_last().map_or(&[][..], |(_, before)| before);
    let mut line = vec!["kubectl-headroom".to_owned(), "top".to_owned()];
    let mut before = before.iter();
    while let Some(word) = before.next() {
        let Some(flag) = word.strip_prefix('-') else {
            continue;
        };
        let Some(arg) = flag_of(&root, &root, flag) else {
            continue;
        };
        line.push(word.clone());
        if takes_value(arg) && !word.contains('=') {
            line.extend(before.next().cloned());
        }
    }
    let Ok(args) = Args::try_parse_from(line) else {
        return Vec::new();
    };
    let known = async {
        let mut webhook = connect::open(&args.connect).await.ok()?;
        webhook.node_labels(None).await.ok()
    };
    let known = timeout(NODES_WITHIN, known).await.ok().flatten();
    known.map_or_else(Vec::new, |known| known.names().map(ToOwned::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completed(line: &str) -> Vec<String> {
        let words: Vec<String> = line.split(' ').map(ToOwned::to_owned).collect();
        let last = words.last().cloned().unwrap_or_default();
        let found = candidates(&Args::command(), &words);
        let words = found.words.into_iter().map(|(word, _)| word);
        words.filter(|word| word.starts_with(&last)).collect()
    }

    #[test]
    fn commands_flags_and_values_are_completed() {
        assert_eq!(completed("to"), ["top"]);
        assert_eq!(completed("--context x ex"), ["explain"]);
        assert_eq!(completed("config d"), ["diff"]);
        assert_eq!(completed("top --sort"), ["--sort-by"]);
        assert_eq!(completed("top --sort-by b"), ["brake"]);
        assert_eq!(completed("top --sort-by=b"), ["--sort-by=brake"]);
        assert_eq!(completed("top -o j"), ["json"]);
        assert_eq!(completed("top --names"), ["--namespace"]);
        assert_eq!(completed("zzz"), [""; 0]);
    }

    #[test]
    fn nodes_and_files_are_completed_where_they_are_expected() {
        let of = |line: &str| {
            let words: Vec<String> = line.split(' ').map(ToOwned::to_owned).collect();
            let found = candidates(&Args::command(), &words);
            (found.has_nodes, found.has_files)
        };
        assert_eq!(of("explain "), (true, false));
        assert_eq!(of("explain worker-1 "), (false, false));
        assert_eq!(of("top -l pool=batch "), (true, false));
        assert_eq!(of("top --ca-file "), (false, true));
        assert_eq!(of("top --sort-by "), (false, false));
    }

    #[tokio::test]
    async fn the_answer_ends_with_a_directive() {
        assert_eq!(
            complete(&["quota".to_owned(), "tr".to_owned()])
                .await
                .lines()
                .last(),
            Some(":4")
        );
        assert_eq!(complete(&["--ca-file".to_owned(), String::new()]).await, ":0\n");
        assert_eq!(complete(&[]).await, ":4\n");
    }
}
