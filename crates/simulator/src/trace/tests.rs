//! Tests of reading trace folders, and of pods that follow the recorded workloads.

use std::io::Write as _;

use flate2::{Compression, write::GzEncoder};
use rstest::rstest;
use tempfile::TempDir;

use super::*;

fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let mut gzip = GzEncoder::new(
            File::create(folder.path().join(name)).unwrap(),
            Compression::fast(),
        );
        gzip.write_all(text.as_bytes()).unwrap();
        gzip.finish().unwrap();
    }
    folder
}

/// A line with one value for all times.
fn flat(workload: &str, value: u32) -> String {
    format!("{workload},{}\n", [value.to_string().as_str(); DAY].join(","))
}

#[test]
fn days_are_grouped_by_set_and_resource() {
    let folder = folder(&[
        ("a-b-cpu-02.csv.gz", &flat("x", 2)),
        ("a-b-cpu-01.csv.gz", &(flat("y", 7) + &flat("x", 1))),
        ("a-b-mem-01.csv.gz", &flat("x", 3)),
    ]);
    fs::write(folder.path().join("README.md"), "not a trace").unwrap();
    let sets = sets(folder.path()).unwrap();
    let found: Vec<_> = sets
        .iter()
        .map(|set| (set.name.as_str(), set.resource, set.days.len()))
        .collect();
    assert_eq!(found, [("a-b", Resource::Cpu, 2), ("a-b", Resource::Memory, 1)]);
    assert_eq!(sets[0].days[0].lines[0].usage, vec![1; DAY]);
}

#[test]
fn a_pod_follows_its_workload_and_then_another_one() {
    let folder = folder(&[
        ("s-cpu-1.csv.gz", &(flat("x", 10_000) + &flat("y", 1000))),
        ("s-cpu-2.csv.gz", &(flat("x", 20_000) + &flat("y", 2000))),
        ("s-cpu-3.csv.gz", &flat("z", 5000)),
    ]);
    let sets = sets(folder.path()).unwrap();
    let play = Playback::new(&sets[0], 3, 4 * DAY);
    let pods = (0..200).filter(|&number| {
        Nature::draw(Resource::Cpu, &mut Stream::Pod { node: 0, number }.generator(3)).life >= 4 * DAY
    });
    let mut first_days = Vec::new();
    for number in pods {
        let (request, usage) = (play.request(0, number), play.workload(0, number, 10).usage);
        let share = |frame: usize| (usage[frame] * 10).div_ceil(request);
        assert_eq!(share(0) * 2, share(DAY), "the same workload on the next day");
        assert_eq!(share(2 * DAY), 5, "only z is there on the third day");
        first_days.push(share(0));
        assert_eq!(usage, play.workload(0, number, 10).usage);
    }
    assert!(
        first_days.contains(&10) && first_days.contains(&1),
        "{first_days:?}"
    );
}

#[rstest]
#[case::few_values("w,1,2,3\n", "line 1: 3 values, expected 288")]
#[case::no_number(&flat("w", 1).replacen('1', "1.5", 1), "line 1: value 1 is \"1.5\"")]
#[case::negative(&(flat("v", 1) + &flat("w", 1).replacen('1', "-1", 1)), "line 2: value 1 is \"-1\"")]
#[case::nameless(&flat("", 1), "line 1: the identifier is empty")]
#[case::twice(&(flat("w", 1) + &flat("w", 2)), "workload w has two lines")]
#[case::empty("", "the file is empty")]
fn invalid_trace_lines_are_named_with_file_and_line(#[case] text: &str, #[case] expected: &str) {
    let folder = folder(&[("s-cpu-1.csv.gz", text)]);
    let error = format!("{:#}", sets(folder.path()).unwrap_err());
    assert!(
        error.contains("s-cpu-1.csv.gz") && error.contains(expected),
        "{error}"
    );
}

#[test]
fn a_folder_without_traces_is_named() {
    let empty = tempfile::tempdir().unwrap();
    let error = format!("{:#}", sets(empty.path()).unwrap_err());
    assert!(error.contains(&empty.path().display().to_string()), "{error}");
    let missing = empty.path().join("missing");
    let error = format!("{:#}", sets(&missing).unwrap_err());
    assert!(error.contains("missing"), "{error}");
    let named = folder(&[("s-disk-1.csv.gz", "")]);
    let error = format!("{:#}", sets(named.path()).unwrap_err());
    assert!(error.contains("s-disk-1.csv.gz: expected a name like"), "{error}");
    fs::write(empty.path().join("s-cpu-1.csv.gz"), "no gzip").unwrap();
    let error = format!("{:#}", sets(empty.path()).unwrap_err());
    assert!(error.contains("s-cpu-1.csv.gz, line 1: cannot read"), "{error}");
}
