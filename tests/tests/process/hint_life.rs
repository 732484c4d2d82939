//! Tests that the times in the table of a hint's life are those of the code.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests panic: a returned error has no stack"
)]

use std::{fs, time::Duration};

use xtask::workspace;

/// One row of the table that names a constant.
struct HintStage {
    stage: String,
    time: Duration,
    constant: String,
    file: String,
}

/// The rows of the table that begins with `stage`, and how many of them have no constant.
fn rows(page: &str) -> (Vec<HintStage>, usize) {
    let (_, table) = page
        .split_once("| stage | what happens | time | constant |\n")
        .expect("the table");
    let lines = table.lines().skip(1).take_while(|line| line.starts_with('|'));
    let (mut rows, mut without) = (Vec::new(), 0);
    for line in lines {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let quoted: Vec<&str> = cells[3].split('`').collect();
        let [_, constant, _, file, _] = quoted[..] else {
            without += 1;
            continue;
        };
        rows.push(HintStage {
            stage: cells[0].to_owned(),
            time: shown(cells[2]),
            constant: constant.to_owned(),
            file: file.to_owned(),
        });
    }
    (rows, without)
}

/// The time in a cell such as `up to 60 s old`.
fn shown(cell: &str) -> Duration {
    let words: Vec<&str> = cell.split(' ').collect();
    let at = words
        .iter()
        .position(|word| word.parse::<u64>().is_ok())
        .expect("a number");
    let number = words[at].parse().expect("a number");
    in_unit(number, words[at + 1]).expect("a unit")
}

fn in_unit(number: u64, unit: &str) -> Option<Duration> {
    match unit {
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        _ => None,
    }
}

/// The value of a constant, or of the first member of that name, in a source: a duration, or a whole number of seconds.
fn declared(source: &str, name: &str) -> Option<Duration> {
    source.lines().find_map(|line| {
        let line = line.trim();
        let (_, rest) = line.split_once(&format!("{name}: "))?;
        let value = rest.split_once(" = ").map_or(rest, |(_, value)| value);
        let value = value.trim_end_matches([';', ',']);
        if let Ok(seconds) = value.parse() {
            return Some(Duration::from_secs(seconds));
        }
        let (call, number) = value.strip_prefix("Duration::from_")?.split_once('(')?;
        let unit = match call {
            "secs" => "s",
            "millis" => "ms",
            _ => return None,
        };
        in_unit(number.trim_end_matches(')').parse().ok()?, unit)
    })
}

#[test]
fn documented_hint_times_equal_the_code() {
    let root = workspace::root();
    let page = fs::read_to_string(root.join("docs/architecture.md")).expect("the page");
    let (rows, without) = rows(&page);
    assert!(rows.len() >= 12 && without == 2, "{} and {without}", rows.len());
    for HintStage {
        stage,
        time,
        constant,
        file,
    } in rows
    {
        let source = fs::read_to_string(root.join(&file)).expect("a source");
        assert_eq!(
            declared(&source, &constant),
            Some(time),
            "{stage}: {constant} in {file}"
        );
    }
}

#[test]
fn wrong_row_is_detected() {
    let source = "const FRESH: Duration = Duration::from_secs(60);\n            every: Duration::from_millis(5),\nconst N: u64 = 7;\n";
    assert_eq!(declared(source, "FRESH"), Some(Duration::from_secs(60)));
    assert_eq!(declared(source, "every"), Some(Duration::from_millis(5)));
    assert_eq!(declared(source, "N"), Some(Duration::from_secs(7)));
    assert_eq!(declared(source, "GONE"), None);
    assert_eq!(shown("up to 61 s old"), Duration::from_secs(61));
    let page = "| stage | what happens | time | constant |\n|---|---|---|---|\n| a | b | every 2 ms | `N` in `f.rs` |\n| c | d | - | - |\n\n";
    let (rows, without) = rows(page);
    assert_eq!((rows.len(), without), (1, 1));
    assert_eq!(rows[0].time, Duration::from_millis(2));
}
