//! gRPC service for users: shows this replica's quotas, and the current verdict of the admission rules on them and on
//! their pods. It stores and decides nothing itself.

mod explained;
mod nearest;
mod of_pod;
mod status;
mod verdict;

use std::sync::Arc;

use headroom_proto::v1alpha1::{
    ExplainQuotaPodRequest, ExplainQuotaPodResponse, ExplainQuotaRequest, ExplainQuotaResponse,
    ListQuotasRequest, ListQuotasResponse, QuotaName, quota_debug_server,
};
use headroom_rules::quota::{Quota, QuotaKey};
use tonic::{Request, Response, Status};

use super::debug_access::DebugAccess;
use crate::{control::time_slices::Slices, hints::stream_context::StreamContext};

/// The size from which on a page has no room for another quota, in bytes: the largest one has two lists of 256 resources, and
/// stays below the 4 MiB that clients take.
const PAGE_BYTES: usize = 1 << 20;
/// Quotas of one name that are explained: an answer stays below the message limit of clients. The rules allow one.
const MOST_EXPLAINED: usize = 16;
/// Quotas that are read at a time.
const READ_AT_ONCE: usize = 64;

#[derive(Clone)]
pub struct QuotaDebug {
    shared: Arc<StreamContext>,
    access: DebugAccess,
}

impl QuotaDebug {
    pub fn new(shared: Arc<StreamContext>) -> Self {
        Self {
            access: DebugAccess::new(Arc::clone(&shared)),
            shared,
        }
    }
}

#[tonic::async_trait]
impl quota_debug_server::QuotaDebug for QuotaDebug {
    async fn list_quotas(
        &self,
        request: Request<ListQuotasRequest>,
    ) -> Result<Response<ListQuotasResponse>, Status> {
        let _admitted = self.access.admit(&request).await?;
        let after = request.into_inner().after.unwrap_or_default();
        Ok(Response::new(page(&self.shared, after).await))
    }

    async fn explain_quota(
        &self,
        request: Request<ExplainQuotaRequest>,
    ) -> Result<Response<ExplainQuotaResponse>, Status> {
        let _admitted = self.access.admit(&request).await?;
        let ExplainQuotaRequest { namespace, name } = request.into_inner();
        Ok(Response::new(explain(&self.shared, &namespace, &name).await))
    }

    async fn explain_quota_pod(
        &self,
        request: Request<ExplainQuotaPodRequest>,
    ) -> Result<Response<ExplainQuotaPodResponse>, Status> {
        let _admitted = self.access.admit(&request).await?;
        let ExplainQuotaPodRequest { namespace, name } = request.into_inner();
        Ok(Response::new(of_pod::explain(&self.shared, &namespace, &name)))
    }
}

/// Page of quotas after `after`, by namespace and name. Each is read at its own moment, so no admission waits for the
/// whole page.
async fn page(shared: &StreamContext, after: QuotaName) -> ListQuotasResponse {
    let view = &shared.quotas;
    let behaviour = (view.behaviour)();
    let mut key: QuotaKey = (after.namespace.into(), after.name.into());
    let mut page = ListQuotasResponse {
        sight: Some(status::sight(shared, &behaviour)),
        ..ListQuotasResponse::default()
    };
    let (mut bytes, mut slices) = (0, Slices::begin());
    loop {
        let quotas = view.quotas.index.after(&key, READ_AT_ONCE);
        let Some(last) = quotas.last() else {
            return page;
        };
        key = last.key();
        for quota in &quotas {
            if bytes >= PAGE_BYTES {
                page.next = page.quotas.last().map(|last| QuotaName {
                    namespace: last.namespace.clone(),
                    name: last.name.clone(),
                });
                return page;
            }
            let status = status::quota_status(view, quota, &behaviour);
            bytes += status.bytes();
            page.quotas.push(status);
            slices.rest().await;
        }
    }
}

/// Quotas of that name in that namespace, or in all; quotas with a similar name if there is none.
async fn explain(shared: &StreamContext, namespace: &str, name: &str) -> ExplainQuotaResponse {
    let view = &shared.quotas;
    let behaviour = (view.behaviour)();
    let quotas = view.quotas.index.named(name);
    let is_meant = |quota: &&Arc<Quota>| namespace.is_empty() || *quota.namespace == *namespace;
    let mut answer = ExplainQuotaResponse {
        sight: Some(status::sight(shared, &behaviour)),
        ..ExplainQuotaResponse::default()
    };
    let mut slices = Slices::begin();
    for quota in quotas.iter().filter(is_meant).take(MOST_EXPLAINED) {
        answer
            .quotas
            .push(explained::explain_quota(view, quota, &behaviour));
        slices.rest().await;
    }
    if answer.quotas.is_empty() {
        answer.nearest = nearest::quotas(view, name).await;
    }
    answer
}
