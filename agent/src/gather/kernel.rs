//! Keeps the kernel programs at work: sheds when switches come too fast, links them anew when a link is gone or they stop
//! counting, and gives them up for procfs when that does not help.

use std::sync::Arc;

use tracing::warn;

use super::{
    shed::{Limits, Shed, Shedder},
    watch::Watch,
};
use crate::{
    metrics::RELINKS,
    probe::{Hook, KernelEvents, LogDrain, Probe, Rare, Refused, Runs, Verdict},
    sample::{Poll, SampleError, Sampler, clock::Clocks, procstat},
};

/// A second silence within so long of the first means that linking anew does not help.
const RELINKED_FOR_NS: u64 = 3_600_000_000_000;

/// How the kernel programs stand. Each sample says it, so that none that is lost loses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// They count.
    Counting {
        /// So much of their sampling is given up.
        shed: Shed,
        /// How often they were linked anew: what happened just before went uncounted.
        relinked: u32,
        /// What has become of each hook, once one could not be attached again; `None` while it is as at the start.
        verdicts: Option<Arc<[Verdict]>>,
    },
    /// They are given up, for this reason; procfs is the source.
    Lost(Arc<str>),
}

/// The programs and what is read beside their counters.
#[derive(Debug)]
pub(super) struct Keeper {
    probe: Probe,
    events: Option<KernelEvents>,
    log: Option<LogDrain>,
    shedder: Shedder,
    watch: Watch,
    relinked: u32,
    /// When they were last linked anew.
    relinked_ns: Option<u64>,
    /// What has become of each hook, once one could not be attached again.
    verdicts: Option<Arc<[Verdict]>>,
}

impl Standing {
    /// Programs that count, with so much given up, as they were attached at the start.
    pub const fn counting(shed: Shed) -> Self {
        Self::Counting {
            shed,
            relinked: 0,
            verdicts: None,
        }
    }

    /// How often the programs were linked anew; `None` once they are lost.
    pub const fn relinked(&self) -> Option<u32> {
        match self {
            Self::Counting { relinked, .. } => Some(*relinked),
            Self::Lost(_) => None,
        }
    }
}

impl Keeper {
    pub(super) fn new(mut probe: Probe, watch: Watch, limits: Limits) -> Self {
        Self {
            events: probe.take_events(),
            log: probe.take_log(),
            probe,
            shedder: Shedder::new(limits),
            watch,
            relinked: 0,
            relinked_ns: None,
            verdicts: None,
        }
    }

    /// Rare events so far; what the programs have logged goes to the agent's log.
    pub(super) fn rare(&mut self) -> Result<Option<Rare>, SampleError> {
        if let Some(log) = &mut self.log {
            log.flush();
        }
        self.events.as_mut().map(KernelEvents::read).transpose()
    }

    /// What the kernel counted of each program.
    pub(super) fn runs(&self) -> Option<Vec<Runs>> {
        self.probe.runs().ok()
    }

    /// Judges a poll, and does what it calls for; why the programs are given up, if they are. The keeper is to be dropped
    /// then.
    pub(super) fn judge(&mut self, poll: &Poll, sampler: &mut Sampler) -> Option<Arc<str>> {
        let counts = &poll.counts;
        let lost = self.probe.lost_link().map(|hook| {
            let name = hook.tracepoint();
            format!("somebody took away the kernel's link of the program for {name}")
        });
        if let Some(why) = lost.or_else(|| self.watch.take(poll)) {
            let reason = self.link_anew(&why, counts.until_ns)?;
            sampler.replace_source(Box::new(procstat::Source::new(Clocks::read().monotonic_ns)));
            return Some(reason.into());
        }
        let length_ns = counts.until_ns.saturating_sub(counts.from_ns);
        if length_ns > 0 {
            let per_s = u128::from(counts.busiest_switches) * 1_000_000_000 / u128::from(length_ns);
            let per_s = u64::try_from(per_s).unwrap_or(u64::MAX);
            if let Some(level) = self.shedder.take(per_s, counts.until_ns) {
                self.shed(level, sampler);
            }
        }
        None
    }

    /// How the programs stand now.
    pub(super) fn standing(&self) -> Standing {
        Standing::Counting {
            shed: self.shedder.level(),
            relinked: self.relinked,
            verdicts: self.verdicts.clone(),
        }
    }

    /// Attaches what is not attached, and notes what has become of each hook.
    fn attach(&mut self) -> Result<(), Refused> {
        let attached = self.probe.attach();
        if attached.is_err() || self.verdicts.is_some() {
            self.verdicts = Some(self.probe.verdicts().into());
        }
        attached
    }

    fn shed(&mut self, level: Shed, sampler: &mut Sampler) {
        if level == Shed::WakeUps {
            self.probe.detach_from(&Hook::WAKE_UPS);
        } else if let Err(refused) = self.attach() {
            warn!(error = %refused, "wake-ups cannot be listened to again yet");
            self.shedder.stay(Shed::WakeUps);
            return;
        }
        sampler.sample_one_in(level.sampling_shift());
    }

    /// Makes new links from the programs that are loaded; why they are given up, if they are.
    fn link_anew(&mut self, why: &str, now_ns: u64) -> Option<String> {
        let is_recent = |then: u64| now_ns.saturating_sub(then) < RELINKED_FOR_NS;
        if self.relinked_ns.is_some_and(is_recent) {
            return Some(format!(
                "{why}, although they were attached anew before; find out who takes them away, and restart the agent"
            ));
        }
        self.relinked_ns = Some(now_ns);
        self.relinked = self.relinked.saturating_add(1);
        self.watch.begin_anew();
        self.probe.detach();
        let attached = self.attach();
        if self.shedder.level() == Shed::WakeUps {
            self.probe.detach_from(&Hook::WAKE_UPS);
        }
        let Err(refused) = attached else {
            RELINKS.with([]).increment(1);
            warn!(reason = why, "the kernel programs are attached anew");
            return None;
        };
        if !self.probe.is_attached(Hook::SchedSwitch) {
            return Some(format!(
                "{why}, and they cannot be attached anew: {refused}; restart the agent"
            ));
        }
        RELINKS.with([]).increment(1);
        warn!(reason = why, error = %refused, "some of the kernel programs are attached anew");
        None
    }
}
