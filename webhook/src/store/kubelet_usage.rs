//! Polls node usage from `metrics.k8s.io`, if it is served, to detect agents that report far less.
//!
//! A replica lists node metrics once a minute while any agent reports to it. If the API is not served, or RBAC forbids it,
//! the replica logs that once, compares nothing, and retries every ten minutes. Every replica polls, because each decides
//! separately which agents it trusts.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use headroom_domain::{
    capacity::amount,
    quantity::Quantity,
    resource::{PerResource, Resource},
};
use headroom_kit::log::chain;
use k8s_openapi::{ClusterResourceScope, Metadata, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{Api, Client, api::ListParams};
use serde::Deserialize;
use tokio::{
    select,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::store::{cluster::Cluster, metrics::NODE_METRICS_POLLS};

/// Poll interval.
const EVERY: Duration = Duration::from_secs(60);
/// Poll interval while the API is not served or not allowed, since either may change.
const EVERY_ABSENT: Duration = Duration::from_secs(600);
/// Timeout of a request.
const LIMIT: Duration = Duration::from_secs(10);

/// Use of one node, as its kubelet measures it.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct NodeUse {
    #[serde(deserialize_with = "crate::store::object_meta::deserialize")]
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub usage: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PollResult {
    Read,
    Absent,
    Failed,
}

/// Polls until `stop` is cancelled.
pub async fn follow(client: Client, cluster: Arc<Cluster>, stop: CancellationToken) {
    let api: Api<NodeUse> = Api::all(client);
    let mut last = None;
    loop {
        let pause = if last == Some(PollResult::Absent) {
            EVERY_ABSENT
        } else {
            EVERY
        };
        select! {
            () = stop.cancelled() => return,
            () = sleep(pause) => {}
        }
        if cluster.hints.is_empty() {
            continue;
        }
        let answer = read(&api, &cluster, last).await;
        NODE_METRICS_POLLS.with([answer.label()]).increment(1);
        last = Some(answer);
    }
}

/// Polls once, and logs a changed result.
async fn read(api: &Api<NodeUse>, cluster: &Cluster, last: Option<PollResult>) -> PollResult {
    let params = ListParams::default();
    let listed = match timeout(LIMIT, api.list(&params)).await {
        Ok(listed) => listed,
        Err(_elapsed) => {
            if last != Some(PollResult::Failed) {
                warn!("metrics.k8s.io did not answer within {LIMIT:?}; reported use is not compared");
            }
            return PollResult::Failed;
        }
    };
    match listed {
        Ok(list) => {
            if last != Some(PollResult::Read) {
                info!(
                    nodes = list.items.len(),
                    "comparing reported use with metrics.k8s.io"
                );
            }
            for node in list.items {
                compare(cluster, &node);
            }
            PollResult::Read
        }
        Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => {
            if last != Some(PollResult::Absent) {
                info!(
                    code = status.code,
                    "metrics.k8s.io is not served or not allowed; reported use is not compared"
                );
            }
            PollResult::Absent
        }
        Err(error) => {
            if last != Some(PollResult::Failed) {
                warn!(error = %chain(&error), "could not read metrics.k8s.io; reported use is not compared");
            }
            PollResult::Failed
        }
    }
}

/// Compares one node, if its amounts can be read.
fn compare(cluster: &Cluster, node: &NodeUse) {
    let read = |resource: Resource| {
        let quantity: Quantity = node.usage.get(resource.name())?.parse().ok()?;
        amount(resource, &quantity)
    };
    if let (Some(name), Some(cpu), Some(memory)) =
        (&node.metadata.name, read(Resource::Cpu), read(Resource::Memory))
    {
        cluster.try_use(name, PerResource { cpu, memory });
    }
}

impl PollResult {
    const fn label(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Absent => "absent",
            Self::Failed => "failed",
        }
    }
}

impl k8s_openapi::Resource for NodeUse {
    const API_VERSION: &'static str = "metrics.k8s.io/v1beta1";
    const GROUP: &'static str = "metrics.k8s.io";
    const KIND: &'static str = "NodeMetrics";
    const VERSION: &'static str = "v1beta1";
    const URL_PATH_SEGMENT: &'static str = "nodes";
    type Scope = ClusterResourceScope;
}

impl Metadata for NodeUse {
    type Ty = ObjectMeta;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests;
