//! The floor policy: while no webhook answers, it keeps a kubelet's raw values from replacing the values amplified from
//! them. It holds back the kubelet's heartbeats as the webhook does.
//!
//! The kubelet of an amplified node sends its own values at every sync and checks its pods against the stored values,
//! all of them again after a restart: allocatable that falls to raw fails running pods. So a value equal to the raw
//! value of the marker is replaced by the amplified value of the marker, or by the stored one if that is lower. Any
//! other value is new and passes; raw also passes if the stored value has been lowered below it. The policy reads the
//! marker of the stored object, which a kubelet cannot change. A user with the right to patch nodes can change it,
//! and gains nothing.
//!
//! With mode `off` on the stored object only a value that pods need is held: the marker then has the product that they
//! exceed. So the annotation restores raw values while no webhook answers. A webhook that answers decides itself.
//!
//! A webhook that is called after this policy no longer sees the kubelet's values. The policy passes the replaced
//! values in [`names::KUBELET_RAW`], with the Ready heartbeat of the request. The webhook evaluates all other values
//! itself: a value equal to the marker's may be absent from the write, or really raw (rule G1a).

use std::time::Duration;

use headroom_domain::{
    capacity::floor::{HEARTBEAT_INTERVAL, HOLDS_FOR},
    names,
    resource::Resource,
};

use super::{MOST_MERGED, PolicyParts, annotation_path, annotations, by_own_kubelet, text, variable};
use crate::admission::review::Operation;

/// Difference to the webhook's interval: one kubelet sync. The webhook never sees a heartbeat that this policy holds
/// back. With the shorter interval here, each webhook interval has one write that arrives unchanged, and the
/// webhook's interval applies.
const SOONER: Duration = Duration::from_secs(10);
/// Age of the stored Ready heartbeat at which a new heartbeat is stored.
pub const INTERVAL: Duration = HEARTBEAT_INTERVAL.saturating_sub(SOONER);

const HEARTBEAT: &str = names::LAST_HEARTBEAT_TIME;

pub(super) fn parts() -> PolicyParts {
    let note = text(names::KUBELET_RAW);
    let mut variables = vec![
        variable(
            "marker",
            format!("oldObject.metadata.annotations[{}]", text(names::MARKER)),
        ),
        variable("renewed", member("variables.marker", "at")),
        variable("stored", ready_heartbeat("oldObject")),
        variable("sent", ready_heartbeat("object")),
        variable("holds", marker_is_fresh()),
        variable(
            "isOff",
            format!(
                "oldObject.metadata.annotations[?{}].orValue('') == 'off'",
                text(names::MODE)
            ),
        ),
    ];
    variables.extend(Resource::ALL.into_iter().flat_map(resource_variables));
    variables.push(variable("quiet", quiet()));
    variables.push(variable(
        "handsOver",
        format!(
            "({}) && (!variables.quiet || {note} in oldObject.metadata.annotations)",
            any_held()
        ),
    ));
    PolicyParts {
        name: names::FLOOR_POLICY,
        operations: &[Operation::Update],
        resources: &["nodes/status"],
        conditions: vec![
            ("own-kubelet", by_own_kubelet()),
            (
                "marked",
                format!(
                    "oldObject.metadata.?annotations[?{}].orValue('').contains('\"uid\":\"' + oldObject.metadata.uid + '\"')",
                    text(names::MARKER)
                ),
            ),
        ],
        variables,
        patch: patch(),
    }
}

/// The value of a JSON member that is a string, from JSON without blanks; empty if it is not there. CEL reads no JSON.
fn member(json: &str, key: &str) -> String {
    format!(r#"{json}.find(r'"{key}":"[^"]*"').replace('"{key}":"', '').replace('"', '')"#)
}

/// The Ready heartbeat of an object; empty if it has none.
fn ready_heartbeat(object: &str) -> String {
    format!(
        "{}.filter(c, c.type == 'Ready' && c.?{HEARTBEAT}.orValue(null) != null)\n  .map(c, string(c.{HEARTBEAT})).join('')",
        conditions(object)
    )
}

fn conditions(object: &str) -> String {
    format!("{object}.status.?conditions.orValue([])")
}

/// True while the marker has been renewed recently. A negative age means that the kubelet's clock was set back.
fn marker_is_fresh() -> String {
    let hour = seconds(HOLDS_FOR);
    format!(
        "variables.renewed != '' && variables.sent != ''
&& timestamp(variables.sent) - timestamp(variables.renewed) < {hour}
&& timestamp(variables.renewed) - timestamp(variables.sent) < {hour}"
    )
}

fn seconds(duration: Duration) -> String {
    format!("duration('{}s')", duration.as_secs())
}

/// CEL variables of one resource: the marker's value, the kubelet's value and the result.
fn resource_variables(resource: Resource) -> [(String, String); 7] {
    let name = resource.name();
    // The sums of places are an object in this one.
    let origin = format!(r#"variables.marker.find(r'"{name}":\{{([^{{}}]|\{{[^{{}}]*\}})*\}}')"#);
    let from_pods = format!("{} != ''", member(&origin, "product"));
    let equal = equal(&format!("variables.{name}Sent"), &format!("variables.{name}Raw"));
    let below =
        |other| format!("quantity(variables.{name}Stored).isLessThan(quantity(variables.{name}{other}))");
    let lowered = format!("{} && {}", below("Sent"), below("Written"));
    let allocatable = |object: &str| format!("string({object}.status.?allocatable[?'{name}'].orValue(''))");
    [
        (format!("{name}Written"), member("variables.marker", name)),
        (format!("{name}Raw"), member(&origin, "raw")),
        (format!("{name}Sent"), allocatable("object")),
        (format!("{name}Stored"), allocatable("oldObject")),
        (
            format!("{name}Held"),
            format!(
                "variables.holds && (!variables.isOff || {from_pods})
&& isQuantity(variables.{name}Written)
&& isQuantity(variables.{name}Raw) && isQuantity(variables.{name}Sent)
&& isQuantity(variables.{name}Stored) && {equal}
&& !({lowered})"
            ),
        ),
        (
            format!("{name}Smaller"),
            format!(
                "variables.{name}Held && {}
  ? variables.{name}Stored : variables.{name}Written",
                below("Written")
            ),
        ),
        (
            format!("{name}Kept"),
            format!("variables.{name}Held ? variables.{name}Smaller : variables.{name}Sent"),
        ),
    ]
}

fn equal(one: &str, other: &str) -> String {
    format!("quantity({one}).compareTo(quantity({other})) == 0")
}

fn any_held() -> String {
    Resource::ALL
        .map(|resource| format!("variables.{resource}Held"))
        .join(" || ")
}

/// True if only heartbeats would change and the stored Ready heartbeat is younger than the interval: the rules of the
/// webhook's step `quiet`.
fn quiet() -> String {
    let interval = seconds(INTERVAL);
    let (is, was) = (conditions("object"), conditions("oldObject"));
    let conditions_same = same_but("c", &format!("{was}[i]"), &[HEARTBEAT]);
    let (is_annotated, was_annotated) = (annotations("object"), annotations("oldObject"));
    [
        "variables.sent != '' && variables.stored != ''".to_owned(),
        "timestamp(variables.sent) >= timestamp(variables.stored)".to_owned(),
        format!("timestamp(variables.sent) - timestamp(variables.stored) < {interval}"),
        format!("size({is}) == size({was})"),
        format!("{is}.all(i, c, {conditions_same})"),
        allocatable_same(),
        same_but(&is_annotated, &was_annotated, &[names::KUBELET_RAW]),
        same_but("object", "oldObject", &["metadata", "status"]),
        same_but(
            "object.metadata",
            "oldObject.metadata",
            &["annotations", "managedFields", "resourceVersion"],
        ),
        same_but(
            "object.status",
            "oldObject.status",
            &["allocatable", "conditions"],
        ),
    ]
    .join("\n&& ")
}

/// True if two maps have the same members with the same values, except for some. Above the limit of comparisons they
/// must be equal.
fn same_but(one: &str, other: &str, but: &[&str]) -> String {
    let but: Vec<_> = but.iter().map(|key| text(key)).collect();
    let but = but.join(", ");
    format!(
        "({one} == {other} || size({one}) + size({other}) <= {MOST_MERGED}
  && {one}.all(k, v, k in [{but}] || (k in {other} && {other}[k] == v))\n  && {other}.all(k, k in [{but}] || k in {one}))"
    )
}

/// True if allocatable would stay unchanged; the two amplified resources are compared as amounts.
fn allocatable_same() -> String {
    let (is, was) = ["object", "oldObject"]
        .map(|object| format!("{object}.status.?allocatable.orValue({{}})"))
        .into();
    let kept: String = Resource::ALL
        .map(|resource| format!("k == '{resource}' ? variables.{resource}Kept : "))
        .concat();
    let amount = equal(&format!("{kept}v"), &format!("{was}[k]"));
    format!("{is}.all(k, v, k in {was} && {amount})\n  && {was}.all(k, k in {is})")
}

fn patch() -> String {
    let path = annotation_path(&text(names::KUBELET_RAW));
    let values = Resource::ALL
        .map(|resource| {
            format!(r#"(variables.{resource}Held ? '"{resource}":"' + variables.{resource}Sent + '",' : '')"#)
        })
        .join(" + ");
    let held = Resource::ALL
        .map(|resource| {
            format!(
                "(variables.{resource}Held ? [JSONPatch{{op: 'replace', path: '/status/allocatable/{resource}', value: variables.{resource}Smaller}}] : [])"
            )
        })
        .join("\n+ ");
    format!(
        r#"(variables.handsOver && !has(object.metadata.annotations) ? [JSONPatch{{op: 'add', path: '/metadata/annotations', value: {{}}}}] : [])
+ (variables.handsOver
  ? [JSONPatch{{op: 'add', path: {path},
      value: '{{' + {values} + '"at":"' + (variables.quiet ? variables.stored : variables.sent) + '"}}'}}]
  : {note} in {annotations} ? [JSONPatch{{op: 'remove', path: {path}}}] : [])
+ {held}
+ (variables.quiet ? [JSONPatch{{op: 'replace', path: '/status/conditions', value: oldObject.status.conditions}}] : [])"#,
        note = text(names::KUBELET_RAW),
        annotations = annotations("object"),
    )
}
