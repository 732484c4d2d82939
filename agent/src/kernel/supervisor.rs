//! `ProbeSupervisor` keeps the kernel programs counting: the gatherer has it judge each poll. It sheds sampling when
//! switches come too fast, and attaches the wake-up programs only while waits matter. It links the programs anew when a
//! link is gone or they stop counting, and gives them up for procfs when that does not help.

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

/// A second silence within so long of the first means that linking anew does not help.
const RELINKED_FOR_NS: u64 = 3_600_000_000_000;

/// How the kernel programs stand. Each sample says it, so that none that is lost loses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeState {
    /// They count.
    Counting {
        /// So much of their sampling is given up.
        shed: Shed,
        /// True while wake-ups are not listened to because no CPU is nearly full: waits are not measured then, and nothing
        /// goes by them.
        is_calm: bool,
        /// How often they were attached again: what happened just before went uncounted.
        reattached: u32,
        /// What has become of each hook, once one could not be attached again; `None` while it is as at the start.
        verdicts: Option<Arc<[HookVerdict]>>,
    },
    /// They are given up, for this reason; procfs is the source.
    Lost(Arc<str>),
}

/// The programs and what is read beside their counters.
#[derive(Debug)]
pub(crate) struct ProbeSupervisor {
    probe: Probe,
    events: Option<KernelEvents>,
    log: Option<LogDrain>,
    shedder: Shedder,
    wake_ups: WakeUps,
    watch: Watch,
    /// How often the kernel is asked whether it still has the links, and when it was last.
    links_every_ns: u64,
    links_asked_ns: u64,
    reattached: u32,
    /// When they were last attached again.
    reattached_ns: Option<u64>,
    /// What has become of each hook, once one could not be attached again.
    verdicts: Option<Arc<[HookVerdict]>>,
}

impl ProbeState {
    /// Programs that count, with so much given up, as they were attached at the start.
    pub const fn counting(shed: Shed) -> Self {
        Self::Counting {
            shed,
            is_calm: false,
            reattached: 0,
            verdicts: None,
        }
    }

    /// How often the programs were attached again; `None` once they are lost.
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
            links_asked_ns: 0,
            reattached: 0,
            reattached_ns: None,
            verdicts: None,
        }
    }

    /// Rare events so far; what the programs have logged goes to the agent's log.
    pub(crate) fn event_counters(&mut self) -> Result<Option<EventCounters>, SampleError> {
        if let Some(log) = &mut self.log {
            log.flush();
        }
        self.events.as_mut().map(KernelEvents::read).transpose()
    }

    /// What the kernel counted of each program.
    pub(crate) fn runs(&self) -> Option<Vec<Runs>> {
        self.probe.runs().ok()
    }

    /// Judges a poll, or that it failed, and does what it calls for; why the programs are given up, if they are. The
    /// supervisor is to be dropped then.
    pub(crate) fn judge(&mut self, poll: Option<&Poll>, sampler: &mut Sampler) -> Option<Arc<str>> {
        let Some(poll) = poll else {
            // Links made anew would not help: what they write to is not read.
            let reason = self.watch.observe_failure()?;
            sampler.fall_back();
            return Some(reason.into());
        };
        let counts = &poll.counts;
        let silence = self.watch.observe(poll);
        // A link that is gone tells more than the silence that follows from it. The agent's own turns are switches.
        let is_silent = poll.covers_time() && counts.switches == 0;
        let lost = self.lost_link(counts.until_ns, is_silent);
        if let Some(why) = lost.or(silence) {
            let reason = self.link_anew(&why, counts.until_ns)?;
            sampler.fall_back();
            return Some(reason.into());
        }
        if self.wake_ups.observe(poll) {
            self.turn_to_wake_ups();
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

    /// Does something go by how long tasks wait: are CPUs nearly full, or were they lately?
    pub(crate) const fn needs_waits(&self) -> bool {
        self.wake_ups.are_needed()
    }

    /// How the programs stand since the last poll: what the next one counts is made under this.
    pub(crate) fn probe_state(&self) -> ProbeState {
        ProbeState::Counting {
            shed: self.shedder.level(),
            is_calm: !self.wake_ups.are_needed(),
            reattached: self.reattached,
            verdicts: self.verdicts.clone(),
        }
    }

    /// That somebody took a link away, if the kernel says so. It is asked when that is due, or at once.
    fn lost_link(&mut self, now_ns: u64, at_once: bool) -> Option<String> {
        let is_due = now_ns.saturating_sub(self.links_asked_ns) >= self.links_every_ns;
        if !is_due && !at_once {
            return None;
        }
        self.links_asked_ns = now_ns;
        let name = self.probe.lost_link()?.tracepoint();
        Some(format!(
            "somebody took away the kernel's link of the program for {name}"
        ))
    }

    /// Attaches what is not attached, and notes what has become of each hook.
    fn attach(&mut self) -> Result<(), Refused> {
        let attached = self.probe.attach();
        if attached.is_err() || self.verdicts.is_some() {
            self.verdicts = Some(self.probe.verdicts().into());
        }
        attached
    }

    /// Are wake-ups to be listened to? Not while they come too fast, and not while nothing goes by waits.
    fn listens(&self) -> bool {
        self.shedder.level() != Shed::WakeUps && self.wake_ups.are_needed()
    }

    /// Attaches the programs for wake-ups, or detaches them.
    fn arrange(&mut self) -> Result<(), Refused> {
        if self.listens() {
            return self.attach();
        }
        self.probe.detach_from(&Hook::WAKE_UPS);
        Ok(())
    }

    /// Waits begin to matter, or matter no more.
    fn turn_to_wake_ups(&mut self) {
        let are_needed = self.wake_ups.are_needed();
        match self.arrange() {
            // The verdicts tell it as well, and that waits are not seen.
            Err(refused) => warn!(error = %refused, "CPUs fill up, and wake-ups cannot be listened to"),
            Ok(()) if are_needed => info!("CPUs fill up: wake-ups are listened to"),
            Ok(()) => info!(
                calm_for = ?self.wake_ups.calm_for(),
                "no CPU is nearly full: wake-ups are not listened to until one is"
            ),
        }
    }

    fn shed(&mut self, level: Shed, sampler: &mut Sampler) {
        if let Err(refused) = self.arrange() {
            warn!(error = %refused, "wake-ups cannot be listened to again yet");
            self.shedder.stay(Shed::WakeUps);
            return;
        }
        sampler.sample_one_in(level.sampling_shift());
    }

    /// Makes new links from the programs that are loaded; why they are given up, if they are.
    fn link_anew(&mut self, why: &str, now_ns: u64) -> Option<String> {
        let is_recent = |then: u64| now_ns.saturating_sub(then) < RELINKED_FOR_NS;
        if self.reattached_ns.is_some_and(is_recent) {
            return Some(format!(
                "{why}, although they were attached again before; find the program that detaches them, and restart the agent"
            ));
        }
        self.reattached_ns = Some(now_ns);
        self.reattached = self.reattached.saturating_add(1);
        self.watch.begin_anew();
        self.probe.detach();
        let attached = self.attach();
        if !self.listens() {
            self.probe.detach_from(&Hook::WAKE_UPS);
        }
        let Err(refused) = attached else {
            REATTACHED.with([]).increment(1);
            warn!(reason = why, "the kernel programs are attached again");
            return None;
        };
        if self.probe.lacks_mandatory_hook() {
            return Some(format!(
                "{why}, and they cannot be attached again: {refused}; restart the agent"
            ));
        }
        REATTACHED.with([]).increment(1);
        warn!(reason = why, error = %refused, "some of the kernel programs are attached again");
        None
    }
}
