//! Turns a kubelet's write that would only renew heartbeats into one that changes nothing.
//!
//! The kubelet of an amplified node finds its own raw values missing at every sync and writes them again. Where all
//! that differs from the stored object in the end are heartbeats, the stored ones go into the patch: the API server
//! then sees no change and writes nothing, and nobody who watches nodes is told. Everything else passes at once, and
//! heartbeats pass when the stored one has reached the interval. It is told from the kubelet's own clock alone.

use std::collections::BTreeSet;

use headroom_domain::{hint::Note, names, resource::Resource};
use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::{
    draft::{Draft, Fields, Tree},
    endpoint::{Ctx, Step, Stop},
    endpoints::node,
    error::StepError,
    metrics,
    review::Operation,
};

pub(super) static STEP: Step = Step {
    name: "quiet",
    gate: super::GATE,
    about: "Turns a status write of an amplified node that renews nothing but heartbeats into no write.",
    reads: &[],
    run: quiet,
};

/// Members of `metadata` that may differ: the API server itself evens out the times of managed fields in a write
/// that changes nothing else.
const BOOKKEEPING: [&str; 2] = ["managedFields", "resourceVersion"];
const HEARTBEAT: &str = "lastHeartbeatTime";
/// Annotations of ours that may differ in what does not count.
const OURS: [&str; 2] = [names::MARKER, names::HINT];
const ANNOTATIONS: [&str; 2] = ["metadata", "annotations"];
const CONDITIONS: [&str; 2] = ["status", "conditions"];
const ALLOCATABLE: [&str; 2] = ["status", "allocatable"];

type Condition = Map<String, Value>;

fn quiet(ctx: &Ctx<'_>, draft: &mut Draft<'_>) -> Result<(), Stop> {
    let is_own_kubelet = names::node_of_user(&ctx.request.user.name) == Some(ctx.request.name.as_str());
    let Some(old) = draft.old().filter(|_| ctx.request.operation == Operation::Update) else {
        return Ok(());
    };
    if !is_own_kubelet || ctx.heartbeat_interval.is_zero() || !is_amplified(old) || !is_amplified(draft) {
        return Ok(());
    }
    let Some(Stored { conditions, members }) = stored(ctx, old, draft)? else {
        return Ok(());
    };
    metrics::HEARTBEATS.with(["quieted"]).increment(1);
    draft.set(&CONDITIONS, conditions).map_err(StepError::Write)?;
    for (path, value) in members {
        match value {
            Some(value) => draft.set(&path, value).map_err(StepError::Write)?,
            None => draft.remove(&path),
        }
    }
    Ok(())
}

/// True for a node on which we have set allocatable.
fn is_amplified(fields: &impl Fields) -> bool {
    node::annotation(fields, names::MARKER).is_some()
}

/// What is stored of what we or heartbeats would change.
struct Stored {
    conditions: Value,
    members: Vec<([&'static str; 3], Option<Value>)>,
}

/// What to put back so that the write changes nothing; `None` if it changes more than heartbeats, or is due.
fn stored(ctx: &Ctx<'_>, old: &Tree<'_>, draft: &Draft<'_>) -> Result<Option<Stored>, StepError> {
    let (was, is) = (conditions(old)?, conditions(draft)?);
    let result = if !is_same_besides_heartbeats(old, draft, &was, &is)? {
        Some("changed")
    } else if is_due(ctx, &was, &is) {
        Some("due")
    } else {
        None
    };
    if let Some(result) = result {
        metrics::HEARTBEATS.with([result]).increment(1);
        return Ok(None);
    }
    let own = OURS.map(|key| [ANNOTATIONS[0], ANNOTATIONS[1], key]);
    let amounts = Resource::ALL.map(|resource| [ALLOCATABLE[0], ALLOCATABLE[1], resource.name()]);
    let members = own.into_iter().chain(amounts);
    Ok(Some(Stored {
        conditions: Value::from_iter(was),
        members: members
            .map(|path| Ok((path, read(old, &path)?)))
            .collect::<Result<_, StepError>>()?,
    }))
}

/// True if the stored Ready heartbeat has reached the interval, and also where that cannot be told: the first write
/// of a kubelet whose clock was set back makes it tell again.
fn is_due(ctx: &Ctx<'_>, was: &[Condition], is: &[Condition]) -> bool {
    let (Some(was), Some(is)) = (ready_heartbeat(was), ready_heartbeat(is)) else {
        return true;
    };
    let age = is.duration_since(was);
    age.is_negative() || age.unsigned_abs() >= ctx.heartbeat_interval
}

fn ready_heartbeat(conditions: &[Condition]) -> Option<Timestamp> {
    let ready = conditions
        .iter()
        .find(|condition| condition.get("type").is_some_and(|kind| kind == "Ready"))?;
    ready.get(HEARTBEAT)?.as_str()?.parse().ok()
}

fn is_same_besides_heartbeats(
    old: &Tree<'_>,
    draft: &Draft<'_>,
    was: &[Condition],
    is: &[Condition],
) -> Result<bool, StepError> {
    let timeless = |condition: &Condition| {
        let mut condition = condition.clone();
        condition.remove(HEARTBEAT);
        condition
    };
    Ok(was.iter().map(timeless).eq(is.iter().map(timeless))
        && is_same_allocatable(old, draft)
        && is_same_annotations(old, draft)?
        && is_same_but(old, draft, &[], &["metadata", "status"])?
        && is_same_but(
            old,
            draft,
            &["metadata"],
            &[&BOOKKEEPING[..], &["annotations"]].concat(),
        )?
        && is_same_but(old, draft, &["status"], &["conditions", "allocatable"])?)
}

/// True if all members of the object at `path` are the stored ones but those of certain names.
fn is_same_but(old: &Tree<'_>, draft: &Draft<'_>, path: &[&str], but: &[&str]) -> Result<bool, StepError> {
    let members: BTreeSet<String> = old.names(path).into_iter().chain(draft.names(path)).collect();
    for member in members.iter().filter(|member| !but.contains(&member.as_str())) {
        let path = [path, &[member]].concat();
        if !draft.is_as_stored(&path) && read(old, &path)? != read(draft, &path)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// True if allocatable has the stored members with the stored values. The API server writes quantities in their
/// canonical form; ours can be another text for the same amount.
fn is_same_allocatable(old: &Tree<'_>, draft: &Draft<'_>) -> bool {
    let was: BTreeSet<String> = old.names(&ALLOCATABLE).into_iter().collect();
    let is: BTreeSet<String> = draft.names(&ALLOCATABLE).into_iter().collect();
    let is_same = |member: &String| {
        let path = [ALLOCATABLE[0], ALLOCATABLE[1], member];
        draft.is_as_stored(&path)
            || Resource::ALL.into_iter().any(|resource| {
                let was = node::quantity(old, "allocatable", resource);
                resource.name() == member
                    && was.is_some()
                    && was == node::quantity(draft, "allocatable", resource)
            })
    };
    was == is && was.iter().all(is_same)
}

/// True if the annotations are the stored ones, but for what ours say of heartbeats and of a hint that still leads
/// to the same allocatable.
fn is_same_annotations(old: &Tree<'_>, draft: &Draft<'_>) -> Result<bool, StepError> {
    let is_same = |key, is_same: fn(&str, &str) -> bool| match (
        node::annotation(old, key),
        node::annotation(draft, key),
    ) {
        (Some(was), Some(is)) => was == is || is_same(&was, &is),
        (was, is) => was == is,
    };
    let [marker, hint] = OURS;
    Ok(is_same(marker, is_same_marker)
        && is_same(hint, is_same_hint)
        && is_same_but(old, draft, &ANNOTATIONS, &OURS)?)
}

/// True if two markers differ in nothing but the heartbeat they were renewed at.
fn is_same_marker(was: &str, is: &str) -> bool {
    let timeless = |text| {
        let mut marker: Map<String, Value> = serde_json::from_str(text).ok()?;
        marker.remove("at");
        Some(marker)
    };
    timeless(was).is_some_and(|was| Some(was) == timeless(is))
}

fn is_same_hint(was: &str, is: &str) -> bool {
    match (was.parse::<Note>(), is.parse::<Note>()) {
        (Ok(was), Ok(is)) => was.says_the_same_as(&is),
        _ => false,
    }
}

fn conditions(fields: &impl Fields) -> Result<Vec<Condition>, StepError> {
    let conditions = fields.read(&CONDITIONS).map_err(|source| StepError::Read {
        field: CONDITIONS.join("."),
        source,
    })?;
    Ok(conditions.unwrap_or_default())
}

fn read(fields: &impl Fields, path: &[&str]) -> Result<Option<Value>, StepError> {
    fields.read(path).map_err(|source| StepError::Read {
        field: path.join("."),
        source,
    })
}
