//! Tests that `kubectl headroom config check` and `/validate-configmap` give the same verdict on thousands of random
//! versions.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests panic: a returned error has no stack"
)]

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use clap::Parser as _;
use e2e::{
    review::ReviewBuilder,
    slo_versions::{SloVersion, SloVersions},
};
use headroom_domain::{installation::ConfigMapName, names};
use headroom_kit::gate::GateSet;
use headroom_rules::{
    SWITCHES,
    slo::{Data, Settings},
    switch::{Compat, Switches},
};
use headroom_webhook::{
    admission::{
        callers::CallerCheck,
        endpoint::{Deadline, Family, SloConfiguration, Stores},
        endpoints,
        features::Features,
        router::{Limits, Options, Router},
    },
    store::{known::KnownSources, sources},
};
use kubectl_headroom::{Args, error::Error, run, screen::Screen, slo::manifest::Manifest};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::watch;

/// Maximum number of warnings in the endpoint's answer, of errors and of probable mistakes.
const SHOWN: usize = 16;
/// Number of compared versions.
const VERSIONS: usize = 10_000;
/// Longer than they take in a debug build on a busy machine.
const LONG: Duration = Duration::from_secs(300);

/// Answer for a version.
#[derive(Debug, Default, PartialEq, Eq)]
struct CheckAnswer {
    /// The words of the refusal.
    refusal: Option<String>,
    /// Field and message of each error.
    errors: Vec<(String, String)>,
    warnings: Vec<String>,
}

/// The endpoint, with and without the duty of names, and its features.
struct CheckEndpoint {
    routers: [Router; 2],
    features: Arc<ArcSwap<Features>>,
}

impl CheckEndpoint {
    fn new(nodes: &Path) -> Self {
        let gates = GateSet::parse(endpoints::gates(), "ConfigMapValidatingWebhook=true").expect("gates");
        let features = Features::with_gates(gates).shared();
        let router = |needs_names| {
            let known = KnownSources::default();
            known.record(&sources::NODES, watch::channel(true).1);
            let manifest = Manifest::read(nodes).expect("a file");
            Router::new(Options {
                endpoints: endpoints::served(&[Family::Koordinator]),
                features: Arc::clone(&features),
                stores: Stores {
                    slo: SloConfiguration {
                        config_map: ConfigMapName::default(),
                        settings: Settings { needs_names },
                        nodes: Arc::new(manifest.nodes().expect("nodes")),
                    },
                    known,
                    ..Stores::default()
                },
                limits: Limits::default(),
                log_sample: 0,
                callers: CallerCheck::default(),
            })
        };
        Self {
            routers: [router(false), router(true)],
            features,
        }
    }

    fn answer(&self, version: &SloVersion) -> CheckAnswer {
        let SloVersion {
            new,
            old,
            needs_names,
            is_upstream,
            switches,
        } = version;
        let compat = if *is_upstream {
            Compat::Upstream
        } else {
            Compat::Headroom
        };
        let mut features = Features::clone(&self.features.load());
        features.switches = Switches::parse(SWITCHES, compat, switches).expect("switches");
        self.features.store(Arc::new(features));
        let review = match old {
            None => ReviewBuilder::create("configmaps", &config_map(new)),
            Some(old) => ReviewBuilder::update("configmaps", &config_map(old), &config_map(new)),
        };
        let router = &self.routers[usize::from(*needs_names)];
        let endpoint = router.endpoint("/validate-configmap").expect("the endpoint");
        let deadline = Deadline::after(Instant::now(), LONG);
        let answer = router.answer(endpoint, review.build().as_bytes(), deadline);
        let review: Value = serde_json::from_slice(&answer.body).expect("a review");
        let response = &review["response"];
        let status = &response["status"];
        let message = status["message"].as_str().map(str::to_owned);
        assert_eq!(response["allowed"], json!(message.is_none()), "{review}");
        CheckAnswer {
            refusal: message,
            errors: fields(&status["details"]["causes"]),
            warnings: texts(&response["warnings"]),
        }
    }
}

/// The command, with files that are written for each version.
struct CheckCommand {
    folder: TempDir,
    nodes: PathBuf,
    runtime: tokio::runtime::Runtime,
}

impl CheckCommand {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let nodes = folder.path().join("nodes.json");
        let labels = [
            json!({"pool": "a"}),
            json!({"pool": "b", "gpu": "true"}),
            json!({}),
            json!({"pool": "c", "zone": "z"}),
        ];
        let items = labels.iter().enumerate().map(|(number, labels)| {
            json!({"kind": "Node", "metadata": {"name": format!("n{number}"), "labels": labels}})
        });
        let list = json!({"kind": "List", "items": items.collect::<Value>()});
        fs::write(&nodes, list.to_string()).expect("write");
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        Self {
            folder,
            nodes,
            runtime: runtime.expect("a runtime"),
        }
    }

    fn answer(&self, version: &SloVersion) -> CheckAnswer {
        let SloVersion {
            new,
            old,
            needs_names,
            is_upstream,
            switches,
        } = version;
        let file = |name: &str, data: &Data| {
            let file = self.folder.path().join(name);
            fs::write(&file, config_map(data).to_string()).expect("write");
            file.display().to_string()
        };
        let mut words = ["kubectl-headroom", "config", "check", "--json"]
            .map(str::to_owned)
            .to_vec();
        words.push(file("new.json", new));
        words.extend(old.iter().map(|old| format!("--old={}", file("old.json", old))));
        words.extend([
            format!("--nodes={}", self.nodes.display()),
            format!("--node-strategy-name-need-check={needs_names}"),
            format!("--compat={}", if *is_upstream { "upstream" } else { "headroom" }),
            format!("--switches={switches}"),
        ]);
        let args = Args::try_parse_from(words).expect("arguments");
        let mut out = Vec::new();
        let ended = self.runtime.block_on(run(args, &mut Screen::plain(&mut out)));
        let verdict: Value = serde_json::from_slice(&out).expect("JSON");
        let refusal = verdict["refusal"].as_str().map(str::to_owned);
        match ended {
            Ok(()) => assert_eq!(verdict["verdict"], "accepted"),
            Err(Error::VersionRefused { .. }) => assert_eq!(verdict["verdict"], "refused"),
            Err(error) => unreachable!("{error}"),
        }
        CheckAnswer {
            refusal,
            errors: fields(&verdict["errors"]),
            warnings: texts(&verdict["warnings"]),
        }
    }
}

fn config_map(data: &Data) -> Value {
    let metadata = json!({"name": names::SLO_CONFIG, "namespace": names::SLO_CONFIG_NAMESPACE});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
}

fn texts(list: &Value) -> Vec<String> {
    let texts = list.as_array().into_iter().flatten();
    texts
        .map(|text| text.as_str().expect("a text").to_owned())
        .collect()
}

fn fields(causes: &Value) -> Vec<(String, String)> {
    let text = |cause: &Value, member: &str| cause[member].as_str().expect("a text").to_owned();
    let causes = causes.as_array().into_iter().flatten();
    causes
        .map(|cause| (text(cause, "field"), text(cause, "message")))
        .collect()
}

impl CheckAnswer {
    /// Answer in the endpoint's wording: errors are warnings too, and only some are shown.
    fn worded(mut self) -> Self {
        let is_removal = |text: &String| text.ends_with(" was removed: defaults apply to all nodes");
        let gone = self
            .warnings
            .iter()
            .rev()
            .take_while(|text| is_removal(text))
            .count();
        let gone = self.warnings.split_off(self.warnings.len() - gone);
        let errors = self
            .errors
            .iter()
            .map(|(field, message)| format!("{field}: {message}"));
        let mut warnings: Vec<String> = errors.chain(self.warnings).collect();
        if let Some(rest @ 1..) = warnings.len().checked_sub(SHOWN) {
            warnings.truncate(SHOWN);
            warnings.push(format!("{rest} more are not shown"));
        }
        warnings.extend(gone);
        Self { warnings, ..self }
    }

    /// The kind of refusal, by Koordinator's word in the message.
    fn kind(&self) -> &'static str {
        const KINDS: [&str; 4] = [
            "ParseConfigFail",
            "ConfigParamInvalid",
            "NodeStrategiesOverlap",
            "ExistNodeConfict",
        ];
        let Some(refusal) = &self.refusal else {
            return if self.warnings.is_empty() {
                "accepted"
            } else {
                "warned"
            };
        };
        let kind = KINDS.into_iter().find(|kind| refusal.contains(kind));
        // For bandwidth alone the message is a plain sentence.
        kind.unwrap_or("bandwidth")
    }
}

#[test]
fn the_command_and_the_endpoint_agree_on_ten_thousand_versions() {
    let seed = env::var("HEADROOM_SEED").map_or(1, |seed| seed.parse().expect("a number"));
    let command = CheckCommand::new();
    let endpoint = CheckEndpoint::new(&command.nodes);
    let start = Instant::now();
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for (number, version) in SloVersions::new(seed).take(VERSIONS).enumerate() {
        let verdict = endpoint.answer(&version);
        let found = command.answer(&version).worded();
        *kinds.entry(verdict.kind()).or_default() += 1;
        assert_eq!(found, verdict, "version {number} of seed {seed}: {version:#?}");
    }
    println!("{kinds:?} in {:?}", start.elapsed());
    for kind in [
        "accepted",
        "warned",
        "ParseConfigFail",
        "ConfigParamInvalid",
        "NodeStrategiesOverlap",
        "ExistNodeConfict",
        "bandwidth",
    ] {
        assert!(
            kinds.get(kind).is_some_and(|count| *count > 10),
            "{kind}: {kinds:?}"
        );
    }
    assert!(start.elapsed() < LONG, "{:?}", start.elapsed());
}
