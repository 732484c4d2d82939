//! Tests of the endpoints of the families `koordinator` and `fluid` by the tables in tests/fixtures/cases, which pod.yaml explains.

mod answer;
mod explained;
mod fluid;
mod quotas;
mod table;
mod world;

use std::panic::catch_unwind;

use headroom_rules::{
    SWITCHES,
    switch::{Compat, Switches},
};
use proptest::prelude::*;

use self::{
    answer::{ExpectedAnswer, fits},
    table::{CaseRow, CaseSection, CaseTable, NotOffered, merge},
};
use super::{review::ReviewBuilder, *};

/// Result of a case, compared with the expected answer.
struct CaseAnswer {
    answer: ExpectedAnswer,
    warnings: Vec<String>,
    causes: Vec<String>,
    patch: Patch,
}

/// Run of a case: the row, its request, and the switches.
struct CaseRun<'t> {
    section: &'t CaseSection,
    row: &'t CaseRow,
    stored: Value,
    switches: Switches,
    /// True for the run with defaults, whose warnings and causes are in the row.
    is_default: bool,
}

impl CaseRun<'_> {
    fn review(&self, object: &Value) -> String {
        let Self {
            section, row, stored, ..
        } = self;
        let resource = row.resource(section);
        let review = match row.operation.as_str() {
            "CREATE" => ReviewBuilder::create(resource, object),
            "UPDATE" => ReviewBuilder::update(resource, stored, object),
            "DELETE" => ReviewBuilder::delete(resource, object),
            "CONNECT" => ReviewBuilder::create(resource, object).with("operation", "CONNECT".into()),
            other => panic!("{}: no operation {other}", row.id),
        };
        let mut review = review.with("uid", row.uid().into());
        if row.has_no_object {
            review = review.with("object", Value::Null).with("oldObject", Value::Null);
        }
        if row.has_no_old_object {
            review = review.with("oldObject", Value::Null);
        }
        if let Some(namespace) = &row.namespace {
            review = review.with("namespace", namespace.clone().into());
        }
        if let Some(kind) = &row.kind {
            review = review.kind(kind);
        }
        if row.is_dry_run {
            review = review.dry_run();
        }
        let groups: Vec<&str> = row.groups.iter().map(String::as_str).collect();
        review.user(&row.user, &groups).build()
    }

    /// The answer to an object, in the words of the table; a patch is the object that it makes.
    fn answer(&self, object: &Value) -> CaseAnswer {
        let Self {
            section,
            row,
            switches,
            ..
        } = self;
        let features = Features {
            gates: GateSet::parse(gates(), &row.gates).unwrap(),
            switches: switches.clone(),
            ..Features::with_gates(GateSet::parse(gates(), "").unwrap())
        };
        let stores = row.world.clone().stores();
        let router = Router::new(Options {
            features: features.shared(),
            stores: stores.clone(),
            ..options(FixtureCluster::default())
        });
        let endpoint = router
            .endpoint(&format!("/{}", section.endpoint))
            .expect("an endpoint");
        let deadline = Deadline::after(Instant::now(), Duration::from_secs(60));
        let answer = router.answer(endpoint, self.review(object).as_bytes(), deadline);
        if answer.status != StatusCode::OK {
            let message = String::from_utf8(answer.body.to_vec()).unwrap();
            return CaseAnswer {
                answer: ExpectedAnswer::Failed {
                    status: answer.status.as_u16(),
                    message: message.trim_end().to_owned(),
                },
                warnings: Vec::new(),
                causes: Vec::new(),
                patch: Patch(Vec::new()),
            };
        }
        let body: Value = serde_json::from_slice(&answer.body).expect("a verdict");
        self.check_explanation(&stores, object, &patched(object, &patch_of(&body["response"])));
        verdict(object, &body["response"])
    }

    /// Runs the case twice: the answer is the expected one, and a second run on its result changes nothing, unless
    /// the table has another answer for it.
    fn check(&self, sent: &Value, expected: &ExpectedAnswer, again: Option<&ExpectedAnswer>) {
        let case = format!("{} ({})", self.row.id, self.row.title);
        let is_failed = matches!(expected, ExpectedAnswer::Failed { .. });
        let warnings = if is_failed {
            &Vec::new()
        } else {
            &self.row.expect.warnings
        };
        let first = self.answer(sent);
        let found = &first.answer;
        assert!(
            expected.made_of(sent).is_met_by(found),
            "{case}: {found:?} instead of {expected:?}"
        );
        let causes = &self.row.expect.causes;
        if self.is_default {
            assert_texts(&first.warnings, warnings, &format!("{case}: warnings"));
        }
        if let Some(causes) = causes.as_ref().filter(|_| self.is_default) {
            assert_texts(&first.causes, causes, &format!("{case}: causes"));
        }
        assert_eq!(
            touched(sent, &first.patch),
            Vec::<String>::new(),
            "{case}: members that nobody knows"
        );
        let made = patched(sent, &first.patch);
        let second = match (again, expected) {
            (Some(again), _) => again.made_of(&made),
            (None, ExpectedAnswer::Patched(_)) => ExpectedAnswer::Unchanged,
            (None, expected) => expected.clone(),
        };
        let again = self.answer(&made);
        let found = &again.answer;
        assert!(
            second.is_met_by(found),
            "second run of {case}: {found:?} instead of {second:?}"
        );
    }
}

impl ExpectedAnswer {
    /// The answer with the whole object instead of the part that is merged into it.
    fn made_of(&self, sent: &Value) -> Self {
        let mut answer = self.clone();
        if let Self::Patched(delta) = &mut answer {
            let mut object = sent.clone();
            merge(&mut object, delta);
            *delta = object;
        }
        answer
    }
}

/// The verdict on an object, in the words of the table.
fn verdict(object: &Value, response: &Value) -> CaseAnswer {
    let patch = patch_of(response);
    let status = &response["status"];
    let warnings = response.get("warnings").cloned().unwrap_or_else(|| json!([]));
    let mut warnings: Vec<String> = serde_json::from_value(warnings).unwrap();
    let causes = status["details"]["causes"].as_array().into_iter().flatten();
    let text = |cause: &Value, member: &str| cause[member].as_str().unwrap().to_owned();
    let causes = causes.map(|cause| format!("{}: {}", text(cause, "field"), text(cause, "message")));
    let causes: Vec<String> = causes.collect();
    // Where errors are warnings as well, they come first.
    if warnings.starts_with(&causes) {
        warnings.drain(..causes.len());
    }
    let answer = if response["allowed"] == false {
        ExpectedAnswer::Denied {
            code: serde_json::from_value(status["code"].clone()).unwrap(),
            reason: serde_json::from_value(status["reason"].clone()).unwrap(),
            message: serde_json::from_value(status["message"].clone()).unwrap(),
        }
    } else if patch.0.is_empty() {
        ExpectedAnswer::Unchanged
    } else {
        ExpectedAnswer::Patched(patched(object, &patch))
    };
    CaseAnswer {
        answer,
        warnings,
        causes,
        patch,
    }
}

/// They are as written, one by one.
fn assert_texts(found: &[String], written: &[String], what: &str) {
    let are_met = found.len() == written.len()
        && written
            .iter()
            .zip(found)
            .all(|(written, text)| fits(written, text));
    assert!(are_met, "{what}: {found:?} instead of {written:?}");
}

fn patched(object: &Value, patch: &Patch) -> Value {
    let mut object = object.clone();
    json_patch::patch(&mut object, patch).expect("a patch that applies");
    object
}

/// Members that begin with `x-` and lie in the value that an operation writes, or around it: an operation that
/// replaces a container would rewrite its content. An element that is inserted into an array moves the others
/// unchanged.
fn touched(object: &Value, patch: &Patch) -> Vec<String> {
    let mut unknown = Vec::new();
    unknown_members(object, "", &mut unknown);
    let operations = serde_json::to_value(patch).unwrap();
    let paths: Vec<&str> = operations
        .as_array()
        .unwrap()
        .iter()
        .filter(|operation| {
            let parent = operation["path"].as_str().and_then(|path| path.rsplit_once('/'));
            let parent = parent.and_then(|(parent, _)| object.pointer(parent));
            !(operation["op"] == "add" && parent.is_some_and(Value::is_array))
        })
        .flat_map(|operation| [&operation["path"], &operation["from"]])
        .filter_map(Value::as_str)
        .collect();
    let lies_in = |inner: &str, outer: &str| {
        let rest = inner.strip_prefix(outer);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let is_touched = |member: &&String| {
        let mut paths = paths.iter();
        paths.any(|path| lies_in(member, path) || lies_in(path, member))
    };
    unknown.iter().filter(is_touched).cloned().collect()
}

/// Collects the paths of members that begin with `x-`.
fn unknown_members(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                let path = format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"));
                if name.starts_with("x-") {
                    found.push(path);
                } else {
                    unknown_members(value, &path, found);
                }
            }
        }
        Value::Array(elements) => {
            for (at, value) in elements.iter().enumerate() {
                unknown_members(value, &format!("{path}/{at}"), found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn switches(compat: Compat, list: &str) -> Switches {
    Switches::parse(SWITCHES, compat, list).unwrap()
}

/// Runs a row by default, with `--compat upstream`, and with the one switch that makes the difference.
fn check_row(table: &CaseTable, section: &CaseSection, row: &CaseRow) {
    let id = &row.id;
    let (sent, stored) = row.objects(table, section);
    if let Some(NotOffered { koordinator, why }) = &row.expect.not_offered {
        assert!(!koordinator.is_empty() && !why.is_empty(), "{id} says no reason");
    }
    let Some(ours) = &row.expect.ours else {
        assert!(
            row.expect.not_offered.is_some(),
            "{id} has neither an answer nor a reason"
        );
        return;
    };
    let upstream = row.expect.upstream.as_ref().unwrap_or(ours);
    let again = row.expect.again.ours.as_ref();
    let upstream_again = row.expect.again.upstream.as_ref().or(again);
    let run = |switches| CaseRun {
        section,
        row,
        stored: stored.clone(),
        switches,
        is_default: false,
    };
    let by_default = CaseRun {
        is_default: true,
        ..run(switches(Compat::Headroom, &row.switches))
    };
    by_default.check(&sent, ours, again);
    run(switches(Compat::Upstream, &row.switches)).check(&sent, upstream, upstream_again);
    assert_eq!(
        row.expect.by.is_some(),
        upstream != ours,
        "{id} names the switch if there is a difference"
    );
    if let Some(name) = &row.expect.by {
        let off = [&format!("{name}=false"), row.switches.as_str()];
        let list = off.into_iter().filter(|list| !list.is_empty());
        let list = list.collect::<Vec<_>>().join(",");
        run(switches(Compat::Headroom, &list)).check(&sent, upstream, upstream_again);
    }
}

#[test]
fn every_case_is_answered_as_its_table_says_twice_and_under_both_behaviours() {
    let tables = CaseTable::all();
    let (mut rows, mut wrong) = (0, Vec::new());
    for table in tables.values() {
        for section in &table.sections {
            for row in &section.rows {
                // Each wrong row prints its reason in its panic.
                if catch_unwind(|| check_row(table, section, row)).is_err() {
                    wrong.push(&row.id);
                }
                rows += 1;
            }
        }
    }
    assert!(wrong.is_empty(), "rows that are wrong: {wrong:?}");
    assert!(rows > 50, "the tables are read: {rows}");
}

#[test]
fn every_step_but_those_of_nodes_has_a_case_and_every_case_a_step() {
    let declared: BTreeSet<String> = served(&[Family::Koordinator, Family::Fluid])
        .iter()
        .flat_map(|endpoint| {
            let steps = endpoint.steps().into_iter();
            steps.map(|step| format!("{}/{}", endpoint.label(), step.name))
        })
        .collect();
    let tables = CaseTable::all();
    let sections = tables.values().flat_map(|table| &table.sections);
    let found: BTreeSet<String> = sections
        .filter(|section| !section.rows.is_empty())
        .filter_map(|section| Some(format!("{}/{}", section.endpoint, section.step.as_ref()?)))
        .collect();
    assert_eq!(declared, found);
}

#[test]
fn a_patch_of_a_whole_container_touches_what_is_in_it() {
    let object = json!({"x-a": 1, "spec": {"containers": [{"name": "c", "x-b": {"c": 1}}]}});
    for (path, expected) in [
        ("/spec/containers/0/name", &[][..]),
        ("/spec/containers/0", &["/spec/containers/0/x-b"]),
        ("/spec/containers/0/x-b/c", &["/spec/containers/0/x-b"]),
        ("", &["/spec/containers/0/x-b", "/x-a"]),
        ("/x-ab", &[]),
    ] {
        let patch = serde_json::from_value(json!([{"op": "replace", "path": path, "value": 1}])).unwrap();
        let mut found = touched(&object, &patch);
        found.sort();
        assert_eq!(found, expected, "{path}");
    }
    let inserted = json!([{"op": "add", "path": "/spec/containers/0", "value": {"name": "new"}}]);
    let patch = serde_json::from_value(inserted).unwrap();
    assert_eq!(touched(&object, &patch), Vec::<String>::new());
}

mod checked_pods;
mod many_quotas;
mod pods;
mod reservations;
