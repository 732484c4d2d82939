//! Renders an agent's pods and histograms as JSON: integers, with the unit in the key or in a field next to it. An
//! unknown
//! value is `null`.

use headroom_proto::v1alpha1::{AgentBucket, AgentHistogram, AgentPod, AgentPodUse, Amounts};
use serde_json::{Value, json};

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
