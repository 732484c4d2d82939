//! Tests of rules that every declared endpoint must meet, and of every step by fixtures.
//!
//! A fixture is `tests/fixtures/reviews/ENDPOINT/STEP/CASE.json`, an AdmissionReview. `CASE.out.json` is the endpoint's
//! answer. `CASE.world.json` describes the known state of the node, where the defaults do not suffice.
//! `HEADROOM_BLESS=1` rewrites the outputs.

mod audit_log;
mod cases;
mod hints_unchanged;
mod kept_decisions;
mod longest_reviews;
mod node_labels;
mod node_status;
mod node_status_over_stores;
mod pathological;
mod pod_quotas;
#[path = "../../../../tests/src/review.rs"]
#[expect(
    unreachable_pub,
    reason = "a file of the end-to-end tests, which depend on this crate"
)]
mod review;
mod slo_page;
mod waiting;

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use headroom_domain::{
    capacity::PodDemand,
    hint::{EffectiveHint, Freshness, HintQuery},
    names,
    policy::{AnnotationEffect, Bounds, Mode, Policy},
    ratio::Cents,
    resource::PerResource,
};
use headroom_kit::gate::GateSet;
use headroom_rules::slo::strategies::Strategies;
use http::{Request, StatusCode, header::CONTENT_TYPE};
use http_body_util::{BodyExt as _, Full};
use jiff::Timestamp;
use json_patch::Patch;
use k8s_openapi::ByteString;
use serde::Deserialize;
use serde_json::{Value, json};

use super::*;
use crate::{
    admission::{
        callers::CallerCheck,
        endpoint::{Deadline, Declaration, Entry, FailurePolicy, Kind, Namespaces, Objects, Stores},
        features::Features,
        router::{Limits, Options, Router},
    },
    store::{
        lookup::NodeLookup,
        node::{Labels, Node},
    },
};

#[test]
fn names_are_unique_and_paths_are_paths() {
    let declarations = || ENDPOINTS.iter().map(|endpoint| endpoint.declaration());
    let entries = || declarations().flat_map(|declaration| declaration.entries);
    let names: BTreeSet<_> = entries().map(|entry| entry.name).collect();
    let paths: BTreeSet<_> = declarations().map(|declaration| declaration.path).collect();
    assert_eq!((names.len(), paths.len()), (entries().count(), ENDPOINTS.len()));
    for endpoint in ENDPOINTS {
        let path = endpoint.declaration().path;
        assert!(path.starts_with('/') && !path.ends_with('/'), "{path}");
        let steps: BTreeSet<_> = endpoint.steps().iter().map(|step| step.name).collect();
        assert_eq!(steps.len(), endpoint.steps().len(), "{path}");
        assert!(!steps.is_empty(), "{path}");
        let mut entries = endpoint.declaration().entries.iter();
        assert!(
            entries.len() > 0 && entries.all(|entry| !entry.rules.is_empty()),
            "{path}"
        );
    }
}

/// Every entry with its endpoint.
fn entries() -> impl Iterator<Item = (&'static Declaration, &'static Entry)> {
    let declarations = ENDPOINTS.iter().map(|endpoint| endpoint.declaration());
    declarations.flat_map(|declaration| declaration.entries.iter().map(move |entry| (declaration, entry)))
}

#[test]
fn timeouts_are_whole_seconds_and_short() {
    for (_, entry) in entries() {
        let is_about_nodes = entry.rules.iter().any(|rule| rule.resource == "nodes");
        let longest = Duration::from_secs(if is_about_nodes { 1 } else { 10 });
        assert!(
            entry.timeout <= longest && entry.timeout.subsec_nanos() == 0,
            "{}",
            entry.name
        );
        assert!(!entry.timeout.is_zero(), "{}", entry.name);
    }
}

#[test]
fn no_review_of_a_node_waits_for_an_object() {
    let mut endpoints = served(&[Family::Nodes]).into_iter();
    assert!(endpoints.all(|endpoint| endpoint.longest_wait().is_zero()));
}

#[test]
fn an_entry_that_fails_closed_leaves_our_own_namespace_out() {
    for (_, entry) in entries() {
        let fails_closed = entry.failure_policy == FailurePolicy::Fail;
        assert!(
            !fails_closed || entry.namespaces != Namespaces::All || entry.objects == Objects::SloConfig,
            "{}",
            entry.name
        );
    }
}

#[test]
fn nothing_validates_node_status() {
    for (_, entry) in entries().filter(|(declaration, _)| declaration.kind == Kind::Validating) {
        let mut rules = entry.rules.iter();
        assert!(rules.all(|rule| (rule.resource, rule.sub_resource) != ("nodes", "status")));
    }
}

#[test]
fn every_step_of_nodes_has_a_fixture_and_every_fixture_a_step() {
    let declared: BTreeSet<String> = served(&[Family::Nodes])
        .iter()
        .flat_map(|endpoint| {
            let steps = endpoint.steps().into_iter();
            steps.map(|step| format!("{}/{}", endpoint.label(), step.name))
        })
        .collect();
    let found: BTreeSet<String> = cases()
        .into_iter()
        .map(|case| format!("{}/{}", case.endpoint.label(), case.step))
        .collect();
    assert_eq!(declared, found);
}

#[test]
fn fixtures_come_out_as_recorded_and_a_second_run_changes_nothing() {
    let is_blessing = std::env::var_os("HEADROOM_BLESS").is_some();
    for case in cases() {
        let (output, patch) = case.run(&case.review);
        if is_blessing {
            fs::write(&case.output, format!("{output:#}\n")).unwrap();
        }
        let expected: Value = serde_json::from_str(&fs::read_to_string(&case.output).unwrap()).unwrap();
        assert_eq!(output, expected, "{}", case.output.display());
        let mut again = case.review.clone();
        json_patch::patch(&mut again["request"]["object"], &patch).unwrap();
        let (_, second) = case.run(&again);
        assert_eq!(second, Patch(vec![]), "second run of {}", case.output.display());
    }
}

struct Case {
    endpoint: &'static dyn AnyEndpoint,
    step: String,
    review: Value,
    world: FixtureCluster,
    output: PathBuf,
}

/// State of the node of a fixture.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct FixtureCluster {
    /// The configured mode; `static` if not given.
    mode: Option<String>,
    /// Permitted effect of annotations; `all` if not given.
    annotations: Option<String>,
    /// Upper bound for memory; off if not given.
    memory_max_cents: Option<u32>,
    /// A hint annotation's content, taken for a fresh report.
    hint: Option<Value>,
    /// CPU of admitted pods, in milli-cores.
    admitted_milli: u64,
    /// True while the demand of pods is unknown.
    is_held_unknown: bool,
    /// True while the policy is not known.
    is_policy_unknown: bool,
    /// True if ratios above the hint are refused.
    denies_above_hint: bool,
    /// Keys of Koordinator's ConfigMap with their texts.
    config: BTreeMap<String, String>,
}

impl NodeLookup for FixtureCluster {
    fn policy<'l>(&self, _labels: &dyn Fn() -> Cow<'l, Labels>) -> Option<Policy> {
        if self.is_policy_unknown {
            return None;
        }
        let mode = self
            .mode
            .as_deref()
            .map_or(Mode::Static, |mode| mode.parse().unwrap());
        let mut policy = Policy {
            mode,
            ..Policy::default()
        };
        if let Some(word) = &self.annotations {
            let mut effects = AnnotationEffect::ALL.into_iter();
            policy.annotations = effects.find(|effect| effect.name() == word).unwrap();
        }
        if let Some(max) = self.memory_max_cents {
            policy.bounds.memory = Bounds::new(Cents::ONE, Cents(max)).unwrap();
        }
        Some(policy)
    }

    fn hint(&self, asked: &HintQuery<'_>) -> Option<EffectiveHint> {
        let reported = self
            .hint
            .as_ref()
            .map(|hint| (hint.to_string(), Freshness::Fresh));
        let (text, standing) =
            reported.or_else(|| Some((asked.nudged.or(asked.stored)?.text().to_owned(), Freshness::Hold)))?;
        let note: headroom_domain::hint::Note = text.parse().ok()?;
        (note.uid == asked.uid).then(|| EffectiveHint::new(note, standing))
    }

    fn stored(&self, _node: &str) -> Option<Arc<Node>> {
        None
    }

    fn is_contested(&self, _node: &str) -> Option<bool> {
        Some(false)
    }

    fn pod_demand(
        &self,
        _node: &str,
        _stored: PerResource<Option<u64>>,
        _is_told: bool,
    ) -> Option<PerResource<PodDemand>> {
        let admitted = self.admitted_milli;
        (!self.is_held_unknown).then_some(PerResource {
            cpu: PodDemand {
                admitted,
                fit: admitted,
                ..PodDemand::default()
            },
            memory: PodDemand::default(),
        })
    }

    fn strategies(&self) -> Arc<Strategies> {
        Arc::new(Strategies::read(&self.config))
    }

    fn heartbeat_interval(&self) -> Duration {
        Duration::from_secs(300)
    }

    fn denies_above_hint(&self) -> bool {
        self.denies_above_hint
    }

    fn webhook_user(&self) -> &'static str {
        names::WEBHOOK_USER
    }
}

impl Case {
    fn read(endpoint: &'static dyn AnyEndpoint, step: &Path, output: PathBuf) -> Self {
        let review = PathBuf::from(output.to_str().unwrap().replace(".out.json", ".json"));
        let world = PathBuf::from(output.to_str().unwrap().replace(".out.json", ".world.json"));
        let parse = |path: &Path| fs::read_to_string(path).map(|text| serde_json::from_str(&text).unwrap());
        Self {
            endpoint,
            step: step.file_name().unwrap().to_str().unwrap().to_owned(),
            review: parse(&review).unwrap(),
            world: parse(&world).map_or_else(
                |_absent| FixtureCluster::default(),
                |value| serde_json::from_value(value).unwrap(),
            ),
            output,
        }
    }

    /// Answer of the endpoint to a review, with the decoded patch.
    fn run(&self, review: &Value) -> (Value, Patch) {
        let deadline = Deadline::after(Instant::now(), Duration::from_secs(60));
        let answer =
            router(self.world.clone()).answer(self.endpoint, review.to_string().as_bytes(), deadline);
        let body: Value = serde_json::from_slice(&answer.body).expect("a verdict");
        let patch = patch_of(&body["response"]);
        let mut output = body["response"].clone();
        let members = output.as_object_mut().unwrap();
        for encoded in ["uid", "patchType", "patch"] {
            members.remove(encoded);
        }
        members.insert("patch".to_owned(), json!(patch));
        members.insert("acted".to_owned(), json!(answer.decision.acted));
        (output, patch)
    }
}

fn router(world: FixtureCluster) -> Router {
    Router::with_time_of_day(options(world), fixture_time)
}

/// The time of day at which fixtures are answered.
fn fixture_time() -> Timestamp {
    "2026-01-01T00:00:30Z".parse().unwrap()
}

fn router_over(nodes: Arc<dyn NodeLookup>) -> Router {
    Router::new(Options {
        stores: Stores::of_nodes(nodes),
        ..options(FixtureCluster::default())
    })
}

fn options(world: FixtureCluster) -> Options {
    Options {
        endpoints: ENDPOINTS.to_vec(),
        features: Features::with_gates(GateSet::parse(gates(), "").unwrap()).shared(),
        stores: Stores::of_nodes(Arc::new(world)),
        limits: Limits::default(),
        log_sample: 0,
        callers: CallerCheck::default(),
    }
}

/// Answer to a review over HTTP, with status and body.
async fn answer(world: FixtureCluster, path: &str, review: &Value) -> (StatusCode, Bytes) {
    let request = Request::post(path)
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(review.to_string())))
        .unwrap();
    let response = router(world).respond(request).await;
    let status = response.status();
    (status, response.into_body().collect().await.unwrap().to_bytes())
}

fn patch_of(verdict: &Value) -> Patch {
    let Some(encoded) = verdict.get("patch") else {
        return Patch(vec![]);
    };
    let ByteString(bytes) = serde_json::from_value(encoded.clone()).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

fn cases() -> Vec<Case> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/reviews");
    let list = |path: &Path| {
        let mut entries: Vec<PathBuf> = fs::read_dir(path)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        entries.sort();
        entries
    };
    let mut cases = Vec::new();
    for folder in list(&root) {
        let label = folder.file_name().unwrap().to_str().unwrap();
        let endpoint = *ENDPOINTS
            .iter()
            .find(|endpoint| endpoint.label() == label)
            .expect(label);
        for step in list(&folder) {
            // Cases have one dot in their file names, outputs and worlds two.
            let reviews = list(&step)
                .into_iter()
                .filter(|path| !path.file_stem().unwrap().to_str().unwrap().contains('.'));
            let outputs = reviews.map(|path| path.with_extension("out.json"));
            cases.extend(outputs.map(|output| Case::read(endpoint, &step, output)));
        }
    }
    cases
}
