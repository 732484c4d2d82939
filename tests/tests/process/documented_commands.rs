//! Tests that each command that a page shows is one that the programs take, and that a test runs.
#![expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    fs,
    path::PathBuf,
};

use clap::{Parser, error::ErrorKind};
use e2e::{console, names::Names};
use xtask::{demo::Demo, images::Images, suite, workspace};

/// Test that runs a command.
enum RunBy {
    /// The test of that name takes it from the page and runs it, byte for byte.
    AsPrinted(&'static str),
    /// The named test runs an adapted form of it.
    Adapted {
        test: &'static str,
        /// Why not the command itself.
        reason: &'static str,
    },
    /// No test, for this reason.
    NotRun(&'static str),
}

use RunBy::{Adapted, AsPrinted, NotRun};

/// The installation page, in its order.
const INSTALLATION: &str = "installation_page_works_as_written";
/// Commands for kubectl on other pages.
const KUBECTL: &str = "commands_of_other_pages_work_as_documented";
/// The README's commands for looking at a cluster, in the demo.
const DEMO: &str = "demo_runs_the_readmes_commands_as_documented";
/// The page of Koordinator's ConfigMap.
const CONFIG_PAGE: &str = "page_commands_print_the_documented_output_in_a_shell";
const CONFIG: &str = "stored_configuration_is_explained_and_compared";
const QUOTAS: &str = "quota_output_equals_admission_results";
const ADVISE: &str = "the_pages_commands_give_advice_as_printed";
const SIMULATED: &str = "advice_equals_the_simulators_estimator";

/// The commands of Helm.
const CHART: RunBy = NotRun(
    "the tests of the chart install and remove it with both versions of Helm, in clusters of their own",
);
const TESTS: &str = "it runs the tests, and this is one of them";

/// Every command of every page, and the test that runs it.
static SHOWN: &[(&str, RunBy)] = &[
    (
        "cargo xtask setup",
        NotRun("it downloads what it lacks; `cargo xtask test` does the same before it runs this test"),
    ),
    ("cargo test", NotRun(TESTS)),
    ("cargo xtask test", NotRun(TESTS)),
    (
        "cargo xtask test --vm",
        NotRun("it downloads kernels and emulates a machine for a quarter of an hour each"),
    ),
    (
        "cargo xtask demo --for 90s",
        Adapted {
            test: DEMO,
            reason: "it builds first, and ends before the README's other commands have been run: the test starts the program \
                     that it becomes, with --keep besides",
        },
    ),
    (
        "cargo xtask images",
        NotRun(
            "it builds all with optimisation; images_start_and_fit_the_manifests builds the images of dev programs",
        ),
    ),
    (
        "cargo xtask bench estimator --nodes 4 --days 5 --seed 7 --policy headroom --loop open --openmetrics past.om",
        Adapted {
            test: SIMULATED,
            reason: "it builds with optimisation, and refuses to measure without: the test simulates with the page's flags",
        },
    ),
    (
        "promtool tsdb create-blocks-from --max-block-duration=8640h openmetrics past.om blocks",
        AsPrinted(SIMULATED),
    ),
    (
        "kubectl headroom advise --prometheus http://127.0.0.1:9090",
        AsPrinted(ADVISE),
    ),
    (
        "kubectl headroom advise --prometheus http://127.0.0.1:9090 --pool-label label_node_kubernetes_io_instance_type",
        AsPrinted(ADVISE),
    ),
    (
        "kubectl headroom advise --prometheus-service monitoring/prometheus:9090 --days 14 --save past --html advice.html",
        AsPrinted(ADVISE),
    ),
    (
        "kubectl headroom advise --from past --lo 0.50 --theta 95 -o json",
        AsPrinted(ADVISE),
    ),
    ("kubectl headroom check", AsPrinted(DEMO)),
    ("kubectl headroom top --watch", AsPrinted(DEMO)),
    ("kubectl headroom explain worker-1", AsPrinted(DEMO)),
    ("kubectl headroom explain worker-1 --why", AsPrinted(DEMO)),
    ("kubectl headroom hints", AsPrinted(DEMO)),
    ("kubectl headroom off --now", AsPrinted(DEMO)),
    ("kubectl headroom config check new.yaml", AsPrinted(CONFIG)),
    ("kubectl headroom config explain worker-1", AsPrinted(CONFIG)),
    ("kubectl headroom config diff new.yaml", AsPrinted(CONFIG)),
    (
        "kubectl headroom config check new.yaml --old old.yaml --nodes nodes.yaml",
        AsPrinted(CONFIG_PAGE),
    ),
    (
        "kubectl headroom config explain worker-4 --key colocation-config -f new.yaml --nodes nodes.yaml",
        AsPrinted(CONFIG_PAGE),
    ),
    (
        "kubectl headroom config diff new.yaml --old old.yaml --nodes nodes.yaml",
        AsPrinted(CONFIG_PAGE),
    ),
    (
        "kubectl headroom pod explain shop/web-0",
        AsPrinted("pods_are_explained_by_the_webhook_that_decided_about_them"),
    ),
    ("kubectl headroom quota tree --usage", AsPrinted(QUOTAS)),
    ("kubectl headroom quota explain lab", AsPrinted(QUOTAS)),
    (
        "cargo build --release -p kubectl-headroom",
        NotRun("it builds with optimisation; each test of the plugin builds and runs it without"),
    ),
    (
        "kubectl headroom check --pre",
        AsPrinted("a_cluster_is_checked_before_anything_is_installed"),
    ),
    (
        "helm install headroom deploy/chart/headroom --namespace headroom-system --create-namespace",
        CHART,
    ),
    (
        "helm uninstall headroom --namespace headroom-system --timeout 360s",
        CHART,
    ),
    (
        "kubectl delete mutatingwebhookconfiguration,validatingwebhookconfiguration --ignore-not-found koordinator-mutating-webhook-configuration koordinator-validating-webhook-configuration",
        AsPrinted(KUBECTL),
    ),
    (
        "kubectl annotate node worker-1 headroom.sh/mode=auto",
        AsPrinted(KUBECTL),
    ),
    (
        "kubectl annotate node NAME headroom.sh/amplified-allocatable-",
        Adapted {
            test: KUBECTL,
            reason: PLACEHOLDER,
        },
    ),
    (
        "kubectl patch node NAME --dry-run=server --as=system:node:NAME --as-group=system:nodes --type=merge -p '{\"metadata\":{\"annotations\":{\"headroom.sh/later\":\"x\"}}}' -o yaml | grep headroom.sh/later",
        Adapted {
            test: KUBECTL,
            reason: PLACEHOLDER,
        },
    ),
    (
        "kubectl delete mutatingwebhookconfiguration,validatingwebhookconfiguration headroom-pods",
        AsPrinted(KUBECTL),
    ),
    (
        "kubectl delete mutatingwebhookconfiguration,validatingwebhookconfiguration --ignore-not-found headroom-pods headroom-quotas headroom-configuration headroom-fluid",
        AsPrinted(KUBECTL),
    ),
    (
        "kubectl delete mutatingwebhookconfiguration,validatingwebhookconfiguration --ignore-not-found headroom-quotas",
        AsPrinted(KUBECTL),
    ),
    (
        "kubectl delete mutatingwebhookconfiguration,validatingwebhookconfiguration --ignore-not-found headroom-webhook",
        AsPrinted(KUBECTL),
    ),
    (
        "kubectl delete mutatingadmissionpolicybinding --ignore-not-found headroom-floor",
        AsPrinted(KUBECTL),
    ),
    (
        "kubectl delete mutatingadmissionpolicybinding,validatingadmissionpolicybinding --ignore-not-found headroom-annotations headroom-checks",
        AsPrinted(KUBECTL),
    ),
    (
        "kubectl delete validatingadmissionpolicybinding --ignore-not-found headroom-own-configurations headroom-own-secret",
        AsPrinted(KUBECTL),
    ),
    (
        "kubectl -n headroom-system scale deployment headroom-webhook --replicas=0",
        AsPrinted(KUBECTL),
    ),
    (
        "kubectl -n headroom-system delete secret --ignore-not-found headroom-webhook-certs",
        AsPrinted(KUBECTL),
    ),
    (
        "kubectl -n headroom-system scale deployment headroom-webhook --replicas=2",
        AsPrinted(KUBECTL),
    ),
    (
        "kubectl apply --server-side -k . --selector='app.kubernetes.io/name!=headroom-agent'",
        NotRun("an update needs images of two versions, and there is only one version so far"),
    ),
    (
        "kubectl -n headroom-system rollout status deployment headroom-webhook",
        NotRun("no kubelet runs the webhook's pods in the cluster of these tests"),
    ),
];

const PLACEHOLDER: &str = "NAME stands for a node; the test puts one there";
/// A reason has more words.
const FEWEST_WORDS: usize = 5;
/// One of these is in the source of a test that runs commands of pages: it reads them from there.
const PAGE_READERS: [&str; 3] = [
    "console::commands(",
    "console::page_commands(",
    "SloCommands::load(",
];

/// The page whose commands one test runs all, so that the list need not have them.
const INSTALLATION_PAGE: &str = "deploy/kustomize/README.md";

/// `cargo xtask`, as far as pages show it.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask")]
enum Xtask {
    Setup,
    Demo(Demo),
    Images(Images),
    Test(suite::Test),
    Bench {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        _arguments: Vec<OsString>,
    },
}

/// Start of the plugin's commands.
const PLUGIN: &str = "kubectl headroom ";

/// Error of a command's own parser.
fn refusal(command: &str) -> Option<String> {
    let words = command.split(' ');
    if let Some(rest) = command.strip_prefix(PLUGIN) {
        let words = ["kubectl-headroom"].into_iter().chain(rest.split(' '));
        let parsed = kubectl_headroom::Args::try_parse_from(words);
        parsed.err().map(|error| error.to_string())
    } else if command.starts_with("cargo xtask ") {
        let parsed = Xtask::try_parse_from(words.skip(1));
        parsed.err().map(|error| error.to_string())
    } else {
        None
    }
}

/// Row of a command on a page.
fn run_by(page: &str, command: &str) -> Option<&'static RunBy> {
    static OF_INSTALLATION: RunBy = AsPrinted(INSTALLATION);
    let listed = SHOWN.iter().find(|(shown, _)| *shown == command);
    let listed = listed.map(|(_, run_by)| run_by);
    let is_run = console::INSTALLER_COMMANDS
        .iter()
        .any(|start| command.starts_with(start));
    let is_of_page = is_run && (page == INSTALLATION_PAGE || is_on(INSTALLATION_PAGE, command));
    listed.or(is_of_page.then_some(&OF_INSTALLATION))
}

/// Fault of a row, given each function of the tests with its files.
fn fault(run_by: &RunBy, functions: &BTreeMap<String, Vec<PathBuf>>) -> Option<String> {
    let (test, reason) = match run_by {
        AsPrinted(test) => (Some(*test), None),
        Adapted { test, reason } => (Some(*test), Some(*reason)),
        NotRun(reason) => (None, Some(*reason)),
    };
    if reason.is_some_and(|reason| reason.split_whitespace().count() < FEWEST_WORDS) {
        return Some("it is not run as printed, and no reason is given".to_owned());
    }
    let test = test?;
    let Some(files) = functions.get(test) else {
        return Some(format!("there is no test {test}"));
    };
    let reads_pages = |file: &PathBuf| {
        let text = fs::read_to_string(file).expect("a source");
        PAGE_READERS.iter().any(|reader| text.contains(reader))
    };
    (!files.iter().any(reads_pages)).then(|| format!("{test} takes no command from a page"))
}

fn is_on(page: &str, command: &str) -> bool {
    let text = fs::read_to_string(workspace::root().join(page)).expect("a page");
    console::commands(&text).iter().any(|shown| shown == command)
}

#[test]
fn each_documented_command_is_accepted_by_its_program_and_run_by_a_test() {
    let root = workspace::root();
    let functions = Names::read(&root.join("tests")).functions;
    let (mut wrong, mut shown) = (Vec::new(), BTreeSet::new());
    for page in console::pages(&root) {
        let text = fs::read_to_string(root.join(&page)).expect("a page");
        for command in console::commands(&text) {
            if let Some(error) = refusal(&command) {
                wrong.push(format!("{page}: {command}: {error}"));
            }
            match run_by(&page, &command) {
                None => wrong.push(format!("{page}: no test runs {command}")),
                Some(row) => {
                    wrong.extend(fault(row, &functions).map(|fault| format!("{page}: {command}: {fault}")));
                }
            }
            shown.insert(command);
        }
    }
    assert!(shown.len() > 30, "the pages are read: {shown:#?}");
    let stale = SHOWN.iter().filter(|(command, _)| !shown.contains(*command));
    wrong.extend(stale.map(|(command, _)| format!("no page shows {command}")));
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Fault of a command in a sentence: an unknown word or flag. It may be incomplete, and its values need not be real.
fn misnomer(command: &str) -> Option<String> {
    let words = ["kubectl-headroom"]
        .into_iter()
        .chain(command.strip_prefix(PLUGIN)?.split(' '));
    let error = kubectl_headroom::Args::try_parse_from(words).err()?;
    let is_unknown = matches!(
        error.kind(),
        ErrorKind::InvalidSubcommand | ErrorKind::UnknownArgument
    );
    is_unknown.then(|| error.to_string())
}

#[test]
fn each_command_named_in_a_sentence_exists() {
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
fn row_without_a_run_or_a_reason_is_detected() {
    let functions = Names::read(&workspace::root().join("tests")).functions;
    for (row, expected) in [
        (AsPrinted(KUBECTL), None),
        (NotRun("for a reason of five words"), None),
        (
            NotRun(""),
            Some("it is not run as printed, and no reason is given"),
        ),
        (
            Adapted {
                test: KUBECTL,
                reason: "so",
            },
            Some("it is not run as printed, and no reason is given"),
        ),
        (AsPrinted("no_such_test"), Some("there is no test no_such_test")),
        (
            AsPrinted("every_source_file_keeps_the_house_rules"),
            Some("every_source_file_keeps_the_house_rules takes no command from a page"),
        ),
    ] {
        assert_eq!(fault(&row, &functions).as_deref(), expected);
    }
}

#[test]
fn rejected_command_is_detected() {
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
