//! Asks each replica of the webhook behind one name for what it decided about a pod.

use std::net::SocketAddr;

use headroom_kit::log::chain;
use headroom_proto::v1alpha1::{ListPodDecisionsRequest, ListPodDecisionsResponse};
use tonic::Request;

use super::{Connection, Credentials, LIMIT, credentials};
use crate::{
    args::{Address, ConnectArgs},
    error::Error,
    pod::{
        PodName,
        decided::{AskedReplica, DecidedPod, DecisionOrigin, KeptReviews, ReplicaDecision},
    },
};

/// Most addresses that are asked.
const MOST_ADDRESSES: usize = 16;

impl Connection {
    async fn pod_decisions(&mut self, pod: &PodName) -> Result<ListPodDecisionsResponse, Error> {
        let PodName { namespace, name } = pod.clone();
        let mut request = Request::new(ListPodDecisionsRequest { namespace, name });
        request.set_timeout(LIMIT);
        Ok(self.client.list_pod_decisions(request).await?.into_inner())
    }
}

/// What the replicas behind the address decided about a pod. A name with several addresses, as that of the headless service,
/// is all of them.
///
/// # Errors
/// No replica answers.
pub async fn pod_decisions(args: &ConnectArgs, pod: &PodName) -> Result<DecidedPod, Error> {
    let credentials = credentials(args).await?;
    let (mut asked, mut decisions, mut left_out) = (Vec::new(), Vec::new(), 0_u32);
    let mut failure = None;
    for addr in addresses(&args.addr).await {
        let kept = match ask(&addr, &credentials, pod).await {
            Err(error) => {
                let reason = chain(&error).to_string();
                failure.get_or_insert(error);
                Err(reason)
            }
            Ok(answer) => {
                let ListPodDecisionsResponse {
                    replica,
                    decisions: found,
                    left_out: more,
                    kept: count,
                    oldest_ms,
                } = answer;
                left_out = left_out.saturating_add(more);
                decisions.extend(found.into_iter().map(|decision| ReplicaDecision {
                    replica: replica.clone(),
                    decision,
                }));
                Ok(KeptReviews {
                    replica,
                    count,
                    oldest_ms,
                })
            }
        };
        let addr = addr.to_string();
        asked.push(AskedReplica { addr, kept });
    }
    if let Some(error) = failure.filter(|_| asked.iter().all(|replica| replica.kept.is_err())) {
        return Err(error);
    }
    decisions.sort_by_key(|of| std::cmp::Reverse(of.decision.at_ms));
    Ok(DecidedPod {
        pod: pod.clone(),
        origin: DecisionOrigin::Replicas(asked),
        decisions,
        left_out,
    })
}

async fn ask(
    addr: &Address,
    credentials: &Credentials,
    pod: &PodName,
) -> Result<ListPodDecisionsResponse, Error> {
    credentials.connect(addr).await?.pod_decisions(pod).await
}

/// Each address behind a host; the host itself where it has none, which then says why it cannot be reached.
async fn addresses(addr: &Address) -> Vec<Address> {
    let found = tokio::net::lookup_host(addr.to_string()).await;
    let mut found: Vec<SocketAddr> = found.map(Iterator::collect).unwrap_or_default();
    found.sort_unstable();
    found.dedup();
    // One replica may be found under an address of each family.
    if found.iter().any(SocketAddr::is_ipv4) {
        found.retain(SocketAddr::is_ipv4);
    }
    let addresses = found.into_iter().take(MOST_ADDRESSES);
    let addresses: Vec<Address> = addresses
        .filter_map(|addr| addr.to_string().parse().ok())
        .collect();
    if addresses.is_empty() {
        vec![addr.clone()]
    } else {
        addresses
    }
}
