//! Measures the time from the start of an agent process to its first report, with and without kernel programs.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use headroom_domain::estimate::Profile;
use headroom_testbed::{
    agent::{Agent, AgentOptions},
    folder::Folder,
    hint_server::{HintServer, this_machine},
};
use tokio::{runtime::Runtime, time::timeout};

use super::resident::ANY_PORT;
use crate::percentile;

/// Starts behind each figure.
const STARTS: usize = 15;
/// How long a first report may be waited for.
const REPORTS_WITHIN: Duration = Duration::from_secs(30);

/// Median and longest time from the start of a process to its first report, in milliseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct FirstHint {
    pub(super) p50_ms: f64,
    pub(super) max_ms: f64,
}

impl FirstHint {
    /// Starts the agent again and again with this source of CPU counters (`ebpf` or `procfs`).
    pub(super) fn measure(program: &Path, source: &str) -> Result<Self> {
        let runtime = Runtime::new()?;
        let once = |_| runtime.block_on(once(program, source));
        let mut took_ms: Vec<f64> = (0..STARTS).map(once).collect::<Result<_>>()?;
        took_ms.sort_by(f64::total_cmp);
        Ok(Self {
            p50_ms: percentile(&took_ms, 50),
            max_ms: percentile(&took_ms, 100),
        })
    }
}

/// One start with production timing, next to a server that is ready: the time until the report is there.
async fn once(program: &Path, source: &str) -> Result<f64> {
    let folder = Folder::new("headroom-bench")?;
    let mut server = HintServer::start(ANY_PORT, &folder.path().join("tls"), this_machine()?).await?;
    let options = AgentOptions {
        program: program.to_owned(),
        folder: folder.path().to_owned(),
        node: "bench".to_owned(),
        token: "none".to_owned(),
        servers: vec![server.address],
        ca: server.ca.clone(),
        timing: Profile::Production,
        source: source.to_owned(),
        flags: Vec::new(),
    };
    let start = Instant::now();
    let _agent = Agent::spawn(&options)?;
    let heard = timeout(REPORTS_WITHIN, server.reports.recv()).await;
    let took = start.elapsed();
    heard
        .ok()
        .flatten()
        .with_context(|| format!("no report in {REPORTS_WITHIN:?} with --source {source}"))?;
    Ok(took.as_secs_f64() * 1e3)
}
