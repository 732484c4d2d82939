//! A real agent process on this kernel: its memory and its CPU time once it measures.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    time::{Duration, SystemTime},
};

use anyhow::{Context as _, Result, ensure};
use headroom_domain::{estimate::Profile, names};
use headroom_kit::tls::self_signed;
use tokio::{
    runtime::Runtime,
    time::{Instant, sleep},
};

use crate::{
    folder::Folder,
    headroom::agent::{Agent, Options},
    workspace,
};

/// The agent's package and program.
const AGENT: &str = "headroom-agent";
/// How long it may take to measure its first second.
const MEASURES_WITHIN: Duration = Duration::from_secs(30);
/// How often it is asked.
const ASK_EVERY: Duration = Duration::from_millis(100);
/// How long it is watched from then on.
const WATCHED: Duration = Duration::from_secs(20);
/// The port of the discard service, which nobody offers.
const NOBODY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 9);

/// What the process needs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Resident {
    /// Memory at the end.
    pub(super) rss_mib: f64,
    /// The most memory it ever had: while it read the kernel's BTF.
    pub(super) peak_rss_mib: f64,
    /// CPU time of all its threads while it was watched, in percent of one CPU.
    pub(super) cpu_pct: f64,
}

/// Builds the agent as it is released, and says where it is.
pub(super) fn build() -> Result<PathBuf> {
    let mut cargo = workspace::cargo();
    cargo.args(["build", "--release", "--quiet", "--bin", AGENT]);
    // With this package beside it its parts have the features that they were just built with for the bench.
    cargo.args(["--package", AGENT, "--package", env!("CARGO_PKG_NAME")]);
    let status = cargo.status().context("run cargo")?;
    ensure!(status.success(), "the agent could not be built ({status})");
    Ok(workspace::target().join("release").join(AGENT))
}

/// Runs the agent in `production` timing with its kernel programs and no webhook to report to, and watches it.
pub(super) fn watch(program: PathBuf) -> Result<Resident> {
    let folder = Folder::new("headroom-bench")?;
    let name = format!("{}.{}.svc", names::HINTS_SERVICE, names::NAMESPACE);
    self_signed::ensure(folder.path(), &[name], SystemTime::now())?;
    let options = Options {
        program,
        folder: folder.path().to_owned(),
        node: "bench".to_owned(),
        token: "none".to_owned(),
        servers: vec![NOBODY],
        ca: folder.path().join(self_signed::CA_CERT),
        timing: Profile::Production,
        source: "ebpf".to_owned(),
    };
    Runtime::new()?.block_on(async {
        let mut agent = Agent::spawn(&options)?;
        measures(&mut agent).await?;
        let pid = agent.process.pid();
        let (start, used) = (Instant::now(), cpu_time(pid)?);
        sleep(WATCHED).await;
        agent.process.check()?;
        let share = cpu_time(pid)?.saturating_sub(used).as_secs_f64() / start.elapsed().as_secs_f64();
        let status =
            fs::read_to_string(format!("/proc/{pid}/status")).context("read the process's status")?;
        Ok(Resident {
            rss_mib: mib(&status, "VmRSS")?,
            peak_rss_mib: mib(&status, "VmHWM")?,
            cpu_pct: share * 100.0,
        })
    })
}

async fn measures(agent: &mut Agent) -> Result<()> {
    let deadline = Instant::now() + MEASURES_WITHIN;
    loop {
        agent.process.check()?;
        if agent.status().await.is_ok_and(|status| status.measured.is_some()) {
            return Ok(());
        }
        ensure!(
            Instant::now() < deadline,
            "the agent measures nothing within {MEASURES_WITHIN:?}"
        );
        sleep(ASK_EVERY).await;
    }
}

/// CPU time of all threads of a process.
fn cpu_time(pid: u32) -> Result<Duration> {
    let mut sum = 0;
    for thread in fs::read_dir(format!("/proc/{pid}/task")).context("list the threads")? {
        // A thread may end meanwhile.
        let text = fs::read_to_string(thread?.path().join("schedstat")).unwrap_or_default();
        let ran = text.split(' ').next().unwrap_or_default();
        sum += ran.parse::<u64>().unwrap_or(0);
    }
    Ok(Duration::from_nanos(sum))
}

/// A line of `/proc/PID/status` in KiB, as MiB.
fn mib(status: &str, name: &str) -> Result<f64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u32>().ok());
    Ok(f64::from(kib.with_context(|| format!("no {name}"))?) / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_from_its_own_line() {
        let status = "VmHWM:\t    2048 kB\nVmRSS:\t    1536 kB\nRssAnon:\t 1 kB\n";
        assert!((mib(status, "VmRSS").unwrap() - 1.5).abs() < 1e-9);
        assert!(mib(status, "Rss").is_err());
    }

    #[test]
    fn this_process_has_used_cpu_time() {
        assert!(cpu_time(std::process::id()).unwrap() > Duration::ZERO);
    }
}
