//! Checks every five seconds whether the API server's webhook configurations still have this webhook's endpoints as
//! generated. Any user with the rights can change or delete them, writes then pass without the webhook, and no other
//! check would notice.

mod entry;

use std::{collections::BTreeMap, sync::Arc};

use headroom_domain::names;
use headroom_kit::{gate::GateSet, tls::CertStore};
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use kube::{
    Api, Client, Resource,
    api::{ApiResource, DynamicObject},
};
use serde_json::Value;
use tokio::{
    select,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use self::entry::ExpectedEntry;
use super::{INSTALL_CHECK_EVERY, INSTALL_CHECK_LIMIT, metrics::REGISTERED};
use crate::{
    admission::endpoint::{AnyEndpoint, Kind},
    install::manifest::Address,
    store::access::Access,
};

/// API access that looking takes.
pub static ACCESS: &[Access] = &[
    get("mutatingwebhookconfigurations"),
    get("validatingwebhookconfigurations"),
];

/// Per endpoint what is wrong with its entry; `None` if nothing is.
pub type Faults = BTreeMap<&'static str, Option<String>>;

/// The entries that the API server is to have, for the endpoints that are switched on.
#[derive(Debug)]
pub struct Registration {
    entries: Vec<ExpectedEntry>,
    certificates: Arc<CertStore>,
}

const fn get(resource: &'static str) -> Access {
    Access {
        group: "admissionregistration.k8s.io",
        resource,
        names: &[names::WEBHOOK_CONFIGURATION],
        verbs: &["get"],
    }
}

impl Registration {
    /// Entries that lead to `address`, with authorities that vouch for the certificate in use.
    pub fn new(
        endpoints: &[&'static dyn AnyEndpoint],
        gates: &GateSet,
        address: &Address,
        certificates: Arc<CertStore>,
    ) -> Self {
        let enabled = endpoints.iter().filter(|endpoint| endpoint.is_enabled(gates));
        let entries = enabled.flat_map(|&endpoint| ExpectedEntry::of_endpoint(endpoint, address));
        Self {
            entries: entries.collect(),
            certificates,
        }
    }

    /// Asks the API server for its entries and compares them with those that are generated.
    ///
    /// # Errors
    /// It does not answer, or refuses to.
    pub async fn check(&self, client: &Client) -> kube::Result<Faults> {
        let mutating = entries::<MutatingWebhookConfiguration>(client).await?;
        let validating = entries::<ValidatingWebhookConfiguration>(client).await?;
        let mut faults = Faults::new();
        for entry in &self.entries {
            let stored = match entry.kind {
                Kind::Mutating(_) => &mutating,
                Kind::Validating => &validating,
            };
            let of_endpoint = faults.entry(entry.endpoint).or_default();
            if let Some(fault) = entry.fault(stored, &self.certificates) {
                let before = of_endpoint.take();
                *of_endpoint = Some(before.into_iter().chain([fault]).collect::<Vec<_>>().join("; "));
            }
        }
        Ok(faults)
    }
}

/// Looks until told to stop. What was known stays while the API server does not answer.
pub async fn follow(client: Client, registration: Registration, stop: CancellationToken) {
    let mut known = Faults::new();
    loop {
        let looked = select! {
            () = stop.cancelled() => return,
            looked = timeout(INSTALL_CHECK_LIMIT, registration.check(&client)) => looked,
        };
        match looked {
            Ok(Ok(faults)) => {
                report(&faults, &known);
                known = faults;
            }
            Ok(Err(error)) => warn!(%error, "cannot tell whether we are called; asking again"),
            Err(_elapsed) => {
                warn!(limit = ?INSTALL_CHECK_LIMIT, "the API server takes too long to tell whether we are called");
            }
        }
        select! {
            () = stop.cancelled() => return,
            () = sleep(INSTALL_CHECK_EVERY) => {}
        }
    }
}

/// The entries of our configuration of one kind with all their fields, those included that this version does not know.
async fn entries<K: Resource<DynamicType = ()>>(client: &Client) -> kube::Result<Vec<Value>> {
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::erase::<K>(&()));
    let configuration = api.get_opt(names::WEBHOOK_CONFIGURATION).await?;
    let entries =
        configuration.and_then(|configuration| configuration.data.get("webhooks")?.as_array().cloned());
    Ok(entries.unwrap_or_default())
}

/// Sets the metric of each endpoint and logs what has changed.
fn report(faults: &Faults, known: &Faults) {
    for (&endpoint, fault) in faults {
        REGISTERED
            .with([endpoint])
            .set(if fault.is_none() { 1.0 } else { 0.0 });
        if known.get(endpoint) == Some(fault) {
            continue;
        }
        match fault {
            None => info!(endpoint, "registered with the API server as generated"),
            Some(fault) => warn!(
                endpoint,
                fault, "not registered with the API server as generated: writes may pass without us"
            ),
        }
    }
}
