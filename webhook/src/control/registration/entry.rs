//! Compares the stored entry of an endpoint in a webhook configuration with the generated entry.

use std::time::SystemTime;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use headroom_domain::installation::Installation;
use headroom_kit::{gate::GateSet, log::chain, tls::CertStore};
use serde_json::{Value, json};

use crate::{
    admission::endpoint::{AnyEndpoint, Namespaces, When},
    install::manifest::{
        self, Address,
        difference::{differences, summary},
        steady_state,
    },
};

const SELECTOR: &str = "namespaceSelector";
const EXPRESSIONS: &str = "matchExpressions";

/// Labels of the namespaces of a platform's own components, with the value that it gives them. AKS excludes such
/// namespaces from all webhook configurations that do not object.
const PLATFORM_NAMESPACES: [(&str, &str); 2] = [
    ("control-plane", "true"),
    ("kubernetes.azure.com/managedby", "aks"),
];

/// True if a requirement of a selector only excludes namespaces that the platform has labelled.
fn excluded_by_platform(requirement: &Value) -> bool {
    PLATFORM_NAMESPACES.iter().any(|(key, value)| {
        *requirement == json!({"key": key, "operator": "DoesNotExist"})
            || *requirement == json!({"key": key, "operator": "NotIn", "values": [value]})
    })
}

/// Expected content of one entry of an endpoint.
#[derive(Debug)]
pub struct ExpectedEntry {
    /// The endpoint. Its kind decides which kind of configuration has the entry.
    pub(in crate::control) endpoint: &'static dyn AnyEndpoint,
    /// The name of the configuration object that is to have it.
    configuration: String,
    name: String,
    when: When,
    generated: Value,
    /// With the option `steady-state-skip`, where there is that option.
    skipping: Option<Value>,
    /// True if a selector of namespaces has no effect on it.
    is_of_cluster_scoped_objects: bool,
    /// The name that our certificate has to be for.
    host: String,
}

impl ExpectedEntry {
    /// True if the entry must be there.
    pub(in crate::control) fn is_wanted(&self, gates: &GateSet) -> bool {
        self.endpoint.is_enabled(gates) && self.when.is_on(gates)
    }

    /// All entries of an endpoint.
    pub fn of_endpoint(
        installation: &Installation,
        endpoint: &'static dyn AnyEndpoint,
        address: &Address,
    ) -> Vec<Self> {
        let client = manifest::Client {
            address: address.clone(),
            ca_bundle: None,
        };
        let entries = endpoint.declaration().entries.iter();
        entries
            .map(|entry| {
                let generated = manifest::entry(installation, endpoint, entry, &client);
                let skipping = steady_state::with_condition(entry, &generated);
                Self {
                    endpoint,
                    configuration: installation.named(endpoint.declaration().configuration.name()),
                    name: entry.name.to_owned(),
                    when: entry.when,
                    generated,
                    skipping,
                    is_of_cluster_scoped_objects: entry.namespaces == Namespaces::ClusterScoped,
                    host: address.host(installation),
                }
            })
            .collect()
    }

    /// Name of the entry.
    pub(in crate::control) fn name(&self) -> &str {
        &self.name
    }

    /// True if a stored entry differs from the generated one in any field but its CA bundle.
    pub(in crate::control) fn differs(&self, stored: &Value) -> bool {
        self.field_faults(stored).is_some()
    }

    /// The entry as generated, with this bundle in base64. It skips reviews of nodes in a steady state if `before` does.
    pub(in crate::control) fn with_bundle(&self, before: &Value, bundle: &str) -> Value {
        let mut entry = self.generated_for(before).clone();
        if let Some(client) = entry.get_mut("clientConfig").and_then(Value::as_object_mut) {
            client.insert("caBundle".to_owned(), bundle.into());
        }
        entry
    }

    /// Fault of the endpoint's entry among the stored ones; `None` if it is as generated.
    pub(in crate::control) fn fault(&self, stored: &[Value], certificates: &CertStore) -> Option<String> {
        let name = self.name.as_str();
        let Some(entry) = self.stored_entry(stored) else {
            let Self { configuration, .. } = self;
            return Some(format!(
                "there is no entry {name} in configuration {configuration}"
            ));
        };
        let bundle = entry
            .get("clientConfig")
            .and_then(|client| client.get("caBundle"));
        let authority = self.untrusted(bundle, certificates);
        let path = self.path();
        let authority = authority.map(|why| format!("{path}.clientConfig.caBundle {why}"));
        let faults: Vec<_> = self.field_faults(entry).into_iter().chain(authority).collect();
        (!faults.is_empty()).then(|| faults.join("; "))
    }

    /// Differing fields apart from the bundle; `None` if there are none.
    fn field_faults(&self, stored: &Value) -> Option<String> {
        let mut entry = stored.clone();
        if let Some(client) = entry.get_mut("clientConfig").and_then(Value::as_object_mut) {
            client.remove("caBundle");
        }
        self.drop_selectors_without_effect(&mut entry);
        let fields = differences(&self.path(), &entry, self.generated_for(stored));
        (!fields.is_empty()).then(|| summary(&fields))
    }

    /// The generated entry, with the option `steady-state-skip` if the stored one has conditions.
    fn generated_for(&self, stored: &Value) -> &Value {
        let conditions = stored.get("matchConditions").and_then(Value::as_array);
        let has_conditions = conditions.is_some_and(|conditions| !conditions.is_empty());
        let skipping = self.skipping.as_ref().filter(|_| has_conditions);
        skipping.unwrap_or(&self.generated)
    }

    fn path(&self) -> String {
        format!("webhooks[{}]", self.name)
    }

    /// Removes the parts of the namespace selector that do not decide whether the API server calls this webhook: all
    /// of it for cluster-scoped objects, and otherwise the exclusions that the platform adds.
    fn drop_selectors_without_effect(&self, entry: &mut Value) {
        let Some(members) = entry.as_object_mut() else {
            return;
        };
        if self.is_of_cluster_scoped_objects {
            members.remove(SELECTOR);
            return;
        }
        let own = self.generated.get(SELECTOR);
        let own = own.and_then(|selector| selector.get(EXPRESSIONS)?.as_array());
        let own = own.map(Vec::as_slice).unwrap_or_default();
        let requirements = members
            .get_mut(SELECTOR)
            .and_then(|selector| selector.get_mut(EXPRESSIONS))
            .and_then(Value::as_array_mut);
        let Some(requirements) = requirements else {
            return;
        };
        // All requirements must be met, so their order does not matter.
        let has_own = own.iter().all(|own| requirements.contains(own));
        let has_others = requirements
            .iter()
            .any(|requirement| !own.contains(requirement) && !excluded_by_platform(requirement));
        if has_own && !has_others {
            *requirements = own.to_vec();
        }
    }

    /// True if an entry of its name is among the stored ones.
    pub(in crate::control) fn is_stored(&self, stored: &[Value]) -> bool {
        self.stored_entry(stored).is_some()
    }

    fn stored_entry<'s>(&self, stored: &'s [Value]) -> Option<&'s Value> {
        let is_it = |entry: &&Value| entry.get("name").is_some_and(|name| *name == self.name.as_str());
        stored.iter().find(is_it)
    }

    /// Why the API server would refuse our certificate by these authorities.
    fn untrusted(&self, bundle: Option<&Value>, certificates: &CertStore) -> Option<String> {
        let Some(text) = bundle.and_then(Value::as_str).filter(|text| !text.is_empty()) else {
            return Some("is empty".to_owned());
        };
        let Ok(authorities) = STANDARD.decode(text) else {
            return Some("is not base64".to_owned());
        };
        let verified = certificates.verify(&authorities, &self.host, SystemTime::now());
        let error = verified.err()?;
        Some(format!("does not verify our certificate: {}", chain(&error)))
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, sync::Arc};

    use headroom_kit::{gate::GateSet, tls::self_signed};
    use rstest::rstest;
    use tempfile::TempDir;

    use super::*;
    use crate::{
        admission::{
            endpoint::Family,
            endpoints::{self, ENDPOINTS, NODE_STATUS, served},
        },
        control::registration::{ExpectedObject, StoredEntries},
    };

    /// Certificates for our Service in a folder, and the bundle that vouches for them.
    fn certificates() -> (TempDir, Arc<CertStore>, String) {
        let folder = tempfile::tempdir().unwrap();
        let now = SystemTime::now();
        let files = self_signed::ensure(
            folder.path(),
            &[Address::Service.host(&Installation::default())],
            now,
        )
        .unwrap();
        let bundle = fs::read(folder.path().join(self_signed::CA_CERT)).unwrap();
        let store = CertStore::load("test", files, now).unwrap();
        (folder, store, STANDARD.encode(bundle))
    }

    fn entries(address: &Address) -> Vec<ExpectedEntry> {
        let endpoints = ENDPOINTS.iter();
        endpoints
            .flat_map(|endpoint| ExpectedEntry::of_endpoint(&Installation::default(), *endpoint, address))
            .collect()
    }

    fn of_node_status(address: &Address) -> ExpectedEntry {
        ExpectedEntry::of_endpoint(&Installation::default(), NODE_STATUS, address)
            .pop()
            .unwrap()
    }

    /// Stored form of an entry that was installed as generated.
    fn installed(entry: &ExpectedEntry, bundle: &str) -> Value {
        let mut stored = entry.generated.clone();
        stored["clientConfig"]["caBundle"] = json!(bundle);
        if stored.get("objectSelector").is_none() {
            stored["objectSelector"] = json!({});
        }
        if stored.get("namespaceSelector").is_none() {
            stored["namespaceSelector"] = json!({});
        }
        stored
    }

    #[test]
    fn an_entry_as_generated_is_registered_with_the_option_too() {
        let (_folder, store, bundle) = certificates();
        for entry in entries(&Address::Service) {
            let stored = installed(&entry, &bundle);
            assert_eq!(entry.fault(&[stored], &store), None);
        }
        let entry = of_node_status(&Address::Service);
        let mut skipping = installed(&entry, &bundle);
        skipping["matchConditions"] = json!(steady_state::conditions());
        assert_eq!(entry.fault(&[skipping], &store), None);
    }

    #[rstest]
    #[case::gone(|entry: &mut Value| entry["name"] = json!("another"), "there is no entry ")]
    #[case::of_no_nodes(
        |entry: &mut Value| entry["rules"][0]["resources"] = json!(["pods"]),
        ".rules[0].resources[0] is \"pods\", must be "
    )]
    #[case::of_fewer_operations(
        |entry: &mut Value| entry["rules"][0]["operations"] = json!(["CONNECT"]),
        ".rules[0].operations[0] is \"CONNECT\", must be "
    )]
    #[case::of_some_nodes(
        |entry: &mut Value| entry["objectSelector"] = json!({"matchLabels": {"a": "b"}}),
        ".objectSelector is {\"matchLabels\":{\"a\":\"b\"}}, must be absent"
    )]
    #[case::never(
        |entry: &mut Value| entry["matchConditions"] = json!([{"name": "never", "expression": "false"}]),
        ".matchConditions"
    )]
    #[case::waited_for_too_long(
        |entry: &mut Value| entry["timeoutSeconds"] = json!(30),
        ".timeoutSeconds is 30, must be 1"
    )]
    #[case::failing_otherwise(
        |entry: &mut Value| entry["failurePolicy"] = json!("Other"),
        ".failurePolicy is \"Other\", must be "
    )]
    #[case::on_another_path(
        |entry: &mut Value| entry["clientConfig"]["service"]["path"] = json!("/x"),
        ".clientConfig.service.path is \"/x\", must be "
    )]
    #[case::in_another_namespace(
        |entry: &mut Value| entry["clientConfig"]["service"]["namespace"] = json!("x"),
        ".clientConfig.service.namespace is \"x\", must be \"headroom-system\""
    )]
    #[case::at_a_url(
        |entry: &mut Value| {
            let bundle = entry["clientConfig"]["caBundle"].take();
            entry["clientConfig"] = json!({"caBundle": bundle, "url": "https://h:1/x"});
        },
        ".clientConfig.url is \"https://h:1/x\", must be absent"
    )]
    #[case::wiped(
        |entry: &mut Value| entry["clientConfig"]["caBundle"] = json!(""),
        ".clientConfig.caBundle is empty"
    )]
    #[case::of_another_authority(
        |entry: &mut Value| entry["clientConfig"]["caBundle"] = json!(certificates().2),
        ".clientConfig.caBundle does not verify our certificate: "
    )]
    #[case::of_no_certificates(
        |entry: &mut Value| entry["clientConfig"]["caBundle"] = json!(STANDARD.encode("x")),
        ".clientConfig.caBundle does not verify our certificate: "
    )]
    #[case::narrowed_by_what_nobody_knows_yet(
        |entry: &mut Value| entry["later"] = json!(true),
        ".later is true, must be absent"
    )]
    fn registration_fields_that_bypass_the_webhook_are_reported(
        #[case] change: impl Fn(&mut Value),
        #[case] told: &str,
    ) {
        let (_folder, store, bundle) = certificates();
        for endpoint in served(&[Family::Nodes]) {
            let first = Installation::default();
            for entry in ExpectedEntry::of_endpoint(&first, endpoint, &Address::Service) {
                let mut stored = installed(&entry, &bundle);
                change(&mut stored);
                let fault = entry.fault(&[stored], &store).unwrap();
                assert!(fault.contains(told), "{fault}");
            }
        }
    }

    /// Requirements that the platform AKS adds to namespace selectors.
    fn of_the_platform() -> Vec<Value> {
        vec![
            json!({"key": "control-plane", "operator": "DoesNotExist"}),
            json!({"key": "control-plane", "operator": "NotIn", "values": ["true"]}),
            json!({"key": "kubernetes.azure.com/managedby", "operator": "NotIn", "values": ["aks"]}),
        ]
    }

    /// The entry with these requirements of namespaces before its own ones, or after them.
    fn selecting(entry: &Value, added: &[Value], is_first: bool) -> Value {
        let own = entry["namespaceSelector"]["matchExpressions"].as_array();
        let own = own.cloned().unwrap_or_default();
        let (first, second) = if is_first {
            (added, own.as_slice())
        } else {
            (own.as_slice(), added)
        };
        let mut entry = entry.clone();
        entry["namespaceSelector"]["matchExpressions"] = [first, second].concat().into();
        entry
    }

    #[test]
    fn namespace_selectors_without_an_effect_are_as_generated() {
        let (_folder, store, bundle) = certificates();
        for entry in entries(&Address::Service) {
            let as_generated = installed(&entry, &bundle);
            let mut stored: Vec<Value> = [true, false]
                .map(|is_first| selecting(&as_generated, &of_the_platform(), is_first))
                .into();
            if entry.is_of_cluster_scoped_objects {
                let mut narrowed = as_generated.clone();
                narrowed["namespaceSelector"] = json!({"matchLabels": {"a": "b"}});
                stored.push(narrowed);
            }
            for stored in stored {
                assert_eq!(
                    entry.fault(std::slice::from_ref(&stored), &store),
                    None,
                    "{stored}"
                );
            }
        }
    }

    #[rstest]
    #[case::of_another_value(json!({"key": "control-plane", "operator": "NotIn", "values": ["true", "team-a"]}))]
    #[case::of_another_label(json!({"key": "kubernetes.azure.com/mode", "operator": "DoesNotExist"}))]
    #[case::chosen_by_the_label(json!({"key": "control-plane", "operator": "Exists"}))]
    #[case::chosen_by_the_value(json!({"key": "kubernetes.azure.com/managedby", "operator": "In", "values": ["aks"]}))]
    #[case::of_more_members(json!({"key": "control-plane", "operator": "DoesNotExist", "later": true}))]
    fn other_requirements_of_namespaces_are_reported(#[case] requirement: Value) {
        let (_folder, store, bundle) = certificates();
        let namespaced = entries(&Address::Service).into_iter();
        let namespaced: Vec<_> = namespaced
            .filter(|entry| !entry.is_of_cluster_scoped_objects)
            .collect();
        assert!(namespaced.len() > 5);
        for entry in namespaced {
            let stored = selecting(
                &installed(&entry, &bundle),
                std::slice::from_ref(&requirement),
                false,
            );
            let fault = entry.fault(&[stored], &store).unwrap();
            assert!(fault.contains(".namespaceSelector"), "{fault}");
        }
    }

    #[test]
    fn a_missing_exclusion_of_ours_is_reported() {
        let (_folder, store, bundle) = certificates();
        for entry in entries(&Address::Service) {
            let mut stored = installed(&entry, &bundle);
            if stored["namespaceSelector"]["matchExpressions"].is_null() {
                continue;
            }
            stored["namespaceSelector"] = json!({"matchExpressions": of_the_platform()});
            let fault = entry.fault(&[stored], &store).unwrap();
            assert!(fault.contains(".namespaceSelector"), "{fault}");
        }
    }

    #[test]
    fn each_entry_of_an_endpoint_is_checked() {
        let (_folder, store, bundle) = certificates();
        let first = of_node_status(&Address::Service);
        let mut second = of_node_status(&Address::Service);
        "second.koordinator.sh".clone_into(&mut second.name);
        second.generated["name"] = json!(second.name);
        let label = first.endpoint.label();
        let with = |mutating: Vec<Value>| StoredEntries {
            mutating,
            validating: Vec::new(),
        };
        let (one, other) = (installed(&first, &bundle), installed(&second, &bundle));
        let entries = [&first, &second];
        let faults = |stored: StoredEntries| stored.faults(&entries, &store)[label].clone();
        assert_eq!(faults(with(vec![other.clone(), one.clone()])), None);
        let without_second = faults(with(vec![one])).unwrap();
        assert!(without_second.is_missing);
        let without_second = without_second.text;
        assert!(
            without_second.starts_with("there is no entry second.koordinator.sh "),
            "{without_second}"
        );
        let without_any = faults(with(Vec::new())).unwrap().text;
        let missing = without_any.matches("there is no entry ").count();
        assert_eq!(missing, 2, "{without_any}");
        let as_validating = StoredEntries {
            mutating: vec![other],
            validating: vec![installed(&first, &bundle)],
        };
        let fault = faults(as_validating).unwrap().text;
        assert!(
            fault.starts_with(&format!("there is no entry {}", first.name)),
            "{fault}"
        );
    }

    #[test]
    fn an_endpoint_that_is_switched_off_needs_no_entry() {
        let expected = ExpectedObject {
            name: "headroom-pods".to_owned(),
            entries: entries(&Address::Service),
        };
        let wanted = |gates: &str| {
            let gates = GateSet::parse(endpoints::gates(), gates).unwrap();
            let wanted = expected.wanted(&gates);
            wanted
                .iter()
                .any(|entry| entry.name == "vpodbinding.koordinator.sh")
        };
        assert!(!wanted("BindingAdmissionWebhook=false"));
        assert!(wanted("BindingAdmissionWebhook=true"));
        assert!(expected.has("validate-pod-binding"));
    }

    #[test]
    fn another_installation_is_told_by_its_own_names() {
        let second = Installation {
            namespace: "b".parse().unwrap(),
            suffix: "-b".parse().unwrap(),
            ..Installation::default()
        };
        let (_folder, store, bundle) = certificates();
        let address = Address::Service;
        let ours = ExpectedEntry::of_endpoint(&second, NODE_STATUS, &address)
            .pop()
            .unwrap();
        assert_eq!(ours.host, "headroom-webhook-b.b.svc");
        let fault = ours.fault(&[], &store).unwrap();
        assert!(fault.ends_with(" in configuration headroom-webhook-b"), "{fault}");
        let theirs = installed(&of_node_status(&address), &bundle);
        let fault = ours.fault(&[theirs], &store).unwrap();
        assert!(
            fault.contains(".clientConfig.service.namespace is \"headroom-system\", must be \"b\""),
            "{fault}"
        );
    }

    #[test]
    fn a_url_is_what_was_asked_for_and_nothing_else() {
        let (_folder, store, bundle) = certificates();
        let host = Address::Service.host(&Installation::default());
        let address = Address::Url(format!("https://{host}:8443"));
        let entry = of_node_status(&address);
        let mut stored = entry.generated.clone();
        stored["clientConfig"]["caBundle"] = json!(bundle);
        assert_eq!(entry.fault(&[stored.clone()], &store), None);
        stored["clientConfig"]["url"] = json!("https://elsewhere:8443/mutate-node-status");
        let fault = entry.fault(&[stored], &store).unwrap();
        assert!(
            fault.contains(".clientConfig.url is \"https://elsewhere:8443/"),
            "{fault}"
        );
        let service = installed(&of_node_status(&Address::Service), &bundle);
        let fault = entry.fault(&[service], &store).unwrap();
        assert!(fault.contains(".clientConfig.service is {"), "{fault}");
    }
}
