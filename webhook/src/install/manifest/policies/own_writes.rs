//! Policies that restrict what the webhook itself may write with its rights to certificates: the CA bundle in our webhook
//! configurations and nothing else there, and the one Secret with certificates. RBAC cannot express either. They refuse
//! requests of the webhook's service account alone.
//!
//! Webhooks cannot review webhook configurations, but policies do: the API server exempts only policies themselves.

use headroom_domain::{installation::Installation, names};
use k8s_openapi::api::admissionregistration::v1::{
    MatchCondition, MatchResources, NamedRuleWithOperations, ValidatingAdmissionPolicySpec, Validation,
};

use super::{
    checks::{Checks, bound, validation},
    text,
};

/// Fields of an entry that the webhook may not change. Fields of later API versions are not among them.
const ENTRY_FIELDS: [&str; 11] = [
    "admissionReviewVersions",
    "failurePolicy",
    "matchConditions",
    "matchPolicy",
    "name",
    "namespaceSelector",
    "objectSelector",
    "reinvocationPolicy",
    "rules",
    "sideEffects",
    "timeoutSeconds",
];

/// Both policies of an installation. With `entries`, the webhook may also change, add and remove the entries of these
/// names (`--reconcile=entries`).
pub fn own_writes(installation: &Installation, entries: Option<&[&str]>) -> [Checks; 2] {
    [configurations(installation, entries), secret(installation)]
}

fn configurations(installation: &Installation, entries: Option<&[&str]>) -> Checks {
    let fields = ENTRY_FIELDS.map(|field| format!("w.?{field} == o.?{field}"));
    let client =
        ["service", "url"].map(|field| format!("w.clientConfig.?{field} == o.clientConfig.?{field}"));
    let is_same = [&fields[..], &client[..]].concat().join(" && ");
    let others = |object: &str| match entries {
        None => format!("{object}.?webhooks.orValue([])"),
        Some(names) => {
            let names: Vec<_> = names.iter().map(|name| text(name)).collect();
            format!(
                "{object}.?webhooks.orValue([]).filter(w, !(w.name in [{}]))",
                names.join(", ")
            )
        }
    };
    let metadata = ["labels", "annotations", "finalizers", "ownerReferences"]
        .map(|field| format!("object.metadata.?{field} == oldObject.metadata.?{field}"));
    let leads_to_us = entries.map(|_| leads_to_us(installation));
    let spec = ValidatingAdmissionPolicySpec {
        match_conditions: Some(vec![by_the_webhook(installation)]),
        match_constraints: Some(matching(&[NamedRuleWithOperations {
            api_groups: Some(vec!["admissionregistration.k8s.io".to_owned()]),
            api_versions: Some(vec!["*".to_owned()]),
            operations: Some(vec!["*".to_owned()]),
            resources: Some(
                ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"]
                    .map(str::to_owned)
                    .to_vec(),
            ),
            scope: Some("Cluster".to_owned()),
            resource_names: None,
        }])),
        validations: Some([
            validation(
                "request.operation == 'UPDATE'".to_owned(),
                "the webhook only updates webhook configurations".to_owned(),
            ),
            validation(
                format!("request.operation != 'UPDATE' || ({})", metadata.join(" && ")),
                "the webhook changes no metadata of webhook configurations".to_owned(),
            ),
            validation(
                format!(
                    "request.operation != 'UPDATE' || ({now}.size() == {was}.size() && {now}.all(w, {was}.exists(o, {is_same})))",
                    now = others("object"),
                    was = others("oldObject"),
                ),
                "the webhook changes only clientConfig.caBundle".to_owned(),
            ),
        ]
        .into_iter()
        .chain(leads_to_us)
        .collect()),
        ..spec()
    };
    bound(installation.named(names::OWN_CONFIGURATIONS_POLICY), spec)
}

/// Entries that the webhook may write lead to its own Service.
fn leads_to_us(installation: &Installation) -> Validation {
    let (name, namespace) = (
        text(&installation.service()),
        text(installation.namespace.as_str()),
    );
    let is_ours = format!(
        "w.clientConfig.?service.?name.orValue('') == {name} && w.clientConfig.?service.?namespace.orValue('') == {namespace}"
    );
    let is_old = "oldObject.?webhooks.orValue([]).exists(o, o == w)";
    validation(
        format!(
            "request.operation != 'UPDATE' || object.?webhooks.orValue([]).all(w, {is_old} || ({is_ours}))"
        ),
        "the webhook writes only entries of its own Service".to_owned(),
    )
}

fn secret(installation: &Installation) -> Checks {
    let name = installation.named(names::CERTIFICATES_SECRET);
    let (label, value) = (text(names::CERTIFICATES_LABEL), text(names::MANAGED_CERTIFICATES));
    let namespace = text(installation.namespace.as_str());
    let spec = ValidatingAdmissionPolicySpec {
        match_conditions: Some(vec![by_the_webhook(installation)]),
        match_constraints: Some(matching(&[NamedRuleWithOperations {
            api_groups: Some(vec![String::new()]),
            api_versions: Some(vec!["v1".to_owned()]),
            operations: Some(["CREATE", "UPDATE"].map(str::to_owned).to_vec()),
            resources: Some(vec!["secrets".to_owned()]),
            scope: Some("Namespaced".to_owned()),
            resource_names: None,
        }])),
        validations: Some(vec![
            validation(
                format!(
                    "request.namespace == {namespace} && object.metadata.name == {}",
                    text(&name)
                ),
                format!("the webhook writes no Secret but {name}"),
            ),
            validation(
                "object.type == 'Opaque' || (oldObject != null && object.type == oldObject.type)".to_owned(),
                "the webhook creates no Secret that Kubernetes gives a meaning to".to_owned(),
            ),
            validation(
                format!(
                    "(oldObject == null ? object : oldObject).metadata.?labels[?{label}].orValue('') == {value}"
                ),
                format!(
                    "the webhook writes no Secret without the label {}={}",
                    names::CERTIFICATES_LABEL,
                    names::MANAGED_CERTIFICATES
                ),
            ),
        ]),
        ..spec()
    };
    bound(installation.named(names::OWN_SECRET_POLICY), spec)
}

fn spec() -> ValidatingAdmissionPolicySpec {
    ValidatingAdmissionPolicySpec {
        // It is asked about no request but the webhook's own.
        failure_policy: Some("Fail".to_owned()),
        ..ValidatingAdmissionPolicySpec::default()
    }
}

fn by_the_webhook(installation: &Installation) -> MatchCondition {
    MatchCondition {
        name: "by-the-webhook".to_owned(),
        expression: format!(
            "request.userInfo.username == {}",
            text(&installation.webhook_user())
        ),
    }
}

fn matching(rules: &[NamedRuleWithOperations]) -> MatchResources {
    MatchResources {
        resource_rules: Some(rules.to_vec()),
        ..MatchResources::default()
    }
}
