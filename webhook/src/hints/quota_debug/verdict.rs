//! Projected verdict of admission for a new pod. The rules are evaluated in the order of the steps.

use std::time::Instant;

use headroom_domain::amounts::Amounts;
use headroom_proto::v1alpha1::QuotaVerdict;
use headroom_rules::{
    pod_quota::{Membership, QuotaCheckError, check, evaluated, is_limited, levels},
    quota::QuotaTree,
};

use crate::store::{
    caller::ReviewCaller,
    lookup::{QuotaLookup as _, QuotaUsageLookup as _},
    quota_levels::QuotaLevels,
    quota_request::{PodGroup, PodName, QuotaRequest},
    quota_view::{Evaluation, QuotaBehaviour, QuotaView},
};

/// A pod that might be created.
pub(super) struct NewPod<'p> {
    pub(super) pod: PodName,
    pub(super) membership: Membership<'p>,
    pub(super) requested: Amounts,
}

/// Verdict on the pod.
pub(super) fn evaluate(view: &QuotaView, behaviour: &QuotaBehaviour, new_pod: &NewPod<'_>) -> QuotaVerdict {
    let [quotas, pods] = view.sources();
    if !quotas.is_known {
        return verdict("unknown", Vec::new());
    }
    let (mut of_parents, mut compared) = (None, Ok(None));
    view.of_pods().visit_tree(&mut |tree| {
        let NewPod { pod, membership, .. } = new_pod;
        let parents = behaviour.parents;
        let refused = check(&pod.name, *membership, None, parents, tree, &behaviour.switches);
        of_parents = refused.map(|(text, _)| text);
        compared = compare(behaviour, new_pod, tree);
    });
    let mut reasons: Vec<String> = of_parents.into_iter().collect();
    let result = match compared {
        Err(text) => {
            reasons.push(text);
            "refused"
        }
        Ok(_) if behaviour.evaluation == Evaluation::Off => "off",
        Ok(None) => "unlimited",
        Ok(Some(_)) if !pods.is_known => "unknown",
        Ok(Some(compared)) => match compared.check(view, behaviour) {
            None => "unknown",
            Some(Ok(())) => "room",
            Some(Err(error)) => {
                reasons.push(error.sentence());
                "refused"
            }
        },
    };
    verdict(if reasons.is_empty() { result } else { "refused" }, reasons)
}

fn verdict(result: &str, reasons: Vec<String>) -> QuotaVerdict {
    QuotaVerdict {
        result: result.to_owned(),
        reasons,
    }
}

/// Pod with the quotas that it is compared with.
struct Compared {
    levels: QuotaLevels,
    request: QuotaRequest,
}

/// The quotas that the pod is compared with; `None` if with none.
fn compare(
    behaviour: &QuotaBehaviour,
    new_pod: &NewPod<'_>,
    tree: &dyn QuotaTree,
) -> Result<Option<Compared>, String> {
    let NewPod {
        pod,
        membership,
        requested,
    } = new_pod;
    let name = membership.quota(tree);
    if behaviour.evaluation == Evaluation::Off || !is_limited(&name) {
        return Ok(None);
    }
    let quota = evaluated(&name, tree).map_err(|error| error.to_string())?;
    let levels = levels(quota, requested, None, tree, &behaviour.switches);
    let levels = QuotaLevels::new(levels, membership.has_default, tree);
    let request = QuotaRequest {
        pod: pod.clone(),
        uid: Box::default(),
        group: PodGroup::new(membership.label(), membership.namespace),
        requested: requested.clone(),
        replaced: 0,
        levels: levels.groups(),
        resources: levels.resources(),
        transformation: behaviour.transformation,
        controller: Box::default(),
        caller: ReviewCaller::Unverified,
    };
    Ok(Some(Compared { levels, request }))
}

impl Compared {
    /// Checks for quota left beyond all other pods; `None` while not all pods are known.
    fn check(&self, view: &QuotaView, behaviour: &QuotaBehaviour) -> Option<Result<(), QuotaCheckError>> {
        let Self { levels, request } = self;
        let used = view.pod_usage.usage(request, Instant::now())?;
        let noted = levels.noted(view.quotas.as_ref(), &behaviour.switches);
        Some(levels.check(&used, &noted, &behaviour.switches))
    }
}
