//! Tests of the audit log: changes and refusals get a line each, answers without a change only a sample.

use std::{fmt::Debug, sync::Mutex};

use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
    subscriber::set_default,
};

use super::*;

/// The lines about reviews, each by the names of its fields.
#[derive(Default)]
struct Lines(Mutex<Vec<LogLine>>);

#[derive(Default)]
struct LogLine(BTreeMap<&'static str, String>);

impl Visit for LogLine {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "headroom::audit"
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = LogLine::default();
        event.record(&mut line);
        self.0.lock().unwrap().push(line);
    }

    fn new_span(&self, _span: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}
    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}
    fn enter(&self, _span: &Id) {}
    fn exit(&self, _span: &Id) {}
}

/// Log lines of this number of answers to the review of a fixture, with one line in `sample` unchanged answers.
async fn lines(fixture: &str, answers: u32, sample: u32) -> Vec<LogLine> {
    let case = cases().into_iter().find(|case| case.output.ends_with(fixture));
    lines_of(case.expect(fixture), answers, sample).await
}

async fn lines_of(case: Case, answers: u32, sample: u32) -> Vec<LogLine> {
    let router = Router::new(Options {
        log_sample: sample,
        callers: CallerCheck::default(),
        ..options(case.world)
    });
    let lines = Arc::new(Lines::default());
    {
        let _collecting = set_default(Arc::clone(&lines));
        for _ in 0..answers {
            let request = Request::post(case.endpoint.declaration().path)
                .header(CONTENT_TYPE, "application/json")
                .body(Full::new(Bytes::from(case.review.to_string())))
                .unwrap();
            router.respond(request).await;
        }
    }
    std::mem::take(&mut lines.0.lock().unwrap())
}

#[tokio::test]
async fn what_changes_something_or_is_refused_has_a_line_each() {
    for (fixture, changes) in [
        ("mutate-node-status/quiet/hint-raises.out.json", "true"),
        ("mutate-node-status/quiet/raw-changes.out.json", "true"),
        ("validate-node/mode/unknown.out.json", "false"),
    ] {
        let lines = lines(fixture, 5, 0).await;
        assert_eq!(lines.len(), 5, "{fixture}");
        for LogLine(fields) in lines {
            assert_eq!(fields["changes"], changes, "{fixture}");
            assert!(!fields.contains_key("sample"), "{fixture}");
        }
    }
}

#[tokio::test]
async fn flood_of_refusals_has_a_thousand_lines() {
    let lines = lines("validate-node/mode/unknown.out.json", 1_500, 0).await;
    // The burst, and what the steady rate adds while the test runs.
    assert!((1_000..1_400).contains(&lines.len()), "{}", lines.len());
    let counted =
        |LogLine(fields): &LogLine| fields.get("left_out").and_then(|count| count.parse::<u64>().ok());
    let left_out: u64 = lines.iter().filter_map(counted).sum();
    assert!(left_out <= 1_500 - lines.len() as u64, "{left_out}");
}

#[tokio::test]
async fn of_heartbeats_and_of_what_changes_nothing_a_sample_has_a_line() {
    for fixture in [
        "mutate-node-status/quiet/nothing-but-heartbeats.out.json",
        "mutate-node-status/quiet/stored-heartbeat-is-due.out.json",
        "mutate-node-status/amplify/no-annotations-no-patch.out.json",
    ] {
        assert_eq!(lines(fixture, 25, 0).await.len(), 0, "{fixture}");
        let lines = lines(fixture, 25, 10).await;
        assert_eq!(lines.len(), 3, "{fixture}");
        for LogLine(fields) in lines {
            assert_eq!(
                (fields["changes"].as_str(), fields["sample"].as_str()),
                ("false", "10")
            );
        }
    }
}

#[tokio::test]
async fn audit_line_contains_only_names_steps_and_reasons_of_the_object() {
    const SECRET: &str = "c2VjcmV0";
    let mut seen = 0;
    for mut case in cases() {
        let Some(object) = case.review["request"]["object"].as_object_mut() else {
            continue;
        };
        object.insert("secretData".to_owned(), json!({"key": SECRET}));
        let metadata = object.entry("metadata").or_insert_with(|| json!({}));
        metadata["annotations"]["example.com/secret"] = json!(SECRET);
        let output = case.output.clone();
        for LogLine(fields) in lines_of(case, 1, 1).await {
            seen += 1;
            for (name, value) in &fields {
                assert!(!value.contains(SECRET), "{}: {name}={value}", output.display());
            }
        }
    }
    assert!(seen > 40, "{seen} lines");
}
