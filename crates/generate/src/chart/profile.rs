//! [`PROFILES`]: the profiles of the chart, each a component or an overlay of kustomize.

use std::borrow::Cow;

use anyhow::{Context as _, Result};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;

use super::component::Component;

/// A profile: its name in the chart's values, and the kustomization that it stands for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Profile {
    pub(super) name: &'static str,
    /// Folder below `deploy/kustomize`.
    pub(super) folder: &'static str,
    /// Purpose, for the values.
    pub(super) about: &'static str,
}

/// Name of a profile in the values.
#[derive(Debug, Serialize)]
pub(super) struct ProfileName(&'static str);

/// The profile of the base, which is always installed.
pub(super) const NODES: &str = "nodes";
/// The component that a value turns on, instead of a profile.
pub(super) const CONFIGURATION: Profile = profile(
    "configuration",
    "components/configuration",
    "the webhook's configuration file",
);

const fn profile(name: &'static str, folder: &'static str, about: &'static str) -> Profile {
    Profile { name, folder, about }
}

/// In the order in which their patches are applied.
pub(super) static PROFILES: [Profile; 19] = [
    profile(
        "ha",
        "components/ha",
        "two replicas of the webhook on different nodes",
    ),
    profile(
        "koordinator",
        "components/koordinator",
        "also Koordinator's admission of pods, quotas and configuration; includes ha",
    ),
    profile(
        "koordinator-kinds",
        "components/koordinator-kinds",
        "the kinds that Koordinator's admission reads, for clusters without Koordinator",
    ),
    profile(
        "fluid",
        "components/fluid",
        "also the admission of pods with data of Fluid, instead of Fluid's own; includes ha",
    ),
    profile(
        "host-network",
        "components/host-network",
        "the webhook in the network of its node: EKS with a CNI that is not Amazon's",
    ),
    profile("selinux", "components/selinux", "nodes on which SELinux enforces"),
    profile("openshift", "components/openshift", "OpenShift; includes selinux"),
    profile(
        "before-1.36",
        "components/before-1.36",
        "API servers before 1.36, which serve no MutatingAdmissionPolicy: no floor",
    ),
    profile(
        "floor-v1beta1",
        "components/floor-v1beta1",
        "API servers 1.34 and 1.35 that serve MutatingAdmissionPolicy as v1beta1",
    ),
    profile(
        "accept-no-floor",
        "components/accept-no-floor",
        "guard and auto raise nodes without the floor: read docs/floor.md first",
    ),
    profile(
        "before-1.30",
        "components/before-1.30",
        "API servers before 1.30, which serve no ValidatingAdmissionPolicy; needs before-1.36 too",
    ),
    profile(
        "cert-manager",
        "overlays/cert-manager",
        "certificates of cert-manager instead of the webhook's own",
    ),
    profile(
        "files",
        "components/certificate-files",
        "the certificate in a Secret headroom-webhook-certs that you create: ca.crt, tls.crt, tls.key",
    ),
    profile(
        "reconcile-entries",
        "components/reconcile-entries",
        "the webhook restores its webhook configurations; not with Argo CD's self-healing",
    ),
    profile(
        "steady-state-skip",
        "components/steady-state-skip",
        "the API server skips the webhook for heartbeats that change nothing",
    ),
    profile(
        "kubelet-use",
        "components/kubelet-use",
        "compares agents with kubelets, if metrics.k8s.io is served",
    ),
    profile(
        "checkpoint-in-pod",
        "components/checkpoint-in-pod",
        "agents write no folder of their node; each update starts without a history",
    ),
    profile(
        "agent-socket",
        "components/agent-socket",
        "a socket of the agent on each node, for kubectl headroom agent",
    ),
    profile(
        "more-api-server-ports",
        "components/more-api-server-ports",
        "API servers on 8443 (minikube) and 16443 (MicroK8s)",
    ),
];

impl Profile {
    /// Helm expression that is true while the component is active.
    pub(super) fn condition(&self) -> String {
        format!("has {:?} $on", self.name)
    }

    /// Names of the profiles that it includes.
    ///
    /// # Errors
    /// If it includes a component without a profile.
    pub(super) fn included(&self, component: &Component) -> Result<Vec<&'static str>> {
        let includes = component.components.iter().map(|path| {
            let name = path.trim_start_matches("../");
            let mut profiles = PROFILES.iter();
            let found = profiles.find(|profile| profile.folder.ends_with(&format!("/{name}")));
            let found = found.with_context(|| format!("{} includes {path}, which is no profile", self.name));
            found.map(|profile| profile.name)
        });
        includes.collect()
    }
}

impl JsonSchema for ProfileName {
    fn schema_name() -> Cow<'static, str> {
        "Profile".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names = PROFILES.iter().map(|profile| profile.name);
        let names: Vec<&str> = [NODES].into_iter().chain(names).collect();
        json_schema!({"type": "string", "enum": names})
    }
}
