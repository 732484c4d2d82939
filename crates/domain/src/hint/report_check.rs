//! [`ReportCheck`] finds contradictions between an agent's reports and its kubelet, or its earlier reports; they put
//! a node in quarantine. Time is an argument. See docs/capacity.md#quarantine.
//!
//! A faulty or malicious agent must not get its node amplified. A correct agent must not be penalized for changes
//! that have not reached it yet: a contradiction of capacity or memory pressure counts when all its reports of one
//! minute have it, and ends with the first report that agrees. Use is compared over two frames and two minutes.

use std::{collections::VecDeque, time::Duration};

use super::{AgentMode, Brake, NodeHint, ResourceHint, capacity_tolerance::differs};
use crate::resource::{PerResource, Resource};

/// Time for which all reports must contradict the Node before that counts: an agent learns of a change within a
/// second and reports every 15 s.
const LASTS: Duration = Duration::from_secs(60);
/// Time for which a node is in quarantine after its boot ID went back.
const BOOT_PENALTY: Duration = Duration::from_secs(600);
/// Most boot IDs that are remembered.
const MOST_BOOTS: usize = 8;
/// Use below this part of the kubelet's value, in ppm, contradicts it. For memory, a kubelet counts all active page
/// cache as used, an agent half of it.
const LEAST_USE_PPM: PerResource<u64> = PerResource {
    cpu: 700_000,
    memory: 350_000,
};
/// Use is compared only if the kubelet reports at least this part of capacity, in percent.
const COMPARED_FROM: u64 = 10;
/// Use is compared over two frames plus this time: an agent's value is the mean of its last complete frame.
const USE_SLACK: Duration = Duration::from_secs(120);
/// Least number of pairs in a comparison, and of consecutive agreeing pairs that end a contradiction.
const LEAST_FIGURES: usize = 3;
/// Pairs are dropped if no new one arrives for this time.
const USE_FORGOTTEN: Duration = Duration::from_secs(300);

/// Contradiction between a report and other facts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Contradiction {
    /// Its capacity differs from the kubelet's.
    Capacity,
    /// It does not brake memory although the Node's condition `MemoryPressure` is true.
    MemoryPressure,
    /// It reports far less use than its kubelet.
    Use,
    /// Its boot ID is that of a boot that had ended when earlier reports arrived.
    EarlierBoot,
}

/// Machine in the Node object, in milli-cores and bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ByKubelet {
    /// Value of `status.capacity`; `None` if unreadable.
    pub capacity: PerResource<Option<u64>>,
    /// Raw allocatable; `None` if unknown.
    pub raw: PerResource<Option<u64>>,
    /// True while the condition `MemoryPressure` is true.
    pub has_memory_pressure: bool,
}

/// Findings on the reports of one agent. `now` is monotonic time.
#[derive(Debug, Default)]
pub struct ReportCheck {
    /// Newest last. A boot ID that returns after another one belongs to a boot that had ended.
    boots: VecDeque<String>,
    went_back: Option<Duration>,
    /// Start of the current run of contradicting reports.
    capacity: ContradictionSpan,
    pressure: ContradictionSpan,
    figures: UseComparison,
    /// Contradiction recorded on the Node, and the time of its first observation.
    recorded: Option<(Contradiction, Duration)>,
}

/// Start of an uninterrupted contradiction, and time of the last check.
#[derive(Debug, Clone, Copy, Default)]
struct ContradictionSpan {
    first: Option<Duration>,
    last: Duration,
}

/// Pairs of use values from the agent and from its kubelet.
#[derive(Debug, Default)]
struct UseComparison {
    /// Time, agent's value and kubelet's value; oldest first.
    pairs: VecDeque<(Duration, PerResource<u64>, PerResource<u64>)>,
    is_contradicted: bool,
    /// Number of consecutive pairs that agreed.
    agreeing: usize,
}

impl Contradiction {
    /// All kinds, in the order of precedence.
    pub const ALL: [Self; 4] = [Self::Capacity, Self::MemoryPressure, Self::Use, Self::EarlierBoot];

    /// Word in metrics and logs, such as `memory-pressure`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Capacity => "capacity",
            Self::MemoryPressure => "memory-pressure",
            Self::Use => "use",
            Self::EarlierBoot => "earlier-boot",
        }
    }

    /// Short description for users: the end of a sentence about a node.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Capacity => "its agent keeps reporting another capacity than its kubelet",
            Self::MemoryPressure => {
                "its agent does not brake memory although its kubelet reports MemoryPressure"
            }
            Self::Use => "its agent reports far less use than its kubelet",
            Self::EarlierBoot => "its agent sent a report from a boot that had ended",
        }
    }
}

impl ReportCheck {
    /// Compares an accepted report with the Node.
    pub fn report(&mut self, hint: &NodeHint, kubelet: &ByKubelet, now: Duration) {
        if self.boots.back() != Some(&hint.boot_id) {
            if self.boots.contains(&hint.boot_id) {
                self.went_back = Some(now);
                self.boots.retain(|boot| *boot != hint.boot_id);
            }
            self.boots.push_back(hint.boot_id.clone());
            if self.boots.len() > MOST_BOOTS {
                self.boots.pop_front();
            }
        }
        // A blind agent makes no claims.
        let claims = hint.sight != AgentMode::Blind;
        let is_braked = hint.resources.memory.brake == Brake::Stop;
        self.capacity
            .update(claims && is_of_another_machine(hint, kubelet), now);
        self.pressure
            .update(claims && kubelet.has_memory_pressure && !is_braked, now);
    }

    /// Compares the use reported by the kubelet, in milli-cores and bytes, with a fresh report.
    pub fn compare(&mut self, hint: &NodeHint, used: PerResource<u64>, now: Duration) {
        if hint.sight == AgentMode::Blind {
            return;
        }
        let cpu = &hint.resources.cpu;
        let isolated = plausible_isolated(cpu);
        // Kubelets may count time stolen by a hypervisor as use.
        let steal = u128::from(cpu.capacity - isolated) * u128::from(hint.steal_ppm) / 1_000_000;
        let steal = u64::try_from(steal).unwrap_or(u64::MAX);
        let reported = PerResource {
            // Kubelets count isolated CPUs, agents do not: up to all their time may be missing from the agent's
            // value.
            cpu: cpu.usage.saturating_add(steal).saturating_add(isolated),
            memory: hint.resources.memory.usage,
        };
        let capacity = hint.resources.map(|_, part| part.capacity);
        self.figures
            .update((reported, used), &capacity, hint.timing.timing().frame(), now);
    }

    /// Records the contradiction in the stored Node's annotation, if any.
    pub fn record(&mut self, contradiction: Option<Contradiction>, now: Duration) {
        let before = self.recorded.filter(|(before, _)| Some(*before) == contradiction);
        self.recorded = before.or_else(|| Some((contradiction?, now)));
    }

    /// Current contradiction in the agent's reports, if any: it puts the node in quarantine.
    pub fn verdict(&self, now: Duration) -> Option<Contradiction> {
        let went_back = self
            .went_back
            .is_some_and(|at| now.saturating_sub(at) < BOOT_PENALTY);
        let found = [
            (self.capacity.counts(), Contradiction::Capacity),
            (self.pressure.counts(), Contradiction::MemoryPressure),
            (self.figures.count(now), Contradiction::Use),
            (went_back, Contradiction::EarlierBoot),
        ];
        found
            .into_iter()
            .find_map(|(is_found, contradiction)| is_found.then_some(contradiction))
    }
}

impl ReportCheck {
    /// Returns true if a recorded contradiction still counts although these reports do not show it, for example after
    /// a restart of the replica. It counts until a report refutes it, for at most ten minutes.
    pub fn upholds(&self, contradiction: Contradiction, now: Duration) -> bool {
        let recorded = self.recorded.filter(|(recorded, _)| *recorded == contradiction);
        let since = recorded.map_or(now, |(_, since)| since);
        let has_reported = !self.boots.is_empty();
        let is_refuted = match contradiction {
            Contradiction::Capacity => has_reported && self.capacity.first.is_none(),
            Contradiction::MemoryPressure => has_reported && self.pressure.first.is_none(),
            Contradiction::Use => self.figures.agreeing >= LEAST_FIGURES,
            Contradiction::EarlierBoot => false,
        };
        !is_refuted && now.saturating_sub(since) < BOOT_PENALTY
    }
}

impl ContradictionSpan {
    fn update(&mut self, is_there: bool, now: Duration) {
        self.last = now;
        self.first = is_there.then(|| self.first.unwrap_or(now));
    }

    fn counts(self) -> bool {
        self.first
            .is_some_and(|first| self.last.saturating_sub(first) >= LASTS)
    }
}

impl UseComparison {
    fn update(
        &mut self,
        (reported, used): (PerResource<u64>, PerResource<u64>),
        capacity: &PerResource<u64>,
        frame: Duration,
        now: Duration,
    ) {
        let is_below = |resource: Resource, reported: u64, used: u64| {
            let counts =
                u128::from(used) * 100 >= u128::from(*capacity.get(resource)) * u128::from(COMPARED_FROM);
            let least = u128::from(used) * u128::from(*LEAST_USE_PPM.get(resource));
            counts && u128::from(reported) * 1_000_000 < least
        };
        if self.is_old(now) {
            *self = Self::default();
        }
        let agrees = Resource::ALL
            .into_iter()
            .all(|resource| !is_below(resource, *reported.get(resource), *used.get(resource)));
        self.agreeing = if agrees { self.agreeing + 1 } else { 0 };
        let span = frame * 2 + USE_SLACK;
        self.pairs.push_back((now, reported, used));
        // The oldest pair is from before the span, so that the span is covered completely.
        while self
            .pairs
            .get(1)
            .is_some_and(|(at, _, _)| now.saturating_sub(*at) >= span)
        {
            self.pairs.pop_front();
        }
        let covers = self
            .pairs
            .front()
            .is_some_and(|(at, _, _)| now.saturating_sub(*at) >= span);
        // However the load changed, a correct mean is not below the minimum of the kubelet's values.
        let is_contradicted = |resource: Resource| {
            let reported = self
                .pairs
                .iter()
                .map(|(_, reported, _)| *reported.get(resource))
                .max();
            let used = self.pairs.iter().map(|(_, _, used)| *used.get(resource)).min();
            reported
                .zip(used)
                .is_some_and(|(reported, used)| is_below(resource, reported, used))
        };
        if covers && self.pairs.len() >= LEAST_FIGURES && Resource::ALL.into_iter().any(is_contradicted) {
            self.is_contradicted = true;
        } else if self.agreeing >= LEAST_FIGURES {
            self.is_contradicted = false;
        }
    }

    fn count(&self, now: Duration) -> bool {
        self.is_contradicted && !self.is_old(now)
    }

    fn is_old(&self, now: Duration) -> bool {
        self.pairs
            .back()
            .is_none_or(|(at, _, _)| now.saturating_sub(*at) > USE_FORGOTTEN)
    }
}

/// Milli-cores that isolated CPUs may add to the kubelet's value. Agents leave at least one CPU that is not isolated,
/// so a report in which all are isolated does not count.
const fn plausible_isolated(cpu: &ResourceHint) -> u64 {
    if cpu.isolated < cpu.capacity {
        cpu.isolated
    } else {
        0
    }
}

/// Returns true if the report is from another machine than the Node: other CPUs, more memory than its capacity, or
/// less than its raw allocatable. Memory below capacity can be huge pages, which agents exclude. 0 counts as not
/// reported.
fn is_of_another_machine(hint: &NodeHint, kubelet: &ByKubelet) -> bool {
    let PerResource { cpu, memory } = hint.resources.map(|_, part| part.capacity);
    let has_other_cpus = kubelet
        .capacity
        .cpu
        .is_some_and(|whole| differs(whole, whole.abs_diff(cpu)));
    let has_more = kubelet
        .capacity
        .memory
        .is_some_and(|whole| differs(whole, memory.saturating_sub(whole)));
    let has_less = kubelet
        .raw
        .memory
        .is_some_and(|raw| differs(raw, raw.saturating_sub(memory)));
    (cpu > 0 && has_other_cpus) || has_more || (memory > 0 && has_less)
}

#[cfg(test)]
mod tests;
