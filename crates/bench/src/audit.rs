//! Reads the API server's audit log for the requests of each node: status patches and lease renewals. Used by the
//! benches `node-harm` and `node-storm`.

use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use headroom_domain::names;
use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;

/// Writes of node status and of leases, without what is in them.
const POLICY: &str = r#"{
  "apiVersion": "audit.k8s.io/v1",
  "kind": "Policy",
  "omitStages": ["RequestReceived"],
  "rules": [
    {"level": "Metadata", "verbs": ["patch"], "resources": [{"group": "", "resources": ["nodes/status"]}]},
    {"level": "Metadata", "verbs": ["update", "patch"], "resources": [{"group": "coordination.k8s.io", "resources": ["leases"]}]},
    {"level": "None"}
  ]
}"#;

/// The audit log.
#[derive(Debug)]
pub(super) struct Audit {
    policy: PathBuf,
    log: PathBuf,
}

/// What a node wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    /// A PATCH of its own `nodes/status`.
    Status,
    /// Its lease.
    Lease,
}

/// One answered request of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// When it was answered.
    pub(super) at: Timestamp,
    /// The node.
    pub(super) node: String,
    /// What it wrote.
    pub(super) what: What,
    /// True if the API server took it.
    pub(super) is_taken: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    stage_timestamp: Timestamp,
    user: User,
    object_ref: Object,
    response_status: Option<ReviewResponse>,
}

#[derive(Debug, Deserialize)]
struct User {
    username: String,
}

#[derive(Debug, Deserialize)]
struct Object {
    resource: String,
}

#[derive(Debug, Deserialize)]
struct ReviewResponse {
    code: u16,
}

impl Audit {
    /// Writes the audit policy into a folder; the log will be there.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn new(folder: &Path) -> Result<Self> {
        let policy = folder.join("audit-policy.json");
        fs::write(&policy, POLICY).with_context(|| format!("write {}", policy.display()))?;
        Ok(Self {
            policy,
            log: folder.join("audit.log"),
        })
    }

    /// The flags of the API server for it.
    pub(super) fn flags(&self) -> Vec<String> {
        vec![
            format!("--audit-policy-file={}", self.policy.display()),
            format!("--audit-log-path={}", self.log.display()),
        ]
    }

    /// What nodes asked between two times.
    ///
    /// # Errors
    /// If the log cannot be read, or a line of it is not what it should be.
    pub(super) fn between(&self, from: Timestamp, until: Timestamp) -> Result<Vec<Entry>> {
        let log = File::open(&self.log).with_context(|| format!("read {}", self.log.display()))?;
        let mut entries = Vec::new();
        for line in BufReader::new(log).lines() {
            let line: Line = serde_json::from_str(&line?).context("read a line of the audit log")?;
            entries.extend(line.entry().filter(|entry| (from..until).contains(&entry.at)));
        }
        Ok(entries)
    }
}

impl Line {
    /// `None` if it was not a node.
    fn entry(self) -> Option<Entry> {
        let Self {
            stage_timestamp,
            user: User { username },
            object_ref: Object { resource },
            response_status,
        } = self;
        Some(Entry {
            at: stage_timestamp,
            node: names::node_of_user(&username)?.to_owned(),
            what: if resource == "nodes" {
                What::Status
            } else {
                What::Lease
            },
            is_taken: response_status.is_some_and(|answer| answer.code < 300),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = r#"{"kind":"Event","stage":"ResponseComplete","verb":"patch","user":{"username":"system:node:a"},"objectRef":{"resource":"nodes","name":"a","subresource":"status"},"responseStatus":{"metadata":{},"code":200},"stageTimestamp":"2026-11-21T12:00:01.000000Z"}
{"kind":"Event","stage":"ResponseComplete","verb":"update","user":{"username":"system:node:a"},"objectRef":{"resource":"leases","name":"a"},"responseStatus":{"metadata":{},"code":409},"stageTimestamp":"2026-11-21T12:00:02.000000Z"}
{"kind":"Event","stage":"ResponseComplete","verb":"patch","user":{"username":"system:admin"},"objectRef":{"resource":"nodes","name":"a","subresource":"status"},"responseStatus":{"metadata":{},"code":200},"stageTimestamp":"2026-11-21T12:00:03.000000Z"}
{"kind":"Event","stage":"ResponseComplete","verb":"patch","user":{"username":"system:node:b"},"objectRef":{"resource":"nodes","name":"b","subresource":"status"},"responseStatus":{"metadata":{},"code":200},"stageTimestamp":"2026-11-21T12:00:04.000000Z"}
"#;

    #[test]
    fn entries_of_nodes_within_the_time_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let audit = Audit::new(folder.path()).unwrap();
        fs::write(&audit.log, LOG).unwrap();
        let at = |second: u8| -> Timestamp { format!("2026-11-21T12:00:0{second}Z").parse().unwrap() };
        let entry = |second, what, is_taken| Entry {
            at: at(second),
            node: "a".to_owned(),
            what,
            is_taken,
        };
        assert_eq!(
            audit.between(at(1), at(4)).unwrap(),
            [entry(1, What::Status, true), entry(2, What::Lease, false)]
        );
    }
}
