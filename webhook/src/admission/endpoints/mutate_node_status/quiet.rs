//! Step `quiet`: turns a kubelet's write that would only renew heartbeats into a write without changes.
//!
//! The kubelet of an amplified node finds its own raw values missing at every sync and writes them again. If only
//! heartbeats differ from the stored object, the patch restores the stored heartbeats: the API server then sees no
//! change, writes nothing, and notifies no watcher of nodes. Every other write passes at once, and heartbeats pass
//! when the stored one has reached the interval. The age of the stored heartbeat comes from the kubelet's own clock
//! alone.

use headroom_domain::{annotation, hint::Note, names, resource::Resource};
use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::admission::{
    draft::{Draft, Fields, Tree},
    endpoint::{Stop, UnknownSource, When},
    endpoints::node_fields::{self, CONDITIONS, HEARTBEAT, NodeCtx, NodeStep},
    error::StepError,
    metrics,
    review::Operation,
};

pub(super) static STEP: NodeStep = NodeStep {
    name: "quiet",
    when: When::On(&super::GATE),
    about: "Drops a status write of an amplified node that changes only heartbeats.",
    reads: &[],
    unknown: UnknownSource::IsHandled,
    run: quiet,
};

/// Members of `metadata` that may differ: the API server itself evens out the times of managed fields in a write
/// that changes nothing else.
const BOOKKEEPING: [&str; 2] = ["managedFields", "resourceVersion"];
/// Annotations of ours that may differ in parts that do not count.
const OURS: [&str; 2] = [names::MARKER, names::HINT];
const ANNOTATIONS: [&str; 2] = ["metadata", "annotations"];
const ALLOCATABLE: [&str; 2] = ["status", "allocatable"];

fn quiet(ctx: &NodeCtx<'_>, draft: &mut Draft<'_>) -> Result<(), Stop> {
    let kubelet = ctx.request.user.kubelet();
    let is_own_kubelet = kubelet.is_some_and(|kubelet| kubelet.is_of(&ctx.request.name));
    let Some(old) = draft.old().filter(|_| ctx.request.operation == Operation::Update) else {
        return Ok(());
    };
    if !is_own_kubelet
        || ctx.store.heartbeat_interval().is_zero()
        || !is_amplified(old)
        || !is_amplified(draft)
    {
        return Ok(());
    }
    let result = if !is_same_besides_heartbeats(old, draft)? {
        "changed"
    } else if is_due(ctx, old, draft) {
        "due"
    } else {
        "quieted"
    };
    metrics::HEARTBEATS.with([result]).increment(1);
    if result != "changed" {
        draft.only_renews();
    }
    if result == "quieted" {
        put_back(draft)?;
    }
    Ok(())
}

/// True for a node on which we have set allocatable.
fn is_amplified(fields: &impl Fields) -> bool {
    node_fields::annotation(fields, names::MARKER).is_some()
}

/// Restores the values that we or heartbeats would change.
fn put_back(draft: &mut Draft<'_>) -> Result<(), StepError> {
    draft.put_back(&CONDITIONS)?;
    for key in OURS {
        draft.put_back(&node_fields::annotation_path(key))?;
    }
    for resource in Resource::ALL {
        draft.put_back(&[ALLOCATABLE[0], ALLOCATABLE[1], resource.name()])?;
    }
    Ok(())
}

/// True if the stored Ready heartbeat has reached the interval, and also if its age is unknown: the first write of a
/// kubelet whose clock was set back makes it known again.
fn is_due(ctx: &NodeCtx<'_>, old: &Tree<'_>, draft: &Draft<'_>) -> bool {
    let (Some(was), Some(is)) = (ready_heartbeat(old), ready_heartbeat(draft)) else {
        return true;
    };
    let age = is.duration_since(was);
    age.is_negative() || age.unsigned_abs() >= ctx.store.heartbeat_interval()
}

fn ready_heartbeat(fields: &impl Fields) -> Option<Timestamp> {
    node_fields::ready_heartbeat(fields)?.parse().ok()
}

fn is_same_besides_heartbeats(old: &Tree<'_>, draft: &Draft<'_>) -> Result<bool, StepError> {
    Ok(is_same_conditions(old, draft)?
        && is_same_allocatable(old, draft)?
        && is_same_annotations(old, draft)?
        && is_same_but(draft, &[], &["metadata", "status"])?
        && is_same_but(
            draft,
            &["metadata"],
            &[&BOOKKEEPING[..], &["annotations"]].concat(),
        )?
        && is_same_but(draft, &["status"], &["conditions", "allocatable"])?)
}

/// True if all members of the object at `path` are the stored ones but those of certain names.
fn is_same_but(draft: &Draft<'_>, path: &[&str], but: &[&str]) -> Result<bool, StepError> {
    draft
        .is_as_stored_but(path, but)
        .map_err(|source| StepError::Read {
            field: path.join("."),
            source,
        })
}

/// True if the conditions are the stored ones in the stored order, heartbeats aside.
fn is_same_conditions(old: &Tree<'_>, draft: &Draft<'_>) -> Result<bool, StepError> {
    old.with_elements(&CONDITIONS, |was| {
        draft.with_elements(&CONDITIONS, |is| {
            let mut pairs = was.iter().zip(is);
            let differing = pairs.find_map(|(was, is)| match is.is_same_but(was, &[HEARTBEAT]) {
                Ok(true) => None,
                Ok(false) => Some(Ok(())),
                Err(source) => Some(Err(source)),
            });
            Ok(was.len() == is.len() && differing.transpose()?.is_none())
        })
    })
    .map_err(|source| StepError::Read {
        field: CONDITIONS.join("."),
        source,
    })
}

/// True if allocatable has the stored members with the stored values. The API server writes quantities in their
/// canonical form; ours can be another text for the same amount.
fn is_same_allocatable(old: &Tree<'_>, draft: &Draft<'_>) -> Result<bool, StepError> {
    let is_same = |resource: Resource| {
        let was = node_fields::quantity(old, ALLOCATABLE[1], resource);
        draft.is_as_stored(&[ALLOCATABLE[0], ALLOCATABLE[1], resource.name()])
            || (was.is_some() && was == node_fields::quantity(draft, ALLOCATABLE[1], resource))
    };
    Ok(Resource::ALL.into_iter().all(is_same)
        && is_same_but(draft, &ALLOCATABLE, &Resource::ALL.map(Resource::name))?)
}

/// True if the annotations equal the stored ones, except for heartbeats in ours and for a hint that gives the same
/// allocatable.
fn is_same_annotations(old: &Tree<'_>, draft: &Draft<'_>) -> Result<bool, StepError> {
    let is_same = |key, is_same: fn(&str, &str) -> bool| match (
        node_fields::annotation(old, key),
        node_fields::annotation(draft, key),
    ) {
        (Some(was), Some(is)) => was == is || is_same(&was, &is),
        (was, is) => was == is,
    };
    let [marker, hint] = OURS;
    Ok(is_same(marker, is_same_marker)
        && is_same(hint, is_same_hint)
        && is_same_but(draft, &ANNOTATIONS, &OURS)?)
}

/// True if two markers differ only in the heartbeat of their renewal.
fn is_same_marker(was: &str, is: &str) -> bool {
    if was.len().max(is.len()) > annotation::LONGEST {
        return false;
    }
    let timeless = |text: &str| {
        let mut marker: Map<String, Value> = serde_json::from_str(text).ok()?;
        marker.remove("at");
        Some(marker)
    };
    // Of two that go on alike one can be read if the other can.
    if let (Some(was), Some(rest)) = (behind_heartbeat(was), behind_heartbeat(is))
        && was == rest
    {
        return timeless(is).is_some();
    }
    timeless(was).is_some_and(|was| Some(was) == timeless(is))
}

/// Rest of a marker that begins with a heartbeat, as ours do.
fn behind_heartbeat(marker: &str) -> Option<&str> {
    let (heartbeat, rest) = marker.strip_prefix(r#"{"at":""#)?.split_once('"')?;
    let is_plain = |byte: u8| byte.is_ascii_graphic() && byte != b'\\';
    heartbeat.bytes().all(is_plain).then_some(rest)
}

fn is_same_hint(was: &str, is: &str) -> bool {
    match (was.parse::<Note>(), is.parse::<Note>()) {
        (Ok(was), Ok(is)) => was.has_same_effect_as(&is),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const MARKER: &str = r#"{"at":"t0","cpu":"6","from":{},"uid":"u"}"#;

    #[rstest]
    #[case::the_same(MARKER, true)]
    #[case::another_heartbeat(r#"{"at":"t1","cpu":"6","from":{},"uid":"u"}"#, true)]
    #[case::no_heartbeat(r#"{"cpu":"6","from":{},"uid":"u"}"#, true)]
    #[case::in_other_words(r#"{"uid":"u", "cpu":"\u0036","from":{},"at":7}"#, true)]
    #[case::another_value(r#"{"at":"t1","cpu":"7","from":{},"uid":"u"}"#, false)]
    #[case::a_member_more(r#"{"at":"t1","cpu":"6","from":{},"uid":"u","x":0}"#, false)]
    #[case::an_escaped_quote(r#"{"at":"t1\","cpu":"6","from":{},"uid":"u"}"#, false)]
    #[case::a_line_break("{\"at\":\"t\n1\",\"cpu\":\"6\",\"from\":{},\"uid\":\"u\"}", false)]
    #[case::no_marker(r#"{"at":"t1""#, false)]
    fn a_marker_is_the_same_whatever_heartbeat_it_has(#[case] other: &str, #[case] is_same: bool) {
        assert_eq!(is_same_marker(MARKER, other), is_same);
        assert_eq!(is_same_marker(other, MARKER), is_same);
    }

    #[test]
    fn markers_that_cannot_be_read_are_not_the_same() {
        let cut = |at: &str| format!(r#"{{"at":"{at}","cpu":"6""#);
        assert!(!is_same_marker(&cut("t0"), &cut("t1")));
        let long = |at: &str| MARKER.replace("t0", at) + &" ".repeat(annotation::LONGEST);
        assert!(!is_same_marker(&long("t0"), &long("t1")));
    }
}
