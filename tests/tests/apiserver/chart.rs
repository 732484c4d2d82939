//! Long tests of the chart with both Helms: it renders what kustomize renders, and is installed, upgraded, rolled back and
//! removed on a real API server. Helm is built from Go modules, which takes minutes, so none of them is a required check.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests panic: a returned error has no stack"
)]

mod conformance;
mod lifecycle;
mod parity;

use std::process::Output;

use e2e::{helm::Helm, rendered_manifests::Installation};
use headroom_testbed::cluster::{Cluster, ClusterOptions};
use xtask::setup::chart_tools::ChartTool;

/// Version for which the chart is rendered without a cluster.
const KUBE_VERSION: &str = "--kube-version=1.36.3";

/// Flag of an API server that serves policies as v1beta1.
const SERVE_BETA: &str = "--runtime-config=admissionregistration.k8s.io/v1beta1=true";

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[track_caller]
fn assert_success(output: &Output) {
    assert!(output.status.success(), "{output:?}");
}

#[test]
#[ignore = "builds Helm, which takes minutes"]
fn mistakes_in_values_are_refused_with_their_place() {
    for helm in Helm::both() {
        let refused = |words: &[&str]| {
            let words = [&[KUBE_VERSION], words].concat();
            helm.template(&[], &words).expect_err("refused")
        };
        for (word, message) in [
            ("--set=replicas=2", "additional properties 'replicas' not allowed"),
            (
                "--set=webhook.replicas=2",
                "additional properties 'replicas' not allowed",
            ),
            (
                "--set-string=uninstall.waitSeconds=9",
                "at '/uninstall/waitSeconds': got string, want integer",
            ),
            ("--set=profiles=ha", "at '/profiles': got string, want array"),
            (
                "--set=profiles={he}",
                "at '/profiles/0': value must be one of 'nodes', 'ha'",
            ),
            (
                "--set=image.pullPolicy=Never!",
                "at '/image/pullPolicy': value must be one of",
            ),
        ] {
            let error = refused(&[word]);
            assert!(error.contains(message), "{word}: {error}");
        }
    }
}

#[test]
#[ignore = "builds Helm, which takes minutes"]
fn profiles_that_do_not_fit_a_version_or_each_other_are_refused() {
    for helm in Helm::both() {
        for (profiles, version, message) in [
            (
                &[][..],
                "1.35.2",
                "profiles: the API server is v1.35.2 and serves no MutatingAdmissionPolicy v1",
            ),
            (
                &["before-1.36"],
                "1.36.0",
                "profiles: before-1.36 does not fit the API server, which is v1.36.0",
            ),
            (
                &["before-1.36"],
                "1.29.4",
                "profiles: the API server is v1.29.4 and serves no Validating",
            ),
            (
                &["before-1.36", "before-1.30"],
                "1.31.0",
                "profiles: before-1.30 does not fit the API server",
            ),
            (
                &["floor-v1beta1"],
                "1.33.1",
                "profiles: floor-v1beta1 does not fit the API server",
            ),
            (&["floor-v1beta1", "before-1.36"], "1.35.0", "choose one of them"),
            (
                &["cert-manager", "files"],
                "1.36.0",
                "two sources of one certificate",
            ),
            (
                &["steady-state-skip", "before-1.36"],
                "1.35.0",
                "steady-state-skip needs the policies",
            ),
        ] {
            let version = format!("--kube-version={version}");
            let error = helm.template(profiles, &[&version]).expect_err("refused");
            assert!(error.contains(message), "{profiles:?} {version}: {error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "builds Helm, which takes minutes"]
async fn profiles_that_do_not_fit_the_cluster_are_refused() {
    let cluster = Cluster::start(ClusterOptions::default()).await.expect("cluster");
    for helm in Helm::both() {
        let helm = helm.on(cluster.kubeconfig());
        for (profile, message) in [
            (
                "floor-v1beta1",
                "the API server does not serve MutatingAdmissionPolicy v1beta1: start it with",
            ),
            ("cert-manager", "cert-manager is not installed in this cluster"),
            ("openshift", "it is not OpenShift"),
            ("koordinator", "run `kubectl create namespace koordinator-system`"),
            ("files", "needs the Secret headroom-webhook-certs"),
        ] {
            let set = format!("--set=profiles={{{profile}}}");
            let refused = helm.run_on_chart(&["install"], &["--create-namespace", &set]);
            let error = errors(&refused);
            assert!(
                !refused.status.success() && error.contains(message),
                "{profile}: {error}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "builds Helm, which takes minutes"]
async fn v1beta1_policies_are_installed_where_they_are_served() {
    let options = ClusterOptions {
        apiserver_flags: vec![SERVE_BETA.to_owned()],
        ..ClusterOptions::default()
    };
    let cluster = Cluster::start(options).await.expect("cluster");
    let helm = Helm::new(ChartTool::Helm4).on(cluster.kubeconfig());
    let words = ["--create-namespace", "--set=profiles={floor-v1beta1}"];
    assert_success(&helm.run_on_chart(&["install"], &words));
    let kubectl = Installation::render();
    let kubeconfig = format!("--kubeconfig={}", cluster.kubeconfig().display());
    let kind = "mutatingadmissionpolicies.v1beta1.admissionregistration.k8s.io";
    let found = kubectl.kubectl(&["get", kind, "-o=name", &kubeconfig]);
    let found = String::from_utf8_lossy(&found.stdout).lines().count();
    assert_eq!(found, 2);
    let options = ClusterOptions {
        apiserver_flags: vec![SERVE_BETA.to_owned()],
        ..ClusterOptions::default()
    };
    let cluster = Cluster::start(options).await.expect("cluster");
    let mut kubectl = Installation::render_overlay("overlays/own");
    kubectl.add_component("floor-v1beta1");
    kubectl.apply(cluster.kubeconfig());
}
