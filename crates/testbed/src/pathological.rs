//! Admission reviews with maximum memory and CPU cost for their length. Tests send them to the webhook.

#[path = "pathological/fluid_rows.rs"]
mod fluid_rows;
#[path = "pathological/node_rows.rs"]
mod node_rows;
#[path = "pathological/pod_rows.rs"]
mod pod_rows;
#[path = "pathological/quota_rows.rs"]
mod quota_rows;
#[path = "pathological/slo_rows.rs"]
mod slo_rows;
#[path = "pathological/tree_rows.rs"]
mod tree_rows;

use self::{
    fluid_rows::FLUID_ROWS, node_rows::NODE_ROWS, pod_rows::POD_ROWS, quota_rows::QUOTA_ROWS,
    slo_rows::SLO_ROWS, tree_rows::TREE_ROWS,
};

/// A body of any length: fixed texts, with a repeated unit between two of them. In each repetition, `%` is replaced by another
/// number.
#[derive(Debug)]
pub struct BodyShape {
    pub name: &'static str,
    /// Fixed texts and repeated units, alternating.
    parts: Vec<String>,
}

/// Operation, resource and user of the reviews.
#[derive(Debug, Clone, Copy)]
struct Subject<'s> {
    operation: &'s str,
    api: (&'s str, &'s str),
    /// Plural name of the resource.
    resource: &'s str,
    /// Subresource; empty for the resource itself.
    sub_resource: &'s str,
    user: &'s str,
}

/// Start of a review, before its objects.
const HEAD: &str = r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u-1","operation":"OPERATION","resource":{"group":"GROUP","version":"VERSION","resource":"RESOURCE"},"subResource":"SUB","name":"n1","userInfo":{"username":"USER"},"#;
/// The stored Node. It is amplified, so that the webhook makes all comparisons.
const OLD: &str = r#""oldObject":{META,"status":{AMOUNTS,"conditions":[READY]}},"#;
const META: &str = r#""metadata":{"name":"n1","uid":"u1","annotations":{MARKER}}"#;
const MARKER: &str = r#""headroom.sh/amplified-allocatable":"{\"cpu\":\"6\",\"from\":{\"cpu\":{\"capacity\":\"4\",\"raw\":\"4\"}},\"uid\":\"u1\"}","node.koordinator.sh/resource-amplification-ratio":"{\"cpu\":1.5}""#;
const AMOUNTS: &str = r#""capacity":{"cpu":"4"},"allocatable":{"cpu":"6"}"#;
const READY: &str = r#"{"type":"Ready","status":"True","lastHeartbeatTime":"2026-11-20T10:00:00Z"}"#;

/// Start of Koordinator's ConfigMap, before its data.
const SLO_DATA: &str =
    r#"HEAD"namespace":"koordinator-system","object":{"metadata":{"name":"slo-controller-config"},"data":{"#;
/// Start of the ConfigMap, before the text of a key.
const SLO_TEXT: &str = r#"OTHERS"colocation-config":""#;
/// End of the ConfigMap, after the text of a key.
const SLO_END: &str = r#""}}}}"#;

/// Name, and alternating texts and units, as in [`BodyShape`].
type Row = (&'static str, &'static [&'static str]);

/// Shapes for any object, as reviews of `nodes` or one of its subresources, sent by this user.
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

/// Gates that enable all endpoints of [`targets`] with all their steps.
pub const GATES: &str = "ConfigMapValidatingWebhook=true,BindingAdmissionWebhook=true,ValidatePodDeviceResource=true,EnablePodEnhancedValidator=true,ElasticQuotaGuaranteeUsage=true";

/// An endpoint of a family besides nodes, with the shapes for it.
#[derive(Debug)]
pub struct Target {
    pub path: &'static str,
    /// Shapes for objects of its kind.
    pub own: Vec<BodyShape>,
    pub common: Vec<BodyShape>,
}

/// All endpoints of the families Koordinator and Fluid. The endpoint for bindings appears twice, once for each kind.
pub fn targets() -> Vec<Target> {
    let target = |path, (group, version), (resource, sub_resource), rows| {
        let subject = Subject {
            operation: "CREATE",
            api: (group, version),
            resource,
            sub_resource,
            user: "user",
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
        target(
            "/mutate-fluid-io-v1alpha1-schedulepod",
            core,
            ("pods", ""),
            FLUID_ROWS,
        ),
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
        target(
            "/validate-quota-koordinator-sh-v1alpha1-elasticquotaprofile",
            ("quota.koordinator.sh", "v1alpha1"),
            ("elasticquotaprofiles", ""),
            TREE_ROWS,
        ),
        target("/validate-configmap", core, ("configmaps", ""), SLO_ROWS),
    ]
}

impl Target {
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
    /// A body of about `bytes` bytes, at most.
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
