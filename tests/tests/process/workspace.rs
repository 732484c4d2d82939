//! Tests of the workspace's manifests: imports between members, settings that every member inherits, and releases of
//! dependencies.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests panic: a returned error has no stack"
)]

use std::{collections::BTreeSet, fs, sync::LazyLock};

use cargo_metadata::{Dependency, DependencyKind, Metadata, MetadataCommand, Package, PackageId};
use xtask::workspace;

const AGENT: &str = "headroom-agent";
const KERNEL: &str = "headroom-agent-ebpf";
const CLI: &str = "kubectl-headroom";
const DOMAIN: &str = "headroom-domain";
const KIT: &str = "headroom-kit";
const PLOT: &str = "headroom-plot";
const PROTO: &str = "headroom-proto";
const RULES: &str = "headroom-rules";
const WEBHOOK: &str = "headroom-webhook";
const XTASK: &str = "xtask";
const TESTBED: &str = "headroom-testbed";
const SIMULATOR: &str = "headroom-simulator";
const BENCH: &str = "headroom-bench";
const DEMO: &str = "headroom-demo";
const GENERATE: &str = "headroom-generate";
const FUZZ: &str = "headroom-fuzz";
const TESTS: &str = "e2e";

/// Each member with the members that it may import.
const MAY_IMPORT: [(&str, &[&str]); 17] = [
    (DOMAIN, &[]),
    (RULES, &[DOMAIN]),
    (PROTO, &[DOMAIN]),
    (KIT, &[DOMAIN]),
    (PLOT, &[]),
    (KERNEL, &[]),
    (AGENT, &[DOMAIN, PROTO, KIT, KERNEL]),
    (WEBHOOK, &[DOMAIN, RULES, PROTO, KIT]),
    (CLI, &[DOMAIN, RULES, PROTO, KIT, PLOT]),
    (XTASK, &[]),
    (TESTBED, &[DOMAIN, PROTO, KIT, AGENT, WEBHOOK, XTASK]),
    (SIMULATOR, &[DOMAIN, PLOT, AGENT, XTASK]),
    (
        BENCH,
        &[
            DOMAIN, RULES, PROTO, KIT, AGENT, WEBHOOK, XTASK, TESTBED, SIMULATOR,
        ],
    ),
    (DEMO, &[DOMAIN, AGENT, XTASK, TESTBED]),
    (GENERATE, &[DOMAIN, RULES, KIT, PLOT, AGENT, WEBHOOK, CLI, XTASK]),
    (FUZZ, &[DOMAIN, RULES, KIT, WEBHOOK]),
    (
        TESTS,
        &[
            DOMAIN, RULES, PROTO, KIT, PLOT, KERNEL, AGENT, WEBHOOK, CLI, XTASK, TESTBED, SIMULATOR, BENCH,
        ],
    ),
];
/// Dependencies of the pure members besides the standard library.
const PURE: [(&str, &[&str]); 2] = [
    (DOMAIN, &["serde", "serde_json", "thiserror"]),
    (
        RULES,
        &[
            DOMAIN,
            "serde",
            "serde_json",
            "serde_path_to_error",
            "strsim",
            "thiserror",
        ],
    ),
];
/// Members that may know all of these crates.
const KNOW_ALL: [&str; 6] = [TESTBED, BENCH, DEMO, GENERATE, FUZZ, TESTS];
/// Members besides those that may know these crates, and all that begin with their name and a dash.
const KNOWN_TO: [(&str, &[&str]); 5] = [
    ("aya", &[AGENT, KERNEL]),
    ("kube", &[WEBHOOK, CLI]),
    ("k8s-openapi", &[WEBHOOK, CLI]),
    ("json-patch", &[WEBHOOK]),
    ("tonic-prost", &[PROTO]),
];
/// Other TLS providers, and unmaintained packages.
const BANNED: [&str; 9] = [
    "aws-lc-fips-sys",
    "aws-lc-rs",
    "aws-lc-sys",
    "boring-sys",
    "native-tls",
    "openssl",
    "openssl-src",
    "openssl-sys",
    "serde_yaml",
];
/// The releases that were found to work together, as manifests ask for them. A change here is a decision: the first
/// five move in one commit, tonic and prost move in one, kube and json-patch move in one.
const RELEASES: [(&str, &str); 46] = [
    ("aya", "=0.14.0"),
    ("aya-build", "=0.2.0"),
    ("aya-ebpf", "=0.2.1"),
    ("aya-log", "=0.3.0"),
    ("aya-log-ebpf", "=0.2.0"),
    ("anyhow", "^1.0.104"),
    ("arc-swap", "^1.9.3"),
    ("assert_cmd", "^2.2.2"),
    ("clap", "^4.6.7"),
    ("clap-markdown", "^0.1.5"),
    ("clap_complete", "^4.6.11"),
    ("comfy-table", "^8.0.1"),
    ("hdrhistogram", "^7.6.0"),
    ("hyper", "^1.12.0"),
    ("hyper-util", "^0.1.21"),
    ("insta", "^1.49.0"),
    ("json-patch", "^4.2.0"),
    ("k8s-openapi", "^0.29.0"),
    ("kube", "^5.0.0"),
    ("metrics", "^0.24.6"),
    ("metrics-exporter-prometheus", "^0.18.3"),
    ("metrics-process", "^2.4.3"),
    ("notify", "^8.2.1"),
    ("proptest", "^1.12.0"),
    ("prost", "^0.14.4"),
    ("protox", "^0.10.0"),
    ("rcgen", "^0.14.10"),
    ("rstest", "^0.28.0"),
    ("rustls", "^0.23.46"),
    ("serde", "^1.0.229"),
    ("serde-saphyr", "^2.0.0"),
    ("tempfile", "^3.27.0"),
    ("thiserror", "^2.0.21"),
    ("tokio", "^1.54.1"),
    ("tokio-rustls", "^0.26.6"),
    ("tokio-stream", "^0.1.19"),
    ("tokio-util", "^0.7.20"),
    ("tonic", "^0.14.9"),
    ("tonic-health", "^0.14.9"),
    ("tonic-prost", "^0.14.9"),
    ("tonic-prost-build", "^0.14.9"),
    ("tonic-reflection", "^0.14.9"),
    ("tower", "^0.5.3"),
    ("tracing", "^0.1.44"),
    ("tracing-subscriber", "^0.3.23"),
    ("zerocopy", "^0.8.63"),
];
/// Lines that every member's manifest has.
const INHERITED: [&str; 5] = [
    "version.workspace = true",
    "edition.workspace = true",
    "rust-version.workspace = true",
    "repository.workspace = true",
    "publish.workspace = true",
];

static METADATA: LazyLock<Metadata> = LazyLock::new(|| {
    let mut command = MetadataCommand::new();
    command
        .current_dir(workspace::root())
        .other_options(["--locked".to_owned()]);
    command.exec().expect("cargo describes the workspace")
});

fn members() -> Vec<&'static Package> {
    METADATA.workspace_packages()
}

fn member(name: &str) -> &'static Package {
    let found = members().into_iter().find(|package| package.name == name);
    found.unwrap_or_else(|| panic!("{name} is a member"))
}

/// Forbidden imports of a member, and missing ones; tests of a member count as the member.
fn forbidden_imports(name: &str, dependencies: &[Dependency]) -> Vec<String> {
    let allowed = MAY_IMPORT
        .iter()
        .find(|(member, _)| *member == name)
        .map(|(_, allowed)| *allowed);
    let ours = |name: &str| MAY_IMPORT.iter().any(|(member, _)| *member == name);
    dependencies
        .iter()
        .filter(|dependency| ours(&dependency.name))
        .filter(|dependency| !allowed.is_some_and(|allowed| allowed.contains(&dependency.name.as_str())))
        .map(|dependency| format!("{name} imports {}", dependency.name))
        .collect()
}

/// Crates that a member uses and should not know of.
fn forbidden_knowledge(name: &str, dependencies: &[Dependency]) -> Vec<String> {
    let is_of = |dependency: &str, family: &str| {
        dependency
            .strip_prefix(family)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    let may_know_all = KNOW_ALL.contains(&name);
    let families = dependencies.iter().flat_map(|dependency| {
        KNOWN_TO
            .iter()
            .filter(|(family, knowers)| is_of(&dependency.name, family) && !knowers.contains(&name))
            .map(|_| format!("{name} knows {}", dependency.name))
    });
    families.filter(|_| !may_know_all).collect()
}

/// The names of all crates that a package is built from, its build scripts and tests aside.
fn built_from(package: &PackageId) -> BTreeSet<&'static str> {
    let resolve = METADATA.resolve.as_ref().expect("resolved dependencies");
    let mut seen = BTreeSet::from([package]);
    let mut open = vec![package];
    while let Some(id) = open.pop() {
        let node = resolve.nodes.iter().find(|node| node.id == *id).expect("a node");
        for dependency in &node.deps {
            let is_normal = dependency
                .dep_kinds
                .iter()
                .any(|kind| kind.kind == DependencyKind::Normal);
            if is_normal && seen.insert(&dependency.pkg) {
                open.push(&dependency.pkg);
            }
        }
    }
    seen.into_iter().map(|id| METADATA[id].name.as_str()).collect()
}

/// Requirements that are not the release the workspace has settled on.
fn other_releases(name: &str, dependencies: &[Dependency]) -> Vec<String> {
    dependencies
        .iter()
        .filter_map(|dependency| {
            let (_, wanted) = RELEASES.iter().find(|(of, _)| *of == dependency.name)?;
            let asked = dependency.req.to_string();
            (asked != *wanted).then(|| format!("{name} asks for {} {asked}, not {wanted}", dependency.name))
        })
        .collect()
}

/// Settings that a member's manifest repeats instead of inheriting.
fn not_inherited(name: &str, manifest: &str) -> Vec<String> {
    let mut complaints: Vec<String> = INHERITED
        .iter()
        .filter(|line| !manifest.lines().any(|found| found == **line))
        .map(|line| format!("{name} lacks `{line}`"))
        .collect();
    // The kernel refuses tracing helpers to programs under licences other than these.
    let licence = if name == KERNEL {
        "license = \"MIT OR GPL-2.0-only\""
    } else {
        "license.workspace = true"
    };
    if !manifest.lines().any(|line| line == licence) {
        complaints.push(format!("{name} lacks `{licence}`"));
    }
    if !manifest.contains("\n[lints]\nworkspace = true\n") {
        complaints.push(format!("{name} does not inherit the lints"));
    }
    let mut is_dependencies = false;
    for line in manifest.lines() {
        if line.starts_with('[') {
            is_dependencies = line.ends_with("dependencies]");
        } else if is_dependencies
            && line.contains('=')
            && !line.contains(".workspace = true")
            && !line.contains("{ workspace = true")
        {
            complaints.push(format!("{name} does not take from the workspace: {line}"));
        }
    }
    complaints
}

/// Dependencies whose name no source file of the member mentions; build scripts and tests count as sources.
fn unused(package: &Package) -> Vec<String> {
    let folder = package.manifest_path.parent().expect("a folder").as_std_path();
    let mut text = String::new();
    read_sources(folder, &mut text);
    package
        .dependencies
        .iter()
        .filter(|dependency| !mentions(&text, &dependency.name.replace('-', "_")))
        // The generated code uses it.
        .filter(|dependency| !(package.name == PROTO && dependency.name == "tonic-prost"))
        .map(|dependency| format!("{} does not use {}", package.name, dependency.name))
        .collect()
}

fn read_sources(folder: &std::path::Path, text: &mut String) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() && !path.ends_with("target") {
            read_sources(&path, text);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            *text += &fs::read_to_string(&path).expect("a source file");
        }
    }
}

fn mentions(text: &str, word: &str) -> bool {
    let is_part = |character: char| character.is_alphanumeric() || character == '_';
    text.match_indices(word).any(|(at, _)| {
        let (before, rest) = text.split_at(at);
        !before.ends_with(is_part) && !rest[word.len()..].starts_with(is_part)
    })
}

fn banned(lock: &str) -> Vec<&'static str> {
    BANNED
        .into_iter()
        .filter(|name| lock.contains(&format!("\nname = \"{name}\"\n")))
        .collect()
}

fn complaints(rule: impl Fn(&str, &[Dependency]) -> Vec<String>) -> Vec<String> {
    members()
        .into_iter()
        .flat_map(|package| rule(&package.name, &package.dependencies))
        .collect()
}

const NONE: [&str; 0] = [];

#[test]
fn members_import_only_as_the_layout_allows() {
    let listed: BTreeSet<&str> = MAY_IMPORT.iter().map(|(name, _)| *name).collect();
    let found: BTreeSet<&str> = members().iter().map(|package| package.name.as_str()).collect();
    assert_eq!(found, listed);
    assert_eq!(complaints(forbidden_imports), NONE);
}

#[test]
fn import_against_the_layout_is_detected() {
    // Other members may not import the tests' dependencies.
    let all = &member(TESTS).dependencies;
    let of_webhook = forbidden_imports(WEBHOOK, all);
    assert!(
        of_webhook.contains(&format!("{WEBHOOK} imports {AGENT}")),
        "{of_webhook:?}"
    );
    assert!(
        !of_webhook.contains(&format!("{WEBHOOK} imports {KIT}")),
        "{of_webhook:?}"
    );
    assert!(forbidden_imports(DOMAIN, all).len() > of_webhook.len());
    assert!(!forbidden_imports("newcomer", all).is_empty());
}

#[test]
fn only_the_agent_depends_on_aya_and_only_the_webhook_on_kube() {
    assert_eq!(complaints(forbidden_knowledge), NONE);
    let noticed = forbidden_knowledge(AGENT, &member(WEBHOOK).dependencies);
    assert!(noticed.contains(&format!("{AGENT} knows kube")), "{noticed:?}");

    let agent = built_from(&member(AGENT).id);
    assert!(agent.contains("aya") && agent.contains("tokio"));
    assert!(!agent.iter().any(|name| name.starts_with("kube")));
    let webhook = built_from(&member(WEBHOOK).id);
    assert!(webhook.contains("kube") && !webhook.contains("aya"));
}

#[test]
fn xtask_depends_on_few_crates() {
    let door = built_from(&member(XTASK).id);
    let heavy = [
        "kube",
        "tonic",
        "tokio",
        "hyper",
        "rustls",
        "k8s-openapi",
        "headroom-",
        "tracing",
    ];
    for name in heavy {
        assert!(!door.iter().any(|of| of.starts_with(name)), "{name}: {door:?}");
    }
    assert!(
        door.contains("clap") && door.len() < 60,
        "{}: {door:?}",
        door.len()
    );
}

#[test]
fn the_rules_are_pure() {
    for (name, uses) in PURE {
        let direct = member(name).dependencies.iter();
        let direct: BTreeSet<&str> = direct
            .filter(|dependency| dependency.kind == DependencyKind::Normal)
            .map(|dependency| dependency.name.as_str())
            .collect();
        assert_eq!(direct, uses.iter().copied().collect(), "{name}");
        for runtime in ["tokio", "hyper", "rustix", "libc", "jiff", "rand", "tracing"] {
            assert!(
                !built_from(&member(name).id).contains(runtime),
                "{name}: {runtime}"
            );
        }
    }
}

#[test]
fn the_agent_is_built_without_the_rules_of_other_endpoints() {
    let agent = built_from(&member(AGENT).id);
    assert!(agent.contains(DOMAIN) && !agent.contains(RULES));
}

#[test]
fn members_ask_for_the_releases_that_work_together() {
    assert_eq!(complaints(other_releases), NONE);
    let root = fs::read_to_string(workspace::root().join("Cargo.toml")).expect("the root manifest");
    for (name, release) in RELEASES {
        let exact = release.trim_start_matches('^');
        let is_in_table = root
            .lines()
            .any(|line| line.starts_with(&format!("{name} = ")) && line.contains(&format!("\"{exact}\"")));
        assert!(is_in_table, "{name} {exact} is not in the workspace's table");
    }
}

#[test]
fn other_release_is_detected() {
    let mut dependencies = member(AGENT).dependencies.clone();
    for dependency in &mut dependencies {
        if dependency.name == "aya" {
            dependency.req = "=0.16.0".parse().expect("a requirement");
        }
    }
    assert_eq!(
        other_releases(AGENT, &dependencies),
        ["headroom-agent asks for aya =0.16.0, not =0.14.0"]
    );
}

#[test]
fn members_inherit_from_the_workspace() {
    for package in members() {
        let manifest = fs::read_to_string(&package.manifest_path).expect("a manifest");
        assert_eq!(not_inherited(&package.name, &manifest), NONE);
    }
}

#[test]
fn missing_inheritance_is_detected() {
    let manifest = fs::read_to_string(&member(KIT).manifest_path).expect("a manifest");
    for (from, to) in [
        ("edition.workspace = true", "edition = \"2021\""),
        ("license.workspace = true", "license = \"MIT\""),
        ("[lints]\nworkspace = true\n", ""),
        ("\nrustls.workspace = true", "\nrustls = \"0.22\""),
    ] {
        let changed = manifest.replace(from, to);
        assert_ne!(changed, manifest, "{from}");
        assert_eq!(not_inherited(KIT, &changed).len(), 1, "{from}");
    }
}

#[test]
fn members_use_their_declared_dependencies() {
    let unused: Vec<String> = members().into_iter().flat_map(unused).collect();
    assert_eq!(unused, NONE);
    assert!(mentions("use a::{b_c};", "b_c") && !mentions("use b_cd;", "b_c"));
}

#[test]
fn the_tree_has_one_tls_provider() {
    let lock = fs::read_to_string(workspace::root().join("Cargo.lock")).expect("Cargo.lock");
    assert_eq!(banned(&lock), NONE);
    assert!(lock.contains("\nname = \"ring\"\n"));
    let with = format!("{lock}\n[[package]]\nname = \"aws-lc-sys\"\nversion = \"0.30.0\"\n");
    assert_eq!(banned(&with), ["aws-lc-sys"]);
}
