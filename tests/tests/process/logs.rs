//! Tests of the real `headroom-webhook` process whose standard error accepts no data, or is closed.

use std::{
    fs::{self, File},
    os::unix::fs::PermissionsExt as _,
    process::Command,
    time::Duration,
};

use e2e::{admission::Admission, built::programs};
use headroom_testbed::programs::get;
use http::StatusCode;
use tokio::time::timeout;

use crate::webhook::{NO_API_SERVER, node_review, spawn_program};

/// Refused reviews, each with a log line: many times more than a pipe holds.
const REFUSED: usize = 2_000;
/// Time for all of them on a busy machine.
const ANSWERED_WITHIN: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread")]
async fn stuck_or_closed_standard_error_blocks_no_review() {
    let folder = tempfile::tempdir().expect("folder");
    let pipe = folder.path().join("stderr");
    let made = Command::new("mkfifo").arg(&pipe).status().expect("mkfifo");
    assert!(made.success(), "{made}");
    // Open for reading, and never read.
    let reader = File::options()
        .read(true)
        .write(true)
        .open(&pipe)
        .expect("the pipe");
    let program = folder.path().join("stuck");
    let text = format!(
        "#!/bin/sh\nexec {} \"$@\" 2>{}\n",
        programs().await.webhook.display(),
        pipe.display()
    );
    fs::write(&program, text).expect("write");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("make it a program");
    let webhook = spawn_program(&folder, program, NO_API_SERVER, &["--log-sample", "1"]).await;
    let mut admission = Admission::connect(&webhook).await;
    let mut reader = Some(reader);
    for state in ["stuck", "closed"] {
        let answered = async {
            for _ in 0..REFUSED {
                let (status, _) = admission.post("/mutate-node-status", "not json").await;
                assert_eq!(status, StatusCode::BAD_REQUEST);
            }
            admission.post("/mutate-node-status", &node_review()).await
        };
        let (status, answer) = timeout(ANSWERED_WITHIN, answered).await.expect(state);
        assert_eq!(status, StatusCode::OK, "{state}: {answer}");
        drop(reader.take());
    }
    let (_, metrics) = get(webhook.admin, "/metrics").await.expect("metrics");
    let metrics = String::from_utf8_lossy(&metrics);
    for reason in ["rate", "closed"] {
        let series = format!("headroom_log_lines_dropped_total{{reason=\"{reason}\"}} ");
        let count = metrics.split_once(&series).map(|(_, rest)| rest.lines().next());
        assert!(count.is_some_and(|count| count != Some("0")), "{series}{count:?}");
    }
}
