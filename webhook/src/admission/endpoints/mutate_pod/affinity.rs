//! Step `affinity`: has a Pod of a quota tree run on the nodes of the tree.

use headroom_kit::gate::Gate;
use headroom_rules::pod_quota::{TREE_NAMESPACE, require, root_namespace, tree_quota};

use crate::{
    admission::{
        draft::Draft,
        endpoint::{Stop, UnknownSource, When},
        endpoints::{
            pod_membership::PodLabels,
            pod_types::{PodCtx, PodStep},
        },
        error::StepError,
        review::Operation,
    },
    store::sources,
};

static GATE: Gate = Gate::alpha(
    "MultiQuotaTree",
    "Restricts pods of a quota tree to the nodes that the ElasticQuotaProfile of the tree selects.",
);

pub(super) static STEP: PodStep = PodStep {
    name: "affinity",
    when: When::On(&GATE),
    about: "Adds the nodes of its quota tree to the required node affinity of a new pod.",
    reads: &[&sources::QUOTAS, &sources::QUOTA_TREES],
    unknown: UnknownSource::FailsCreation,
    run: add_nodes,
};

/// The spec of a stored Pod cannot be changed, so this is for new ones.
fn add_nodes(ctx: &PodCtx<'_>, draft: &mut Draft<'_>) -> Result<(), Stop> {
    if ctx.request.operation != Operation::Create {
        return Ok(());
    }
    let labels = PodLabels::read(ctx, draft)?;
    let quotas = &ctx.store.quotas;
    let (mut quota, mut root) = (None, None);
    quotas.tree.visit_tree(&mut |tree| {
        quota = tree_quota(labels.membership(&ctx.request.namespace), tree, ctx.switches);
        root = quota.as_ref().and_then(|quota| root_namespace(quota, tree));
    });
    let tree = quota.filter(|quota| !quota.tree_id.is_empty());
    let nodes = tree.and_then(|quota| {
        let namespace = if ctx.switches.is_on(&TREE_NAMESPACE) {
            Some(root?)
        } else {
            None
        };
        quotas.nodes.nodes(&quota.tree_id, namespace.as_deref())
    });
    let Some(nodes) = nodes else {
        return Ok(());
    };
    let added: Result<(), StepError> = draft.rewrite(&["spec", "affinity"], |affinity| {
        require(affinity, &nodes, ctx.switches).map_err(StepError::from)
    });
    Ok(added?)
}
