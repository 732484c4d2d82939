//! Asks each replica of the webhook about ElasticQuotas.

use headroom_kit::log::chain;
use headroom_proto::{
    WireError,
    v1alpha1::{
        ExplainQuotaPodRequest, ExplainQuotaPodResponse, ExplainQuotaRequest, ExplainQuotaResponse,
        ListQuotasRequest, ListQuotasResponse, QuotaName, quota_debug_client::QuotaDebugClient,
    },
};
use tonic::{Request, service::interceptor::InterceptedService, transport::Channel};

use super::{Bearer, Credentials, LIMIT, Route};
use crate::{
    args::ConnectArgs,
    error::Error,
    pod::PodName,
    quota::{
        QuotaRef,
        answers::{QuotaAnswer, QuotaAnswers, SeenQuotas},
    },
};

type QuotaClient = QuotaDebugClient<InterceptedService<Channel, Bearer>>;

/// Lists the quotas of each replica.
///
/// # Errors
/// No replica answers.
pub async fn quotas(args: &ConnectArgs) -> Result<QuotaAnswers<SeenQuotas>, Error> {
    ask_each(args, list).await
}

/// State of one quota by each replica.
///
/// # Errors
/// No replica answers.
pub async fn explained_quota(
    args: &ConnectArgs,
    quota: &QuotaRef,
) -> Result<QuotaAnswers<ExplainQuotaResponse>, Error> {
    ask_each(args, async |client| {
        let QuotaRef { namespace, name } = quota.clone();
        let request = limited(ExplainQuotaRequest { namespace, name });
        Ok(client.explain_quota(request).await?.into_inner())
    })
    .await
}

/// State of a pod's quota by each replica.
///
/// # Errors
/// No replica answers.
pub async fn explained_pod(
    args: &ConnectArgs,
    pod: &PodName,
) -> Result<QuotaAnswers<ExplainQuotaPodResponse>, Error> {
    ask_each(args, async |client| {
        let PodName { namespace, name } = pod.clone();
        let request = limited(ExplainQuotaPodRequest { namespace, name });
        Ok(client.explain_quota_pod(request).await?.into_inner())
    })
    .await
}

async fn ask_each<T>(
    args: &ConnectArgs,
    ask: impl AsyncFn(&mut QuotaClient) -> Result<T, Error>,
) -> Result<QuotaAnswers<T>, Error> {
    let credentials = Credentials::new(args).await?;
    let (mut answers, mut failure) = (Vec::new(), None);
    for route in Route::to_each(args, &credentials).await? {
        let result = match open(&route, &credentials).await {
            Ok(mut client) => ask(&mut client).await,
            Err(error) => Err(error),
        };
        let result = result.map_err(|error| {
            let reason = chain(&error).to_string();
            failure.get_or_insert(error);
            reason
        });
        let addr = route.to_string();
        answers.push(QuotaAnswer { addr, result });
    }
    match failure.filter(|_| answers.iter().all(|answer| answer.result.is_err())) {
        Some(error) => Err(error),
        None => Ok(QuotaAnswers(answers)),
    }
}

async fn open(route: &Route, credentials: &Credentials) -> Result<QuotaClient, Error> {
    let channel = route.open(credentials).await?;
    Ok(QuotaDebugClient::with_interceptor(channel, credentials.bearer()))
}

async fn list(client: &mut QuotaClient) -> Result<SeenQuotas, Error> {
    let (mut seen, mut after) = (SeenQuotas::default(), None);
    loop {
        let request = limited(ListQuotasRequest { after: after.clone() });
        let ListQuotasResponse { sight, quotas, next } = client.list_quotas(request).await?.into_inner();
        seen.sight = sight.unwrap_or_default();
        seen.quotas.extend(quotas);
        if next.is_none() {
            return Ok(seen);
        }
        check_order(after.as_ref(), next.as_ref())?;
        after = next;
    }
}

/// Pages are sorted by namespace and name. A page that does not begin after the previous one would cause an endless
/// loop.
fn check_order(before: Option<&QuotaName>, after: Option<&QuotaName>) -> Result<(), Error> {
    let place = |name: &QuotaName| (name.namespace.clone(), name.name.clone());
    let (before, after) = (before.map(place), after.map(place));
    if after > before {
        return Ok(());
    }
    Err(Error::QuotaAnswer(WireError {
        field: "next".to_owned(),
        problem: format!("{after:?} does not come after {before:?}"),
    }))
}

fn limited<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(LIMIT);
    request
}
