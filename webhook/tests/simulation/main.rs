//! Tests of the whole system by simulation: random interleavings of writes of one Node, random days of one node, and random
//! interleavings around ElasticQuotas. All run the real stores and rules; their surroundings are modelled.
#![forbid(unsafe_code)]
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "tests panic: a returned error has no stack"
)]

mod days;
mod interleavings;
mod quotas;

use headroom_domain::{capacity::floor::HEARTBEAT_INTERVAL, installation::Installation};
use headroom_webhook::store::{cluster::Settings, configuration::Amplification, floor::MissingFloor};
use json_patch::Patch;
use k8s_openapi::ByteString;
use serde_json::Value;

/// Settings of a replica that amplifies where its file says so.
fn settings(file: Amplification) -> Settings {
    Settings {
        file,
        missing_floor: MissingFloor::Accepted,
        amplifies: true,
        heartbeat_interval: HEARTBEAT_INTERVAL,
        denies_above_hint: false,
        installation: Installation::default(),
    }
}

/// The patch of an answer; an empty one if it has none.
fn patch_of(verdict: &Value) -> Patch {
    let Some(encoded) = verdict.get("patch") else {
        return Patch(vec![]);
    };
    let ByteString(bytes) = serde_json::from_value(encoded.clone()).expect("base64");
    serde_json::from_slice(&bytes).expect("a JSON patch")
}
