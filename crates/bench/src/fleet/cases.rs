//! Runs the cases of `bench fleet` one after the other on the same fleet, from `auto for all` to restarts.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use tokio::{
    runtime::Handle,
    time::{sleep, sleep_until},
};
use xtask::terminal::print;

use super::{
    Plan,
    agents::{Agents, PUBLISHED, Port},
    api_server::ApiServer,
    idle_port::IdlePort,
    kubelets::Kubelets,
    measure::{Case, EndedReplicas, PeakMemory, Snapshot, mib},
    objects::RAW_CPU_MILLI,
    pinning::{Cpus, resident},
    replica::{Keys, Replica, Setting},
};

/// Names of the cases, in order.
pub(super) const AUTO: &str = "auto for all";
pub(super) const QUIET: &str = "quiet";
pub(super) const BRAKES: &str = "brakes";
pub(super) const RAISED: &str = "higher maximum";
pub(super) const RESTART: &str = "restart";
pub(super) const RESTART_TLS: &str = "restart, agents over TLS";
#[cfg(test)]
pub(super) const ALL: [&str; 6] = [AUTO, QUIET, BRAKES, RAISED, RESTART, RESTART_TLS];

/// CPU maxima in cents: lower than the published ratio, and equal to it.
const LOW: u32 = 105;
const OFF: &str = r#"{"mode":"off"}"#;
const POLL_EVERY: Duration = Duration::from_millis(50);
/// Limit of each step beyond its expected time: a refused agent waits up to 30 s between attempts.
const LIMIT: Duration = Duration::from_secs(180);

pub(super) struct Fleet {
    pub(super) agents: Arc<Agents>,
    /// Resident memory before the first replica started, with all agents connected.
    pub(super) stand_ins_mib: f64,
    plan: Plan,
    cpus: Cpus,
    api: Arc<ApiServer>,
    kubelets: Arc<Kubelets>,
    peak_memory: Arc<PeakMemory>,
    setting: Setting,
    replica: Option<Replica>,
    ended: EndedReplicas,
}

impl Fleet {
    /// Starts all parts; no node is amplified.
    ///
    /// # Errors
    /// If a part cannot be started, or not all agents connect in time.
    pub(super) async fn start(plan: Plan, cpus: Cpus, load: &Handle) -> Result<Self> {
        let Plan {
            nodes, pods, rates, ..
        } = plan;
        let api = Arc::new(ApiServer::new(nodes, pods, OFF)?);
        let agents = Agents::start(nodes, pods, plan.report_every, load);
        let setting = Setting {
            cpu: cpus.server,
            load: load.clone(),
            rates,
            keys: Keys::new()?,
        };
        let stand_ins_mib = stand_ins(&agents, nodes).await?;
        let mut fleet = Self {
            agents,
            stand_ins_mib,
            plan,
            cpus,
            kubelets: Kubelets::start(&api, load),
            peak_memory: PeakMemory::watch(load),
            api,
            setting,
            replica: None,
            ended: EndedReplicas::default(),
        };
        let began = Instant::now();
        fleet.start_replica(0, false).await?;
        let connected = fleet.wait_until(began, LIMIT, Self::all_reporting).await;
        ensure!(
            connected.is_some(),
            "only {} of {nodes} agents connected to the replica",
            fleet.agents.reporting()
        );
        // An agent's first report precedes its pod list, so it raises nothing.
        sleep(fleet.plan.report_every * 2).await;
        Ok(fleet)
    }

    /// Runs all cases in order.
    ///
    /// # Errors
    /// An error that does not occur in a cluster.
    pub(super) async fn cases(&mut self) -> Result<Vec<Case>> {
        let all = |fleet: &Self, cents| fleet.all_at(0..fleet.plan.nodes, cents);
        let rises = self.plan.rises() + LIMIT;
        let mut cases = Vec::new();
        let begin = self.begin()?;
        self.api.set_policy(&auto(LOW));
        let applied = self.wait_until(begin.at, rises, |fleet| all(fleet, LOW)).await;
        cases.push(self.end(AUTO, &begin, applied).await?);

        let begin = self.begin()?;
        sleep(self.plan.quiet).await;
        cases.push(self.end(QUIET, &begin, None).await?);

        cases.push(self.brakes().await?);
        let _is_released = self
            .wait_until(Instant::now(), rises, |fleet| all(fleet, LOW))
            .await;

        let begin = self.begin()?;
        self.api.set_policy(&auto(PUBLISHED));
        let applied = self
            .wait_until(begin.at, rises, |fleet| all(fleet, PUBLISHED))
            .await;
        cases.push(self.end(RAISED, &begin, applied).await?);

        cases.push(self.restart(RESTART, false).await?);
        cases.push(self.restart(RESTART_TLS, true).await?);
        Ok(cases)
    }

    async fn brakes(&mut self) -> Result<Case> {
        let count = self.plan.brakes();
        let begin = self.begin()?;
        let every = Duration::from_secs(1) / u32::try_from(count)?;
        for node in 0..count {
            let due = begin.at + every * u32::try_from(node)?;
            sleep_until(due.into()).await;
            self.agents.brake(node, true);
        }
        let applied = self
            .wait_until(begin.at, LIMIT, |fleet| fleet.all_at(0..count, 100))
            .await;
        let case = self.end(BRAKES, &begin, applied).await;
        for node in 0..count {
            self.agents.brake(node, false);
        }
        case
    }

    /// Kills the replica with all connections and starts another one immediately.
    async fn restart(&mut self, name: &'static str, is_secure: bool) -> Result<Case> {
        let begin = self.begin()?;
        let replica = self.replica.take().context("no replica is running")?;
        let port = replica.hints.address.port();
        self.ended.add(self.cpus.server, replica.cluster.previews())?;
        self.api.admission.set_target(None);
        self.agents.set_port(None);
        replica.kill().await?;
        self.start_replica(port, is_secure).await?;
        let applied = self
            .wait_until(begin.at, LIMIT, |fleet| {
                fleet
                    .all_reporting()?
                    .max(fleet.all_at(0..fleet.plan.nodes, PUBLISHED)?)
                    .into()
            })
            .await;
        self.end(name, &begin, applied).await
    }

    /// Starts a replica. Agents connect immediately; reviews follow once its stores are listed.
    async fn start_replica(&mut self, port: u16, is_secure: bool) -> Result<()> {
        let mut replica = Replica::start(&self.setting, &self.api, port, is_secure).await?;
        self.agents.set_port(Some(replica.hints.clone()));
        replica.until_known().await?;
        self.api.admission.set_target(Some(replica.admission.clone()));
        self.replica = Some(replica);
        Ok(())
    }

    fn begin(&self) -> Result<Snapshot> {
        self.peak_memory.reset()?;
        self.kubelets.drain();
        self.snapshot()
    }

    fn snapshot(&self) -> Result<Snapshot> {
        let previews = self
            .replica
            .as_ref()
            .map_or(0, |replica| replica.cluster.previews());
        self.ended.snapshot(self.cpus.server, previews, self.api.counts())
    }

    async fn end(&self, name: &'static str, begin: &Snapshot, applied: Option<Duration>) -> Result<Case> {
        sleep(self.plan.shortest.saturating_sub(begin.at.elapsed())).await;
        let end = self.snapshot()?;
        let resident_mib = self.peak_memory.reset()?;
        let case = begin.row(
            &end,
            name,
            (resident_mib, resident_mib - self.stand_ins_mib),
            applied,
            self.kubelets.drain(),
        );
        print(format!("{name}: {:.0} s", case.seconds));
        Ok(case)
    }

    /// Time at which the last agent had a report accepted, or `None` if some are missing.
    fn all_reporting(&self) -> Option<Instant> {
        (self.agents.reporting() == self.plan.nodes).then(Instant::now)
    }

    /// Latest change of allocatable among these nodes, or `None` if one is not at raw times this ratio.
    fn all_at(&self, nodes: std::ops::Range<usize>, cents: u32) -> Option<Instant> {
        let milli = RAW_CPU_MILLI * u64::from(cents) / 100;
        let moved = nodes.map(|node| {
            let stored = self.api.node(node)?;
            (stored.text.cpu_milli == milli).then_some(stored.moved)
        });
        moved.collect::<Option<Vec<_>>>()?.into_iter().max()
    }

    /// Time after `began` at which `when` was true, or `None` after `limit`.
    async fn wait_until(
        &self,
        began: Instant,
        limit: Duration,
        when: impl Fn(&Self) -> Option<Instant>,
    ) -> Option<Duration> {
        while began.elapsed() < limit {
            if let Some(at) = when(self) {
                return Some(at.saturating_duration_since(began));
            }
            sleep(POLL_EVERY).await;
        }
        None
    }
}

/// Resident memory of the stand-ins with all agents connected and reporting, in MiB. The allocator keeps memory that
/// the agents free, for when they connect to the replica.
async fn stand_ins(agents: &Agents, nodes: usize) -> Result<f64> {
    let port = IdlePort::open().await?;
    agents.set_port(Some(Port {
        address: port.address(),
        tls: None,
    }));
    let began = Instant::now();
    while port.reporting() < nodes && began.elapsed() < LIMIT {
        sleep(POLL_EVERY).await;
    }
    agents.set_port(None);
    let reporting = port.reporting();
    ensure!(
        reporting >= nodes,
        "only {reporting} of {nodes} agents reported to the idle port"
    );
    Ok(mib(resident()?))
}

/// Mode `auto` with this CPU maximum.
fn auto(cents: u32) -> String {
    format!(
        r#"{{"mode":"auto","bounds":{{"cpu":{{"max":{}.{:02}}}}}}}"#,
        cents / 100,
        cents % 100
    )
}
