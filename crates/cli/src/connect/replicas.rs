//! Asks each replica of the webhook for its decisions about a pod.

use headroom_kit::log::chain;
use headroom_proto::v1alpha1::{
    ListPodDecisionsRequest, ListPodDecisionsResponse, debug_client::DebugClient,
};
use tonic::Request;

use super::{Credentials, LIMIT, Route};
use crate::{
    args::ConnectArgs,
    error::Error,
    pod::{
        PodName,
        decided::{AskedReplica, DecidedPod, DecisionOrigin, KeptReviews, ReplicaDecision},
    },
};

/// Decisions of the replicas about a pod. All addresses behind the name are asked, such as those of the headless
/// service.
///
/// # Errors
/// No replica answers.
pub async fn pod_decisions(args: &ConnectArgs, pod: &PodName) -> Result<DecidedPod, Error> {
    let credentials = Credentials::new(args).await?;
    let (mut asked, mut decisions, mut left_out) = (Vec::new(), Vec::new(), 0_u32);
    let mut failure = None;
    for route in Route::to_each(args, &credentials).await? {
        let kept = match ask(&route, &credentials, pod).await {
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
        let addr = route.to_string();
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
    route: &Route,
    credentials: &Credentials,
    pod: &PodName,
) -> Result<ListPodDecisionsResponse, Error> {
    let channel = route.open(credentials).await?;
    let mut client = DebugClient::with_interceptor(channel, credentials.bearer());
    let PodName { namespace, name } = pod.clone();
    let mut request = Request::new(ListPodDecisionsRequest { namespace, name });
    request.set_timeout(LIMIT);
    Ok(client.list_pod_decisions(request).await?.into_inner())
}
