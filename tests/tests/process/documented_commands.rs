//! Tests that each command that a page shows is one that the programs take, and that a test runs.
#![expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]

use std::{collections::BTreeSet, ffi::OsString, fs};

use clap::{Parser, error::ErrorKind};
use e2e::{console, names::workspace_functions};
use xtask::{demo::Demo, suite, workspace};

/// Who runs a command.
enum RunBy {
    /// The test of that name.
    Test(&'static str),
    /// Whoever runs this test runs it, too, or gets what it takes.
    Itself,
}

use RunBy::{Itself, Test};

/// The installation page, as printed and in its order.
const INSTALLATION: RunBy = Test("the_installation_page_is_followed_to_the_letter");
/// Commands for kubectl on other pages.
const KUBECTL: RunBy = Test("the_commands_of_other_pages_do_what_they_say");
/// The README's look at a cluster, as printed, in the demo.
const DEMO: RunBy = Test("the_demo_holds_what_it_claims_and_takes_the_readmes_commands");
/// The page of Koordinator's ConfigMap.
const CONFIG_PAGE: RunBy = Test("the_page_shows_what_the_commands_print");
const CONFIG: RunBy = Test("what_is_stored_is_explained_and_compared");
const QUOTAS: RunBy = Test("quotas_and_their_pods_are_shown_as_admission_judges_them");

const ADVISE: RunBy = Test("a_servers_past_says_what_each_pool_would_have_been_given");
const SIMULATED: RunBy = Test("advice_is_what_the_simulators_own_estimator_gives");

/// Every command of every page, and who runs it.
static SHOWN: &[(&str, RunBy)] = &[
    ("cargo xtask setup", Itself),
    ("cargo test", Itself),
    ("cargo xtask test", Itself),
    ("cargo xtask test --vm", Itself),
    ("cargo xtask demo --for 90s", DEMO),
    (
        "HEADROOM_BPF=require cargo build --profile dist -p headroom-webhook -p headroom-agent",
        Itself,
    ),
    (
        "cargo xtask bench estimator --nodes 4 --days 5 --seed 7 --policy headroom --loop open --openmetrics past.om",
        SIMULATED,
    ),
    (
        "promtool tsdb create-blocks-from --max-block-duration=8640h openmetrics past.om blocks",
        SIMULATED,
    ),
    (
        "kubectl headroom advise --prometheus http://127.0.0.1:9090",
        ADVISE,
    ),
    (
        "kubectl headroom advise --prometheus http://127.0.0.1:9090 --pool-label label_node_kubernetes_io_instance_type",
        ADVISE,
    ),
    (
        "kubectl headroom advise --prometheus-service monitoring/prometheus:9090 --days 14 --save past --html advice.html",
        Test("a_server_in_the_cluster_is_asked_through_the_api_server"),
    ),
    (
        "kubectl headroom advise --from past --lo 0.50 --theta 95 -o json",
        ADVISE,
    ),
    ("kubectl headroom check", DEMO),
    ("kubectl headroom top --watch", DEMO),
    ("kubectl headroom explain worker-1", DEMO),
    ("kubectl headroom hints", DEMO),
    ("kubectl headroom off --now", DEMO),
    ("kubectl headroom config check new.yaml", CONFIG_PAGE),
    ("kubectl headroom config explain worker-1", CONFIG),
    ("kubectl headroom config diff new.yaml", CONFIG),
    (
        "kubectl headroom config check new.yaml --old old.yaml --nodes nodes.yaml",
        CONFIG_PAGE,
    ),
    (
        "kubectl headroom config explain worker-4 --key colocation-config -f new.yaml --nodes nodes.yaml",
        CONFIG_PAGE,
    ),
    (
        "kubectl headroom config diff new.yaml --old old.yaml --nodes nodes.yaml",
        CONFIG_PAGE,
    ),
    (
        "kubectl headroom pod explain shop/web-0",
        Test("pods_are_explained_by_the_webhook_that_decided_about_them"),
    ),
    ("kubectl headroom quota tree --usage", QUOTAS),
    ("kubectl headroom quota explain lab", QUOTAS),
    ("kubectl annotate node worker-1 headroom.sh/mode=auto", KUBECTL),
    (
        "kubectl annotate node NAME headroom.sh/amplified-allocatable-",
        KUBECTL,
    ),
    (
        "kubectl patch node NAME --dry-run=server --as=system:node:NAME --as-group=system:nodes --type=merge -p '{\"metadata\":{\"annotations\":{\"headroom.sh/later\":\"x\"}}}' -o yaml | grep headroom.sh/later",
        KUBECTL,
    ),
    (
        "kubectl delete mutatingwebhookconfiguration,validatingwebhookconfiguration headroom-pods",
        KUBECTL,
    ),
];

/// The page whose commands one test runs all, so that the list need not have them.
const INSTALLATION_PAGE: &str = "deploy/kustomize/README.md";

/// `cargo xtask`, as far as pages show it.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask")]
enum Xtask {
    Setup,
    Demo(Demo),
    Test(suite::Test),
    Bench {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        _arguments: Vec<OsString>,
    },
}

/// What commands of the plugin begin with.
const PLUGIN: &str = "kubectl headroom ";

/// What the program of a command says against it.
fn refusal(command: &str) -> Option<String> {
    let words = command.split(' ');
    if let Some(rest) = command.strip_prefix(PLUGIN) {
        let words = ["kubectl-headroom"].into_iter().chain(rest.split(' '));
        let parsed = kubectl_headroom::args::Args::try_parse_from(words);
        parsed.err().map(|error| error.to_string())
    } else if command.starts_with("cargo xtask ") {
        let parsed = Xtask::try_parse_from(words.skip(1));
        parsed.err().map(|error| error.to_string())
    } else {
        None
    }
}

/// Who runs a command of a page.
fn run_by(page: &str, command: &str) -> Option<&'static RunBy> {
    let listed = SHOWN.iter().find(|(shown, _)| *shown == command);
    let listed = listed.map(|(_, run_by)| run_by);
    let is_of_page = page == INSTALLATION_PAGE || is_on(INSTALLATION_PAGE, command);
    listed.or(is_of_page.then_some(&INSTALLATION))
}

fn is_on(page: &str, command: &str) -> bool {
    let text = fs::read_to_string(workspace::root().join(page)).expect("a page");
    console::commands(&text).iter().any(|shown| shown == command)
}

#[test]
fn each_command_of_a_page_is_taken_by_its_program_and_run_by_a_test() {
    let root = workspace::root();
    let functions = workspace_functions(&root);
    let (mut wrong, mut shown) = (Vec::new(), BTreeSet::new());
    for page in console::pages(&root) {
        let text = fs::read_to_string(root.join(&page)).expect("a page");
        for command in console::commands(&text) {
            if let Some(error) = refusal(&command) {
                wrong.push(format!("{page}: {command}: {error}"));
            }
            match run_by(&page, &command) {
                None => wrong.push(format!("{page}: no test runs {command}")),
                Some(Test(name)) if !functions.contains(*name) => {
                    wrong.push(format!("{page}: {command}: there is no test {name}"));
                }
                Some(Test(_) | Itself) => {}
            }
            shown.insert(command);
        }
    }
    assert!(shown.len() > 30, "the pages are read: {shown:#?}");
    let stale = SHOWN.iter().filter(|(command, _)| !shown.contains(*command));
    wrong.extend(stale.map(|(command, _)| format!("no page shows {command}")));
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// What is wrong with a command that a sentence names: a word or flag that there is not. It need not be whole, nor are its
/// values real.
fn misnomer(command: &str) -> Option<String> {
    let words = ["kubectl-headroom"]
        .into_iter()
        .chain(command.strip_prefix(PLUGIN)?.split(' '));
    let error = kubectl_headroom::args::Args::try_parse_from(words).err()?;
    let is_unknown = matches!(
        error.kind(),
        ErrorKind::InvalidSubcommand | ErrorKind::UnknownArgument
    );
    is_unknown.then(|| error.to_string())
}

#[test]
fn each_command_that_a_sentence_names_is_there() {
    let root = workspace::root();
    let (mut wrong, mut named) = (Vec::new(), 0);
    for page in console::pages(&root) {
        let text = fs::read_to_string(root.join(&page)).expect("a page");
        for command in console::inline(&text, PLUGIN) {
            named += 1;
            wrong.extend(misnomer(&command).map(|error| format!("{page}: {command}: {error}")));
        }
    }
    assert!(named > 20, "the pages are read: {named}");
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(misnomer("kubectl headroom explain"), None);
    for bad in ["kubectl headroom doctor", "kubectl headroom off --twice"] {
        assert!(misnomer(bad).is_some(), "{bad}");
    }
}

#[test]
fn a_command_that_is_not_taken_is_noticed() {
    assert_eq!(refusal("kubectl headroom top --once"), None);
    assert_eq!(refusal("cargo xtask demo --for 90s"), None);
    for bad in [
        "kubectl headroom tpo",
        "kubectl headroom top --twice",
        "cargo xtask demo --for 9s",
        "cargo xtask tset",
    ] {
        assert!(refusal(bad).is_some(), "{bad}");
    }
    assert!(run_by("README.md", "kubectl headroom of no test").is_none());
}
