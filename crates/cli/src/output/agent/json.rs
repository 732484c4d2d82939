//! An agent's answers as JSON: integers, with the unit in the key or beside it; `null` where something is not known.

use headroom_domain::resource::Resource;
use headroom_proto::v1alpha1::{
    AgentAck, AgentBucket, AgentHistogram, AgentPod, AgentPodCounts, AgentPodUse, AgentProgram,
    AgentResource, AgentSignal, AgentStatus, AgentStream, Amounts,
};
use serde_json::{Value, json};

/// The whole status.
pub fn status(status: &AgentStatus) -> Value {
    let AgentStatus {
        node,
        node_uid,
        boot_id,
        version,
        mode,
        mode_sentence,
        timing,
        source,
        programs,
        resources,
        pods,
        seq,
        generation,
        streams,
        signals,
    } = status;
    let AgentPodCounts {
        tracked,
        untracked,
        unreadable,
    } = pods.unwrap_or_default();
    json!({
        "node": node,
        "node_uid": known(node_uid),
        "boot_id": boot_id,
        "version": version,
        "mode": mode,
        "mode_sentence": mode_sentence,
        "timing": timing,
        "source": source,
        "programs": programs.iter().map(program).collect::<Value>(),
        "resources": resources.iter().map(resource).collect::<Value>(),
        "pods": {"tracked": tracked, "untracked": untracked, "unreadable": unreadable},
        "seq": seq,
        "generation": generation,
        "streams": streams.iter().map(stream).collect::<Value>(),
        "signals": signals.iter().map(signal).collect::<Value>(),
    })
}

/// One signal.
pub fn signal(signal: &AgentSignal) -> Value {
    let AgentSignal {
        name,
        source,
        health,
        unit,
        value,
        missing,
    } = signal;
    json!({
        "name": name,
        "source": source,
        "health": health,
        "unit": unit,
        "value": value,
        "missing": known(missing),
    })
}

/// One pod.
pub fn pod(pod: &AgentPod) -> Value {
    let AgentPod {
        uid,
        used,
        request,
        trust_ppm,
        exclusive_cpus_milli,
        deleting,
    } = pod;
    let used = used.map(|used| {
        let AgentPodUse {
            cpu_milli,
            memory_low_bytes,
            memory_high_bytes,
        } = used;
        json!({
            "cpu_milli": cpu_milli,
            "memory_low_bytes": memory_low_bytes,
            "memory_high_bytes": memory_high_bytes,
        })
    });
    let request = request.map(|request| {
        let Amounts {
            cpu_milli,
            memory_bytes,
        } = request;
        json!({"cpu_milli": cpu_milli, "memory_bytes": memory_bytes})
    });
    json!({
        "uid": uid,
        "used": used,
        "request": request,
        "trust_ppm": trust_ppm,
        "exclusive_cpus_milli": exclusive_cpus_milli,
        "deleting": deleting,
    })
}

/// One distribution.
pub fn histogram(histogram: &AgentHistogram) -> Value {
    let AgentHistogram {
        metric,
        about,
        unit,
        buckets,
    } = histogram;
    let bucket = |bucket: &AgentBucket| {
        let AgentBucket { upper, count } = bucket;
        json!({"upper": upper, "count": count})
    };
    json!({
        "metric": metric,
        "about": about,
        "unit": unit,
        "buckets": buckets.iter().map(bucket).collect::<Value>(),
    })
}

fn program(program: &AgentProgram) -> Value {
    let AgentProgram {
        hook,
        health,
        flavour,
        reason,
        runs,
        run_time_ns,
        verifier_log,
    } = program;
    json!({
        "hook": hook,
        "health": health,
        "flavour": known(flavour),
        "reason": known(reason),
        "runs": runs,
        "run_time_ns": run_time_ns,
        "verifier_log": known(verifier_log),
    })
}

fn resource(resource: &AgentResource) -> Value {
    let AgentResource {
        name,
        capacity,
        raw,
        safe,
        peak,
        predicted_peak,
        warm_requests,
        bound,
        slack,
        target_cents,
        published_cents,
        coverage_ppm,
        margin_ppm,
        brake,
        reasons,
    } = resource;
    let unit = if name == Resource::Memory.name() {
        "bytes"
    } else {
        "milli"
    };
    json!({
        "name": name,
        "unit": unit,
        "capacity": capacity,
        "raw": raw,
        "safe": safe,
        "peak": peak,
        "predicted_peak": predicted_peak,
        "warm_requests": warm_requests,
        "bound": bound,
        "slack": slack,
        "target_cents": target_cents,
        "published_cents": published_cents,
        "coverage_ppm": coverage_ppm,
        "margin_ppm": margin_ppm,
        "brake": brake,
        "reasons": reasons,
    })
}

fn stream(stream: &AgentStream) -> Value {
    let AgentStream {
        peer,
        state,
        primary,
        last_ack,
        last_problem,
    } = stream;
    let ack = last_ack.as_ref().map(|ack| {
        let AgentAck { seq, verdict, reason } = ack;
        json!({"seq": seq, "verdict": verdict, "reason": known(reason)})
    });
    json!({
        "peer": peer,
        "state": state,
        "primary": primary,
        "last_ack": ack,
        "last_problem": known(last_problem),
    })
}

/// Text, unless there is none.
fn known(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}
