//! Finds contradictions between an agent's reports and its kubelet, or its earlier reports; they put a node in
//! quarantine. Time is an argument. See docs/capacity.md#quarantine.
//!
//! An agent that is wrong, or lies, must not have its node amplified. A correct agent must not be punished for news
//! that has not reached it yet: a contradiction of capacity or memory pressure counts when all of its reports have it
//! for a minute, and ends with the first report that agrees. Use is compared over two frames and two minutes.

use std::{collections::VecDeque, time::Duration};

use super::{AgentMode, Brake, NodeHint, ResourceHint, capacity_tolerance::differs};
use crate::resource::{PerResource, Resource};

/// For how long reports must contradict what the Node says before that counts: an agent is told of it within a second and
/// reports every 15.
const LASTS: Duration = Duration::from_secs(60);
/// How long a node whose boot id went back is not believed.
const BOOT_PENALTY: Duration = Duration::from_secs(600);
/// Boot ids that are remembered.
const MOST_BOOTS: usize = 8;
/// Use that is below this part of the kubelet's figure, in ppm, contradicts it. Of memory the kubelet counts all active
/// page cache as used, the agent half of it.
const LEAST_USE_PPM: PerResource<u64> = PerResource {
    cpu: 700_000,
    memory: 350_000,
};
/// Where the kubelet says that less is used than this part of capacity, in percent, the two are not compared.
const COMPARED_FROM: u64 = 10;
/// Use is compared over two frames and this: an agent's figure is the mean of its last whole frame.
const USE_SLACK: Duration = Duration::from_secs(120);
/// The least number of figures that a comparison is made of, and of figures that agree before it ends.
const LEAST_FIGURES: usize = 3;
/// Figures that are older than this, and none came since, are nobody's.
const USE_FORGOTTEN: Duration = Duration::from_secs(300);

/// What a report contradicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Contradiction {
    /// The machine that it speaks of is not the one that the kubelet speaks of.
    Capacity,
    /// It does not brake memory although the Node's condition `MemoryPressure` is true.
    MemoryPressure,
    /// It says that less is used than its kubelet says.
    Use,
    /// It is of a boot that had ended when earlier reports came.
    EarlierBoot,
}

/// What the Node object says of the machine, in milli-cores and bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ByKubelet {
    /// `status.capacity`.
    pub capacity: PerResource<Option<u64>>,
    /// Raw allocatable.
    pub raw: PerResource<Option<u64>>,
    /// True while the condition `MemoryPressure` is.
    pub has_memory_pressure: bool,
}

/// The findings on one agent's reports so far. `now` is monotonic time.
#[derive(Debug, Default)]
pub struct ReportCheck {
    /// The latest last. A boot id that comes again after another one is one that had ended.
    boots: VecDeque<String>,
    went_back: Option<Duration>,
    /// Since when each report has had it.
    capacity: Since,
    pressure: Since,
    figures: Figures,
    /// The contradiction that the Node has on record, and since when.
    recorded: Option<(Contradiction, Duration)>,
}

/// A contradiction: since when, and when it was last looked for.
#[derive(Debug, Clone, Copy, Default)]
struct Since {
    first: Option<Duration>,
    last: Duration,
}

/// Use by the agent and by its kubelet, side by side.
#[derive(Debug, Default)]
struct Figures {
    /// When they came, the agent's, the kubelet's; oldest first.
    pairs: VecDeque<(Duration, PerResource<u64>, PerResource<u64>)>,
    is_contradicted: bool,
    /// Figures in a row that agreed.
    agreeing: usize,
}

impl Contradiction {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Capacity, Self::MemoryPressure, Self::Use, Self::EarlierBoot];

    /// The word in metrics and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Capacity => "capacity",
            Self::MemoryPressure => "memory-pressure",
            Self::Use => "use",
            Self::EarlierBoot => "earlier-boot",
        }
    }

    /// What it is, for people: the end of a sentence about a node.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Capacity => "its agent goes on speaking of another machine than its kubelet",
            Self::MemoryPressure => "its agent finds memory to spare, its kubelet is short of it",
            Self::Use => "its agent says that far less is used than its kubelet says",
            Self::EarlierBoot => "its agent reported from a boot that had ended",
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
        // An agent that is blind claims nothing.
        let claims = hint.sight != AgentMode::Blind;
        let is_braked = hint.resources.memory.brake == Brake::Stop;
        self.capacity
            .update(claims && is_of_another_machine(hint, kubelet), now);
        self.pressure
            .update(claims && kubelet.has_memory_pressure && !is_braked, now);
    }

    /// Compares the use that the kubelet reports, in milli-cores and bytes, with a fresh report.
    pub fn compare(&mut self, hint: &NodeHint, used: PerResource<u64>, now: Duration) {
        if hint.sight == AgentMode::Blind {
            return;
        }
        let cpu = &hint.resources.cpu;
        let isolated = believable_isolated(cpu);
        // Kubelets may count as used what a hypervisor took.
        let steal = u128::from(cpu.capacity - isolated) * u128::from(hint.steal_ppm) / 1_000_000;
        let steal = u64::try_from(steal).unwrap_or(u64::MAX);
        let said = PerResource {
            // Kubelets count isolated CPUs, agents do not: all of their time may be in the one figure alone.
            cpu: cpu.usage.saturating_add(steal).saturating_add(isolated),
            memory: hint.resources.memory.usage,
        };
        let capacity = hint.resources.map(|_, part| part.capacity);
        self.figures
            .update((said, used), &capacity, hint.timing.timing().frame(), now);
    }

    /// Records the contradiction that the stored Node names, if any.
    pub fn record(&mut self, contradiction: Option<Contradiction>, now: Duration) {
        let before = self.recorded.filter(|(before, _)| Some(*before) == contradiction);
        self.recorded = before.or_else(|| Some((contradiction?, now)));
    }

    /// The contradiction in its reports, if any: the node is in quarantine then.
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
    /// True if a recorded contradiction still counts although these reports do not show it, as after a restart of the replica.
    /// It counts until a report refutes it, and for ten minutes at most.
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

impl Since {
    fn update(&mut self, is_there: bool, now: Duration) {
        self.last = now;
        self.first = is_there.then(|| self.first.unwrap_or(now));
    }

    fn counts(self) -> bool {
        self.first
            .is_some_and(|first| self.last.saturating_sub(first) >= LASTS)
    }
}

impl Figures {
    fn update(
        &mut self,
        (said, used): (PerResource<u64>, PerResource<u64>),
        capacity: &PerResource<u64>,
        frame: Duration,
        now: Duration,
    ) {
        let is_below = |resource: Resource, said: u64, used: u64| {
            let counts =
                u128::from(used) * 100 >= u128::from(*capacity.get(resource)) * u128::from(COMPARED_FROM);
            let least = u128::from(used) * u128::from(*LEAST_USE_PPM.get(resource));
            counts && u128::from(said) * 1_000_000 < least
        };
        if self.is_old(now) {
            *self = Self::default();
        }
        let agrees = Resource::ALL
            .into_iter()
            .all(|resource| !is_below(resource, *said.get(resource), *used.get(resource)));
        self.agreeing = if agrees { self.agreeing + 1 } else { 0 };
        let span = frame * 2 + USE_SLACK;
        self.pairs.push_back((now, said, used));
        // The oldest that is kept is of before the span: all of it is covered.
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
        // Whatever the load did meanwhile, an honest mean is not below the least of it.
        let is_contradicted = |resource: Resource| {
            let said = self.pairs.iter().map(|(_, said, _)| *said.get(resource)).max();
            let used = self.pairs.iter().map(|(_, _, used)| *used.get(resource)).min();
            said.zip(used)
                .is_some_and(|(said, used)| is_below(resource, said, used))
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

/// What isolated CPUs may add to the kubelet's figure, in milli-cores. Agents leave at least one CPU that is not isolated: a
/// report of as many as there are explains nothing.
const fn believable_isolated(cpu: &ResourceHint) -> u64 {
    if cpu.isolated < cpu.capacity {
        cpu.isolated
    } else {
        0
    }
}

/// True if the report's machine is not the one of the Node: other CPUs, more memory than its capacity, or less than what
/// its kubelet hands out. Less than its capacity can be huge pages, which agents leave out; 0 is nothing said.
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
