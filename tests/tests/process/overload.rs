//! The real `headroom-webhook` process stays within its memory and answers good reviews under hostile bodies: huge,
//! dense, withheld, trickled.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use e2e::{
    admission::{Admission, secure},
    process_resources::counted_kib,
    slow_bodies::{connected, head, raise_file_limit, trickle, until_cut, withhold},
};
use futures::future::join_all;
use headroom_testbed::{pathological::shapes, webhook::Webhook};
use headroom_webhook::admission::endpoint::LONGEST_REVIEW;
use http::StatusCode;
use tokio::{
    io::AsyncWriteExt as _,
    sync::Barrier,
    task::JoinSet,
    time::{MissedTickBehavior, interval, sleep},
};

use crate::webhook::{alone, node_review};

/// Maximum increase of an idle replica's memory by any number of bodies, in KiB.
const MOST_KIB: u64 = 64 << 10;
/// Connections over which good reviews come.
const GOOD: u32 = 8;
/// Good reviews a second, over all connections.
const RATE: u32 = 200;

/// A figure of the process in KiB, as in `VmHWM`.
fn memory(webhook: &Webhook, figure: &str) -> u64 {
    counted_kib(webhook.process.pid(), figure)
}

/// Status and body of every good review that was sent in that time, at a steady pace regardless of the results.
async fn good_reviews(webhook: &Webhook, lasting: Duration) -> Vec<(StatusCode, String)> {
    let mut clients = JoinSet::new();
    for _ in 0..GOOD {
        let mut admission = Admission::connect(webhook).await;
        clients.spawn(async move {
            let mut ticks = interval(Duration::from_secs(1) * GOOD / RATE);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
            let (until, mut answers) = (Instant::now() + lasting, Vec::new());
            while Instant::now() < until {
                ticks.tick().await;
                answers.push(admission.post("/mutate-node-status", &node_review()).await);
            }
            answers
        });
    }
    clients.join_all().await.into_iter().flatten().collect()
}

fn assert_all_answered(answers: &[(StatusCode, String)]) {
    let refused: Vec<_> = answers
        .iter()
        .filter(|(status, _)| *status != StatusCode::OK)
        .collect();
    assert!(
        refused.is_empty(),
        "{} of {} refused: {refused:?}",
        refused.len(),
        answers.len()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn any_posted_body_adds_less_than_64_mib() {
    let folder = tempfile::tempdir().expect("folder");
    let webhook = alone(&folder, &[]).await;
    let mut admission = Admission::connect(&webhook).await;
    admission.post("/mutate-node-status", &node_review()).await;
    let idle = memory(&webhook, "VmRSS");
    // The longest take more time than a debug build has for a heartbeat; they are read all the same.
    for bytes in [3_000_000, LONGEST_REVIEW] {
        for (path, sub_resource, user) in [
            ("/mutate-node-status", "status", "system:node:n1"),
            ("/validate-node", "", "somebody"),
        ] {
            for shape in shapes(sub_resource, user) {
                let answered = admission.try_post(path, &shape.body(bytes)).await;
                if let Some((status, answer)) = &answered {
                    let is_late =
                        ["no answer within", "did not arrive within"].map(|text| answer.contains(text));
                    assert!(
                        *status != StatusCode::SERVICE_UNAVAILABLE || is_late.contains(&true),
                        "{}: {answer}",
                        shape.name
                    );
                }
                if answered.is_none_or(|(status, _)| status == StatusCode::REQUEST_TIMEOUT) {
                    // The webhook closes a connection with an unread body.
                    admission = Admission::connect(&webhook).await;
                }
                let added = memory(&webhook, "VmHWM").saturating_sub(idle);
                assert!(added < MOST_KIB, "{}: {added} KiB over {idle}", shape.name);
            }
        }
    }
    let (status, _) = admission.post("/mutate-node-status", &node_review()).await;
    assert_eq!(status, StatusCode::OK);
}

/// Endpoints of both kinds whose bodies have a budget of memory of their own.
const PATHS: [&str; 2] = ["/mutate-node-status", "/mutate-pod"];

/// The manifest's limit leaves room for the caches of a large fleet, 330 MiB.
#[tokio::test(flavor = "multi_thread")]
async fn all_concurrent_bodies_fit_the_manifests_memory_limit() {
    raise_file_limit();
    let manifest = include_str!("../../../deploy/kustomize/base/webhook.yaml");
    let limit = manifest.split_once("limits:").expect("limits").1;
    assert!(limit.trim_start().starts_with("memory: 512Mi"), "{limit}");
    let folder = tempfile::tempdir().expect("folder");
    let webhook = Arc::new(alone(&folder, &["--serve", "nodes,koordinator"]).await);
    let idle = memory(&webhook, "VmRSS");
    let densest: Arc<str> = shapes("status", "system:node:n1")
        .iter()
        .find(|shape| shape.name == "a long operation")
        .expect("the shape")
        .body(LONGEST_REVIEW)
        .into();
    let mut clients = JoinSet::new();
    for path in PATHS.repeat(8) {
        let (webhook, densest) = (Arc::clone(&webhook), Arc::clone(&densest));
        clients.spawn(async move {
            for _ in 0..3 {
                post_and_close(&webhook, path, densest.len(), &densest).await;
            }
        });
    }
    for path in PATHS.repeat(150) {
        let webhook = Arc::clone(&webhook);
        clients.spawn(async move {
            post_and_close(&webhook, path, 1 << 20, &" ".repeat(800 << 10)).await;
        });
    }
    clients.join_all().await;
    let added = memory(&webhook, "VmHWM") - idle;
    assert!(added < (512 - 330) << 10, "{added} KiB over {idle}");
}

/// Posts the available part of a body over its own connection, and waits for the connection's end. A client that is
/// refused, or dropped in favour of others, is disconnected before all is sent.
async fn post_and_close(webhook: &Webhook, path: &str, length: usize, body: &str) -> String {
    let mut stream = secure(webhook).await;
    let head = head(path, length).replace("\r\n\r\n", "\r\nconnection: close\r\n\r\n");
    drop(stream.write_all(head.as_bytes()).await);
    drop(stream.write_all(body.as_bytes()).await);
    drop(stream.flush().await);
    until_cut(stream).await
}

#[tokio::test(flavor = "multi_thread")]
async fn withheld_and_trickled_bodies_block_no_review() {
    raise_file_limit();
    let folder = tempfile::tempdir().expect("folder");
    let webhook = Arc::new(alone(&folder, &[]).await);
    let begin = Arc::new(Barrier::new(2_001));
    let mut slow: JoinSet<String> = JoinSet::new();
    let mut streams = Vec::new();
    while streams.len() < 2_000 {
        let connecting = (0..50).map(|_| connected(&webhook));
        streams.extend(join_all(connecting).await);
    }
    for stream in streams {
        let begin = Arc::clone(&begin);
        slow.spawn(async move {
            begin.wait().await;
            withhold(stream).await
        });
    }
    let mut tricklers = JoinSet::new();
    for number in 0..256 {
        let webhook = Arc::clone(&webhook);
        tricklers.spawn(async move {
            sleep(Duration::from_millis(10) * number).await;
            loop {
                trickle(secure(&webhook).await).await;
                sleep(Duration::from_secs(2)).await;
            }
        });
    }
    let (answers, _) = tokio::join!(good_reviews(&webhook, Duration::from_secs(6)), begin.wait());
    tricklers.shutdown().await;
    assert_all_answered(&answers);
    // As many as a machine with other things to do has time for.
    assert!(answers.len() > 100, "{} good reviews", answers.len());
    for answer in slow.join_all().await {
        let is_told =
            answer.contains("HTTP/1.1 408 ") && answer.contains("the body did not arrive within 600ms");
        assert!(is_told || answer.is_empty(), "{answer}");
    }
}
