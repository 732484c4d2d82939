//! Deploys the pods of the bench through the API server and lists them with their states.

use anyhow::{Context as _, Result};
use headroom_domain::resource::PerResource;
use headroom_testbed::workload::{
    deployment::{DeploymentShape, ROLE, deploy},
    load::Load,
};
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use kube::{Api, Client, ResourceExt as _, api::ListParams};

pub(super) const NAMESPACE: &str = "headroom-bench";
/// CPU request of each pod, in percent of the node's raw CPU.
pub(super) const REQUEST_PCT: u64 = 10;
/// Memory request of each pod, as much as it uses.
const REQUEST_BYTES: u64 = 8 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Its process is the latency probe, during the measured part of a turn.
    Probe,
    /// Runs during all turns; together with the probe these pods request nine tenths of the node.
    Resident,
    /// Created in each turn; only the first fits raw.
    Arriving,
}

#[derive(Debug, Clone)]
pub(super) struct Size {
    /// CPU request of each pod, in milli-cores.
    pub(super) request_milli: u64,
    pub(super) load: Load,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PodRecord {
    pub(super) uid: String,
    pub(super) role: Role,
    pub(super) state: PodState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PodState {
    Waiting,
    Placed,
    Running,
    /// The kubelet rejected it. Pods of the bench fail for no other reason.
    Rejected,
}

impl Role {
    const ALL: [Self; 3] = [Self::Probe, Self::Resident, Self::Arriving];

    const fn name(self) -> &'static str {
        match self {
            Self::Probe => "probe",
            Self::Resident => "resident",
            Self::Arriving => "arriving",
        }
    }

    /// Number of pods per turn. The arriving pods exceed even a ratio of 2.00.
    pub(super) const fn offered(self) -> u32 {
        match self {
            Self::Probe => 1,
            Self::Resident => 8,
            Self::Arriving => 13,
        }
    }
}

impl Size {
    /// Size of pods on a node with `raw_milli` of CPU. Pods use their whole request in `used` percent of the time.
    pub(super) fn new(raw_milli: u64, used: u8) -> Result<Self> {
        let request_milli = raw_milli * REQUEST_PCT / 100;
        Ok(Self {
            request_milli,
            load: Load {
                milli: u32::try_from(request_milli.min(1000))?,
                threads: 1,
                rest_percent: 100 - u64::from(used),
                memory_mib: 4,
            },
        })
    }

    /// Scales the deployment of a role.
    pub(super) async fn deploy(&self, client: &Client, node: &str, role: Role, replicas: u32) -> Result<()> {
        let shape = DeploymentShape {
            namespace: NAMESPACE,
            role: role.name(),
            node,
            replicas,
            requests: PerResource {
                cpu: self.request_milli,
                memory: REQUEST_BYTES,
            },
            script: None,
        };
        deploy(client, &shape).await
    }
}

impl PodRecord {
    fn from_pod(pod: &Pod) -> Option<Self> {
        let role = pod.labels().get(ROLE)?;
        let PodStatus { phase, .. } = pod.status.clone().unwrap_or_default();
        let has_node = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
        Some(Self {
            uid: pod.uid()?,
            role: Role::ALL.into_iter().find(|known| known.name() == role)?,
            state: match (phase.as_deref(), has_node) {
                (Some("Failed"), _) => PodState::Rejected,
                (Some("Running"), _) => PodState::Running,
                (_, true) => PodState::Placed,
                (_, false) => PodState::Waiting,
            },
        })
    }

    /// True if the scheduler counts the pod on the node.
    pub(super) const fn is_on_node(&self) -> bool {
        matches!(self.state, PodState::Placed | PodState::Running)
    }
}

pub(super) async fn list(client: &Client) -> Result<Vec<PodRecord>> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let pods = pods
        .list(&ListParams::default())
        .await
        .context("cannot list the pods")?;
    Ok(pods.items.iter().filter_map(PodRecord::from_pod).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn observed(phase: &str, node: Option<&str>) -> PodRecord {
        let pod = json!({
            "metadata": {"uid": "u", "labels": {ROLE: "arriving"}},
            "spec": {"nodeName": node, "containers": []},
            "status": {"phase": phase, "reason": "OutOfcpu"},
        });
        PodRecord::from_pod(&serde_json::from_value(pod).unwrap()).unwrap()
    }

    #[test]
    fn a_rejected_pod_is_not_on_the_node() {
        for (phase, node, state, is_on_node) in [
            ("Pending", None, PodState::Waiting, false),
            ("Pending", Some("n"), PodState::Placed, true),
            ("Running", Some("n"), PodState::Running, true),
            ("Failed", Some("n"), PodState::Rejected, false),
        ] {
            let seen = observed(phase, node);
            assert_eq!((seen.state, seen.is_on_node()), (state, is_on_node));
        }
    }

    #[test]
    fn pods_use_their_whole_request_in_a_share_of_the_time() {
        let size = Size::new(1900, 10).unwrap();
        assert_eq!(
            (size.request_milli, size.load.milli, size.load.rest_percent),
            (190, 190, 90)
        );
        // The arriving pods alone fill more than twice the node.
        let offered: u32 = Role::ALL.into_iter().map(Role::offered).sum();
        assert!(u64::from(offered) * size.request_milli > 2 * 1900);
    }
}
