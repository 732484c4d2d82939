//! Admission reviews that cost as much memory and time as a body of their length can. Tests and a bench send them to
//! the webhook.

#[path = "pathological/node_rows.rs"]
mod node_rows;
#[path = "pathological/pod_rows.rs"]
mod pod_rows;
#[path = "pathological/quota_rows.rs"]
mod quota_rows;
#[path = "pathological/slo_rows.rs"]
mod slo_rows;

use self::{node_rows::NODE_ROWS, pod_rows::POD_ROWS, quota_rows::QUOTA_ROWS, slo_rows::SLO_ROWS};

/// A body of any length: texts, and between them a unit that is repeated. Where a unit has `%`, each one has another
/// number.
#[derive(Debug)]
pub struct BodyShape {
    /// What it is.
    pub name: &'static str,
    /// In turns a text that is there once and a unit that is repeated.
    parts: Vec<String>,
}

/// What the reviews are about.
#[derive(Debug, Clone, Copy)]
struct Subject<'s> {
    /// As in `CREATE`.
    operation: &'s str,
    /// API group and version.
    api: (&'s str, &'s str),
    /// In plural.
    resource: &'s str,
    /// Empty for the resource itself.
    sub_resource: &'s str,
    /// Who asks.
    user: &'s str,
}

/// A review, up to its objects.
const HEAD: &str = r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u-1","operation":"OPERATION","resource":{"group":"GROUP","version":"VERSION","resource":"RESOURCE"},"subResource":"SUB","name":"n1","userInfo":{"username":"USER"},"#;
/// The stored Node: an amplified one, so that all that is compared is compared.
const OLD: &str = r#""oldObject":{META,"status":{AMOUNTS,"conditions":[READY]}},"#;
const META: &str = r#""metadata":{"name":"n1","uid":"u1","annotations":{MARKER}}"#;
const MARKER: &str = r#""headroom.sh/amplified-allocatable":"{\"cpu\":\"6\",\"from\":{\"cpu\":{\"capacity\":\"4\",\"raw\":\"4\"}},\"uid\":\"u1\"}","node.koordinator.sh/resource-amplification-ratio":"{\"cpu\":1.5}""#;
const AMOUNTS: &str = r#""capacity":{"cpu":"4"},"allocatable":{"cpu":"6"}"#;
const READY: &str = r#"{"type":"Ready","status":"True","lastHeartbeatTime":"2026-11-20T10:00:00Z"}"#;

/// Koordinator's ConfigMap, up to what is in it.
const SLO_DATA: &str =
    r#"HEAD"namespace":"koordinator-system","object":{"metadata":{"name":"slo-controller-config"},"data":{"#;
/// The same, up to a text.
const SLO_TEXT: &str = r#"OTHERS"colocation-config":""#;
/// What stands behind that text.
const SLO_END: &str = r#""}}}}"#;

/// Name, and texts and units in turns.
type Row = (&'static str, &'static [&'static str]);

/// The shapes that every object can have, as reviews of this subresource of `nodes`, or of Nodes themselves, by this user.
pub fn shapes(sub_resource: &str, user: &str) -> Vec<BodyShape> {
    let nodes = Subject {
        operation: "UPDATE",
        api: ("", "v1"),
        resource: "nodes",
        sub_resource,
        user,
    };
    shapes_of(&nodes, NODE_ROWS)
}

/// The gates with which all of [`targets`] are served, and do all that they can.
pub const GATES: &str = "ConfigMapValidatingWebhook=true,BindingAdmissionWebhook=true,ValidatePodDeviceResource=true,EnablePodEnhancedValidator=true,ElasticQuotaGuaranteeUsage=true";

/// An endpoint of Koordinator's family, and what is posted to it.
#[derive(Debug)]
pub struct Target {
    /// Its path.
    pub path: &'static str,
    /// The shapes that only objects of its kind can have.
    pub own: Vec<BodyShape>,
    /// Those that every object can have.
    pub common: Vec<BodyShape>,
}

/// All endpoints of Koordinator's family, the one of bindings for both of its kinds.
pub fn targets() -> Vec<Target> {
    let target = |path, (group, version), (resource, sub_resource), rows| {
        let subject = Subject {
            operation: "CREATE",
            api: (group, version),
            resource,
            sub_resource,
            user: "somebody",
        };
        Target {
            path,
            own: shapes_of(&subject, rows),
            common: shapes_of(&subject, NODE_ROWS),
        }
    };
    let (core, quotas) = (("", "v1"), ("scheduling.sigs.k8s.io", "v1alpha1"));
    let reservations = ("scheduling.koordinator.sh", "v1alpha1");
    vec![
        target("/mutate-pod", core, ("pods", ""), POD_ROWS),
        target("/validate-pod", core, ("pods", ""), POD_ROWS),
        target("/validate-pod-binding", core, ("pods", "binding"), POD_ROWS),
        target("/validate-pod-binding", core, ("bindings", ""), POD_ROWS),
        target(
            "/mutate-reservation",
            reservations,
            ("reservations", ""),
            POD_ROWS,
        ),
        target(
            "/mutate-scheduling-sigs-k8s-io-v1alpha1-elasticquota",
            quotas,
            ("elasticquotas", ""),
            QUOTA_ROWS,
        ),
        target(
            "/validate-scheduling-sigs-k8s-io-v1alpha1-elasticquota",
            quotas,
            ("elasticquotas", ""),
            QUOTA_ROWS,
        ),
        target("/validate-configmap", core, ("configmaps", ""), SLO_ROWS),
    ]
}

impl Target {
    /// All shapes that are posted to it.
    pub fn shapes(&self) -> impl Iterator<Item = &BodyShape> {
        self.own.iter().chain(&self.common)
    }
}

fn shapes_of(subject: &Subject<'_>, rows: &[Row]) -> Vec<BodyShape> {
    let whole = |part: &&str| {
        [
            ("TEXT", SLO_TEXT),
            ("OTHERS", SLO_DATA),
            ("END", SLO_END),
            ("HEAD", HEAD),
            ("OLD", OLD),
            ("META", META),
            ("MARKER", MARKER),
            ("AMOUNTS", AMOUNTS),
            ("READY", READY),
            ("OPERATION", subject.operation),
            ("GROUP", subject.api.0),
            ("VERSION", subject.api.1),
            ("RESOURCE", subject.resource),
            ("SUB", subject.sub_resource),
            ("USER", subject.user),
        ]
        .into_iter()
        .fold((*part).to_owned(), |text, (name, value)| {
            text.replace(name, value)
        })
    };
    rows.iter()
        .map(|(name, parts)| BodyShape {
            name,
            parts: parts.iter().map(whole).collect(),
        })
        .collect()
}

impl BodyShape {
    /// The body of about that many bytes, never more.
    pub fn body(&self, bytes: usize) -> String {
        let (texts, units): (Vec<_>, Vec<_>) = self.parts.iter().enumerate().partition(|(at, _)| at % 2 == 0);
        let rest = bytes - texts.iter().map(|(_, text)| text.len()).sum::<usize>();
        let share = rest / units.len().max(1);
        let mut body = String::with_capacity(bytes);
        for (at, part) in self.parts.iter().enumerate() {
            if at % 2 == 0 {
                body.push_str(part);
                continue;
            }
            let end = body.len() + share;
            if !part.contains('%') {
                body.push_str(&part.repeat(share / part.len()));
                continue;
            }
            for number in 0.. {
                let unit = part.replace('%', &format!("{number:x}"));
                if body.len() + unit.len() > end {
                    break;
                }
                body.push_str(&unit);
            }
        }
        body
    }
}
