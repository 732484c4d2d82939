//! Optional policy that repeats the checks of `/validate-node` in the API server, also while no webhook answers. It
//! restricts the writers of annotations that control or record amplification, and their ratios and modes.
//!
//! The policy is for `nodes` alone, never for `nodes/status`: validation there sees the webhook's own write under the
//! kubelet's name, and a refusal would be a refused heartbeat. As in the webhook, a value that is stored already is not
//! checked again. CEL reads no JSON, so the policy accepts slightly fewer ratio annotations than the webhook: no
//! escapes in names, at most nine digits before the point, no negative zero. The highest ratio is the default one,
//! and the current hint is not considered.

use headroom_domain::{
    installation::Installation,
    names,
    policy::{Mode, Policy},
    ratio::Cents,
    resource::{PerResource, Resource},
};
use k8s_openapi::api::admissionregistration::v1::{
    MatchCondition, MatchResources, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
    ValidatingAdmissionPolicyBindingSpec, ValidatingAdmissionPolicySpec, Validation, Variable,
};

use super::{MOST_MERGED, annotations, by_kubelet, rule, text, variable};
use crate::{
    admission::{
        annotation_permissions::{BY_PEOPLE, NOT_BY_KUBELETS, NOT_BY_OTHERS, by_us, not_known},
        review::{LONGEST, Operation},
    },
    install::manifest::named,
};

/// CEL character class of JSON's white space.
const BLANK: &str = r"[ \t\r\n]*";
/// A JSON number that a float can hold, zero or above.
const NUMBER: &str = r"(0|[1-9][0-9]{0,8})(\.[0-9]+)?([eE][+-]?[0-9]{1,2})?";

/// A policy that refuses, and the binding that puts it in force.
#[derive(Debug, Clone, PartialEq)]
pub struct Checks {
    pub policy: ValidatingAdmissionPolicy,
    /// Its binding, of the same name.
    pub binding: ValidatingAdmissionPolicyBinding,
}

/// The checks of an installation.
pub fn checks(installation: &Installation) -> Checks {
    let (name, webhook) = (
        installation.named(names::CHECKS_POLICY),
        installation.webhook_user(),
    );
    let operations = &[Operation::Create, Operation::Update];
    let variables = variables().map(|(name, expression)| Variable { expression, name });
    let validations = [of_kubelets(&webhook), of_others(&webhook), of_syntax()]
        .into_iter()
        .chain(Resource::ALL.map(of_bounds))
        .chain([of_mode()]);
    let spec = ValidatingAdmissionPolicySpec {
        // A policy that breaks lets nothing through: it is only asked about annotations that change.
        failure_policy: Some("Fail".to_owned()),
        match_conditions: Some(vec![
            MatchCondition {
                name: "annotations-differ".to_owned(),
                expression: format!(
                    "oldObject == null || {} != {}",
                    annotations("object"),
                    annotations("oldObject")
                ),
            },
            MatchCondition {
                name: "not-the-webhook".to_owned(),
                expression: format!("request.userInfo.username != {}", text(&webhook)),
            },
        ]),
        match_constraints: Some(MatchResources {
            resource_rules: Some(vec![rule(operations, &["nodes"])]),
            ..MatchResources::default()
        }),
        validations: Some(validations.collect()),
        variables: Some(variables.into()),
        ..ValidatingAdmissionPolicySpec::default()
    };
    bound(name, spec)
}

/// A policy that refuses, in force for all its matches.
pub(super) fn bound(name: String, spec: ValidatingAdmissionPolicySpec) -> Checks {
    Checks {
        policy: ValidatingAdmissionPolicy {
            metadata: named(name.clone()),
            spec: Some(spec),
            status: None,
        },
        binding: ValidatingAdmissionPolicyBinding {
            metadata: named(name.clone()),
            spec: ValidatingAdmissionPolicyBindingSpec {
                policy_name: name,
                validation_actions: vec!["Deny".to_owned()],
                ..ValidatingAdmissionPolicyBindingSpec::default()
            },
        },
    }
}

/// The known keys are looked up one by one. The cost of a pass over all annotations grows with their number, and a
/// policy that exceeds its budget would refuse every write, even `headroom.sh/mode=off`: a Node may have 70,000
/// annotations. Beyond [`MOST_MERGED`] annotations unknown keys under our prefix are not looked for; they have no
/// effect.
fn variables() -> [(String, String); 11] {
    let owned = listed(&names::OWNED);
    let known = listed(&[&names::OWNED[..], &names::STEERING].concat());
    let is_unknown = format!("k.startsWith({}) && !(k in {known})", text(names::DOMAIN));
    let (marker, note) = (text(names::MARKER), text(names::KUBELET_RAW));
    let is_same = "k in variables.was && variables.was[k] == variables.now[k]";
    let few = format!("size(variables.now) + size(variables.was) <= {MOST_MERGED}");
    [
        variable("now", annotations("object")),
        variable(
            "was",
            format!("oldObject == null ? {{}} : {}", annotations("oldObject")),
        ),
        variable(
            "changed",
            format!("{known}.filter(k, k in variables.now && !({is_same}))"),
        ),
        variable(
            "removed",
            format!("{known}.filter(k, k in variables.was && !(k in variables.now))"),
        ),
        variable(
            "unknown",
            format!("{few}\n  ? variables.now.filter(k, {is_unknown} && !({is_same})) : []"),
        ),
        variable(
            "unknownRemoved",
            format!("{few}\n  ? variables.was.filter(k, {is_unknown} && !(k in variables.now)) : []"),
        ),
        variable("byKubelet", by_kubelet()),
        variable(
            "foreign",
            format!(
                "variables.byKubelet
  ? variables.changed + variables.removed + variables.unknown + variables.unknownRemoved
  : variables.changed.filter(k, k in {owned} && !(k == {note} && has(request.dryRun) && request.dryRun))
    + variables.unknown
    + variables.removed.filter(k, k in {owned} && k != {marker})"
            ),
        ),
        variable("ratio", written(names::RATIO)),
        variable("mode", written(names::MODE)),
        variable(
            "isRatio",
            format!("variables.ratio.matches(r'{}')", ratio_annotation()),
        ),
    ]
}

/// CEL for an annotation's value if the request sets or changes it, else empty. The empty ratio is Koordinator's way to
/// switch a node off.
fn written(key: &str) -> String {
    let key = text(key);
    format!("{key} in variables.changed ? variables.now[{key}] : ''")
}

/// A regular expression for the ratio annotation: an object of resource → number or `null`, or `null`, or nothing.
fn ratio_annotation() -> String {
    let member = format!(r#""[^"\\]*"{BLANK}:{BLANK}({NUMBER}|null){BLANK}"#);
    format!(r"^({BLANK}(null|\{{{BLANK}({member}(,{BLANK}{member})*)?\}}){BLANK})?$")
}

/// Renders a CEL list of keys.
fn listed(keys: &[&str]) -> String {
    let keys: Vec<_> = keys.iter().map(|key| text(key)).collect();
    format!("[{}]", keys.join(", "))
}

/// Keys that kubelets may not write: every key of ours, and the keys that users write.
fn of_kubelets(webhook: &str) -> Validation {
    let steering = listed(&names::STEERING);
    let who = format!(
        r#"(variables.foreign[0] in {steering} ? "{BY_PEOPLE}" : "{}")"#,
        by_us(webhook)
    );
    Validation {
        message_expression: Some(format!(r#"{} + ": {NOT_BY_KUBELETS}; " + {who}"#, named_value())),
        ..validation(
            "!variables.byKubelet || size(variables.foreign) == 0".to_owned(),
            format!("metadata.annotations: {NOT_BY_KUBELETS}"),
        )
    }
}

/// Keys that only the webhook may write, because it records values there. Users may remove the marker to release a
/// node.
fn of_others(webhook: &str) -> Validation {
    let (owned, ours) = (listed(&names::OWNED), by_us(webhook));
    let why = format!(
        r#"(variables.foreign[0] in {owned} ? "{NOT_BY_OTHERS}; {ours}" : "{}")"#,
        not_known()
    );
    Validation {
        message_expression: Some(format!("{} + ': ' + {why}", named_value())),
        ..validation(
            "variables.byKubelet || size(variables.foreign) == 0".to_owned(),
            format!("metadata.annotations: {NOT_BY_OTHERS}; {ours}"),
        )
    }
}

/// CEL for the first annotation that is refused and the start of its value, as the webhook's messages have it.
fn named_value() -> String {
    let value = "variables.now[?variables.foreign[0]].orValue('')";
    format!(
        r#"'metadata.annotations[' + variables.foreign[0] + ']: invalid value "' + ({value}.size() > {LONGEST} ? {value}.substring(0, {LONGEST}) : {value}) + '"'"#
    )
}

fn of_syntax() -> Validation {
    validation(
        "variables.isRatio".to_owned(),
        format!(
            "metadata.annotations[{}]: is not a JSON object of numbers",
            names::RATIO
        ),
    )
}

/// Every member of that name, should there be several.
fn of_bounds(resource: Resource) -> Validation {
    let PerResource { cpu, memory } = Policy::default().static_max;
    let highest: Cents = match resource {
        Resource::Cpu => cpu,
        Resource::Memory => memory,
    };
    let members = format!(r#"variables.ratio.findAll(r'"{resource}"{BLANK}:{BLANK}[0-9][0-9.eE+-]*')"#);
    let number = "double(m.find('[0-9][0-9.eE+-]*$'))";
    validation(
        format!("!variables.isRatio || {members}.all(m, {number} <= {highest})"),
        format!(
            "metadata.annotations[{}]: {resource}: is above the highest allowed ratio {highest}",
            names::RATIO
        ),
    )
}

fn of_mode() -> Validation {
    let modes = Mode::ALL.map(|mode| text(mode.name())).join(", ");
    let key = text(names::MODE);
    validation(
        format!("!({key} in variables.changed) || variables.mode in [{modes}]"),
        format!(
            "metadata.annotations[{}]: must be one of {}",
            names::MODE,
            Mode::ALL.map(Mode::name).join(", ")
        ),
    )
}

/// A validation whose refusal has the reason `Forbidden`.
pub(super) fn validation(expression: String, message: String) -> Validation {
    Validation {
        expression,
        message: Some(message),
        message_expression: None,
        reason: Some("Forbidden".to_owned()),
    }
}
