//! Every signal that the agent measures, declared once: its source, its cost, the loss without it, and its metric.
//!
//! `/status`, the debug service, `kubectl headroom agent signals` and docs/reference/signals.md are derived from the
//! table.

mod table;

use std::collections::BTreeSet;

use headroom_kit::metric::Metric;

pub use self::table::SIGNALS;
use crate::{
    gather::GatheredSignal,
    kernel::{
        cpu_source::{CALM, CpuSource},
        hooks::{EventCounters, Hook},
        probe::Health,
        supervisor::{Limits, Shed},
    },
    local::status::{Measured, SignalStatus},
    sample::{
        Origin,
        plain::{PlainReading, PlainReadings, PlainSignal},
    },
};

#[derive(Debug)]
pub struct Signal {
    /// Lower-case words joined by hyphens.
    pub name: &'static str,
    /// Description in a few words.
    pub about: &'static str,
    /// Unit of the value.
    pub unit: Unit,
    /// Hooks of the kernel programs behind it; all are needed unless there are files to fall back to.
    pub hooks: &'static [Hook],
    /// Files behind it; empty for a signal of hooks only.
    pub files: &'static str,
    /// Its reading, if it is one number that is shown as it is.
    pub plain: Option<&'static PlainSignal>,
    /// The reading that it is part of.
    pub reading: GatheredSignal,
    /// Feature that a machine may lack, besides hooks.
    pub need: Need,
    /// Part that may be missing while the rest works.
    pub part: Option<Part>,
    /// The oldest kernel that has it.
    pub kernel: &'static str,
    /// Measured cost.
    pub cost: &'static str,
    /// Effect of its absence.
    pub missing: &'static str,
    /// The metric that shows it; some are only in `/status`.
    pub metric: Option<&'static Metric>,
    /// Its value, from the last measurements, unless it is plain.
    pub value: fn(&Readings<'_>) -> Option<u64>,
}

/// A part of a signal's sources without which it is measured all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Required feature.
    pub need: Need,
    /// The files that are left without it.
    pub rest: &'static str,
    /// Effect of its absence.
    pub missing: &'static str,
}

/// Unit of a signal's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Milli,
    Ppm,
    Bytes,
    Micros,
    Millis,
    MegabytesPerSecond,
    PerSecond,
    Count,
}

/// Feature that a machine may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// Nothing: every kernel that can run pods has it.
    Nothing,
    CpuPressure,
    MemoryPressure,
    Kubepods,
    WorkingSet,
    /// Its own memory pressure (cgroup version 2).
    KubepodsPressure,
    /// Its count of the times it met its own memory limit.
    LimitEvents,
}

/// Last measurements, and the results of the attempts at them.
#[derive(Debug)]
pub struct Readings<'a> {
    /// Values for `/status`.
    pub measured: Option<Measured>,
    /// CPU that all tracked pods used in the last frame, in milli-cores, and their memory, in bytes.
    pub pods: Option<(u64, u64)>,
    /// Signals that are shown as they are.
    pub plain: &'a PlainReadings,
    /// Counters of the kernel programs for signals that show one; `None` from procfs.
    pub events: Option<EventCounters>,
    /// Source of CPU use, with the reason for it.
    pub cpu_source: &'a CpuSource,
    /// Readings that fail at the moment.
    pub failing: &'a BTreeSet<GatheredSignal>,
    /// Missing features of the machine.
    pub lacking: &'a BTreeSet<Need>,
}

impl Unit {
    /// Its name on the wire and in `/status`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Milli => "milli",
            Self::Ppm => "ppm",
            Self::Bytes => "bytes",
            Self::Micros => "us",
            Self::Millis => "ms",
            Self::MegabytesPerSecond => "MB/s",
            Self::PerSecond => "per s",
            Self::Count => "count",
        }
    }
}

impl Signal {
    /// Possible sources as text for users: hooks, then files.
    pub fn source(&self) -> String {
        let hooks: Vec<_> = self.hooks.iter().map(|hook| hook.tracepoint()).collect();
        let parts = [hooks.join(" + "), self.files.to_owned()];
        parts
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// Current status.
    pub fn status(&self, readings: &Readings<'_>) -> SignalStatus {
        let (health, why) = self.health(readings);
        let is_from_files = !self.files.is_empty() && readings.cpu_source.origin == Origin::Procfs;
        let source = if is_from_files {
            self.files.to_owned()
        } else {
            self.source()
        };
        let without_part = self.part.and_then(|part| {
            let why = part.need.lack(readings.lacking)?;
            Some((
                part.rest.to_owned(),
                Some(format!("{}; the reason: {why}", part.missing)),
            ))
        });
        let is_resting = self.files.is_empty() && readings.cpu_source.rests(self.hooks);
        let (source, missing) = match (health, why) {
            (Health::Ok, None) if is_resting => (source, Some(CALM.to_owned())),
            (Health::Ok, _) => without_part.unwrap_or((source, None)),
            (_, Some(why)) => (source, Some(format!("{}; the reason: {why}", self.missing))),
            (_, None) => (source, Some(self.missing.to_owned())),
        };
        SignalStatus {
            name: self.name.to_owned(),
            source,
            health: health.name().to_owned(),
            unit: self.unit.name().to_owned(),
            value: self
                .value(readings)
                .filter(|_| health == Health::Ok && !is_resting),
            missing,
        }
    }

    fn value(&self, readings: &Readings<'_>) -> Option<u64> {
        let Some(plain) = self.plain else {
            return (self.value)(readings);
        };
        match readings.plain.get(plain.name)? {
            PlainReading::Value(value) => Some(*value),
            PlainReading::First | PlainReading::Absent | PlainReading::Failed => None,
        }
    }

    fn health(&self, readings: &Readings<'_>) -> (Health, Option<String>) {
        let plain = self
            .plain
            .and_then(|plain| Some((plain, readings.plain.get(plain.name)?)));
        match plain {
            Some((_, PlainReading::Failed)) => {
                return (Health::Failed, Some("reading it failed, see the log".to_owned()));
            }
            Some((plain, PlainReading::Absent)) => {
                return (Health::Unsupported, Some(plain.lacks.to_owned()));
            }
            Some((_, PlainReading::Value(_) | PlainReading::First)) => return (Health::Ok, None),
            None => {}
        }
        let Readings {
            cpu_source,
            failing,
            lacking,
            ..
        } = readings;
        if failing.contains(&self.reading) {
            return (Health::Failed, Some("reading it failed, see the log".to_owned()));
        }
        if let Some(lacks) = self.need.lack(lacking) {
            return (Health::Unsupported, Some(lacks.to_owned()));
        }
        if self.files.is_empty() {
            return without_hooks(cpu_source, self.hooks).unwrap_or((Health::Ok, None));
        }
        (Health::Ok, None)
    }
}

impl Need {
    /// Why it is not there, on a machine that lacks these; `None` if it is.
    fn lack(self, lacking: &BTreeSet<Self>) -> Option<&'static str> {
        let is_of_kubepods = match self {
            Self::Nothing | Self::CpuPressure | Self::MemoryPressure => false,
            Self::Kubepods | Self::WorkingSet | Self::KubepodsPressure | Self::LimitEvents => true,
        };
        if is_of_kubepods && lacking.contains(&Self::Kubepods) {
            return Some("there is no cgroup kubepods");
        }
        let why = match self {
            Self::Nothing | Self::Kubepods => return None,
            Self::CpuPressure => "this kernel has no CPU pressure",
            Self::MemoryPressure => "this kernel has no memory pressure",
            Self::WorkingSet => "kubepods has no memory.current and no memory.usage_in_bytes",
            Self::KubepodsPressure => "kubepods has no memory.pressure, which cgroup version 1 never has",
            Self::LimitEvents => {
                "kubepods has no memory.events.local, which version 2 has since Linux 5.3, and no memory.failcnt"
            }
        };
        lacking.contains(&self).then_some(why)
    }
}

/// The status of every signal.
pub fn status(readings: &Readings<'_>) -> Vec<SignalStatus> {
    SIGNALS.iter().map(|signal| signal.status(readings)).collect()
}

/// Status of a signal that needs these hooks and does not have all of them.
fn without_hooks(cpu_source: &CpuSource, hooks: &[Hook]) -> Option<(Health, Option<String>)> {
    let refused = |verdict: &&crate::kernel::probe::HookVerdict| verdict.health != Health::Ok;
    match cpu_source.origin {
        Origin::Ebpf if cpu_source.shed == Shed::WakeUps && hooks.contains(&Hook::SchedWakeup) => {
            let hot = Limits::hot_text();
            let why = format!("it is not measured while a CPU switches more than {hot} times a second");
            Some((Health::Unsupported, Some(why)))
        }
        Origin::Ebpf => {
            let mut verdicts = cpu_source.verdicts.iter();
            let verdict = verdicts.rfind(|verdict| hooks.contains(&verdict.hook) && refused(verdict))?;
            Some((verdict.health, verdict.reason.clone()))
        }
        Origin::Procfs => {
            // Without a verdict procfs was configured.
            let verdict = cpu_source.verdicts.iter().rfind(refused);
            let health = verdict.map_or(Health::Unsupported, |verdict| verdict.health);
            Some((health, cpu_source.obstacle.clone()))
        }
    }
}

#[cfg(test)]
mod tests;
