//! Whether the API server is still told to call us as declared: asked over and over, because whoever may can change or
//! delete its webhook configurations, and nothing else would tell. Writes then pass without us.

use std::{collections::BTreeMap, time::Duration};

use headroom_domain::names;
use headroom_kit::gate::GateSet;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use kube::{Api, Client};
use serde::Serialize;
use serde_json::Value;
use tokio::{
    select,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::{
    endpoint::{Access, Endpoint},
    endpoints::{ENDPOINTS, NODE_STATUS},
    manifest::{self, Address, steady_state},
    metrics::REGISTERED,
};

/// API access that looking takes.
pub static ACCESS: &[Access] = &[
    get("mutatingwebhookconfigurations"),
    get("validatingwebhookconfigurations"),
];

/// How often the API server is asked, and how long it may take.
const LOOK_EVERY: Duration = Duration::from_secs(5);
const LOOK_LIMIT: Duration = Duration::from_secs(5);
/// What of an entry has to be as declared. How long to wait for us, and where we are, is left to the installation.
const DECLARED: [&str; 5] = [
    "rules",
    "failurePolicy",
    "matchPolicy",
    "reinvocationPolicy",
    "sideEffects",
];
/// What would leave objects out.
const SELECTORS: [&str; 2] = ["namespaceSelector", "objectSelector"];

/// What is wrong with the entry of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// It is not there.
    Missing,
    /// No authority is named that our certificate could be checked against.
    NoAuthority,
    /// It leads to another path.
    Path,
    /// This member is not as declared.
    Member(&'static str),
}

const fn get(resource: &'static str) -> Access {
    Access {
        group: "admissionregistration.k8s.io",
        resource,
        names: &[names::WEBHOOK_CONFIGURATION],
        verbs: &["get"],
    }
}

impl Fault {
    /// What is wrong, for people.
    fn shown(self) -> String {
        match self {
            Self::Missing => "there is no such entry".to_owned(),
            Self::NoAuthority => "clientConfig.caBundle is empty".to_owned(),
            Self::Path => "clientConfig leads to another path".to_owned(),
            Self::Member(name) => format!("{name} is not as declared"),
        }
    }
}

/// Looks until told to stop. What was known stays while the API server does not answer.
pub async fn follow(client: Client, gates: GateSet, stop: CancellationToken) {
    let mut known = BTreeMap::new();
    loop {
        let looked = select! {
            () = stop.cancelled() => return,
            looked = timeout(LOOK_LIMIT, look(&client)) => looked,
        };
        match looked {
            Ok(Ok(found)) => report(&gates, &found, &mut known),
            Ok(Err(error)) => warn!(%error, "cannot tell whether we are called; asking again"),
            Err(_elapsed) => {
                warn!(limit = ?LOOK_LIMIT, "the API server takes too long to tell whether we are called");
            }
        }
        select! {
            () = stop.cancelled() => return,
            () = sleep(LOOK_EVERY) => {}
        }
    }
}

/// The entries of both configurations, in one list.
async fn look(client: &Client) -> kube::Result<Vec<Value>> {
    let mutating: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let validating: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    let mutating = mutating.get_opt(names::WEBHOOK_CONFIGURATION).await?;
    let validating = validating.get_opt(names::WEBHOOK_CONFIGURATION).await?;
    let mut all = entries(mutating.and_then(|configuration| configuration.webhooks));
    all.extend(entries(
        validating.and_then(|configuration| configuration.webhooks),
    ));
    Ok(all)
}

/// Entries as JSON: those of both kinds have the same members.
fn entries<E: Serialize>(entries: Option<Vec<E>>) -> Vec<Value> {
    let entries = entries.into_iter().flatten();
    // What came as JSON goes back into it.
    entries
        .filter_map(|entry| serde_json::to_value(entry).ok())
        .collect()
}

/// Puts on record what was found, and says what has changed.
fn report(gates: &GateSet, found: &[Value], known: &mut BTreeMap<&'static str, Option<Fault>>) {
    let declared = declared(gates);
    for endpoint in ENDPOINTS.iter().filter(|endpoint| endpoint.is_enabled(gates)) {
        let (label, fault) = (endpoint.label(), fault(endpoint, &declared, found));
        REGISTERED
            .with([label])
            .set(if fault.is_none() { 1.0 } else { 0.0 });
        if known.insert(label, fault) == Some(fault) {
            continue;
        }
        match fault {
            None => info!(endpoint = label, "registered with the API server"),
            Some(fault) => warn!(
                endpoint = label,
                entry = endpoint.name,
                fault = fault.shown(),
                "not registered with the API server as declared: writes may pass without us"
            ),
        }
    }
}

/// The entries that are to be there.
fn declared(gates: &GateSet) -> Vec<Value> {
    let client = manifest::Client {
        address: Address::Service,
        ca_bundle: None,
    };
    let mut all = entries(manifest::mutating(ENDPOINTS, gates, &client).webhooks);
    all.extend(entries(manifest::validating(ENDPOINTS, gates, &client).webhooks));
    all
}

/// What is wrong with the entry of an endpoint, if anything is.
fn fault(endpoint: &Endpoint, declared: &[Value], found: &[Value]) -> Option<Fault> {
    let named = |entries: &[Value]| {
        let mut entries = entries.iter();
        entries
            .find(|entry| entry.get("name").is_some_and(|name| name == endpoint.name))
            .cloned()
    };
    let (Some(is), Some(should)) = (named(found), named(declared)) else {
        return Some(Fault::Missing);
    };
    let text = |pointer: &str| is.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    if text("/clientConfig/caBundle").is_empty() {
        return Some(Fault::NoAuthority);
    }
    let is_path = text("/clientConfig/service/path") == endpoint.path;
    if !is_path && !text("/clientConfig/url").ends_with(endpoint.path) {
        return Some(Fault::Path);
    }
    let differs = |member: &&'static str| is.get(member) != should.get(member);
    // The API server writes an empty selector where none is given.
    let says_something = |selector: &&Value| selector.as_object().is_none_or(|selector| !selector.is_empty());
    let selects_else = |member: &&'static str| {
        is.get(member).filter(says_something) != should.get(member).filter(says_something)
    };
    let member = (DECLARED.into_iter().find(differs))
        .or_else(|| SELECTORS.into_iter().find(selects_else))
        .or_else(|| (!has_known_conditions(endpoint, &is)).then_some("matchConditions"));
    member.map(Fault::Member)
}

/// True if the entry has no match conditions, or those of an option.
fn has_known_conditions(endpoint: &Endpoint, entry: &Value) -> bool {
    entry.get("matchConditions").is_none_or(|conditions| {
        endpoint.name == NODE_STATUS.name
            && serde_json::to_value(steady_state::conditions()).is_ok_and(|skipping| skipping == *conditions)
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::endpoints::gates;

    /// What the API server has when everything is as installed.
    fn installed() -> Vec<Value> {
        let mut entries = declared(&GateSet::parse(gates(), "").unwrap());
        for entry in &mut entries {
            entry["clientConfig"]["caBundle"] = json!("UEVN");
            entry["namespaceSelector"] = json!({});
            entry["objectSelector"] = json!({});
        }
        entries
    }

    #[rstest]
    #[case::as_installed(|_: &mut Value| (), None)]
    #[case::waited_for_longer(|entry: &mut Value| entry["timeoutSeconds"] = json!(2), None)]
    #[case::at_a_url(
        |entry: &mut Value| entry["clientConfig"] = json!({"caBundle": "UEVN", "url": "https://h:1/mutate-node-status"}),
        None
    )]
    #[case::skipped(|entry: &mut Value| entry["matchConditions"] = json!(steady_state::conditions()), None)]
    #[case::gone(|entry: &mut Value| entry["name"] = json!("another"), Some(Fault::Missing))]
    #[case::wiped(|entry: &mut Value| entry["clientConfig"]["caBundle"] = json!(""), Some(Fault::NoAuthority))]
    #[case::elsewhere(|entry: &mut Value| entry["clientConfig"]["service"]["path"] = json!("/x"), Some(Fault::Path))]
    #[case::of_no_nodes(|entry: &mut Value| entry["rules"][0]["resources"] = json!(["pods"]), Some(Fault::Member("rules")))]
    #[case::in_the_way(|entry: &mut Value| entry["failurePolicy"] = json!("Fail"), Some(Fault::Member("failurePolicy")))]
    #[case::of_some_nodes(
        |entry: &mut Value| entry["objectSelector"] = json!({"matchLabels": {"a": "b"}}),
        Some(Fault::Member("objectSelector"))
    )]
    #[case::never(
        |entry: &mut Value| entry["matchConditions"] = json!([{"name": "never", "expression": "false"}]),
        Some(Fault::Member("matchConditions"))
    )]
    fn what_would_let_writes_pass_without_us_is_a_fault(
        #[case] change: impl Fn(&mut Value),
        #[case] expected: Option<Fault>,
    ) {
        let mut found = installed();
        let declared = declared(&GateSet::parse(gates(), "").unwrap());
        let entry = found.iter_mut().find(|entry| entry["name"] == NODE_STATUS.name);
        change(entry.unwrap());
        assert_eq!(fault(NODE_STATUS, &declared, &found), expected);
        for other in ENDPOINTS.iter().filter(|other| other.name != NODE_STATUS.name) {
            assert_eq!(fault(other, &declared, &found), None);
        }
    }

    #[test]
    fn no_configuration_at_all_is_a_fault_of_every_endpoint() {
        let declared = declared(&GateSet::parse(gates(), "").unwrap());
        for endpoint in ENDPOINTS {
            assert_eq!(fault(endpoint, &declared, &[]), Some(Fault::Missing));
        }
    }
}
