//! Measures the time from the start of an agent process to its first report, with and without kernel programs.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use headroom_testbed::{
    agent::{Agent, AgentOptions},
    folder::Folder,
    hint_server::{HintServer, this_machine},
};
use tokio::{runtime::Runtime, time::timeout};

use super::resident::{ANY_PORT, agent_options};
use crate::statistics::{ascending, percentile};

const STARTS: usize = 15;
/// Limit for the first report.
const REPORTS_WITHIN: Duration = Duration::from_secs(30);

/// Time from the start of a process to its first report, in milliseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct FirstHint {
    pub(super) p50_ms: f64,
    pub(super) max_ms: f64,
}

impl FirstHint {
    /// Starts the agent [`STARTS`] times with this source of CPU counters (`ebpf` or `procfs`).
    pub(super) fn measure(program: &Path, source: &str) -> Result<Self> {
        let runtime = Runtime::new()?;
        let once = |_| runtime.block_on(once(program, source));
        let took_ms = ascending((0..STARTS).map(once).collect::<Result<Vec<_>>>()?);
        Ok(Self {
            p50_ms: percentile(&took_ms, 50),
            max_ms: percentile(&took_ms, 100),
        })
    }
}

/// Starts the agent with production timing and a ready server; returns milliseconds until its report arrives.
async fn once(program: &Path, source: &str) -> Result<f64> {
    let folder = Folder::new("headroom-bench")?;
    let mut server = HintServer::start(ANY_PORT, &folder.path().join("tls"), this_machine()?).await?;
    let options = AgentOptions {
        source: source.to_owned(),
        ..agent_options(program, &folder, &server)
    };
    let start = Instant::now();
    let _agent = Agent::spawn(&options)?;
    let report = timeout(REPORTS_WITHIN, server.reports.recv()).await;
    let took = start.elapsed();
    report.ok().flatten().with_context(|| {
        format!("the agent sent no report within {REPORTS_WITHIN:?} with --source {source}")
    })?;
    Ok(took.as_secs_f64() * 1e3)
}
