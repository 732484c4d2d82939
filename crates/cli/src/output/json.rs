//! Renders nodes and reports as JSON: flat objects of integers, with the unit in the key. An unknown value is `null`.

use headroom_domain::{
    hint::{Beginning, NodeHint, ResourceHint, Signal},
    policy::{Bounds, InForce, Mode, Policy},
    resource::{PerResource, Resource},
};
use serde_json::{Map, Value, json};

use super::numbers::{calibration, highs, progress, words};
use crate::view::{Hint, NodeView, freshness, source};

/// Renders the row of a node.
pub fn row(node: &NodeView) -> Value {
    Value::Object(members(node))
}

pub(crate) fn members(node: &NodeView) -> Map<String, Value> {
    let NodeView {
        name,
        uid,
        policy: _,
        policy_refused: _,
        floor_trouble: _,
        hint,
        raw: _,
        allocatable: _,
        projected: _,
        bound: _,
        pods,
        rules: _,
        places: _,
    } = node;
    let hint = hint.as_ref();
    let past = hint.and_then(|hint| hint.report.past);
    let of_node = [
        ("node", json!(name)),
        ("uid", json!(uid)),
        ("mode", json!(node.mode().map(Mode::name))),
        ("pods", json!(pods)),
        ("source", json!(hint.map(|hint| source(hint.report.sight)))),
        ("sight", json!(hint.map(|hint| hint.report.sight.name()))),
        ("timing", json!(hint.map(|hint| hint.report.timing.name()))),
        ("hint_age_ms", json!(hint.map(age_ms))),
        ("history_age_s", json!(past.map(|past| past.age_s))),
        (
            "history_beginning",
            json!(past.and_then(|past| past.beginning).map(Beginning::name)),
        ),
        ("hint_standing", json!(hint.map(|hint| freshness(hint.freshness)))),
    ];
    let of_node = of_node.map(|(key, value)| (key.to_owned(), value));
    of_node
        .into_iter()
        .chain(
            Resource::ALL
                .into_iter()
                .flat_map(|resource| of_resource(node, resource)),
        )
        .collect()
}

/// Renders the figures of one resource.
fn of_resource(node: &NodeView, resource: Resource) -> [(String, Value); 12] {
    let NodeView {
        raw,
        allocatable,
        projected,
        bound,
        ..
    } = node;
    let (word, unit) = words(resource);
    let part = node.hint.as_ref().map(|hint| hint.report.resources.get(resource));
    let of = |amounts: &Option<PerResource<u64>>| json!(amounts.map(|of| *of.get(resource)));
    let free = node.free(resource).and_then(|free| i64::try_from(free).ok());
    [
        (format!("{word}_used_{unit}"), json!(node.used(resource))),
        (format!("{word}_peak_{unit}"), json!(node.peak(resource))),
        (
            format!("ratio_{word}_cents"),
            json!(node.ratio(resource).map(|cents| cents.0)),
        ),
        (format!("raw_{word}_{unit}"), of(raw)),
        (format!("allocatable_{word}_{unit}"), of(allocatable)),
        (format!("would_be_{word}_{unit}"), of(projected)),
        (
            format!("would_be_ratio_{word}_cents"),
            json!(node.projected_ratio(resource).map(|cents| cents.0)),
        ),
        (format!("bound_{word}_{unit}"), of(bound)),
        (format!("free_{word}_{unit}"), json!(free)),
        (
            format!("brake_{word}"),
            json!(part.map(|part| part.brake.level())),
        ),
        (format!("reasons_{word}"), json!(part.map(|part| &part.reasons))),
        (format!("why_{word}"), json!(node.why(resource))),
    ]
}

fn age_ms(hint: &Hint) -> u64 {
    u64::try_from(hint.age.as_millis()).unwrap_or(u64::MAX)
}

pub(crate) fn policy(in_force: &InForce) -> Value {
    let InForce {
        policy:
            Policy {
                mode,
                bounds,
                static_max,
                floor,
                annotations,
                target_ppm,
            },
        mode_from,
        entry,
    } = in_force;
    let mut members = Map::new();
    for (key, value) in [
        ("mode", json!(mode.name())),
        ("mode_from", json!(mode_from.name())),
        ("entry", json!(entry)),
        ("floor", json!(floor.name())),
        ("annotations", json!(annotations.name())),
    ] {
        members.insert(key.to_owned(), value);
    }
    for resource in Resource::ALL {
        let Bounds { min, max } = *bounds.get(resource);
        let of_resource = json!({
            "min_cents": min.0,
            "max_cents": max.0,
            "target_ppm": target_ppm.get(resource),
            "static_max_cents": static_max.get(resource).0,
        });
        members.insert(resource.name().to_owned(), of_resource);
    }
    Value::Object(members)
}

/// Renders all fields of a report, and its age.
pub fn report(hint: &Hint) -> Value {
    let NodeHint {
        node,
        node_uid,
        boot_id,
        seq,
        is_primary,
        pods_generation,
        sight,
        timing,
        is_draining,
        resources,
        // Left out of lists; the agent's debug service has it.
        trust: _,
        past,
        steal_ppm,
        signals,
        // Not kept by the table of hints.
        frame_use: _,
    } = &hint.report;
    json!({
        "node": node,
        "node_uid": node_uid,
        "boot_id": boot_id,
        "seq": seq,
        "primary": is_primary,
        "pods_generation": pods_generation,
        "sight": sight.name(),
        "timing": timing.name(),
        "history_age_s": past.map(|past| past.age_s),
        "history_beginning": past.and_then(|past| past.beginning).map(Beginning::name),
        "draining": is_draining,
        "age_ms": age_ms(hint),
        "standing": freshness(hint.freshness),
        "cpu": resource_hint(Resource::Cpu, &resources.cpu),
        "memory": resource_hint(Resource::Memory, &resources.memory),
        "steal_ppm": steal_ppm,
        "signals": measured(signals),
    })
}

fn resource_hint(resource: Resource, part: &ResourceHint) -> Value {
    let ResourceHint {
        capacity,
        isolated,
        usage,
        peak,
        predicted_peak,
        warm_requests,
        published,
        target,
        coverage_ppm,
        margin_ppm,
        brake,
        reasons,
        peak_age_frames,
        highs: parts,
        calibration: margin,
        progress: moved,
    } = part;
    let (_, unit) = words(resource);
    let mut members = Map::new();
    for (term, value) in [
        ("capacity", capacity),
        ("isolated", isolated),
        ("usage", usage),
        ("peak_p0", peak),
        ("predicted_peak", predicted_peak),
        ("warm_requests", warm_requests),
    ] {
        members.insert(format!("{term}_{unit}"), json!(value));
    }
    for (term, value) in [
        ("peak_age_frames", json!(peak_age_frames)),
        ("published_cents", json!(published.0)),
        ("target_cents", json!(target.0)),
        ("coverage_ppm", json!(coverage_ppm)),
        ("margin_ppm", json!(margin_ppm)),
        ("brake", json!(brake.level())),
        ("reasons", json!(reasons)),
    ] {
        members.insert(term.to_owned(), value);
    }
    members.extend(highs(resource, *parts));
    members.extend(calibration(*margin));
    members.extend(progress(*moved));
    Value::Object(members)
}

/// Renders the signals that were measured last, in the order of the agent's table.
pub(crate) fn measured(signals: &[Signal]) -> Value {
    let signal = |signal: &Signal| {
        let Signal { name, unit, value } = signal;
        json!({"name": name, "unit": unit, "value": value})
    };
    signals.iter().map(signal).collect()
}
