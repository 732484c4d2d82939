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

/// Logs writes of node status and leases, without their content.
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

#[derive(Debug)]
pub(super) struct Audit {
    policy: PathBuf,
    log: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WriteKind {
    Status,
    Lease,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) at: Timestamp,
    pub(super) node: String,
    pub(super) kind: WriteKind,
    /// True if the status code is below 300.
    pub(super) is_accepted: bool,
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
    /// Writes the audit policy to `folder`; the log is written there too.
    ///
    /// # Errors
    /// If the policy cannot be written.
    pub(super) fn new(folder: &Path) -> Result<Self> {
        let policy = folder.join("audit-policy.json");
        fs::write(&policy, POLICY).with_context(|| format!("cannot write {}", policy.display()))?;
        Ok(Self {
            policy,
            log: folder.join("audit.log"),
        })
    }

    pub(super) fn flags(&self) -> Vec<String> {
        vec![
            format!("--audit-policy-file={}", self.policy.display()),
            format!("--audit-log-path={}", self.log.display()),
        ]
    }

    /// Number of lease renewals between two times that the API server accepted, by nodes other than `except`.
    ///
    /// # Errors
    /// Errors of [`Self::between`].
    pub(super) fn renewals(&self, from: Timestamp, until: Timestamp, except: Option<&str>) -> Result<usize> {
        let entries = self.between(from, until)?;
        let is_renewal = |entry: &&Entry| {
            entry.kind == WriteKind::Lease && entry.is_accepted && Some(entry.node.as_str()) != except
        };
        Ok(entries.iter().filter(is_renewal).count())
    }

    /// Requests of nodes between two times.
    ///
    /// # Errors
    /// If the log cannot be read or parsed.
    pub(super) fn between(&self, from: Timestamp, until: Timestamp) -> Result<Vec<Entry>> {
        let log = File::open(&self.log).with_context(|| format!("cannot read {}", self.log.display()))?;
        let mut entries = Vec::new();
        for line in BufReader::new(log).lines() {
            let line: Line = serde_json::from_str(&line?).context("cannot parse a line of the audit log")?;
            entries.extend(line.entry().filter(|entry| (from..until).contains(&entry.at)));
        }
        Ok(entries)
    }
}

impl Line {
    /// `None` if the user is not a node.
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
            kind: if resource == "nodes" {
                WriteKind::Status
            } else {
                WriteKind::Lease
            },
            is_accepted: response_status.is_some_and(|answer| answer.code < 300),
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
        let entry = |second, kind, is_accepted| Entry {
            at: at(second),
            node: "a".to_owned(),
            kind,
            is_accepted,
        };
        assert_eq!(
            audit.between(at(1), at(4)).unwrap(),
            [
                entry(1, WriteKind::Status, true),
                entry(2, WriteKind::Lease, false)
            ]
        );
    }
}
