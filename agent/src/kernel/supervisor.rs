//! `ProbeSupervisor` keeps the kernel programs counting; the gatherer passes each poll to it. It sheds sampling while tasks
//! switch too often, and attaches the wake-up programs only while waiting times are used. It re-attaches the programs when a
//! link is lost or they stop counting, and falls back to procfs if that does not help.

mod shedding;
mod wake_ups;
mod watch;

use std::sync::Arc;

use tracing::{info, warn};

use self::shedding::Shedder;
pub(crate) use self::wake_ups::WakeUps;
pub use self::{
    shedding::{Limits, Shed},
    watch::Watch,
};
use crate::{
    kernel::{
        events::KernelEvents,
        hooks::{EventCounters, Hook, REATTACHED},
        probe::{HookVerdict, LogDrain, Probe, Refused, Runs},
    },
    sample::{Poll, SampleError, Sampler, clock::nanoseconds},
};

/// A second loss within this time after the first means that re-attaching does not help.
const REATTACH_INTERVAL_NS: u64 = 3_600_000_000_000;

/// State of the kernel programs. Each sample contains it, so a lost sample does not lose a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeState {
    /// The programs are attached and count.
    Counting {
        shed: Shed,
        /// True while the wake-up hooks are detached because no CPU is nearly full. Waits are not measured or used then.
        is_calm: bool,
        /// Number of re-attachments. Events just before each were not counted.
        reattached: u32,
        /// Verdict on each hook after one could not be re-attached; `None` while all are as at the start.
        verdicts: Option<Arc<[HookVerdict]>>,
    },
    /// The programs are dropped for this reason; procfs is the source.
    Lost(Arc<str>),
}

/// The programs, and their event counters and log.
#[derive(Debug)]
pub(crate) struct ProbeSupervisor {
    probe: Probe,
    events: Option<KernelEvents>,
    log: Option<LogDrain>,
    shedder: Shedder,
    wake_ups: WakeUps,
    watch: Watch,
    /// Interval of link checks, and time of the last one.
    links_every_ns: u64,
    links_checked_ns: u64,
    reattached: u32,
    /// Time of the last re-attachment.
    reattached_ns: Option<u64>,
    /// Verdict on each hook after one could not be re-attached.
    verdicts: Option<Arc<[HookVerdict]>>,
}

impl ProbeState {
    /// Programs that count with this shedding, attached as at the start.
    pub const fn counting(shed: Shed) -> Self {
        Self::Counting {
            shed,
            is_calm: false,
            reattached: 0,
            verdicts: None,
        }
    }

    /// Number of re-attachments; `None` once the programs are lost.
    pub const fn reattached(&self) -> Option<u32> {
        match self {
            Self::Counting { reattached, .. } => Some(*reattached),
            Self::Lost(_) => None,
        }
    }
}

impl ProbeSupervisor {
    pub(crate) fn new(mut probe: Probe, watch: Watch, limits: Limits, wake_ups: WakeUps) -> Self {
        Self {
            events: probe.take_events(),
            log: probe.take_log(),
            probe,
            shedder: Shedder::new(limits),
            wake_ups,
            watch,
            links_every_ns: nanoseconds(limits.links_every),
            links_checked_ns: 0,
            reattached: 0,
            reattached_ns: None,
            verdicts: None,
        }
    }

    /// Reads the counters of rare events, and passes the programs' log to the agent's log.
    pub(crate) fn event_counters(&mut self) -> Result<Option<EventCounters>, SampleError> {
        if let Some(log) = &mut self.log {
            log.flush();
        }
        self.events.as_mut().map(KernelEvents::read).transpose()
    }

    /// The kernel's statistics of each program.
    pub(crate) fn runs(&self) -> Option<Vec<Runs>> {
        self.probe.runs().ok()
    }

    /// Observes a poll, `None` if it failed, and reacts to it. Returns the reason if the programs are lost; the caller must then
    /// drop the supervisor.
    pub(crate) fn observe(&mut self, poll: Option<&Poll>, sampler: &mut Sampler) -> Option<Arc<str>> {
        let Some(poll) = poll else {
            // Re-attaching would not help: the maps cannot be read.
            let reason = self.watch.observe_failure()?;
            sampler.fall_back();
            return Some(reason.into());
        };
        let counts = &poll.counts;
        let silence = self.watch.observe(poll);
        // A lost link explains missing switches, so it is reported first. The agent's own threads cause switches.
        let is_silent = poll.covers_time() && counts.switches == 0;
        let lost = self.lost_link(counts.until_ns, is_silent);
        if let Some(why) = lost.or(silence) {
            let reason = self.reattach(&why, counts.until_ns)?;
            sampler.fall_back();
            return Some(reason.into());
        }
        if self.wake_ups.observe(poll) {
            self.apply_wake_ups();
        }
        let length_ns = counts.until_ns.saturating_sub(counts.from_ns);
        if length_ns > 0 {
            let per_s = u128::from(counts.busiest_switches) * 1_000_000_000 / u128::from(length_ns);
            let per_s = u64::try_from(per_s).unwrap_or(u64::MAX);
            if let Some(level) = self.shedder.observe(per_s, counts.until_ns) {
                self.shed(level, sampler);
            }
        }
        None
    }

    /// Returns true if waiting times are used: CPUs are nearly full, or were recently.
    pub(crate) const fn needs_waits(&self) -> bool {
        self.wake_ups.are_needed()
    }

    /// State of the programs since the last poll; the counts of the next poll are made in this state.
    pub(crate) fn probe_state(&self) -> ProbeState {
        ProbeState::Counting {
            shed: self.shedder.level(),
            is_calm: !self.wake_ups.are_needed(),
            reattached: self.reattached,
            verdicts: self.verdicts.clone(),
        }
    }

    /// Checks the links if a check is due or `at_once`. Returns the reason if another process removed one.
    fn lost_link(&mut self, now_ns: u64, at_once: bool) -> Option<String> {
        let is_due = now_ns.saturating_sub(self.links_checked_ns) >= self.links_every_ns;
        if !is_due && !at_once {
            return None;
        }
        self.links_checked_ns = now_ns;
        let name = self.probe.lost_link()?.tracepoint();
        Some(format!(
            "another process removed the link of the kernel program at {name}"
        ))
    }

    /// Attaches all detached hooks, and records the verdicts after a failure.
    fn attach(&mut self) -> Result<(), Refused> {
        let attached = self.probe.attach();
        if attached.is_err() || self.verdicts.is_some() {
            self.verdicts = Some(self.probe.verdicts().into());
        }
        attached
    }

    /// Returns true if the wake-up hooks should be attached: tasks do not switch too often, and waiting times are used.
    fn wants_wake_ups(&self) -> bool {
        self.shedder.level() != Shed::WakeUps && self.wake_ups.are_needed()
    }

    /// Attaches or detaches the programs for wake-ups.
    fn update_wake_ups(&mut self) -> Result<(), Refused> {
        if self.wants_wake_ups() {
            return self.attach();
        }
        self.probe.detach_from(&Hook::WAKE_UPS);
        Ok(())
    }

    /// Attaches or detaches the wake-up hooks after the use of waiting times began or ended, and logs it.
    fn apply_wake_ups(&mut self) {
        let are_needed = self.wake_ups.are_needed();
        match self.update_wake_ups() {
            // The verdicts contain it, too, and the CPU brake then ignores waits.
            Err(refused) => {
                warn!(error = %refused, "CPUs are nearly full, but the wake-up hooks cannot be attached");
            }
            Ok(()) if are_needed => info!("CPUs are nearly full: the wake-up hooks are attached"),
            Ok(()) => info!(
                calm_for = ?self.wake_ups.calm_for(),
                "no CPU is nearly full: the wake-up hooks are detached"
            ),
        }
    }

    fn shed(&mut self, level: Shed, sampler: &mut Sampler) {
        if let Err(refused) = self.update_wake_ups() {
            warn!(error = %refused, "cannot re-attach the wake-up hooks yet");
            self.shedder.stay(Shed::WakeUps);
            return;
        }
        sampler.sample_one_in(level.sampling_shift());
    }

    /// Re-attaches the loaded programs. Returns the reason if the programs are lost.
    fn reattach(&mut self, why: &str, now_ns: u64) -> Option<String> {
        let is_recent = |then: u64| now_ns.saturating_sub(then) < REATTACH_INTERVAL_NS;
        if self.reattached_ns.is_some_and(is_recent) {
            return Some(format!(
                "{why}, although the programs were re-attached before; find the process that detaches them, and restart the \
                 agent"
            ));
        }
        self.reattached_ns = Some(now_ns);
        self.reattached = self.reattached.saturating_add(1);
        self.watch.reset();
        self.probe.detach();
        let attached = self.attach();
        if !self.wants_wake_ups() {
            self.probe.detach_from(&Hook::WAKE_UPS);
        }
        let Err(refused) = attached else {
            REATTACHED.with([]).increment(1);
            warn!(reason = why, "re-attached the kernel programs");
            return None;
        };
        if self.probe.lacks_mandatory_hook() {
            return Some(format!(
                "{why}, and the programs cannot be re-attached: {refused}; restart the agent"
            ));
        }
        REATTACHED.with([]).increment(1);
        warn!(reason = why, error = %refused, "re-attached only some of the kernel programs");
        None
    }
}
