//! Collects the evidence for `check`, from each replica and from the API server.

use std::collections::BTreeMap;

use headroom_domain::{installation::Installation, names, quantity::Quantity};
use headroom_kit::log::chain;
use headroom_proto::v1alpha1::{GetInstallationRequest, GetInstallationResponse, debug_client::DebugClient};
use k8s_openapi::api::{
    admissionregistration::v1::MutatingWebhookConfiguration, authorization::v1::ResourceAttributes,
    core::v1::Node,
};
use kube::{Api, Client, ResourceExt as _};
use tonic::{Code, Request};

use super::{
    Client as DebugServiceClient, Connection, Credentials, LIMIT, Route,
    bound_requests::{bound_requests, read_each},
    kubeconfig,
};
use crate::{
    access_review::is_allowed,
    args::ConnectArgs,
    check::{
        CheckReport, Finding, INSTALLED,
        evidence::{CheckAnswer, Evidence, Machine},
        kubernetes_version::{self, KubernetesVersion},
    },
    error::Error,
    rights,
};

/// API group and version of the policies that keep the floor.
const POLICY_GROUP_VERSION: &str = "admissionregistration.k8s.io/v1";
const POLICIES: &str = "mutatingadmissionpolicies";
/// Operating system of nodes on which agents run.
const LINUX: &str = "linux";

/// Kinds of objects in the manifests, by API group and resource.
const MANIFEST_KINDS: [(&str, &str); 20] = [
    ("", "configmaps"),
    ("", "namespaces"),
    ("", "secrets"),
    ("", "serviceaccounts"),
    ("", "services"),
    ("apps", "daemonsets"),
    ("apps", "deployments"),
    ("networking.k8s.io", "networkpolicies"),
    ("policy", "poddisruptionbudgets"),
    ("rbac.authorization.k8s.io", "clusterrolebindings"),
    ("rbac.authorization.k8s.io", "clusterroles"),
    ("rbac.authorization.k8s.io", "rolebindings"),
    ("rbac.authorization.k8s.io", "roles"),
    ("scheduling.k8s.io", "priorityclasses"),
    ("admissionregistration.k8s.io", "mutatingadmissionpolicies"),
    ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings"),
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
    (
        "admissionregistration.k8s.io",
        "validatingadmissionpolicybindings",
    ),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
];

impl Connection {
    /// Problems of the whole installation as the connected replica reports them, most severe first.
    ///
    /// # Errors
    /// The webhook refuses or is unreachable.
    pub async fn findings(&mut self) -> Result<Vec<Finding>, Error> {
        self.renew().await?;
        let answer = installation(&mut self.client).await?;
        let evidence = Evidence::of_replica(self.credentials.installation.clone(), answer);
        Ok(CheckReport::new(INSTALLED, &evidence).findings)
    }
}

/// Installation state of a replica; `None` if the replica is older than this request.
async fn installation(client: &mut DebugServiceClient) -> Result<Option<GetInstallationResponse>, Error> {
    let mut request = Request::new(GetInstallationRequest {});
    request.set_timeout(LIMIT);
    match client.get_installation(request).await {
        Ok(answer) => Ok(Some(answer.into_inner())),
        Err(status) if status.code() == Code::Unimplemented => Ok(None),
        Err(status) => Err(status.into()),
    }
}

/// Collects the evidence about an installation.
///
/// # Errors
/// The kubeconfig or a file is unusable, or the API server or webhook refuses.
pub async fn evidence(args: &ConnectArgs) -> Result<Evidence, Error> {
    let mut evidence = Evidence {
        installation: args.installation(),
        ..Evidence::default()
    };
    let credentials = match Credentials::new(args).await {
        Ok(credentials) => credentials,
        Err(Error::NotRegistered { .. }) => {
            evidence.is_configured = Ok(false);
            evidence.replicas =
                Err("no webhook configuration has the webhook's CA; see --ca-file".to_owned());
            return Ok(evidence);
        }
        Err(error @ Error::NoCaBundle { .. }) => {
            evidence.unreached.push(chain(&error).to_string());
            evidence.replicas = Err(chain(&error).to_string());
            return Ok(evidence);
        }
        Err(error) => return Err(error),
    };
    if let Ok(api) = credentials.api() {
        evidence.is_configured = is_configured(api.clone(), &evidence.installation).await;
        evidence.is_hosted = is_hosted(&api).await;
    }
    ask_replicas(args, &credentials, &mut evidence).await?;
    Ok(evidence)
}

async fn is_hosted(api: &Client) -> CheckAnswer<bool> {
    let version = api.apiserver_version().await;
    let version = version.map_err(|source| {
        let attempt = "read the API server's version";
        let reason = Box::new(source);
        chain(&Error::Cluster { attempt, reason }).to_string()
    })?;
    Ok(kubernetes_version::is_hosted(&version.git_version))
}

async fn is_configured(api: Client, installation: &Installation) -> CheckAnswer<bool> {
    let configurations: Api<MutatingWebhookConfiguration> = Api::all(api);
    let name = installation.named(names::WEBHOOK_CONFIGURATION);
    let found = configurations.get_opt(&name).await;
    found
        .map(|found| found.is_some())
        .map_err(|source| Error::api(&rights::READ_CA, source).to_string())
}

async fn ask_replicas(
    args: &ConnectArgs,
    credentials: &Credentials,
    evidence: &mut Evidence,
) -> Result<(), Error> {
    let routes = match Route::to_each(args, credentials).await {
        Ok(routes) => routes,
        Err(error) if error.is_passing() || error.is_absent() => {
            evidence.unreached.push(chain(&error).to_string());
            evidence.replicas = Ok(Vec::new());
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    let mut answers = Vec::new();
    for route in routes {
        match ask(&route, credentials).await {
            Ok(Some(answer)) => answers.push(answer),
            Ok(None) => evidence.older_replicas.push(format!("replica {route}")),
            Err(error) if error.is_passing() => evidence.unreached.push(chain(&error).to_string()),
            Err(error) => return Err(error),
        }
    }
    evidence.replicas = Ok(answers);
    Ok(())
}

/// Installation state of one replica; `None` if the replica is older than this request.
pub(super) async fn ask(
    route: &Route,
    credentials: &Credentials,
) -> Result<Option<GetInstallationResponse>, Error> {
    let channel = route.open(credentials).await?;
    installation(&mut DebugClient::with_interceptor(channel, credentials.bearer())).await
}

/// Collects the evidence about a cluster before the installation.
///
/// # Errors
/// The kubeconfig is unusable, or the API server does not answer.
pub async fn evidence_before(args: &ConnectArgs) -> Result<Evidence, Error> {
    let api = kubeconfig::api(args).await?;
    let version = api.apiserver_version().await.map_err(|source| Error::Cluster {
        attempt: "read the API server's version",
        reason: Box::new(source),
    })?;
    let kubernetes = KubernetesVersion::parse(&version.git_version);
    let nodes = read_nodes(&api).await;
    Ok(Evidence {
        installation: args.installation(),
        kubernetes: kubernetes.ok_or_else(|| format!("{:?} is not a version", version.git_version)),
        has_policies: has_policies(&api)
            .await
            .map_err(|error| chain(&error).to_string()),
        missing_rights: missing_rights(&api)
            .await
            .map_err(|error| chain(&error).to_string()),
        free_cpu: match &nodes {
            Ok(nodes) => free_cpu(&api, nodes).await,
            Err(error) => Err(error.clone()),
        },
        machines: nodes.map(|nodes| nodes.iter().filter_map(machine).collect()),
        has_koordinator: has_koordinator(&api)
            .await
            .map_err(|error| chain(&error).to_string()),
        has_fluid: has_fluid(&api).await.map_err(|error| chain(&error).to_string()),
        ..Evidence::default()
    })
}

async fn has_policies(api: &Client) -> Result<bool, Error> {
    let found = api.list_api_group_resources(POLICY_GROUP_VERSION).await;
    let found = found.map_err(|source| Error::Cluster {
        attempt: "list the resources of the API server",
        reason: Box::new(source),
    })?;
    Ok(found.resources.iter().any(|resource| resource.name == POLICIES))
}

async fn missing_rights(api: &Client) -> Result<Vec<String>, Error> {
    let mut missing = Vec::new();
    for (group, resource) in MANIFEST_KINDS {
        let create = ResourceAttributes {
            group: Some(group.to_owned()),
            resource: Some(resource.to_owned()),
            verb: Some("create".to_owned()),
            ..ResourceAttributes::default()
        };
        if !is_allowed(api, create).await? {
            missing.push(resource.to_owned());
        }
    }
    Ok(missing)
}

async fn read_nodes(api: &Client) -> Result<Vec<Node>, String> {
    let mut nodes = Vec::new();
    let read = read_each(api, &rights::READ_NODES, |node| nodes.push(node)).await;
    read.map_err(|error| chain(&error).to_string())?;
    Ok(nodes)
}

/// Allocatable CPU of each Linux node minus the requests of its pods, in milli-cores.
async fn free_cpu(api: &Client, nodes: &[Node]) -> Result<Vec<(String, i64)>, String> {
    let signed = |milli: u64| i64::try_from(milli).unwrap_or(i64::MAX);
    let allocatable = |node: &Node| {
        let status = node.status.as_ref()?;
        let is_linux = status.node_info.as_ref()?.operating_system == LINUX;
        let quantity: Quantity = status.allocatable.as_ref()?.get("cpu")?.0.parse().ok()?;
        Some((node.name_any(), signed(quantity.milli().filter(|_| is_linux)?)))
    };
    let mut free: BTreeMap<_, _> = nodes.iter().filter_map(allocatable).collect();
    let bound = bound_requests(api).await;
    for (node, requests) in bound.map_err(|error| chain(&error).to_string())? {
        if let Some(milli) = free.get_mut(&node) {
            *milli = milli.saturating_sub(signed(requests.cpu));
        }
    }
    Ok(free.into_iter().collect())
}

/// `None` for a Node whose kubelet has not reported the machine.
fn machine(node: &Node) -> Option<Machine> {
    let info = node.status.as_ref()?.node_info.as_ref()?;
    (!info.kernel_version.is_empty()).then(|| Machine {
        node: node.name_any(),
        system: info.operating_system.clone(),
        architecture: info.architecture.clone(),
        kernel: info.kernel_version.clone(),
    })
}

async fn has_koordinator(api: &Client) -> Result<bool, Error> {
    let configurations: Api<MutatingWebhookConfiguration> = Api::all(api.clone());
    let found = configurations.get_opt(names::KOORDINATOR_CONFIGURATION).await;
    let found = found.map_err(|source| Error::api(&rights::READ_KOORDINATOR, source))?;
    Ok(found.is_some())
}

/// True if Fluid's own webhook has the entry that Headroom serves as well.
async fn has_fluid(api: &Client) -> Result<bool, Error> {
    let configurations: Api<MutatingWebhookConfiguration> = Api::all(api.clone());
    let found = configurations.get_opt(names::FLUID_OWN_CONFIGURATION).await;
    let found = found.map_err(|source| Error::api(&rights::READ_FLUID, source))?;
    let mut entries = found.into_iter().filter_map(|found| found.webhooks).flatten();
    Ok(entries.any(|entry| entry.name == names::FLUID_SERVERFUL_ENTRY))
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    use serde_json::Value;

    use super::*;

    /// Plural name of a kind.
    fn resource(kind: &str) -> String {
        let lower = kind.to_lowercase();
        match lower.strip_suffix('y') {
            Some(stem) => format!("{stem}ies"),
            None if lower.ends_with('s') => lower + "es",
            None => lower + "s",
        }
    }

    #[test]
    fn permissions_are_reviewed_for_each_kind_in_the_manifests() {
        let base = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/kustomize/base");
        let mut kinds = BTreeSet::new();
        for file in fs::read_dir(base).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "yaml")
                || path.ends_with("kustomization.yaml")
            {
                continue;
            }
            let text = fs::read_to_string(path).unwrap();
            for object in serde_saphyr::from_multiple::<Value>(&text).unwrap() {
                let version = object["apiVersion"].as_str().unwrap();
                let group = version.split_once('/').map_or("", |(group, _)| group);
                kinds.insert((group.to_owned(), resource(object["kind"].as_str().unwrap())));
            }
        }
        let asked: BTreeSet<_> = MANIFEST_KINDS
            .map(|(group, resource)| (group.to_owned(), resource.to_owned()))
            .into();
        let forgotten: Vec<_> = kinds.difference(&asked).collect();
        assert!(kinds.len() > 10 && forgotten.is_empty(), "{forgotten:?}");
    }
}
