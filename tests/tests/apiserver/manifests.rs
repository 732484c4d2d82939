//! Tests of the installation's manifests, rendered by kustomize: a real API server accepts them, and they agree with
//! themselves and with the programs' flags.
#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "tests panic: a returned error has no stack"
)]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    time::SystemTime,
};

use e2e::rendered_manifests::{
    Installation, OVERLAY, command_line, container, labels, selects, spec, try_create,
};
use headroom_domain::{installation, names};
use headroom_kit::{
    gate::GateSet,
    tls::{CertStore, Files, self_signed},
};
use headroom_testbed::cluster::{Cluster, ClusterOptions};
use headroom_webhook::{
    admission::{endpoint::Family, endpoints, features::Features},
    control::{floor_check, registration::Registration},
    install::manifest::{
        Address, NamespaceRights,
        policies::{self, checks::Checks},
    },
    store::floor::PolicyState,
};
use k8s_openapi::{
    api::{
        admissionregistration::v1::{
            MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding, MutatingWebhookConfiguration,
            ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding, ValidatingWebhookConfiguration,
            WebhookClientConfig,
        },
        authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
        core::v1::{ConfigMap, Container, PodTemplateSpec, Secret, Service},
        networking::v1::{NetworkPolicy, NetworkPolicyPeer, NetworkPolicyPort},
        rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
    },
    apimachinery::pkg::{
        apis::meta::v1::{LabelSelector, ObjectMeta},
        util::intstr::IntOrString,
    },
};
use kube::{Api, Client, ResourceExt as _, api::PostParams};
use serde_json::{Value, json};

/// Host path that agents may write to.
const CHECKPOINTS: &str = "/var/lib/headroom";
/// The namespace whose pods may scrape metrics.
const MONITORING: &str = "monitoring";

/// Replicas find the applied objects equal to the generated ones, and their certificate trusted.
async fn is_as_generated(installation: &Installation, client: &Client) {
    let found = floor_check::fetch(client, &installation::Installation::default())
        .await
        .expect("policies");
    assert_eq!(
        (found.floor, found.annotations),
        (PolicyState::InForce, PolicyState::InForce)
    );
    let folder = installation.folder().join(OVERLAY);
    let files = Files {
        cert: folder.join(self_signed::CERT),
        key: folder.join(self_signed::KEY),
    };
    let store = CertStore::load("test", files, SystemTime::now()).expect("certificates");
    let gates = GateSet::parse(endpoints::gates(), headroom_testbed::webhook::GATES).expect("gates");
    let registration = Registration::new(
        &installation::Installation::default(),
        &endpoints::served(&installation.webhook_args().serve),
        Features::with_gates(gates).shared(),
        &Address::Service,
        store,
    );
    let faults = registration.check(client).await.expect("webhook configurations");
    assert!(!faults.is_empty());
    for (endpoint, fault) in faults {
        assert_eq!(fault, None, "{endpoint}");
    }
}

/// Client configurations of the webhook, one for each entry.
fn clients(installation: &Installation) -> Vec<WebhookClientConfig> {
    let mutating = installation.all::<MutatingWebhookConfiguration>().into_iter();
    let mutating = mutating.flat_map(|configuration| configuration.webhooks.expect("webhooks"));
    let validating = installation.all::<ValidatingWebhookConfiguration>().into_iter();
    let validating = validating.flat_map(|configuration| configuration.webhooks.expect("webhooks"));
    let mutating = mutating.map(|webhook| webhook.client_config);
    mutating
        .chain(validating.map(|webhook| webhook.client_config))
        .collect()
}

/// Every entry of these families that gates at their defaults switch on leads to the webhook, and there is no other.
fn entries_lead_to_the_webhook(installation: &Installation, families: &[Family]) {
    let gates = GateSet::parse(endpoints::gates(), "").expect("gates");
    let entries = endpoints::served(families)
        .into_iter()
        .filter(|endpoint| endpoint.is_enabled(&gates))
        .flat_map(|endpoint| endpoint.declaration().entries)
        .filter(|entry| entry.when.is_on(&gates));
    let clients = clients(installation);
    assert_eq!(clients.len(), entries.count());
    let ca = installation.folder().join(OVERLAY).join(self_signed::CA_CERT);
    let ca = fs::read(ca).expect("the CA");
    for client in clients {
        let reference = client.service.expect("a Service");
        let service: Service = installation.get(&reference.namespace, &reference.name);
        let ports = service.spec.and_then(|spec| spec.ports).expect("ports");
        assert!(ports.iter().any(|port| Some(port.port) == reference.port));
        assert_eq!(client.ca_bundle.expect("a CA").0, ca);
    }
}

/// Mount propagation below the cgroup mount: controllers of version 1 are mounts of their own.
fn below_cgroups(template: &PodTemplateSpec) -> Option<String> {
    let mounts = container(template).volume_mounts.iter().flatten();
    let mut cgroups = mounts.filter(|mount| mount.name == "cgroup");
    let mount = cgroups.next().expect("a mount of the cgroups").clone();
    assert_eq!(mount.read_only, Some(true));
    mount.recursive_read_only
}

/// The container's ports by name.
fn ports(container: &Container) -> BTreeMap<String, i32> {
    let ports = container.ports.iter().flatten();
    ports
        .map(|port| (port.name.clone().expect("a name"), port.container_port))
        .collect()
}

/// The values of flags that are paths.
fn paths(container: &Container) -> Vec<String> {
    let arguments = container.args.iter().flatten();
    let values = arguments.filter_map(|argument| argument.split_once('='));
    values
        .map(|(_, value)| value.to_owned())
        .filter(|value| value.starts_with('/'))
        .collect()
}

#[test]
fn programs_accept_the_manifests_flags_and_listen_on_their_ports() {
    let installation = Installation::render();
    let template = installation.webhook();
    let webhook = container(&template);
    let args = installation.webhook_args();
    assert_eq!(args.replica_name, "webhook-0");
    assert_eq!(args.serve, [Family::Nodes]);
    assert_eq!(args.installation.get(), installation::Installation::default());
    let listening = [
        ("admission", args.admission_addr.port()),
        ("hints", args.hints_addr.port()),
        ("admin", args.admin.admin_addr.port()),
    ];
    let listening = listening.map(|(name, port)| (name.to_owned(), i32::from(port)));
    assert_eq!(ports(webhook), BTreeMap::from(listening));

    let template = installation.agent();
    let agent = container(&template);
    let mut line = command_line("headroom-agent", agent);
    // The variable that the manifest sets stands for this flag.
    let variables = agent.env.iter().flatten().map(|variable| variable.name.as_str());
    assert_eq!(
        variables.collect::<Vec<_>>(),
        [format!("{}NODE_NAME", headroom_kit::args::ENV_PREFIX)]
    );
    line.push("--node-name=n1".to_owned());
    let args =
        headroom_agent::args::Args::read(line.into_iter().map(Into::into)).expect("flags of the agent");
    let admin = i32::from(args.admin.admin_addr.port());
    assert_eq!(ports(agent), BTreeMap::from([("admin".to_owned(), admin)]));

    // Where it reports to by default is a headless Service: an address for each ready replica.
    let [server] = args.webhook_addr.as_slice() else {
        panic!("one address");
    };
    let service: Service = installation.get(names::NAMESPACE, names::HINTS_SERVICE);
    let service = service.spec.expect("a specification");
    assert_eq!(
        server.host,
        format!("{}.{}.svc", names::HINTS_SERVICE, names::NAMESPACE)
    );
    assert_eq!(service.cluster_ip.as_deref(), Some("None"));
    assert_eq!(service.ports.expect("ports")[0].port, i32::from(server.port));
}

#[test]
fn files_named_by_flags_are_mounted_and_mounted_sources_exist() {
    let installation = Installation::render();
    for (namespace, template) in installation.pods() {
        let container = container(&template);
        let mounts = container.volume_mounts.clone().expect("mounts");
        for path in paths(container) {
            let is_mounted = mounts
                .iter()
                .any(|mount| Path::new(&path).starts_with(&mount.mount_path));
            assert!(is_mounted, "{path} is not mounted");
        }
        let volumes = spec(&template).volumes.clone().unwrap_or_default();
        for mount in &mounts {
            // A pod may write to its private volumes, and to the files on its node that outlive it.
            let is_own = volumes.iter().any(|volume| {
                let own = volume.host_path.as_ref();
                volume.name == mount.name && own.is_some_and(|own| own.path == CHECKPOINTS)
            });
            let can_be_written = mount.read_only != Some(true);
            assert_eq!(can_be_written, is_own, "{}", mount.mount_path);
        }
        for volume in spec(&template).volumes.iter().flatten() {
            if let Some(secret) = &volume.secret {
                let name = secret.secret_name.as_deref().expect("a name");
                let data = installation.get::<Secret>(namespace, name).data.expect("content");
                for item in secret.items.iter().flatten() {
                    assert!(data.contains_key(&item.key), "{name} has no {}", item.key);
                }
            }
            if let Some(map) = &volume.config_map {
                let data = installation.get::<ConfigMap>(namespace, &map.name).data;
                assert!(data.expect("content").contains_key(self_signed::CA_CERT));
            }
        }
    }
    let template = installation.agent();
    let tokens = spec(&template)
        .volumes
        .iter()
        .flatten()
        .filter_map(|volume| volume.projected.as_ref());
    let tokens = tokens
        .flat_map(|projected| projected.sources.iter().flatten())
        .filter_map(|source| source.service_account_token.as_ref());
    let audiences: Vec<_> = tokens.map(|token| token.audience.as_deref()).collect();
    assert_eq!(audiences, [Some(names::TOKEN_AUDIENCE)]);
}

#[test]
fn services_and_webhook_configurations_lead_to_the_webhook() {
    let installation = Installation::render();
    let template = installation.webhook();
    let ports = ports(container(&template));
    for service in installation.all::<Service>() {
        let spec = service.spec.expect("a specification");
        assert!(selects(&spec.selector.expect("a selector"), &labels(&template)));
        for port in spec.ports.expect("ports") {
            let Some(IntOrString::String(target)) = &port.target_port else {
                panic!("a port with a name");
            };
            assert_eq!(ports.get(target), Some(&port.port), "{target}");
        }
    }

    entries_lead_to_the_webhook(&installation, &[Family::Nodes]);
}

/// The roles in the whole cluster by name, each of which the webhook's account has.
fn bound_roles(installation: &Installation) -> BTreeMap<String, ClusterRole> {
    let bindings = installation.all::<ClusterRoleBinding>().into_iter();
    let is_webhooks = |binding: &ClusterRoleBinding| {
        binding.subjects.iter().flatten().any(|subject| {
            (subject.namespace.as_deref(), subject.name.as_str())
                == (Some(names::NAMESPACE), names::WEBHOOK_SERVICE_ACCOUNT)
        })
    };
    let bound: BTreeSet<_> = bindings
        .filter(is_webhooks)
        .map(|binding| binding.role_ref.name)
        .collect();
    let roles = installation.all::<ClusterRole>().into_iter();
    roles
        .map(|role| (role.name_any(), role))
        .filter(|(name, _)| bound.contains(name))
        .collect()
}

#[test]
fn the_component_koordinator_brings_its_entries_its_roles_and_the_flag() {
    let mut installation = Installation::render();
    let before = bound_roles(&installation);
    assert_eq!(
        before.keys().collect::<Vec<_>>(),
        [names::WEBHOOK_SERVICE_ACCOUNT]
    );
    installation.add_component("koordinator");
    let families = installation.webhook_args().serve;
    assert_eq!(families, [Family::Nodes, Family::Koordinator]);
    entries_lead_to_the_webhook(&installation, &families);

    // The rights for nodes are unchanged, and the rights for pods are in separate roles.
    let mut after = bound_roles(&installation);
    for (name, role) in before {
        assert_eq!(after.remove(&name), Some(role));
    }
    let added = headroom_webhook::rights(
        &installation::Installation::default(),
        &endpoints::served(&[Family::Koordinator]),
    );
    assert_eq!(after.len(), added.len());
    for rights in added {
        let role = after
            .remove(&rights.role.name_any())
            .expect("a role that is bound");
        assert_eq!(role.rules, rights.role.rules);
        for NamespaceRights { role, binding } in rights.namespaces {
            let is_it = |metadata: &ObjectMeta, other: &ObjectMeta| {
                (&metadata.name, &metadata.namespace) == (&other.name, &other.namespace)
            };
            let roles = installation.all::<Role>();
            let found = roles.iter().find(|found| is_it(&found.metadata, &role.metadata));
            assert_eq!(found.expect("a role in a namespace").rules, role.rules);
            let bindings = installation.all::<RoleBinding>();
            let found = bindings
                .iter()
                .find(|found| is_it(&found.metadata, &binding.metadata));
            assert_eq!(found.expect("its binding").subjects, binding.subjects);
        }
    }
}

#[test]
fn the_policies_are_part_of_it_unless_the_component_for_earlier_api_servers_is() {
    let mut installation = Installation::render();
    let generated = policies::all(&installation::Installation::default());
    let mut policies = installation.all::<MutatingAdmissionPolicy>();
    let mut bindings = installation.all::<MutatingAdmissionPolicyBinding>();
    // Kustomize adds its labels.
    for policy in &mut policies {
        policy.metadata.labels = None;
    }
    for binding in &mut bindings {
        binding.metadata.labels = None;
    }
    for bound in &generated {
        assert!(
            policies.contains(&bound.policy),
            "{:?}",
            bound.policy.metadata.name
        );
        assert!(
            bindings.contains(&bound.binding),
            "{:?}",
            bound.binding.metadata.name
        );
    }
    assert_eq!(
        (policies.len(), bindings.len()),
        (generated.len(), generated.len())
    );

    let before = installation.objects.len();
    installation.add_component("before-1.36");
    assert_eq!(installation.objects.len(), before - 2 * generated.len());
    assert_eq!(installation.all::<MutatingAdmissionPolicy>(), []);
    assert_eq!(installation.all::<MutatingAdmissionPolicyBinding>(), []);
}

#[test]
fn checks_are_in_the_base_and_removed_by_their_component() {
    let mut installation = Installation::render();
    let refusing = policies::refusing(&installation::Installation::default()).into_iter();
    let expected: (Vec<_>, Vec<_>) = refusing
        .map(|Checks { policy, binding }| (policy, binding))
        .unzip();
    let mut policies = installation.all::<ValidatingAdmissionPolicy>();
    let mut bindings = installation.all::<ValidatingAdmissionPolicyBinding>();
    // Kustomize adds its labels.
    for policy in &mut policies {
        policy.metadata.labels = None;
    }
    for binding in &mut bindings {
        binding.metadata.labels = None;
    }
    assert_eq!((policies, bindings), expected);
    let before = installation.objects.len();
    assert_eq!(
        below_cgroups(&installation.agent()).as_deref(),
        Some("IfPossible")
    );
    installation.add_component("before-1.30");
    assert_eq!(below_cgroups(&installation.agent()), None);
    assert_eq!(installation.objects.len(), before - 6);
    assert_eq!(installation.all::<ValidatingAdmissionPolicy>(), []);
    assert_eq!(installation.all::<ValidatingAdmissionPolicyBinding>(), []);
}

#[test]
fn metrics_read_right_is_only_in_its_component() {
    let mut installation = Installation::render();
    let of_ours = |installation: &Installation| -> Vec<Value> {
        let objects = installation.objects.iter();
        let of_ours = |object: &&Value| object["metadata"]["name"] == "headroom-webhook-kubelet-use";
        objects.filter(of_ours).cloned().collect()
    };
    assert_eq!(of_ours(&installation), [Value::Null; 0]);
    let before = installation.objects.len();
    installation.add_component("kubelet-use");
    let added = of_ours(&installation);
    assert_eq!((added.len(), installation.objects.len()), (2, before + 2));
    for object in added {
        if object["kind"] == "ClusterRole" {
            let rules = json!([{"apiGroups": ["metrics.k8s.io"], "resources": ["nodes"], "verbs": ["list"]}]);
            assert_eq!(object["rules"], rules);
        } else {
            let subject = &object["subjects"][0];
            let account = (subject["namespace"].as_str(), subject["name"].as_str());
            assert_eq!(
                account,
                (Some(names::NAMESPACE), Some(names::WEBHOOK_SERVICE_ACCOUNT))
            );
        }
    }
}

#[test]
fn skip_component_adds_only_its_match_condition() {
    let mut installation = Installation::render();
    let mut objects = installation.objects.clone();
    let [mut skipping] = <[MutatingWebhookConfiguration; 1]>::try_from(installation.all()).expect("one");
    let count_conditional = |configuration: &MutatingWebhookConfiguration| {
        let entries = configuration.webhooks.iter().flatten();
        entries.filter(|entry| entry.match_conditions.is_some()).count()
    };
    let before = count_conditional(&skipping);
    headroom_webhook::install::manifest::steady_state::skip(&mut skipping);
    assert_eq!(count_conditional(&skipping), before + 1);
    let is_it = |object: &&mut Value| object["kind"] == "MutatingWebhookConfiguration";
    let configuration = objects.iter_mut().find(is_it).expect("the configuration");
    configuration["webhooks"] = serde_json::to_value(skipping.webhooks).expect("JSON");

    installation.add_component("steady-state-skip");
    assert_eq!(installation.objects, objects);
}

#[test]
fn agent_socket_is_only_in_its_component() {
    let mut installation = Installation::render();
    let before = installation.agent();
    installation.add_component("agent-socket");
    let after = installation.agent();
    let socket = "--debug-socket=/run/headroom/agent.sock";
    let arguments = |template: &PodTemplateSpec| container(template).args.clone().expect("arguments");
    assert_eq!(
        arguments(&after),
        [arguments(&before), vec![socket.to_owned()]].concat()
    );
    let host_path = |template| {
        let volumes = spec(template).volumes.clone().expect("volumes");
        let of_socket = volumes.into_iter().find(|volume| volume.name == "socket")?;
        of_socket.host_path
    };
    assert_eq!(host_path(&before), None);
    let on_node = host_path(&after).expect("a path of the node");
    let mounts = container(&after).volume_mounts.clone().expect("mounts");
    let mount = mounts
        .iter()
        .find(|mount| mount.name == "socket")
        .expect("a mount");
    assert_eq!(
        (
            on_node.path.as_str(),
            on_node.type_.as_deref(),
            mount.mount_path.as_str(),
            mount.read_only
        ),
        ("/run/headroom", Some("DirectoryOrCreate"), "/run/headroom", None),
        "the same path in both, so that the socket is found from the node"
    );
}

#[test]
fn checkpoints_outlive_the_pod_unless_the_component_forbids_it() {
    let mut installation = Installation::render();
    let volume = |template: &PodTemplateSpec| {
        let volumes = spec(template).volumes.clone().expect("volumes");
        let found = volumes.into_iter().find(|volume| volume.name == "checkpoint");
        found.expect("a volume for checkpoints")
    };
    let arguments = |template: &PodTemplateSpec| container(template).args.clone().expect("arguments");
    let before = installation.agent();
    let on_node = volume(&before).host_path.expect("a path of the node");
    assert_eq!(
        (on_node.path.as_str(), on_node.type_.as_deref()),
        (CHECKPOINTS, Some("DirectoryOrCreate"))
    );
    // The kubelet creates a folder that all users may read; the agent creates one for itself inside it.
    let folder = Path::new(CHECKPOINTS).join("agent");
    let flag = format!("--checkpoint={}", folder.display());
    assert!(arguments(&before).contains(&flag), "{:?}", arguments(&before));
    installation.add_component("checkpoint-in-pod");
    let after = installation.agent();
    assert_eq!(arguments(&after), arguments(&before));
    let in_pod = volume(&after);
    assert_eq!(in_pod.host_path, None);
    assert!(in_pod.empty_dir.is_some_and(|own| own.size_limit.is_some()));
}

#[test]
fn the_agent_has_two_capabilities_two_host_paths_and_no_namespace_of_the_host() {
    let installation = Installation::render();
    let template = installation.agent();
    let spec = spec(&template);
    assert_eq!(
        (spec.host_network, spec.host_pid, spec.host_ipc),
        (None, None, None)
    );
    let host_paths = spec
        .volumes
        .iter()
        .flatten()
        .filter_map(|volume| volume.host_path.as_ref());
    let host_paths: Vec<&str> = host_paths.map(|host| host.path.as_str()).collect();
    assert_eq!(host_paths, ["/sys/fs/cgroup", CHECKPOINTS]);

    for (template, added) in [
        (&template, Some(vec!["BPF".to_owned(), "PERFMON".to_owned()])),
        (&installation.webhook(), None),
    ] {
        let security = container(template)
            .security_context
            .clone()
            .expect("a security context");
        assert_eq!(security.privileged, None);
        assert_eq!(security.allow_privilege_escalation, Some(false));
        assert_eq!(security.read_only_root_filesystem, Some(true));
        let capabilities = security.capabilities.expect("capabilities");
        assert_eq!(capabilities.drop, Some(vec!["ALL".to_owned()]));
        assert_eq!(capabilities.add, added);
        assert_eq!(self::spec(template).automount_service_account_token, Some(false));
    }
}

/// Ports of ours that a policy opens, and to which pods; an empty list means all.
fn opened<'p>(
    rules: impl Iterator<
        Item = (
            Option<&'p Vec<NetworkPolicyPeer>>,
            Option<&'p Vec<NetworkPolicyPort>>,
        ),
    >,
) -> BTreeMap<u16, Vec<NetworkPolicyPeer>> {
    let mut opened = BTreeMap::new();
    for (peers, ports) in rules {
        for port in ports.expect("a rule names its ports") {
            let Some(IntOrString::Int(number)) = port.port else {
                panic!("a port has a number");
            };
            let number = u16::try_from(number).expect("a port");
            opened.insert(number, peers.cloned().unwrap_or_default());
        }
    }
    opened
}

/// True if the peers are exactly the pods of the namespace that scrapes metrics.
fn is_monitoring(peers: &[NetworkPolicyPeer]) -> bool {
    let [peer] = peers else { return false };
    let selected = peer
        .namespace_selector
        .clone()
        .and_then(|selector| selector.match_labels);
    let name = ("kubernetes.io/metadata.name".to_owned(), MONITORING.to_owned());
    selected == Some(BTreeMap::from([name])) && peer.pod_selector.is_none() && peer.ip_block.is_none()
}

/// True if the peer is the pods of that template in that namespace, and none elsewhere.
fn is_exactly(peer: &NetworkPolicyPeer, namespace: &str, template: &PodTemplateSpec) -> bool {
    let labels_of = |selector: &Option<LabelSelector>| {
        selector
            .clone()
            .and_then(|selector| selector.match_labels)
            .unwrap_or_default()
    };
    let of_namespace = BTreeMap::from([("kubernetes.io/metadata.name".to_owned(), namespace.to_owned())]);
    selects(&labels_of(&peer.namespace_selector), &of_namespace)
        && selects(&labels_of(&peer.pod_selector), &labels(template))
}

#[test]
fn network_policies_allow_only_two_flows() {
    let installation = Installation::render();
    let policy = |namespace: &str, name: &str| {
        let policy: NetworkPolicy = installation.get(namespace, name);
        let spec = policy.spec.expect("a specification");
        // All pods of the namespace, in both directions.
        assert_eq!(spec.pod_selector, Some(LabelSelector::default()));
        assert_eq!(
            spec.policy_types,
            Some(vec!["Ingress".to_owned(), "Egress".to_owned()])
        );
        let ingress = spec.ingress.unwrap_or_default();
        let egress = spec.egress.unwrap_or_default();
        (
            opened(
                ingress
                    .iter()
                    .map(|rule| (rule.from.as_ref(), rule.ports.as_ref())),
            ),
            opened(egress.iter().map(|rule| (rule.to.as_ref(), rule.ports.as_ref()))),
        )
    };
    let (into_webhook, out_of_webhook) = policy(names::NAMESPACE, names::WEBHOOK_SERVICE);
    let open = [names::ADMISSION_PORT, names::HINTS_PORT, names::ADMIN_PORT];
    assert_eq!(
        into_webhook.keys().copied().collect::<BTreeSet<_>>(),
        BTreeSet::from(open)
    );
    assert!(into_webhook[&names::ADMISSION_PORT].is_empty());
    assert!(is_monitoring(&into_webhook[&names::ADMIN_PORT]));
    let [agents, scripts] = into_webhook[&names::HINTS_PORT].as_slice() else {
        panic!("agents and scripts");
    };
    assert!(is_exactly(agents, names::AGENT_NAMESPACE, &installation.agent()));
    assert!(scripts.pod_selector.is_none() && scripts.ip_block.is_none());
    let namespaces = scripts
        .namespace_selector
        .clone()
        .and_then(|selector| selector.match_labels);
    // None of our namespaces has the label: a user who labels another namespace admits its pods.
    let label = (names::CLIENT_LABEL.to_owned(), "true".to_owned());
    assert_eq!(namespaces, Some(BTreeMap::from([label])));
    assert_eq!(out_of_webhook.keys().copied().collect::<Vec<_>>(), [443, 6443]);

    let (into_agent, out_of_agent) = policy(names::AGENT_NAMESPACE, names::AGENT_SERVICE_ACCOUNT);
    assert_eq!(
        into_agent.keys().copied().collect::<Vec<_>>(),
        [names::ADMIN_PORT]
    );
    assert!(is_monitoring(&into_agent[&names::ADMIN_PORT]));
    assert_eq!(
        out_of_agent.keys().copied().collect::<Vec<_>>(),
        [53, names::HINTS_PORT]
    );
    let webhooks = &out_of_agent[&names::HINTS_PORT];
    assert!(webhooks.len() == 1 && is_exactly(&webhooks[0], names::NAMESPACE, &installation.webhook()));
}

#[tokio::test(flavor = "multi_thread")]
async fn real_api_server_accepts_every_object_and_their_pods() {
    let cluster = Cluster::start(ClusterOptions::default()).await.expect("cluster");
    let client = cluster.client().await.expect("client");
    let installation = Installation::render();
    for _ in ["first", "second"] {
        installation.apply(cluster.kubeconfig());
    }

    // Pod Security checks pods, not their controllers.
    for (namespace, template) in installation.pods() {
        try_create(&client, namespace, template)
            .await
            .expect("an admitted pod");
    }
    rights_are_the_least(&client).await;
    is_as_generated(&installation, &client).await;

    // A field that does not exist is not dropped in silence.
    let agent = installation.folder().join("base/agent.yaml");
    let text = fs::read_to_string(&agent).expect("a manifest");
    fs::write(&agent, text.replace("hostPath:", "hostpath:")).expect("a manifest");
    let refused = installation.try_apply(cluster.kubeconfig());
    assert!(!refused.status.success());
    assert!(
        String::from_utf8_lossy(&refused.stderr).contains("hostpath"),
        "{refused:?}"
    );
}

/// The webhook's account has only the rights that it uses; the agent's has none.
async fn rights_are_the_least(client: &Client) {
    let webhook = (names::NAMESPACE, names::WEBHOOK_SERVICE_ACCOUNT);
    let agent = (names::AGENT_NAMESPACE, names::AGENT_SERVICE_ACCOUNT);
    for (account, verb, resource, is_allowed) in [
        (webhook, "watch", ("", "nodes", ""), true),
        (webhook, "watch", ("", "pods", ""), true),
        (webhook, "patch", ("", "nodes", "status"), true),
        (
            webhook,
            "create",
            ("authentication.k8s.io", "tokenreviews", ""),
            true,
        ),
        (webhook, "update", ("", "nodes", "status"), false),
        (webhook, "patch", ("", "nodes", ""), false),
        (webhook, "create", ("", "pods", "eviction"), false),
        (webhook, "create", ("", "pods", "binding"), false),
        (webhook, "get", ("", "secrets", ""), false),
        (agent, "get", ("", "nodes", ""), false),
        (agent, "list", ("", "pods", ""), false),
        (agent, "patch", ("", "nodes", "status"), false),
    ] {
        let (namespace, name) = account;
        let (group, plural, subresource) = resource;
        let attributes = ResourceAttributes {
            group: Some(group.to_owned()),
            resource: Some(plural.to_owned()),
            subresource: Some(subresource.to_owned()),
            verb: Some(verb.to_owned()),
            ..ResourceAttributes::default()
        };
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: Some(format!("system:serviceaccount:{namespace}:{name}")),
                resource_attributes: Some(attributes),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
        let answer = reviews
            .create(&PostParams::default(), &review)
            .await
            .expect("an answer");
        let status = answer.status.expect("a status");
        assert_eq!(status.allowed, is_allowed, "{name}: {verb} {resource:?}");
    }
}
