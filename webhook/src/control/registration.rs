//! Checks every five seconds if the API server's webhook configurations still have this webhook's endpoints as
//! generated. Any user with the rights can change or delete them, writes then pass without the webhook, and no other
//! check would notice. Each configuration object is checked separately: a fault of one, or a missing right to read
//! it, leaves the state of the others.

pub mod entry;

use std::{collections::BTreeMap, sync::Arc};

use arc_swap::ArcSwap;
use headroom_domain::installation::Installation;
use headroom_kit::{gate::GateSet, log::chain, tls::CertStore};
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
    admission::{
        endpoint::{AnyEndpoint, ConfigurationObject, Kind},
        features::Features,
    },
    install::manifest::Address,
    store::access::{Access, ObjectNames},
};

/// Fault of the entries by endpoint; `None` if they are as generated.
pub type Faults = BTreeMap<&'static str, Option<RegistrationFault>>;

/// Faults of the last check, for debug queries. Empty before the first check.
pub type LastFaults = Arc<ArcSwap<Faults>>;

/// Fault of an endpoint's entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistrationFault {
    pub text: String,
    /// True if an entry is not there at all: the API server does not call the endpoint for it.
    pub is_missing: bool,
}

/// The entries that the API server is to have, for the endpoints that are switched on.
#[derive(Debug)]
pub struct Registration {
    objects: BTreeMap<ConfigurationObject, ExpectedObject>,
    /// They may change while the process runs.
    features: Arc<ArcSwap<Features>>,
    certificates: Arc<CertStore>,
}

/// Expected content of a configuration object, of both kinds.
#[derive(Debug)]
struct ExpectedObject {
    name: String,
    entries: Vec<ExpectedEntry>,
}

/// API access that checking a configuration object takes.
pub fn access(object: ConfigurationObject) -> [Access; 2] {
    ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"].map(|resource| {
        let names = ObjectNames::Ours(object.names());
        Access::to(
            "admissionregistration.k8s.io",
            resource,
            names,
            &["get", "patch", "watch"],
        )
    })
}

impl Registration {
    /// Entries of an installation that lead to `address`, with authorities that vouch for the certificate in use.
    pub fn new(
        installation: &Installation,
        endpoints: &[&'static dyn AnyEndpoint],
        features: Arc<ArcSwap<Features>>,
        address: &Address,
        certificates: Arc<CertStore>,
    ) -> Self {
        let mut objects: BTreeMap<_, ExpectedObject> = BTreeMap::new();
        for &endpoint in endpoints {
            let object = endpoint.declaration().configuration;
            let expected = objects.entry(object).or_insert_with(|| ExpectedObject {
                name: installation.named(object.name()),
                entries: Vec::new(),
            });
            let entries = ExpectedEntry::of_endpoint(installation, endpoint, address);
            expected.entries.extend(entries);
        }
        Self {
            objects,
            features,
            certificates,
        }
    }

    /// Asks the API server for all entries and compares them with those that are generated.
    ///
    /// # Errors
    /// It does not answer, or refuses to.
    pub async fn check(&self, client: &Client) -> kube::Result<Faults> {
        let mut faults = Faults::new();
        for expected in self.objects.values() {
            faults.extend(self.check_object(client, expected).await?);
        }
        Ok(faults)
    }

    /// Does so for one configuration object.
    async fn check_object(&self, client: &Client, expected: &ExpectedObject) -> kube::Result<Faults> {
        let entries = expected.wanted(&self.features.load().gates);
        if entries.is_empty() {
            return Ok(Faults::new());
        }
        let stored = StoredEntries {
            mutating: stored_entries::<MutatingWebhookConfiguration>(client, &expected.name).await?,
            validating: stored_entries::<ValidatingWebhookConfiguration>(client, &expected.name).await?,
        };
        Ok(stored.faults(&entries, &self.certificates))
    }
}

impl ExpectedObject {
    /// The entries that must be there. An endpoint that is switched off needs none, and may have them.
    fn wanted(&self, gates: &GateSet) -> Vec<&ExpectedEntry> {
        let entries = self.entries.iter();
        entries.filter(|entry| entry.is_wanted(gates)).collect()
    }

    /// True if an endpoint of this label has an entry in it.
    fn has(&self, endpoint: &str) -> bool {
        let mut entries = self.entries.iter();
        entries.any(|entry| entry.endpoint.label() == endpoint)
    }
}

/// Stored entries of one configuration object.
struct StoredEntries {
    mutating: Vec<Value>,
    validating: Vec<Value>,
}

impl StoredEntries {
    /// Faults of the entries of each endpoint, in the order of the entries.
    fn faults(&self, expected: &[&ExpectedEntry], certificates: &CertStore) -> Faults {
        let mut faults = Faults::new();
        for entry in expected {
            let stored = match entry.endpoint.declaration().kind {
                Kind::Mutating(_) => &self.mutating,
                Kind::Validating => &self.validating,
            };
            let of_endpoint = faults.entry(entry.endpoint.label()).or_default();
            let Some(text) = entry.fault(stored, certificates) else {
                continue;
            };
            let is_missing = !entry.is_stored(stored);
            *of_endpoint = Some(match of_endpoint.take() {
                None => RegistrationFault { text, is_missing },
                Some(before) => RegistrationFault {
                    text: format!("{}; {text}", before.text),
                    is_missing: before.is_missing || is_missing,
                },
            });
        }
        faults
    }
}

/// Checks until `stop` is cancelled, and keeps `last` current. The last state of an object stays while the API server
/// does not answer.
pub async fn follow(client: Client, registration: Registration, last: LastFaults, stop: CancellationToken) {
    let mut known = Faults::new();
    loop {
        for expected in registration.objects.values() {
            let checked = select! {
                () = stop.cancelled() => return,
                checked = timeout(INSTALL_CHECK_LIMIT, registration.check_object(&client, expected)) => checked,
            };
            let configuration = expected.name.as_str();
            match checked {
                Ok(Ok(faults)) => {
                    report(&faults, &known);
                    known.retain(|endpoint, _| {
                        let is_off = expected.has(endpoint) && !faults.contains_key(endpoint);
                        if is_off {
                            REGISTERED.with([endpoint]).set(1.0);
                        }
                        !is_off
                    });
                    known.extend(faults);
                    last.store(Arc::new(known.clone()));
                }
                Ok(Err(error)) => {
                    warn!(error = %chain(&error), configuration, "could not read our webhook configuration; retrying");
                }
                Err(_elapsed) => {
                    warn!(limit = ?INSTALL_CHECK_LIMIT, configuration, "the API server did not return our webhook configuration in time; retrying");
                }
            }
        }
        select! {
            () = stop.cancelled() => return,
            () = sleep(INSTALL_CHECK_EVERY) => {}
        }
    }
}

/// The entries of a configuration of one kind with all their fields, those included that this version does not know.
async fn stored_entries<K: Resource<DynamicType = ()>>(
    client: &Client,
    name: &str,
) -> kube::Result<Vec<Value>> {
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::erase::<K>(&()));
    let configuration = api.get_opt(name).await?;
    let entries =
        configuration.and_then(|configuration| configuration.data.get("webhooks")?.as_array().cloned());
    Ok(entries.unwrap_or_default())
}

/// Sets the metric of each endpoint and logs changes.
fn report(faults: &Faults, known: &Faults) {
    for (&endpoint, fault) in faults {
        REGISTERED
            .with([endpoint])
            .set(if fault.is_none() { 1.0 } else { 0.0 });
        if known.get(endpoint) == Some(fault) {
            continue;
        }
        match fault {
            None => info!(endpoint, "the webhook configuration is as generated"),
            Some(RegistrationFault { text: fault, .. }) => warn!(
                endpoint,
                fault, "the webhook configuration differs from the generated one; writes may pass unchecked"
            ),
        }
    }
}
