//! Sums the requests of the pods that are bound to each node.

use std::{collections::BTreeMap, fmt::Debug};

use headroom_domain::{
    pod::{RequestBasis, requests},
    resource::{PerResource, Resource},
};
use kube::{Api, Client, api::ListParams};
use serde::de::DeserializeOwned;

use super::counted_pod::CountedPod;
use crate::{
    error::Error,
    rights::{self, Right},
};

/// Objects per page of a list.
const PAGE: u32 = 500;

/// Requests of the bound pods that have not ended, by node, in milli-cores and bytes.
///
/// # Errors
/// The API server refuses or does not answer.
pub(crate) async fn bound_requests(api: &Client) -> Result<BTreeMap<String, PerResource<u64>>, Error> {
    let mut sums: BTreeMap<String, PerResource<u64>> = BTreeMap::new();
    read_each(api, &rights::LIST_ALL_PODS, |pod: CountedPod| {
        let node = pod.spec.node_name.as_ref().filter(|_| !pod.has_ended());
        if let Some(node) = node {
            let amounts = requests(&pod.spec, &pod.status, RequestBasis::Actual).amounts();
            let sum = sums.entry(node.clone()).or_default();
            *sum = PerResource::from_fn(|resource: Resource| {
                sum.get(resource).saturating_add(*amounts.get(resource))
            });
        }
    })
    .await?;
    Ok(sums)
}

/// Calls `with` for all objects of a kind, which are read page by page.
pub(super) async fn read_each<K>(
    api: &Client,
    right: &'static Right,
    mut with: impl FnMut(K),
) -> Result<(), Error>
where
    K: kube::Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let objects: Api<K> = Api::all(api.clone());
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let page = objects.list(&params).await;
        let page = page.map_err(|source| Error::api(right, source))?;
        page.items.into_iter().for_each(&mut with);
        match page.metadata.continue_.filter(|next| !next.is_empty()) {
            None => return Ok(()),
            Some(next) => params = params.continue_token(&next),
        }
    }
}
