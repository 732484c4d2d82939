//! Tests that `kubectl headroom advise` gives the same figures through a real API server as from the Prometheus
//! server itself, that an error names its cause, and that the commands of pages work as documented.
//!
//! There is no network of pods here: a pod has an address of this machine. It is not a loopback one, as the API server
//! accepts no such endpoint, and a Pod has it, as the API server sends requests to no other address.
#![expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]

use std::{
    fmt::Debug,
    fs,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    process::Command,
    time::{SystemTime, UNIX_EPOCH},
};

use e2e::{
    console,
    prometheus::Prometheus,
    prometheus_samples::{DAYS, UNTIL, past},
    shell::Shell,
    stand::Stand,
};
use headroom_testbed::accounts;
use k8s_openapi::api::{
    core::v1::{Endpoints, Pod, Service, ServiceAccount},
    rbac::v1::{Role, RoleBinding},
};
use kube::{
    Api, Client, Resource,
    api::{Patch, PatchParams, PostParams},
    core::NamespaceResourceScope,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

/// Start of the commands of pages that run here.
const ADVISE: &str = "kubectl headroom advise ";
const NAMESPACE: &str = "monitoring";
/// The server's pod, and its account.
const POD: &str = "prometheus";
/// May ask Services in that namespace, and nothing else.
const PLANNER: &str = "planner";
const STRANGER: &str = "stranger";

/// An address of this machine that others could reach.
fn own_address() -> Ipv4Addr {
    let routes = fs::read_to_string("/proc/net/fib_trie").expect("the kernel's routes");
    let lines: Vec<&str> = routes.lines().map(str::trim).collect();
    let local = lines.windows(2).filter_map(|pair| match pair {
        [address, kind] if kind.contains("host LOCAL") => address.strip_prefix("|-- ")?.parse().ok(),
        _ => None,
    });
    let mut usable = local.filter(|address: &Ipv4Addr| !address.is_loopback() && !address.is_link_local());
    usable.next().expect("an address besides loopback ones")
}

async fn create<K>(client: &Client, object: Value)
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    K: Clone + Debug + DeserializeOwned + Serialize + Send + Sync,
{
    let object: K = serde_json::from_value(object).expect("an object");
    let api: Api<K> = Api::namespaced(client.clone(), NAMESPACE);
    api.create(&PostParams::default(), &object)
        .await
        .expect("create it");
}

/// A Service of that name with one port, and its endpoint: a port of the pod.
async fn service(client: &Client, name: &str, port_name: Option<&str>, behind: Option<(Ipv4Addr, u16)>) {
    let metadata = json!({"name": name});
    let port = json!({"name": port_name, "port": 9090});
    create::<Service>(
        client,
        json!({"metadata": metadata, "spec": {"clusterIP": "None", "ports": [port]}}),
    )
    .await;
    let subset = |(address, port)| {
        let pod = json!({"kind": "Pod", "namespace": NAMESPACE, "name": POD});
        json!({
            "addresses": [{"ip": address, "targetRef": pod}],
            "ports": [{"name": port_name.unwrap_or_default(), "port": port}],
        })
    };
    let subsets: Vec<Value> = behind.map(subset).into_iter().collect();
    create::<Endpoints>(client, json!({"metadata": metadata, "subsets": subsets})).await;
}

/// The pod that has this address.
async fn pod(client: &Client, address: Ipv4Addr) {
    create::<ServiceAccount>(client, json!({"metadata": {"name": POD}})).await;
    let container = json!({"name": "prometheus", "image": "prometheus"});
    create::<Pod>(
        client,
        json!({
            "metadata": {"name": POD},
            "spec": {"serviceAccountName": POD, "containers": [container]},
        }),
    )
    .await;
    let status = json!({"status": {"podIP": address, "podIPs": [{"ip": address}]}});
    Api::<Pod>::namespaced(client.clone(), NAMESPACE)
        .patch_status(POD, &PatchParams::default(), &Patch::Merge(status))
        .await
        .expect("the pod's address");
}

/// The right to ask Services through the API server, for the planner.
async fn rights(client: &Client) {
    create::<Role>(
        client,
        json!({
            "metadata": {"name": "ask-services"},
            "rules": [{"apiGroups": [""], "resources": ["services/proxy"], "verbs": ["get"]}],
        }),
    )
    .await;
    create::<RoleBinding>(
        client,
        json!({
            "metadata": {"name": "ask-services"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "ask-services"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": PLANNER}],
        }),
    )
    .await;
}

/// The answer as JSON, or the error text.
fn advise(cli: &Path, flags: &[&str]) -> Result<Value, String> {
    let (until, days) = (UNTIL.to_string(), DAYS.to_string());
    let output = Command::new(cli)
        .env_clear()
        .args(["advise", "-o", "json", "--until", &until, "--days", &days])
        .args(flags)
        .output()
        .expect("run the CLI");
    if output.status.success() {
        Ok(serde_json::from_slice(&output.stdout).expect("JSON"))
    } else {
        Err(String::from_utf8(output.stderr).expect("text"))
    }
}

/// Advice from a Service, asked as the owner of a kubeconfig.
fn through(cli: &Path, kubeconfig: &Path, service: &str) -> Result<Value, String> {
    let kubeconfig = kubeconfig.display().to_string();
    let service = format!("{NAMESPACE}/{service}");
    advise(
        cli,
        &["--kubeconfig", &kubeconfig, "--prometheus-service", &service],
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pages_commands_give_advice_as_printed() {
    let stand = Stand::start().await;
    accounts::create_namespace(&stand.client, NAMESPACE)
        .await
        .expect("a namespace");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time");
    // The commands ask for the time until now. Frames of five minutes stay whole.
    let later = (now.as_secs() - UNTIL) / 300 * 300;
    let _on_loopback = Prometheus::over_port(past().later(later), 9090).await;
    let address = own_address();
    let in_cluster = Prometheus::over_at(past().later(later), address).await;
    pod(&stand.client, address).await;
    let behind = Some((address, in_cluster.port));
    service(&stand.client, "prometheus", Some("web"), behind).await;

    let folder = tempfile::tempdir().expect("a folder");
    let shell = Shell::with_plugin(folder.path(), stand.cluster.kubeconfig()).await;
    let mut commands = console::page_commands("README.md", ADVISE);
    commands.extend(console::page_commands("docs/advise.md", ADVISE));
    assert_eq!(commands.len(), 4, "{commands:#?}");
    for command in commands {
        let text = shell.printed(&command).await;
        if command.ends_with("-o json") {
            let advice: Value = serde_json::from_str(&text).expect("JSON");
            assert_eq!(advice["nodes"].as_array().map(Vec::len), Some(2), "{advice}");
            continue;
        }
        let headline = if command.contains("--pool-label") {
            "Headroom would have added 16.0 cores and 0.0 GiB in 2 pools.\nPool blue, 1 node: "
        } else {
            "Pool all, 2 nodes: 16.0 cores and 0.0 GiB gained: "
        };
        assert!(text.starts_with(headline), "{command}: {text}");
    }
    assert!(folder.path().join("advice.html").is_file());
}

#[tokio::test(flavor = "multi_thread")]
async fn in_cluster_prometheus_is_queried_through_the_api_server() {
    let stand = Stand::start().await;
    let (client, cli): (&Client, &PathBuf) = (&stand.client, &stand.programs.cli);
    accounts::create_namespace(client, NAMESPACE)
        .await
        .expect("a namespace");
    let address = own_address();
    let server = Prometheus::over_at(past(), address).await;
    pod(client, address).await;
    service(client, "named", Some("web"), Some((address, server.port))).await;
    service(client, "plain", None, Some((address, server.port))).await;
    service(client, "empty", None, None).await;
    // No process listens on this port, which needs a privilege.
    service(client, "dead", None, Some((address, 1))).await;
    rights(client).await;
    let kubeconfig = |user| stand.cluster.kubeconfig_for(user, None).expect("a kubeconfig");
    let (planner, stranger) = (kubeconfig(PLANNER), kubeconfig(STRANGER));

    let direct = advise(cli, &["--prometheus", &server.url]).expect("an answer");
    assert_eq!(direct["nodes"].as_array().map(Vec::len), Some(2), "{direct}");
    for service in ["named:web", "named:9090", "plain", "plain:9090"] {
        assert_eq!(
            through(cli, &planner, service).expect(service),
            direct,
            "{service}"
        );
    }

    for (kubeconfig, service, expected) in [
        (
            &stranger,
            "plain",
            "node-cpu-capacity: the API server returned 403 Forbidden: services \"plain\" is forbidden: User \"stranger\" cannot get resource \
             \"services/proxy\"",
        ),
        (
            &planner,
            "nowhere",
            "node-cpu-capacity: the API server returned 404 Not Found: services \"nowhere\" not found",
        ),
        (
            &planner,
            "empty",
            "node-cpu-capacity: the API server returned 503 Service Unavailable: no endpoints available for service \"empty\"",
        ),
        (
            &planner,
            "named:9091",
            "node-cpu-capacity: the API server returned 503 Service Unavailable: no service port 9091 found for service \"named\"",
        ),
        (
            &planner,
            "dead",
            "node-cpu-capacity: the API server returned 503 Service Unavailable: error trying to reach service: ",
        ),
    ] {
        let printed = through(cli, kubeconfig, service).expect_err(service);
        assert!(
            printed.starts_with(&format!("error: {expected}")),
            "{service}: {printed}"
        );
    }
}
