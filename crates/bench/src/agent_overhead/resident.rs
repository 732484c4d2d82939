//! Measures a real agent process on this kernel: memory, CPU time, wake-ups and bytes sent, at rest and under context
//! switches. The agent has pods to read and a server to report to.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Result, ensure};
use headroom_agent::local::status::Status;
use headroom_domain::estimate::Profile;
use headroom_testbed::{
    agent::{Agent, AgentOptions},
    folder::Folder,
    hint_server::{HintServer, this_machine},
    thread::cpus,
};
use tokio::{
    runtime::Runtime,
    time::{Instant, sleep},
};
use xtask::launch;

use super::{
    as_float,
    counting_proxy::{Carried, CountingProxy},
    load::{Pace, SwitchLoad},
    pods::Pods,
};
use crate::vitals::{Vitals, switches};

/// Package, and name of its program.
const AGENT: &str = "headroom-agent";
const CGROUP_ROOT: &str = "/sys/fs/cgroup";
/// Limit until the first second is measured, or the pods are known.
const MEASURES_WITHIN: Duration = Duration::from_secs(30);
const POLL_EVERY: Duration = Duration::from_millis(100);
/// Port 0: the server chooses its port.
pub(super) const ANY_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// One measured interval; `pace` is the load during it.
#[derive(Debug, Clone, Copy)]
pub(super) struct MeasuredInterval {
    pub(super) pace: Option<Pace>,
    pub(super) length: Duration,
}

/// Cost of one interval. Shares are in percent of one CPU.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cost {
    /// CPU time of all threads.
    pub(super) process_cpu_pct: f64,
    /// Time in the kernel programs as counted by the kernel, including the counting itself.
    pub(super) programs_cpu_pct: f64,
    /// Context switches of the whole machine.
    pub(super) switches_per_s: f64,
    pub(super) wakeups_per_s: f64,
    /// From the agent to the server.
    pub(super) up_bytes_per_s: f64,
    /// From the server to the agent.
    pub(super) down_bytes_per_s: f64,
    /// From the agent per report; NaN without reports.
    pub(super) up_bytes_per_report: f64,
    pub(super) rss_mib: f64,
    /// Since the start of the process.
    pub(super) peak_rss_mib: f64,
}

#[derive(Debug, Clone)]
pub(super) struct MeasuredCosts {
    /// Peak memory until the first measurement.
    pub(super) rss_start_mib: f64,
    pub(super) costs: Vec<Cost>,
}

/// A running agent with its pods and server.
struct AgentTestbed {
    agent: Agent,
    server: HintServer,
    proxy: CountingProxy,
    _pods: Pods,
    _folder: Folder,
}

struct ResidentReading {
    at: Instant,
    vitals: Vitals,
    programs: Duration,
    switches: u64,
    carried: Carried,
    reports: usize,
}

/// Builds the agent with optimisation and returns its path.
pub(super) fn build() -> Result<PathBuf> {
    launch::ensure(&[AGENT], true)?;
    Ok(launch::folder(true).join(AGENT))
}

/// Options of an agent that reports to `server`, with kernel programs and production timing.
pub(super) fn agent_options(program: &Path, folder: &Folder, server: &HintServer) -> AgentOptions {
    AgentOptions {
        program: program.to_owned(),
        folder: folder.path().to_owned(),
        node: "bench".to_owned(),
        token: "none".to_owned(),
        servers: vec![server.address],
        ca: server.ca.clone(),
        timing: Profile::Production,
        source: "ebpf".to_owned(),
        flags: Vec::new(),
    }
}

/// Runs the agent with `pods` pods and measures the intervals one after the other.
pub(super) fn measure(
    program: &Path,
    timing: Profile,
    pods: usize,
    intervals: &[MeasuredInterval],
) -> Result<MeasuredCosts> {
    Runtime::new()?.block_on(async {
        let mut testbed = AgentTestbed::set(program, timing, pods).await?;
        let rss_start_mib = testbed.settled(timing, pods).await?;
        let mut costs = Vec::new();
        for interval in intervals {
            costs.push(testbed.cost(*interval).await?);
        }
        Ok(MeasuredCosts { rss_start_mib, costs })
    })
}

impl AgentTestbed {
    async fn set(program: &Path, timing: Profile, pods: usize) -> Result<Self> {
        let folder = Folder::new("headroom-bench")?;
        let pods = Pods::start(CGROUP_ROOT.as_ref(), pods, folder.path())?;
        let mut known = this_machine()?;
        known.pods.clone_from(&pods.requests);
        let server = HintServer::start(ANY_PORT, &folder.path().join("tls"), known).await?;
        let proxy = CountingProxy::open(server.address).await?;
        let agent = Agent::spawn(&AgentOptions {
            servers: vec![proxy.address],
            timing,
            flags: vec!["--cgroup-root".to_owned(), pods.root.display().to_string()],
            ..agent_options(program, &folder, &server)
        })?;
        Ok(Self {
            agent,
            server,
            proxy,
            _pods: pods,
            _folder: folder,
        })
    }

    /// Waits for the first measurement and report, and returns the peak memory until then. With demo timing it also
    /// waits until the pods have been read.
    async fn settled(&mut self, timing: Profile, pods: usize) -> Result<f64> {
        self.until("measures", |status| {
            status.measured.is_some() && status.seq > 0 && status.generation > 0
        })
        .await?;
        let start = Vitals::read(self.agent.process.pid())?;
        if timing == Profile::Demo {
            self.until("knows its pods", |status| status.pods.tracked == pods as u64)
                .await?;
        }
        Ok(start.peak_rss_mib)
    }

    async fn until(&mut self, what: &str, is_so: impl Fn(&Status) -> bool) -> Result<()> {
        let deadline = Instant::now() + MEASURES_WITHIN;
        loop {
            self.agent.process.check()?;
            if self.agent.status().await.is_ok_and(|status| is_so(&status)) {
                return Ok(());
            }
            ensure!(
                Instant::now() < deadline,
                "not within {MEASURES_WITHIN:?}: the agent {what}"
            );
            sleep(POLL_EVERY).await;
        }
    }

    async fn cost(&mut self, interval: MeasuredInterval) -> Result<Cost> {
        let all = cpus()?;
        let load = interval.pace.map(|pace| {
            let used = match pace {
                Pace::PerSecond(_) => all.last().map(std::slice::from_ref).unwrap_or_default(),
                Pace::Unbounded => &all,
            };
            SwitchLoad::start(used, pace)
        });
        let before = self.read().await?;
        sleep(interval.length).await;
        let after = self.read().await?;
        if let Some(load) = load {
            load.end()?;
        }
        Ok(Cost::between(&before, &after))
    }

    async fn read(&mut self) -> Result<ResidentReading> {
        self.agent.process.check()?;
        let Status { programs, .. } = self.agent.status().await?;
        let run_time_ns = programs.iter().map(|program| program.run_time_ns).sum();
        let mut reports = 0;
        while self.server.reports.try_recv().is_ok() {
            reports += 1;
        }
        Ok(ResidentReading {
            at: Instant::now(),
            vitals: Vitals::read(self.agent.process.pid())?,
            programs: Duration::from_nanos(run_time_ns),
            switches: switches()?,
            carried: self.proxy.carried(),
            reports,
        })
    }
}

impl Cost {
    /// `reports` are those received since the previous reading.
    fn between(before: &ResidentReading, after: &ResidentReading) -> Self {
        let seconds = (after.at - before.at).as_secs_f64();
        let per_second = |before: u64, after: u64| as_float(after.saturating_sub(before)) / seconds;
        let share =
            |before: Duration, after: Duration| after.saturating_sub(before).as_secs_f64() / seconds * 100.0;
        let up = as_float(after.carried.up.saturating_sub(before.carried.up));
        Self {
            process_cpu_pct: share(before.vitals.cpu, after.vitals.cpu),
            programs_cpu_pct: share(before.programs, after.programs),
            switches_per_s: per_second(before.switches, after.switches),
            wakeups_per_s: per_second(before.vitals.wakeups, after.vitals.wakeups),
            up_bytes_per_s: up / seconds,
            down_bytes_per_s: per_second(before.carried.down, after.carried.down),
            up_bytes_per_report: up / as_float(after.reports as u64),
            rss_mib: after.vitals.rss_mib,
            peak_rss_mib: after.vitals.peak_rss_mib,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_is_what_was_added_in_the_time_between() {
        let start = Instant::now();
        let reading = |seconds: u64, reports| ResidentReading {
            at: start + Duration::from_secs(seconds),
            vitals: Vitals {
                cpu: Duration::from_millis(100 + 10 * seconds),
                wakeups: 1_000 + 8 * seconds,
                rss_mib: 10.0,
                peak_rss_mib: 28.0,
            },
            programs: Duration::from_millis(7 + 5 * seconds),
            switches: 1 << 40 | (1_000 * seconds),
            carried: Carried {
                up: 5_000 + 100 * seconds,
                down: 30 * seconds,
            },
            reports,
        };
        let cost = Cost::between(&reading(0, 99), &reading(20, 4));
        let found = [
            cost.process_cpu_pct,
            cost.programs_cpu_pct,
            cost.switches_per_s,
            cost.wakeups_per_s,
            cost.up_bytes_per_s,
            cost.down_bytes_per_s,
            cost.up_bytes_per_report,
            cost.rss_mib,
            cost.peak_rss_mib,
        ];
        let right = [1.0, 0.5, 1_000.0, 8.0, 100.0, 30.0, 500.0, 10.0, 28.0];
        assert!(
            found
                .iter()
                .zip(right)
                .all(|(found, right)| (found - right).abs() < 1e-6),
            "{found:?}"
        );
    }
}
