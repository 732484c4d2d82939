//! Tests of the overlays and components of the installation: each renders as its page states, and a real API server
//! accepts it, including one that forbids the classes `system-*` in our namespaces.
#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "tests panic: a returned error has no stack"
)]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use clap::Parser as _;
use e2e::{
    rendered_manifests::{
        Installation, OVERLAY, command_line, container, labels, objects, selects, spec, try_create,
    },
    stand::until,
};
use headroom_domain::names;
use headroom_kit::tls::self_signed;
use headroom_testbed::cluster::{Cluster, ClusterOptions};
use headroom_webhook::{admission::endpoint::Family, store::configuration};
use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        batch::v1::Job,
        core::v1::{ConfigMap, Namespace, PodTemplateSpec},
        networking::v1::NetworkPolicy,
        policy::v1::PodDisruptionBudget,
        rbac::v1::Role,
        scheduling::v1::PriorityClass,
    },
    apimachinery::pkg::{apis::meta::v1::LabelSelector, util::intstr::IntOrString},
};
use kube::ResourceExt as _;
use serde_json::{Value, json};
use xtask::workspace;

const CONFIGURATION: &str = "overlays/configuration";
const HA: &str = "overlays/ha";
/// Maximum value of a PriorityClass that is not Kubernetes' own.
const HIGHEST_PRIORITY: i32 = 1_000_000_000;

/// Every file of that name in a folder and below it.
fn kustomizations(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.join("kustomization.yaml").is_file())
        .map(|path| path.file_name().expect("a name").to_string_lossy().into_owned())
        .collect();
    names.sort_unstable();
    names
}

/// The selector of a spread, a budget or a peer.
fn match_labels(selector: Option<LabelSelector>) -> BTreeMap<String, String> {
    selector
        .and_then(|selector| selector.match_labels)
        .expect("a selector by labels")
}

#[test]
fn the_page_names_every_overlay_and_every_component() {
    let folder = workspace::root().join("deploy/kustomize");
    let page = fs::read_to_string(folder.join("README.md")).expect("the page");
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
    for kind in ["overlays", "components"] {
        for name in kustomizations(&folder.join(kind)) {
            let quoted = format!("`{name}`");
            let is_named = rows
                .iter()
                .any(|row| row.split(" | ").next().is_some_and(|cell| cell.contains(&quoted)));
            assert!(is_named, "{kind}/{name} has no row");
        }
    }
}

#[test]
fn no_file_of_kustomize_has_a_key_twice() {
    // Kustomize silently drops the first of two equal keys; the parser of this test refuses the second.
    let folder = workspace::root().join("deploy/kustomize");
    let mut read = 0;
    for kind in ["overlays", "components"] {
        for name in kustomizations(&folder.join(kind)) {
            let file = folder.join(kind).join(&name).join("kustomization.yaml");
            let text = fs::read_to_string(&file).expect("a kustomization");
            let parsed: Result<Value, _> = serde_saphyr::from_str(&text);
            assert!(parsed.is_ok(), "{name}: {parsed:?}");
            let list = parsed.expect("YAML")["components"].is_array();
            assert!(kind == "components" || list, "{name} has a list to add to");
            read += 1;
        }
    }
    assert!(read > 10, "{read}");
    assert!(serde_saphyr::from_str::<Value>("a: []\nb: 1\na: []\n").is_err());
}

#[test]
fn the_overlay_with_a_configuration_changes_nothing_else() {
    let mut installation = Installation::render_overlay(CONFIGURATION);
    let ca: ConfigMap = installation.get(names::AGENT_NAMESPACE, names::AUTHORITIES_CONFIG_MAP);
    assert_eq!(ca.data, None, "the webhook writes it");

    let file = installation.webhook_args().config.expect("a file");
    let mounted = |installation: &Installation| {
        let template = installation.webhook();
        let mounts = container(&template).volume_mounts.clone().expect("mounts");
        let mount = mounts
            .into_iter()
            .find(|mount| file.starts_with(&mount.mount_path))
            .expect("a mount");
        let volumes = spec(&template).volumes.clone().expect("volumes");
        let volume = volumes.into_iter().find(|volume| volume.name == mount.name);
        let map = volume.and_then(|volume| volume.config_map).expect("a ConfigMap");
        installation.get::<ConfigMap>(names::NAMESPACE, &map.name)
    };
    let before = mounted(&installation);
    let name = file.file_name().expect("a name").to_string_lossy().into_owned();
    let written = &before.data.as_ref().expect("content")[&name];
    let folder = tempfile::tempdir().expect("a folder");
    let copy = folder.path().join(&name);
    fs::write(&copy, written).expect("write");
    let configured = configuration::load(Some(&copy)).expect("a configuration");
    let policy = configured.over(headroom_domain::policy::Policy::default());
    assert_eq!(
        policy,
        headroom_domain::policy::Policy::default(),
        "installing it changes nothing"
    );

    // Another content has another name, so pods of the old one are replaced.
    let source = installation.folder().join(CONFIGURATION).join(&name);
    fs::write(&source, "amplification: {mode: auto}\n").expect("write");
    installation.add_component("ha");
    let after = mounted(&installation);
    assert_ne!(before.name_any(), after.name_any());
    assert_eq!(replicas(&installation), Some(2), "components add up");
}

/// Number of replicas of the webhook.
fn replicas(installation: &Installation) -> Option<i32> {
    let deployment: Deployment = installation.get(names::NAMESPACE, names::WEBHOOK_SERVICE);
    deployment.spec.expect("a specification").replicas
}

#[test]
fn removing_the_floor_does_not_accept_its_absence() {
    let mut installation = Installation::render();
    assert!(!installation.webhook_args().accept_no_floor);
    installation.add_component("before-1.36");
    assert!(!installation.webhook_args().accept_no_floor);
    let before = installation.objects.len();
    installation.add_component("accept-no-floor");
    assert!(installation.webhook_args().accept_no_floor);
    assert_eq!(installation.objects.len(), before);
}

#[test]
fn pods_ask_for_linux_and_an_architecture_that_is_built_for() {
    for (namespace, template) in Installation::render().pods() {
        let spec = spec(&template);
        let linux = BTreeMap::from([("kubernetes.io/os".to_owned(), "linux".to_owned())]);
        assert_eq!(spec.node_selector, Some(linux), "{namespace}");
        let affinity = serde_json::to_value(spec.affinity.clone()).expect("JSON");
        let without =
            |label: &str, value: &str| json!({"key": label, "operator": "NotIn", "values": [value]});
        let mut labels = vec![json!({"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]})];
        if namespace == names::AGENT_NAMESPACE {
            labels.extend([
                without("eks.amazonaws.com/compute-type", "fargate"),
                without("type", "virtual-kubelet"),
            ]);
        }
        let required = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": labels}]
        }}});
        assert_eq!(affinity, required, "{namespace}");
    }
}

#[test]
fn the_overlay_for_availability_has_two_replicas_apart_and_a_budget() {
    let one = Installation::render();
    assert_eq!(replicas(&one), Some(1));
    let two = Installation::render_overlay(HA);
    assert_eq!(replicas(&two), Some(2));
    let template = two.webhook();
    let spreads = spec(&template)
        .topology_spread_constraints
        .clone()
        .expect("spreads");
    let kinds: Vec<_> = spreads
        .iter()
        .map(|spread| (spread.topology_key.as_str(), spread.when_unsatisfiable.as_str()))
        .collect();
    assert_eq!(
        kinds,
        [
            ("kubernetes.io/hostname", "DoNotSchedule"),
            ("topology.kubernetes.io/zone", "ScheduleAnyway")
        ]
    );
    for spread in spreads {
        assert!(selects(&match_labels(spread.label_selector), &labels(&template)));
    }
    let [budget] = <[PodDisruptionBudget; 1]>::try_from(two.all()).expect("one");
    let budget = budget.spec.expect("a specification");
    assert!(selects(&match_labels(budget.selector), &labels(&template)));
    assert_eq!(budget.max_unavailable, Some(IntOrString::Int(1)));
}

/// The ports that a policy lets pods of its namespace reach, each with its protocol.
fn egress_ports(installation: &Installation, namespace: &str, name: &str) -> BTreeSet<(i32, String)> {
    let policy: NetworkPolicy = installation.get(namespace, name);
    let rules = policy.spec.and_then(|spec| spec.egress).expect("rules");
    let ports = rules.into_iter().flat_map(|rule| rule.ports.expect("ports"));
    ports
        .map(|port| {
            let Some(IntOrString::Int(number)) = port.port else {
                panic!("a port has a number");
            };
            (number, port.protocol.unwrap_or("TCP".to_owned()))
        })
        .collect()
}

#[test]
fn the_component_for_api_servers_elsewhere_opens_their_ports_to_the_webhook_alone() {
    let of_webhook =
        |installation: &Installation| egress_ports(installation, names::NAMESPACE, names::WEBHOOK_SERVICE);
    let of_agent = |installation: &Installation| {
        egress_ports(installation, names::AGENT_NAMESPACE, names::AGENT_SERVICE_ACCOUNT)
    };
    let mut installation = Installation::render();
    let (webhook, agent) = (of_webhook(&installation), of_agent(&installation));
    installation.add_component("more-api-server-ports");
    let added: BTreeSet<_> = of_webhook(&installation).difference(&webhook).cloned().collect();
    let tcp = "TCP".to_owned();
    assert_eq!(added, BTreeSet::from([(8443, tcp.clone()), (16443, tcp)]));
    assert_eq!(of_agent(&installation), agent);
}

#[test]
fn selinux_type_is_set_only_by_the_selinux_and_openshift_components() {
    let agents_type = |installation: &Installation| {
        let template = installation.agent();
        let security = container(&template).security_context.clone().expect("security");
        security.se_linux_options.and_then(|options| options.type_)
    };
    assert_eq!(agents_type(&Installation::render()), None);
    for component in ["selinux", "openshift"] {
        let mut installation = Installation::render();
        let (webhook, before) = (installation.webhook(), installation.agent());
        installation.add_component(component);
        assert_eq!(agents_type(&installation).as_deref(), Some("spc_t"));
        assert_eq!(installation.webhook(), webhook, "{component}");
        let (before, after) = (
            container(&before).clone(),
            container(&installation.agent()).clone(),
        );
        assert_eq!(
            before.security_context.expect("security").capabilities,
            after.security_context.expect("security").capabilities
        );
    }
}

#[test]
fn openshift_constraints_admit_only_the_agents_needs() {
    let mut installation = Installation::render();
    installation.add_component("openshift");
    let is_it = |object: &&Value| object["kind"] == "SecurityContextConstraints";
    let constraints = installation.objects.iter().find(is_it).expect("constraints");
    let strings = |value: &Value| -> BTreeSet<String> {
        serde_json::from_value(value.clone()).expect("a list of words")
    };
    let template = installation.agent();
    let security = container(&template).security_context.clone().expect("security");
    let capabilities = security.capabilities.expect("capabilities");
    assert_eq!(
        strings(&constraints["allowedCapabilities"]),
        capabilities.add.expect("added").into_iter().collect()
    );
    assert_eq!(
        strings(&constraints["requiredDropCapabilities"]),
        capabilities.drop.expect("dropped").into_iter().collect()
    );
    // The kind of a volume is the name of its only member next to `name`.
    let volumes = serde_json::to_value(&spec(&template).volumes).expect("JSON");
    let kinds: BTreeSet<String> = volumes
        .as_array()
        .expect("volumes")
        .iter()
        .flat_map(|volume| volume.as_object().expect("a volume").keys().cloned())
        .filter(|key| key != "name")
        .collect();
    let allowed = strings(&constraints["volumes"]);
    assert!(kinds.is_subset(&allowed), "{kinds:?}");
    assert_eq!(
        allowed.difference(&kinds).collect::<Vec<_>>(),
        ["emptyDir"],
        "of another component"
    );
    for wide in [
        "allowHostIPC",
        "allowHostNetwork",
        "allowHostPID",
        "allowHostPorts",
        "allowPrivilegeEscalation",
        "allowPrivilegedContainer",
    ] {
        assert_eq!(constraints[wide], false, "{wide}");
    }
}

#[test]
fn each_account_may_use_its_own_constraints_on_openshift_and_agents_reach_its_dns() {
    let mut installation = Installation::render();
    installation.add_component("openshift");
    for (namespace, name, constraints) in [
        (
            names::AGENT_NAMESPACE,
            "headroom-agent-constraints",
            "headroom-agent",
        ),
        (names::NAMESPACE, "headroom-webhook-constraints", "nonroot-v2"),
    ] {
        let role: Role = installation.get(namespace, name);
        let [rule] = <[_; 1]>::try_from(role.rules.expect("rules")).expect("one rule");
        assert_eq!(
            (rule.verbs, rule.resource_names),
            (vec!["use".to_owned()], Some(vec![constraints.to_owned()]))
        );
    }
    // DNS pods of OpenShift listen there, and network policies match the port of the destination pod.
    let ports = egress_ports(
        &installation,
        names::AGENT_NAMESPACE,
        names::AGENT_SERVICE_ACCOUNT,
    );
    assert!(ports.contains(&(5353, "UDP".to_owned())) && ports.contains(&(5353, "TCP".to_owned())));
}

/// The objects of the example of a script.
fn script() -> Vec<Value> {
    let file = workspace::root().join("deploy/kustomize/examples/script.yaml");
    objects(&fs::read(file).expect("the example"))
}

#[test]
fn example_script_passes_the_policy_with_valid_flags() {
    let objects = script();
    let object = |kind: &str| {
        let found = objects.iter().find(|object| object["kind"] == kind);
        found.expect("an object of that kind").clone()
    };
    let namespace: Namespace = serde_json::from_value(object("Namespace")).expect("a Namespace");
    let installation = Installation::render();
    let policy: NetworkPolicy = installation.get(names::NAMESPACE, names::WEBHOOK_SERVICE);
    let rules = policy.spec.and_then(|spec| spec.ingress).expect("rules");
    let on_hints = rules.into_iter().filter(|rule| {
        let ports = rule.ports.iter().flatten();
        let hints = Some(IntOrString::Int(i32::from(names::HINTS_PORT)));
        ports.clone().any(|port| port.port == hints)
    });
    let peers: Vec<_> = on_hints.flat_map(|rule| rule.from.expect("peers")).collect();
    let is_open_to = |labels: &BTreeMap<String, String>| {
        peers.iter().any(|peer| {
            peer.pod_selector.is_none() && selects(&match_labels(peer.namespace_selector.clone()), labels)
        })
    };
    let mut labels = namespace.labels().clone();
    assert!(is_open_to(&labels));
    labels.remove(names::CLIENT_LABEL);
    assert!(!is_open_to(&labels));

    let job: Job = serde_json::from_value(object("Job")).expect("a Job");
    let template: PodTemplateSpec = job.spec.expect("a specification").template;
    let line = command_line("kubectl-headroom", container(&template));
    let args = kubectl_headroom::Args::try_parse_from(&line).expect("flags of the command");
    drop(args);
    let service = format!(
        "--addr={}.{}.svc:{}",
        names::HINTS_SERVICE,
        names::NAMESPACE,
        names::HINTS_PORT
    );
    assert!(line.contains(&service), "{line:?}");
    let volumes = serde_json::to_value(&spec(&template).volumes).expect("JSON");
    assert_eq!(
        volumes[1]["projected"]["sources"][0]["serviceAccountToken"]["audience"],
        names::TOKEN_AUDIENCE
    );
    assert_eq!(object("ClusterRoleBinding")["roleRef"]["name"], names::DEBUG_ROLE);
}

/// An API server that admits pods of the classes `system-*` only where a ResourceQuota allows them.
async fn cluster_with_limited_classes(folder: &Path) -> Cluster {
    let file = folder.join("admission.yaml");
    let limited = json!({
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AdmissionConfiguration",
        "plugins": [{"name": "ResourceQuota", "configuration": {
            "apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "ResourceQuotaConfiguration",
            "limitedResources": [{"resource": "pods", "matchScopes": [{
                "scopeName": "PriorityClass",
                "operator": "In",
                "values": ["system-node-critical", "system-cluster-critical"],
            }]}],
        }}],
    });
    fs::write(&file, limited.to_string()).expect("write");
    let options = ClusterOptions {
        apiserver_flags: vec![format!("--admission-control-config-file={}", file.display())],
        ..ClusterOptions::default()
    };
    Cluster::start(options).await.expect("cluster")
}

#[tokio::test(flavor = "multi_thread")]
async fn our_pods_are_created_under_a_quota_on_system_classes() {
    let folder = tempfile::tempdir().expect("a folder");
    let cluster = cluster_with_limited_classes(folder.path()).await;
    let client = cluster.client().await.expect("client");
    let installation = Installation::render();
    let classes: Vec<PriorityClass> = installation.all();
    // Only the webhook may take the place of other pods.
    let preempts = |class: &PriorityClass| class.preemption_policy.as_deref() != Some("Never");
    assert_eq!(classes.iter().filter(|class| preempts(class)).count(), 1);
    for class in &classes {
        assert_eq!(class.value, Some(HIGHEST_PRIORITY));
        assert_eq!(class.global_default, None);
    }
    installation.apply(cluster.kubeconfig());
    for (namespace, template) in installation.pods() {
        let name = spec(&template).priority_class_name.as_deref();
        let class = classes
            .iter()
            .find(|class| Some(class.name_any().as_str()) == name);
        let class = class.expect("a class of the installation");
        assert_eq!(preempts(class), namespace == names::NAMESPACE, "{namespace}");
        // The class reaches admission by a watch.
        until("a pod of the class is admitted", async || {
            try_create(&client, namespace, template.clone()).await.is_ok()
        })
        .await;
        let mut critical = template;
        let spec = critical.spec.as_mut().expect("a specification");
        spec.priority_class_name = Some("system-node-critical".to_owned());
        let refused = try_create(&client, namespace, critical).await;
        let error = refused.expect_err("the quota refuses it").to_string();
        assert!(
            error.contains("insufficient quota to match these scopes"),
            "{error}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn real_api_server_accepts_each_overlay_with_each_of_its_components() {
    let cluster = Cluster::start(ClusterOptions::default()).await.expect("cluster");
    let kubeconfig = format!("--kubeconfig={}", cluster.kubeconfig().display());
    let folder = workspace::root().join("deploy/kustomize");
    let mut installation = Installation::render_overlay(CONFIGURATION);
    let kinds = workspace::root().join("tests/fixtures/openshift/securitycontextconstraints.yaml");
    let kinds = kinds.display().to_string();
    installation.kubectl(&["apply", "--server-side", "--filename", &kinds, &kubeconfig]);
    let established = "--for=condition=Established";
    let kind = "crd/securitycontextconstraints.security.openshift.io";
    installation.kubectl(&["wait", established, kind, &kubeconfig]);
    installation.kubectl(&["create", "namespace", "koordinator-system", &kubeconfig]);

    Installation::render_overlay(HA).apply(cluster.kubeconfig());
    // The component fluid needs the namespace of Fluid. The API server serves v1beta1 only on request, see `chart`.
    let not_here = ["configuration", "koordinator", "fluid", "floor-v1beta1"];
    for component in kustomizations(&folder.join("components")) {
        if !not_here.contains(&component.as_str()) {
            installation.add_component(&component);
            installation.apply(cluster.kubeconfig());
        }
    }
    let script = folder.join("examples/script.yaml").display().to_string();
    let strict = "--validate=strict";
    let filename = [
        "apply",
        "--server-side",
        strict,
        "--filename",
        &script,
        &kubeconfig,
    ];
    installation.kubectl(&filename);
    let ca = format!("--from-file={OVERLAY}/{}", self_signed::CA_CERT);
    let namespace = "--namespace=headroom-scripts";
    installation.kubectl(&["create", "configmap", "headroom-ca", &ca, namespace, &kubeconfig]);
    let client = cluster.client().await.expect("client");
    let job = script_pod();
    try_create(&client, "headroom-scripts", job)
        .await
        .expect("a pod that is admitted");

    // The last one: its entries for pods fail closed, and no webhook answers here.
    let mut installation = Installation::render();
    installation.add_component("koordinator");
    assert_eq!(
        installation.webhook_args().serve,
        [Family::Nodes, Family::Koordinator]
    );
    installation.apply(cluster.kubeconfig());
}

/// The pods of the example of a script.
fn script_pod() -> PodTemplateSpec {
    let objects = script();
    let job = objects.into_iter().find(|object| object["kind"] == "Job");
    let job: Job = serde_json::from_value(job.expect("a Job")).expect("a Job");
    job.spec.expect("a specification").template
}
