//! Requests that pass without a review: those that change only finalizers, and mirror pods of a kubelet.

use headroom_domain::names::{self, KubeletIdentity};

use crate::admission::{
    draft::{Draft, Fields},
    endpoint::Pass,
    review::{Operation, Request},
};

impl Pass {
    /// Returns true if the request passes for this reason.
    pub(super) fn applies(self, request: &Request, draft: &Draft<'_>) -> bool {
        match self {
            Self::Finalizers => only_removes_finalizers(request, draft),
            Self::MirrorPods => is_mirror_pod(request, draft),
        }
    }
}

/// True for a mirror pod of a node, written with the credential of that node. Any other user may write the annotation,
/// and gets a review.
fn is_mirror_pod(request: &Request, draft: &Draft<'_>) -> bool {
    let user = &request.user;
    let Some(kubelet) = user.kubelet() else {
        return false;
    };
    let is_node = user.groups.iter().any(|group| group == names::NODES_GROUP);
    is_node
        && is_mirror(draft, kubelet)
        && draft.old().is_none_or(|old| is_mirror(old, kubelet))
        // A value that is too wide to be read is seen as empty.
        && draft.too_wide().is_none()
}

/// Members of `metadata` that may differ in an update that removes finalizers. The API server takes the fields of the
/// deletion from the stored object.
const DELETION_FIELDS: [&str; 5] = [
    "finalizers",
    "managedFields",
    "resourceVersion",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
];

/// True for a mirror pod of a node whose kubelet that is.
fn is_mirror(pod: &impl Fields, kubelet: KubeletIdentity<'_>) -> bool {
    let mark = pod.read_text(&["metadata", "annotations", names::MIRROR]);
    let node = pod.read_text(&["spec", "nodeName"]);
    mark.is_some() && node.is_some_and(|node| !node.is_empty() && kubelet.is_of(&node))
}

/// True for an update of a stored object under deletion that changes only its finalizers. The written object alone
/// proves no deletion: a create by server-side apply may contain a deletion timestamp.
fn only_removes_finalizers(request: &Request, draft: &Draft<'_>) -> bool {
    let Some(old) = draft.old().filter(|_| request.operation == Operation::Update) else {
        return false;
    };
    let mark = old.read_text(&["metadata", "deletionTimestamp"]);
    // An object with a part that cannot be compared gets a review.
    let is_same_but = |path: &[&str], but: &[&str]| draft.is_as_stored_but(path, but).unwrap_or(false);
    mark.is_some_and(|mark| !mark.is_empty())
        && is_same_but(&[], &["metadata"])
        && is_same_but(&["metadata"], &DELETION_FIELDS)
        // A value that is too wide to be read is seen as empty.
        && draft.too_wide().is_none()
}
