//! Installs, upgrades, rolls back and removes the chart with each Helm, next to a replica with managed certificates.

use std::{path::Path, process::Output, time::Duration};

use e2e::{
    helm::{Helm, RELEASE},
    policy_install::marked,
    rendered_manifests::Installation,
    stand::{Stand, allocatable, until},
};
use headroom_domain::names;
use headroom_testbed::{
    cluster::{Cluster, ClusterOptions},
    webhook::Webhook,
};
use k8s_openapi::{
    ByteString,
    api::{
        admissionregistration::v1::{
            MutatingAdmissionPolicy, MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
        },
        apps::v1::Deployment,
        batch::v1::Job,
        core::v1::ConfigMap,
    },
    jiff::Timestamp,
};
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams},
};
use serde_json::json;
use tokio::{process::Command, task::spawn_blocking, time::sleep};
use xtask::setup::chart_tools::ChartTool;

use super::{assert_success, errors};

/// Helm 4 applies objects on the server, where the fields still belong to kubectl.
const FORCE: &str = "--force-conflicts";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "builds Helm, which takes minutes"]
async fn helm_3_keeps_bundles_and_its_removal_restores_raw_values() {
    lives(ChartTool::Helm3).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "builds Helm, which takes minutes"]
async fn helm_4_keeps_bundles_and_its_removal_restores_raw_values() {
    lives(ChartTool::Helm4).await;
}

async fn lives(tool: ChartTool) {
    let stand = Stand::start_with(ClusterOptions::default()).await;
    let admin = stand.cluster.kubeconfig().to_owned();
    // Before the policies are in force, which refuse a marker of a user.
    marked(&stand, "n1").await;
    let helm = Helm::new(tool).on(&admin);
    // The stand has accounts and namespaces of these names.
    assert_success(&helm.run_on_chart(&["install"], &taking_over(tool)));

    let replica = managed(&stand).await;
    let bundle = until_published(&stand).await;
    let upgraded = [
        "--set=profiles={ha}",
        "--set=configuration.amplification.mode=auto",
    ];
    assert_success(&helm.run_on_chart(&["upgrade"], &upgraded));
    assert_eq!(replicas(&stand).await, Some(2));
    assert_eq!(bundles(&stand).await, bundle, "after an upgrade");
    assert_eq!(
        of_agents(&stand).await.as_ref(),
        bundle.first(),
        "after an upgrade"
    );
    assert_success(&helm.run(&["rollback", RELEASE, "1", "--namespace=headroom-system"]));
    assert_eq!(replicas(&stand).await, Some(1));
    assert_eq!(bundles(&stand).await, bundle, "after a rollback");
    assert_eq!(
        of_agents(&stand).await.as_ref(),
        bundle.first(),
        "after a rollback"
    );
    drop(replica);
    removal_restores_raw_values(&stand, helm).await;
}

/// Flags with which Helm takes over objects of other tools.
fn taking_over(tool: ChartTool) -> Vec<&'static str> {
    match tool {
        ChartTool::Helm4 => vec!["--take-ownership", FORCE],
        ChartTool::Helm3 | ChartTool::Kubeconform => vec!["--take-ownership"],
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "builds Helm, which takes minutes"]
async fn installation_by_kustomize_is_refused_unless_it_is_taken_over() {
    for tool in [ChartTool::Helm3, ChartTool::Helm4] {
        let cluster = Cluster::start(ClusterOptions::default()).await.expect("cluster");
        Installation::render_overlay("overlays/own").apply(cluster.kubeconfig());
        let helm = Helm::new(tool).on(cluster.kubeconfig());
        let refused = helm.run_on_chart(&["install"], &[]);
        let message = "Headroom is already installed, and not by Helm";
        assert!(
            !refused.status.success() && errors(&refused).contains(message),
            "{refused:?}"
        );
        let adopt = [&taking_over(tool)[..], &["--set=adopt=true"]].concat();
        assert_success(&helm.run_on_chart(&["install"], &adopt));
        // Fields that kubectl applied stay its own, too.
        let force: &[&str] = if tool == ChartTool::Helm4 { &[FORCE] } else { &[] };
        let words = [&["--set=profiles={ha}"], force].concat();
        assert_success(&helm.run_on_chart(&["upgrade"], &words));
    }
}

async fn managed(stand: &Stand) -> Webhook {
    let options = stand.webhook_options("w", "{}").managed();
    Webhook::start(&options).await.expect("start the webhook")
}

/// CA bundles of all entries.
async fn bundles(stand: &Stand) -> Vec<String> {
    let mutating: Api<MutatingWebhookConfiguration> = Api::all(stand.client.clone());
    let validating: Api<ValidatingWebhookConfiguration> = Api::all(stand.client.clone());
    let name = names::WEBHOOK_CONFIGURATION;
    let mutating = mutating
        .get(name)
        .await
        .expect("entries")
        .webhooks
        .expect("entries");
    let validating = validating
        .get(name)
        .await
        .expect("entries")
        .webhooks
        .expect("entries");
    let mutating = mutating.into_iter().map(|entry| entry.client_config);
    let validating = validating.into_iter().map(|entry| entry.client_config);
    let bundles = mutating.chain(validating).map(|client| client.ca_bundle);
    bundles
        .map(|bundle| {
            String::from_utf8(bundle.map(|ByteString(bytes)| bytes).unwrap_or_default()).expect("text")
        })
        .collect()
}

/// CA bundle of the agents.
async fn of_agents(stand: &Stand) -> Option<String> {
    let config_maps: Api<ConfigMap> = Api::namespaced(stand.client.clone(), names::AGENT_NAMESPACE);
    let found = config_maps.get(names::AUTHORITIES_CONFIG_MAP).await;
    found.expect("the ConfigMap").data?.remove("ca.crt")
}

async fn until_published(stand: &Stand) -> Vec<String> {
    let mut found = Vec::new();
    until("the bundle is published", async || {
        found = bundles(stand).await;
        let agents = of_agents(stand).await;
        agents.is_some() && found.iter().all(|bundle| Some(bundle) == agents.as_ref())
    })
    .await;
    found
}

async fn replicas(stand: &Stand) -> Option<i32> {
    let found = deployments(stand).get(names::WEBHOOK_SERVICE).await;
    found.expect("the Deployment").spec?.replicas
}

fn deployments(stand: &Stand) -> Api<Deployment> {
    Api::namespaced(stand.client.clone(), names::NAMESPACE)
}

/// Runs `helm uninstall`. No node runs its Job here, so the test does, with the Job's arguments and its account's rights.
async fn removal_restores_raw_values(stand: &Stand, helm: Helm) {
    let raw = json!({"allocatable": {"cpu": "4", "memory": "8Gi"}});
    until("the floor holds", async || {
        let kept = stand.patch_as_kubelet("n1", &raw).await.expect("a write passes");
        allocatable(&kept, "cpu") == "6"
    })
    .await;
    let removed = spawn_blocking(move || {
        helm.run(&[
            "uninstall",
            RELEASE,
            "--namespace=headroom-system",
            "--timeout=3m",
        ])
    });
    let writes = async {
        loop {
            stand.patch_as_kubelet("n1", &raw).await.expect("a write passes");
            sleep(Duration::from_millis(500)).await;
        }
    };
    let ran = tokio::select! {
        ran = run_job(stand) => ran,
        () = writes => unreachable!("the kubelet writes without end"),
    };
    let text = String::from_utf8_lossy(&ran.stdout);
    let last = text.lines().last().unwrap_or_default();
    assert_eq!(
        last, "out of force: only objects that do not act are left",
        "{ran:?}"
    );
    assert_success(&removed.await.expect("Helm ends"));

    let node = stand.nodes().get("n1").await.expect("the node");
    assert_eq!(allocatable(&node, "cpu"), "4");
    let is_ours = |key: &&String| key.starts_with(names::DOMAIN);
    assert_eq!(node.annotations().keys().find(is_ours), None);
    assert_eq!(
        deployments(stand)
            .get_opt(names::WEBHOOK_SERVICE)
            .await
            .expect("read"),
        None
    );
    let policies: Api<MutatingAdmissionPolicy> = Api::all(stand.client.clone());
    let left = policies
        .list(&kube::api::ListParams::default())
        .await
        .expect("read");
    assert_eq!(left.items.len(), 0);
}

/// Runs the command of the Job, and records its end as the Job controller does.
async fn run_job(stand: &Stand) -> Output {
    let jobs: Api<Job> = Api::namespaced(stand.client.clone(), names::NAMESPACE);
    let mut job = None;
    until("Helm creates the Job", async || {
        job = jobs.get_opt("headroom-uninstall").await.expect("read");
        job.is_some()
    })
    .await;
    let pod = job
        .and_then(|job| job.spec)
        .and_then(|spec| spec.template.spec)
        .expect("pods");
    let account = pod.service_account_name.expect("an account");
    let user = format!("system:serviceaccount:{}:{account}", names::NAMESPACE);
    let kubeconfig = stand.cluster.kubeconfig_for(&user, None).expect("kubeconfig");
    let arguments = pod
        .containers
        .into_iter()
        .next()
        .and_then(|container| container.args);
    let ran = run(&stand.programs.cli, &arguments.expect("arguments"), &kubeconfig).await;
    assert_success(&ran);
    let now = Timestamp::now().to_string();
    let condition = |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": now});
    let status = json!({"status": {
        "startTime": now, "completionTime": now, "succeeded": 1,
        "conditions": [condition("SuccessCriteriaMet"), condition("Complete")],
    }});
    jobs.patch_status(
        "headroom-uninstall",
        &PatchParams::default(),
        &Patch::Merge(status),
    )
    .await
    .expect("the end of the Job");
    ran
}

async fn run(program: &Path, arguments: &[String], kubeconfig: &Path) -> Output {
    let mut command = Command::new(program);
    command.args(arguments).env("HEADROOM_KUBECONFIG", kubeconfig);
    command.kill_on_drop(true).output().await.expect("run it")
}
