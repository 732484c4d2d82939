//! Writes Node conditions that explain an allocatable below the hint's or the administrator's request:
//! [`names::BRAKED`], [`names::CLAMPED`] and [`names::RATIO_OWNER_CONFLICT`]. The step `amplify` calls it.
//!
//! The conditions are part of the write that is being decided and change only with the values that it applies, so they
//! cost no write of their own. A transition has the time of day at which a replica writes it. Once it is stored, no replica
//! moves it while the status stays. From then on `lastHeartbeatTime` follows the Ready heartbeat of the writes, which is the
//! same for all replicas, and which the step `quiet` passes over.
//!
//! Any client that may write the status can replace the list of conditions, with an old copy or without ours. Therefore
//! the stored conditions count, and those of the write only where none is stored.

use headroom_domain::{
    capacity::{Decision, ResourceDecision, Why},
    hint::{Brake, Contradiction, EffectiveHint, Note, Origin},
    names,
    policy::Mode,
    resource::Resource,
};
use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::admission::{
    draft::{Draft, Fields as _, Tree},
    endpoints::node_fields::{CONDITIONS, HEARTBEAT},
    error::StepError,
};

/// A condition of a Node; members that are not ours to know are kept.
type ConditionObject = Map<String, Value>;

const OURS: [&str; 3] = [names::BRAKED, names::CLAMPED, names::RATIO_OWNER_CONFLICT];
const TRANSITION: &str = names::LAST_TRANSITION_TIME;

/// Text of a condition; no reason means that the condition is false.
struct ConditionText {
    kind: &'static str,
    /// Reason and message.
    complaint: Option<(String, String)>,
    /// The reason where there is nothing to complain about.
    fine: &'static str,
}

/// Inputs of the conditions.
pub(super) struct ConditionInputs<'a> {
    pub(super) decision: &'a Decision,
    pub(super) mode: Mode,
    pub(super) hint: Option<&'a EffectiveHint>,
    /// True while another controller keeps writing our ratio.
    pub(super) is_contested: Option<bool>,
    /// The Ready heartbeat of the write.
    pub(super) heartbeat: Option<&'a str>,
    pub(super) now: Timestamp,
}

/// Brings the conditions up to date in the write that is being decided, in a mode that asks hints; removes them in other
/// modes.
pub(super) fn write(draft: &mut Draft<'_>, grounds: &ConditionInputs<'_>) -> Result<(), StepError> {
    let ConditionInputs {
        decision,
        mode,
        hint,
        is_contested,
        heartbeat,
        now,
    } = *grounds;
    let mut wanted = Vec::new();
    let asks_hints = matches!(mode, Mode::Guard | Mode::Auto);
    if asks_hints {
        wanted.push(braked(decision, hint.map(|found| &found.note)));
        // An annotation contains the applied ratio, within bounds: only the agent's own replica knows if more was
        // requested. Its condition stays, or the replicas would overwrite each other's.
        if hint.is_some_and(|found| found.origin == Origin::Stream) {
            wanted.push(clamped(decision));
        }
        if let Some(is_contested) = is_contested {
            wanted.push(contested(is_contested && mode == Mode::Auto));
        }
    }
    let stored = stored(draft);
    // Of most nodes there is nothing to complain about, and never was.
    let has_complaint = wanted.iter().any(|text| text.complaint.is_some());
    if !has_complaint && stored.is_empty() && !may_have_ours(draft) {
        return Ok(());
    }
    change(draft, |conditions| {
        if asks_hints {
            put_back(conditions, stored);
        } else {
            conditions.retain(|condition| !OURS.contains(&kind(condition)));
        }
        for text in wanted {
            set(conditions, text, now);
        }
        renew(conditions, heartbeat);
    })
}

/// Keeps the stored conditions in a write for which they cannot be decided.
pub(super) fn keep(draft: &mut Draft<'_>) -> Result<(), StepError> {
    let stored = stored(draft);
    if stored.is_empty() {
        return Ok(());
    }
    change(draft, |conditions| put_back(conditions, stored))
}

/// Changes the list of conditions in the write.
fn change(draft: &mut Draft<'_>, change: impl FnOnce(&mut Vec<ConditionObject>)) -> Result<(), StepError> {
    let sent = draft
        .read::<Vec<ConditionObject>>(&CONDITIONS)
        .map_err(|source| StepError::Read {
            field: CONDITIONS.join("."),
            source,
        })?;
    let before = sent.unwrap_or_default();
    let mut after = before.clone();
    change(&mut after);
    if after != before {
        draft.set(&CONDITIONS, Value::from_iter(after))?;
    }
    Ok(())
}

/// Our conditions of the stored object, each with its position in the list. An unreadable one counts as missing.
fn stored(draft: &Draft<'_>) -> Vec<(usize, ConditionObject)> {
    let is_ours = |condition: &Tree<'_>| {
        let kind = condition.read_text(&["type"]);
        kind.is_some_and(|kind| OURS.contains(&kind.as_ref()))
    };
    let Some(old) = draft.old() else {
        return Vec::new();
    };
    old.with_elements(&CONDITIONS, |conditions| {
        let ours = conditions
            .iter()
            .enumerate()
            .filter(|(_, condition)| is_ours(condition));
        ours.filter_map(|(at, condition)| Some((at, condition.read(&[]).ok()??)))
            .collect()
    })
}

/// Replaces our conditions in the list by the stored ones, and adds those that the list lacks at their positions.
fn put_back(conditions: &mut Vec<ConditionObject>, stored: Vec<(usize, ConditionObject)>) {
    for (at, stored) in stored {
        let name = kind(&stored);
        match conditions.iter_mut().find(|condition| kind(condition) == name) {
            Some(sent) => *sent = stored,
            None => conditions.insert(at.min(conditions.len()), stored),
        }
    }
}

/// True if the object has a condition of ours, or no conditions, or a condition without a type.
fn may_have_ours(draft: &Draft<'_>) -> bool {
    let is_others = |condition: &Tree<'_>| {
        let kind = condition.read_text(&["type"]);
        kind.is_some_and(|kind| !OURS.contains(&kind.as_ref()))
    };
    draft.with_elements(&CONDITIONS, |conditions| {
        conditions.is_empty() || !conditions.iter().all(is_others)
    })
}

/// Consequence of each brake, and of each resource without measurements.
fn braked(decision: &Decision, note: Option<&Note>) -> ConditionText {
    let complaints = Resource::ALL.into_iter().filter_map(|resource| {
        let ResourceDecision { why, .. } = decision.outcomes.get(resource);
        let brake = note.map(|note| note.resources().get(resource).brake());
        let quarantine = why.iter().find_map(|why| why.contradiction());
        let (word, means) = match brake {
            _ if quarantine.is_some() => ("Quarantined", quarantined(quarantine?)),
            Some(Brake::Hold) => ("Hold", "is not raised"),
            Some(Brake::Shed) => ("Shed", "is lowered step by step"),
            Some(Brake::Stop) => ("Stop", "is not amplified"),
            Some(Brake::Off) | None if why.contains(&Why::Blind) && is_held(why) => {
                ("Blind", "is not amplified, because its agent has no measurements")
            }
            Some(Brake::Off) | None => return None,
        };
        let kept = if is_held(why) {
            "; requests of its admitted pods stay covered"
        } else {
            ""
        };
        Some((
            format!("{}{word}", title(resource)),
            format!("{resource} {means}{kept}"),
        ))
    });
    ConditionText {
        kind: names::BRAKED,
        complaint: joined(complaints),
        fine: "NotBraked",
    }
}

/// True if pods hold the value up.
fn is_held(why: &[Why]) -> bool {
    why.iter()
        .any(|why| matches!(why, Why::FloorAdmitted | Why::FloorFit | Why::FloorPlaces))
}

const fn quarantined(contradiction: Contradiction) -> &'static str {
    match contradiction {
        Contradiction::Capacity => {
            "is not amplified, because its agent and its kubelet report different machines"
        }
        Contradiction::MemoryPressure => {
            "is not amplified, because its kubelet reports memory pressure and its agent does not"
        }
        Contradiction::Use => "is not amplified, because its agent reports far less use than its kubelet",
        Contradiction::EarlierBoot => {
            "is not amplified, because its agent sent a report from a boot that had ended"
        }
    }
}

/// Of each resource that a bound holds, which one.
fn clamped(decision: &Decision) -> ConditionText {
    let complaints = Resource::ALL.into_iter().filter_map(|resource| {
        let ResourceDecision { why, .. } = decision.outcomes.get(resource);
        let (word, means) = if why.contains(&Why::ClampedMax) {
            ("AboveMax", "has reached its upper bound")
        } else if why.contains(&Why::ClampedMin) {
            ("BelowMin", "has reached its lower bound")
        } else {
            return None;
        };
        Some((
            format!("{}{word}", title(resource)),
            format!("{resource} {means}"),
        ))
    });
    ConditionText {
        kind: names::CLAMPED,
        complaint: joined(complaints),
        fine: "WithinBounds",
    }
}

/// Text for another controller that keeps writing the ratio, with the fix.
fn contested(is_contested: bool) -> ConditionText {
    let complaint = (
        "RatioRewritten".to_owned(),
        format!(
            "another controller keeps writing {}; disable it there (see docs/compatibility.md), or \
             leave mode auto",
            names::RATIO
        ),
    );
    ConditionText {
        kind: names::RATIO_OWNER_CONFLICT,
        complaint: is_contested.then_some(complaint),
        fine: "RatioIsOurs",
    }
}

/// The first reason applies, since a condition has one reason.
fn joined(complaints: impl Iterator<Item = (String, String)>) -> Option<(String, String)> {
    complaints.reduce(|(reason, before), (_, after)| (reason, format!("{before}; {after}")))
}

const fn title(resource: Resource) -> &'static str {
    match resource {
        Resource::Cpu => "Cpu",
        Resource::Memory => "Memory",
    }
}

fn kind(condition: &ConditionObject) -> &str {
    condition.get("type").and_then(Value::as_str).unwrap_or_default()
}

/// A time of the condition, if it can be read.
fn time(condition: &ConditionObject, member: &str) -> Option<Timestamp> {
    condition.get(member)?.as_str()?.parse().ok()
}

/// Sets the condition. A condition that has never been true is not created as false.
fn set(conditions: &mut Vec<ConditionObject>, text: ConditionText, now: Timestamp) {
    let ConditionText {
        kind: name,
        complaint,
        fine,
    } = text;
    let at = conditions.iter().position(|condition| kind(condition) == name);
    let (status, reason, message) = match complaint {
        Some((reason, message)) => ("True", reason, message),
        None if at.is_none() => return,
        None => ("False", fine.to_owned(), String::new()),
    };
    let mut condition = at.map(|at| conditions.remove(at)).unwrap_or_default();
    let is_transition = condition.get("status").is_none_or(|before| before != status);
    if is_transition || time(&condition, TRANSITION).is_none() {
        let now = in_seconds(now);
        condition.insert(TRANSITION.to_owned(), now.clone().into());
        condition.insert(HEARTBEAT.to_owned(), now.into());
    }
    condition.insert("message".to_owned(), message.into());
    condition.insert("reason".to_owned(), reason.into());
    condition.insert("status".to_owned(), status.into());
    condition.insert("type".to_owned(), name.into());
    conditions.insert(at.unwrap_or(conditions.len()), condition);
}

/// A time as the API server keeps those of conditions.
fn in_seconds(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second())
        .unwrap_or(time)
        .to_string()
}

/// Moves the heartbeats of our conditions up to that of the write. None is moved back: a kubelet's clock may be
/// behind ours.
fn renew(conditions: &mut [ConditionObject], heartbeat: Option<&str>) {
    let Some((text, at)) = heartbeat.and_then(|text| Some((text, text.parse::<Timestamp>().ok()?))) else {
        return;
    };
    for condition in conditions {
        let is_older = time(condition, HEARTBEAT).is_none_or(|known| known < at);
        if is_older && OURS.contains(&kind(condition)) {
            condition.insert(HEARTBEAT.to_owned(), text.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use headroom_domain::{hint::NodeHint, ratio::Cents};
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::store::hint_table::tests::hint;

    fn note(cpu: Brake, memory: Brake) -> Note {
        let mut hint: NodeHint = hint("n1", 1);
        (hint.resources.cpu.brake, hint.resources.memory.brake) = (cpu, memory);
        Note::from_hint(&hint)
    }

    fn decision(why: &[Why]) -> Decision {
        let mut decision = Decision::default();
        decision.outcomes.cpu = ResourceDecision {
            ratio: Some(Cents::ONE),
            why: why.to_vec(),
            ..ResourceDecision::default()
        };
        decision
    }

    fn texts(text: ConditionText) -> Option<(String, String)> {
        text.complaint
    }

    #[rstest]
    #[case::nothing(Brake::Off, Brake::Off, &[Why::Hint], None)]
    #[case::stop(Brake::Stop, Brake::Off, &[Why::Braked], Some(("CpuStop", "cpu is not amplified")))]
    #[case::both(Brake::Shed, Brake::Hold, &[Why::Braked],
        Some(("CpuShed", "cpu is lowered step by step; memory is not raised")))]
    #[case::full(Brake::Stop, Brake::Off, &[Why::Braked, Why::FloorAdmitted],
        Some(("CpuStop", "cpu is not amplified; requests of its admitted pods stay covered")))]
    #[case::blind_and_full(Brake::Off, Brake::Off, &[Why::Blind, Why::FloorFit],
        Some(("CpuBlind", "cpu is not amplified, because its agent has no measurements; requests of its admitted pods stay covered")))]
    #[case::in_quarantine(Brake::Stop, Brake::Off, &[Why::QuarantinedUse, Why::Braked],
        Some(("CpuQuarantined", "cpu is not amplified, because its agent reports far less use than its kubelet")))]
    #[case::blind_with_room(Brake::Off, Brake::Off, &[Why::Blind], None)]
    fn a_brake_is_said_with_what_it_means(
        #[case] cpu: Brake,
        #[case] memory: Brake,
        #[case] why: &[Why],
        #[case] expected: Option<(&str, &str)>,
    ) {
        let text = texts(braked(&decision(why), Some(&note(cpu, memory))));
        let text = text
            .as_ref()
            .map(|(reason, message)| (reason.as_str(), message.as_str()));
        assert_eq!(text, expected);
    }

    #[rstest]
    #[case(&[Why::Hint], None)]
    #[case(&[Why::Hint, Why::ClampedMax], Some("CpuAboveMax"))]
    #[case(&[Why::Hint, Why::ClampedMin], Some("CpuBelowMin"))]
    fn a_bound_that_holds_is_said(#[case] why: &[Why], #[case] expected: Option<&str>) {
        let text = texts(clamped(&decision(why)));
        assert_eq!(text.map(|(reason, _)| reason).as_deref(), expected);
    }

    /// The times of a day on which this is tested.
    fn at(minute: i64) -> Timestamp {
        Timestamp::from_millisecond(1_790_000_000_500 + minute * 60_000).unwrap()
    }

    fn complaint(reason: Option<&str>) -> ConditionText {
        ConditionText {
            kind: names::BRAKED,
            complaint: reason.map(|reason| (reason.to_owned(), String::new())),
            fine: "NotBraked",
        }
    }

    /// Status, reason, transition and heartbeat of a condition.
    fn members(condition: &ConditionObject) -> [Option<&str>; 4] {
        ["status", "reason", TRANSITION, HEARTBEAT].map(|name| condition.get(name)?.as_str())
    }

    #[test]
    fn a_condition_comes_with_the_first_complaint_and_its_time_moves_with_its_status() {
        let mut conditions = Vec::new();
        let mut is = |reason, minute, expected: Option<(&str, &str, &str)>| {
            set(&mut conditions, complaint(reason), at(minute));
            let expected = expected.map(|(status, reason, time)| [status, reason, time, time].map(Some));
            assert_eq!(conditions.last().map(members), expected, "{minute}");
        };
        is(None, 0, None);
        is(
            Some("CpuStop"),
            1,
            Some(("True", "CpuStop", "2026-09-21T14:14:20Z")),
        );
        is(
            Some("CpuHold"),
            2,
            Some(("True", "CpuHold", "2026-09-21T14:14:20Z")),
        );
        is(None, 3, Some(("False", "NotBraked", "2026-09-21T14:16:20Z")));
        is(None, 4, Some(("False", "NotBraked", "2026-09-21T14:16:20Z")));
        is(
            Some("CpuStop"),
            5,
            Some(("True", "CpuStop", "2026-09-21T14:18:20Z")),
        );
    }

    #[test]
    fn heartbeats_of_our_conditions_follow_those_of_the_write_and_never_go_back() {
        let mut conditions = Vec::new();
        set(&mut conditions, complaint(Some("CpuStop")), at(0));
        let others = json!({"type": "Ready", HEARTBEAT: "2026-09-21T14:00:00Z"});
        conditions.push(others.as_object().unwrap().clone());
        let before = conditions.clone();
        let earlier = [None, Some("soon"), Some("2026-09-21T14:13:19Z")];
        for heartbeat in earlier {
            renew(&mut conditions, heartbeat);
            assert_eq!(conditions, before, "{heartbeat:?}");
        }
        renew(&mut conditions, Some("2026-09-21T14:20:00Z"));
        let [ours, others] = conditions.as_slice() else {
            panic!("two conditions");
        };
        let times = [Some("2026-09-21T14:13:20Z"), Some("2026-09-21T14:20:00Z")];
        assert_eq!(members(ours)[2..], times);
        assert_eq!(others, &before[1]);
    }

    #[test]
    fn times_that_an_earlier_version_left_out_are_added_once() {
        let left = json!({"type": names::BRAKED, "status": "True", TRANSITION: null});
        let mut conditions = vec![left.as_object().unwrap().clone()];
        set(&mut conditions, complaint(Some("CpuStop")), at(0));
        let time = Some("2026-09-21T14:13:20Z");
        assert_eq!(members(&conditions[0])[2..], [time, time]);
        set(&mut conditions, complaint(Some("CpuStop")), at(9));
        assert_eq!(members(&conditions[0])[2..], [time, time]);
        let mut untimely = conditions.clone();
        untimely[0].remove(HEARTBEAT);
        renew(&mut untimely, time);
        assert_eq!(untimely[0], conditions[0]);
    }
}
