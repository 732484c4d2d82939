//! State machine of the demo over snapshots: detects events, decides when the load starts and ends, and collects data for
//! the checks.

pub(super) mod checks;

use std::collections::BTreeMap;

use headroom_domain::resource::Resource;

use super::{cluster_state::NodeState, snapshot::Snapshot};

/// Ratio that counts as risen, in cents.
const RISEN_CENTS: u64 = 115;
/// The load starts once the ratio has been constant for this time, but not before [`LOAD_NOT_BEFORE_MS`].
const STEADY_MS: u64 = 4000;
/// Earliest start of the load after Node Ready.
const LOAD_NOT_BEFORE_MS: u64 = 34_000;
/// Latest start of the load after Node Ready, even if the ratio still changes.
const LOAD_NOT_AFTER_MS: u64 = 46_000;
/// Free capacity before the load starts, in percent of raw: with less, its removal would not be visible.
const FREE_PERCENT: u64 = 5;
const LOAD_MS: u64 = 6000;
/// CPU use from which a second counts as saturated, in percent of capacity.
const SATURATED_PERCENT: u64 = 95;
/// Free capacity that must return, in percent of that before the load.
const RECOVERED_PERCENT: u64 = 80;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Pods request more than they use; the ratio should rise, and the pending pods should be scheduled.
    Rise,
    /// Real load; free capacity should be removed.
    Load,
    /// After the load; free capacity should return.
    Recover,
    /// Every event has been observed.
    Done,
}

impl Phase {
    pub(super) const fn sentence(self) -> &'static str {
        match self {
            Self::Rise => "pods request far more than they use: ratio rises, pending pods are scheduled",
            Self::Load => "real load: brake and ratio remove free capacity, no bound pod is affected",
            Self::Recover => "load ended: its peak counts for 20 s, then free capacity returns",
            Self::Done => "complete: every step of the demo has been observed",
        }
    }
}

/// A change that is printed and reported in `--json`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// The Node was Ready for the first time.
    NodeReady,
    /// The scheduler rejected a pending pod: not enough CPU.
    Refused,
    /// The CPU ratio reached [`RISEN_CENTS`].
    Risen,
    /// All pending pods are scheduled.
    Admitted,
    /// The load has to start now.
    LoadStart,
    /// First second with saturated CPUs.
    Saturated,
    /// Free capacity is at most half of that before the load.
    Taken,
    /// The load has to end now.
    LoadEnd,
    /// [`RECOVERED_PERCENT`] of the free capacity before the load has returned.
    Recovered,
}

impl Event {
    /// Value of `event` in `--json` lines.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::NodeReady => "node-ready",
            Self::Refused => "failed-scheduling",
            Self::Risen => "ratio-risen",
            Self::Admitted => "scheduled",
            Self::LoadStart => "load-start",
            Self::Saturated => "saturated",
            Self::Taken => "free-halved",
            Self::LoadEnd => "load-end",
            Self::Recovered => "recovered",
        }
    }
}

/// Phase, observed events and data for the checks.
#[derive(Debug)]
pub(super) struct Story {
    phase: Phase,
    /// Snapshot at each observed event.
    seen: BTreeMap<Event, Snapshot>,
    /// Last CPU ratio in cents, and the time of its change in milliseconds.
    ratio_changed: (u64, u64),
    /// Largest amount by which bound CPU requests exceeded allocatable, in milli-cores.
    undercut: Option<u64>,
    /// Failure or deletion of a bound pod.
    pod_failure: Option<String>,
    formula_broken: Option<String>,
    sources: Vec<String>,
    /// First and last run count of the eBPF program.
    runs: Option<(u64, u64)>,
    /// Measurements: CPU use without and with stolen time, and ground truth, in milli-cores.
    truth: Vec<(u64, u64, u64)>,
    /// Highest CPU use by other processes, and CPU capacity, in milli-cores.
    busiest: (u64, u64),
    last: Snapshot,
}

impl Story {
    pub(super) fn new() -> Self {
        Self {
            phase: Phase::Rise,
            seen: BTreeMap::new(),
            ratio_changed: (0, 0),
            undercut: None,
            pod_failure: None,
            formula_broken: None,
            sources: Vec::new(),
            runs: None,
            truth: Vec::new(),
            busiest: (0, 0),
            last: Snapshot::default(),
        }
    }

    pub(super) fn phase(&self) -> Phase {
        self.phase
    }

    /// Processes a snapshot and returns new events. The caller starts the load on [`Event::LoadStart`] and ends it on
    /// [`Event::LoadEnd`].
    pub(super) fn observe(&mut self, now: &Snapshot) -> Vec<Event> {
        self.check_always(now);
        let mut events = Vec::new();
        self.note(Event::NodeReady, true, now, &mut events);
        self.note(Event::Refused, now.was_refused, now, &mut events);
        self.note(Event::Risen, now.ratio.cpu >= RISEN_CENTS, now, &mut events);
        self.note(
            Event::Admitted,
            now.admitted > 0 && now.pending == 0 && now.was_refused,
            now,
            &mut events,
        );
        match self.phase {
            Phase::Rise => {
                let has_free_cpu = now.free_cpu() * 100 >= now.raw.cpu * FREE_PERCENT;
                let is_ready = has_free_cpu
                    && self.seen.contains_key(&Event::Admitted)
                    && self.seen.contains_key(&Event::Risen);
                let is_steady =
                    now.at_ms >= self.ratio_changed.1 + STEADY_MS && now.at_ms >= LOAD_NOT_BEFORE_MS;
                if is_ready && (is_steady || now.at_ms >= LOAD_NOT_AFTER_MS) {
                    self.note(Event::LoadStart, true, now, &mut events);
                    self.phase = Phase::Load;
                }
            }
            Phase::Load => {
                self.note(Event::Saturated, is_saturated(now), now, &mut events);
                self.note_taken(now, &mut events);
                let began = self.at(Event::LoadStart).unwrap_or_default();
                if now.at_ms >= began + LOAD_MS {
                    self.note(Event::LoadEnd, true, now, &mut events);
                    self.phase = Phase::Recover;
                }
            }
            Phase::Recover => {
                self.note_taken(now, &mut events);
                let before = self.seen.get(&Event::LoadStart).map_or(0, Snapshot::free_cpu);
                let is_back = now.free_cpu() * 100 >= before * RECOVERED_PERCENT;
                if self.seen.contains_key(&Event::Taken) && is_back {
                    self.note(Event::Recovered, true, now, &mut events);
                    self.phase = Phase::Done;
                }
            }
            Phase::Done => {}
        }
        self.last = now.clone();
        events
    }

    fn at(&self, event: Event) -> Option<u64> {
        self.seen.get(&event).map(|snapshot| snapshot.at_ms)
    }

    fn note(&mut self, event: Event, has_happened: bool, now: &Snapshot, events: &mut Vec<Event>) {
        if has_happened && !self.seen.contains_key(&event) {
            self.seen.insert(event, now.clone());
            events.push(event);
        }
    }

    fn note_taken(&mut self, now: &Snapshot, events: &mut Vec<Event>) {
        let before = self.seen.get(&Event::LoadStart).map_or(0, Snapshot::free_cpu);
        self.note(Event::Taken, now.free_cpu() * 2 <= before, now, events);
    }

    /// Records violations of conditions that apply to every snapshot, and data for the checks.
    fn check_always(&mut self, now: &Snapshot) {
        if now.ratio.cpu != self.ratio_changed.0 {
            self.ratio_changed = (now.ratio.cpu, now.at_ms);
        }
        if now.allocatable.cpu < now.bound_cpu {
            self.undercut = self.undercut.max(Some(now.bound_cpu - now.allocatable.cpu));
        }
        self.pod_failure = self.pod_failure.take().or_else(|| now.pod_failure.clone());
        if !now.source.is_empty() && !self.sources.contains(&now.source) {
            self.sources.push(now.source.clone());
        }
        if now.prog_runs > 0 {
            let first = self.runs.map_or(now.prog_runs, |(first, _)| first);
            self.runs = Some((first, now.prog_runs));
        }
        self.busiest = self.busiest.max((now.cpu_others, now.cpu_count * 1000));
        let measured = (now.cpu_used, now.cpu_busy, now.cpu_truth);
        // Several snapshots show one measurement.
        if now.cpu_used > 0 && now.cpu_truth > 0 && self.truth.last() != Some(&measured) {
            self.truth.push(measured);
        }
    }

    /// Checks the formula of allocatable in one revision of the Node. Revisions between two snapshots are checked, too.
    pub(super) fn check_revision(&mut self, node: &NodeState) {
        for resource in Resource::ALL {
            let (raw, ratio) = (*node.raw.get(resource), *node.ratio.get(resource));
            let allocatable = *node.allocatable.get(resource);
            let expected = u128::from(raw) * u128::from(ratio) / 100;
            if expected != u128::from(allocatable) && self.formula_broken.is_none() {
                let version = &node.resource_version;
                let text =
                    format!("{resource}: {allocatable} is not floor({raw} x {ratio} / 100) at {version}");
                self.formula_broken = Some(text);
            }
        }
    }
}

fn is_saturated(now: &Snapshot) -> bool {
    now.cpu_capacity > 0 && now.cpu_busy * 100 >= now.cpu_capacity * SATURATED_PERCENT
}

#[cfg(test)]
mod tests {
    use headroom_domain::resource::PerResource;

    use super::{
        checks::{Check, Outcome},
        *,
    };

    fn snapshot(at_ms: u64, ratio: u64, busy: u64) -> Snapshot {
        Snapshot {
            at_ms,
            source: "ebpf".to_owned(),
            cpu_used: busy,
            cpu_busy: busy,
            cpu_truth: busy,
            cpu_capacity: 2000,
            ratio: PerResource {
                cpu: ratio,
                memory: 100,
            },
            raw: PerResource { cpu: 1900, memory: 4 },
            allocatable: PerResource {
                cpu: 1900 * ratio / 100,
                memory: 4,
            },
            bound_cpu: 1700,
            prog_runs: at_ms + 1,
            was_refused: at_ms >= 2000,
            pending: usize::from(ratio < 115),
            admitted: usize::from(ratio >= 115),
            ..Snapshot::default()
        }
    }

    /// A successful run with one snapshot a second.
    fn good_run(change: impl Fn(&mut Snapshot)) -> Story {
        let mut story = Story::new();
        for second in 0..90_u64 {
            let (ratio, busy) = match second {
                0..10 => (100, 300),
                36..37 => (130, 2000),
                37..65 => (100, if second < 42 { 2000 } else { 300 }),
                _ => (130, 300),
            };
            let mut now = snapshot(second * 1000, ratio, busy);
            change(&mut now);
            story.observe(&now);
        }
        story
    }

    fn failed(story: &Story) -> Vec<String> {
        story
            .checks()
            .into_iter()
            .filter(Check::has_failed)
            .map(|check| check.claim)
            .collect()
    }

    #[test]
    fn successful_run_passes_every_check() {
        let story = good_run(|_| {});
        assert_eq!((failed(&story), story.phase()), (vec![], Phase::Done));
    }

    #[test]
    fn every_check_can_fail() {
        for (change, claim) in [
            (
                (|now| now.source = "procfs".to_owned()) as fn(&mut Snapshot),
                "the agent measures through eBPF",
            ),
            (
                |now| now.prog_runs = 1,
                "the kernel's run count of the eBPF program grows",
            ),
            (
                |now| now.cpu_truth = now.cpu_used * 2,
                "measured CPU use is within 10 % of the root cgroup's CPU time",
            ),
            (
                |now| now.was_refused = false,
                "a Deployment that did not fit is scheduled",
            ),
            (
                |now| now.cpu_busy = now.cpu_busy.min(1000),
                "under load, free capacity is halved within 5 s",
            ),
            (
                |now| now.bound_cpu = if now.at_ms == 50_000 { 1901 } else { 1700 },
                "no bound pod is affected",
            ),
            (
                |now| now.pod_failure = (now.at_ms == 60_000).then(|| "pod x failed".to_owned()),
                "no bound pod is affected",
            ),
        ] {
            assert!(
                failed(&good_run(change)).contains(&claim.to_owned()),
                "{claim} did not fail"
            );
        }
    }

    #[test]
    fn revision_that_violates_the_formula_fails_the_check() {
        let mut story = good_run(|_| {});
        let mut node = NodeState {
            allocatable: PerResource {
                cpu: 2470,
                memory: 100,
            },
            raw: PerResource {
                cpu: 1900,
                memory: 100,
            },
            ratio: PerResource {
                cpu: 130,
                memory: 100,
            },
            ..NodeState::default()
        };
        story.check_revision(&node);
        assert_eq!(failed(&story), Vec::<String>::new());
        node.allocatable.cpu += 1;
        story.check_revision(&node);
        assert_eq!(
            failed(&story),
            vec!["allocatable is floor(raw x ratio / 100) in every revision of the Node"]
        );
    }

    #[test]
    fn load_does_not_start_without_free_capacity() {
        let story = good_run(|now| now.bound_cpu = now.allocatable.cpu.saturating_sub(90));
        assert_eq!(story.phase(), Phase::Rise);
        assert_eq!(failed(&story).len(), 2);
    }

    #[test]
    fn failed_check_without_free_capacity_has_the_budget() {
        let mut story = Story::new();
        for second in 0..90 {
            story.observe(&Snapshot {
                cpu_safe: 1800,
                cpu_predicted: 2100,
                cpu_warm: 1700,
                ..snapshot(second * 1000, 100, 1900)
            });
        }
        let risen = story
            .checks()
            .into_iter()
            .find(|check| check.claim.contains("reaches"))
            .unwrap();
        let Outcome::Failed(seen) = risen.outcome else {
            panic!("{risen:?}")
        };
        assert!(
            seen.contains("capacity 2000m, safe use 1800m, predicted peak 2100m, warm requests 1700m"),
            "{seen}"
        );
        assert_eq!(story.phase(), Phase::Rise);
    }

    #[test]
    fn only_claims_that_need_idle_time_are_skipped_on_a_busy_machine() {
        let busy_run = |others| {
            let mut story = Story::new();
            for second in 0..90 {
                story.observe(&Snapshot {
                    source: "procfs".to_owned(),
                    cpu_used: 1900 + second,
                    cpu_busy: 1900 + second,
                    cpu_truth: 1900,
                    cpu_count: 2,
                    cpu_others: if second == 20 { others } else { 0 },
                    ..snapshot(second * 1000, 100, 1900)
                });
            }
            story.checks()
        };
        let skipped: Vec<String> = busy_run(1_460)
            .into_iter()
            .filter_map(|check| match check.outcome {
                Outcome::Skipped(seen) => Some(format!("{}: {seen}", check.claim)),
                Outcome::Held(_) | Outcome::Failed(_) => None,
            })
            .collect();
        assert_eq!(skipped.len(), 4, "{skipped:#?}");
        for skipped in &skipped {
            assert!(
                skipped.ends_with("the machine was busy (1.4 of 2 CPUs used by others)"),
                "{skipped}"
            );
        }
        let failed = busy_run(1_460).into_iter().filter(Check::has_failed).count();
        assert_eq!(failed, 1, "the source is no matter of idle time");
        let failed = busy_run(199).into_iter().filter(Check::has_failed).count();
        assert_eq!(failed, 5, "less than a tenth is not busy");
    }

    #[test]
    fn measurements_with_stolen_time_are_not_compared() {
        let mut story = good_run(|_| {});
        let outcome = |story: &Story| story.checks().swap_remove(2).outcome;
        story.truth = vec![(1500, 1500, 1000), (1000, 1500, 1500), (900, 900, 900)];
        assert_eq!(
            outcome(&story),
            Outcome::Failed("0 of 0 measurements differ by more".to_owned())
        );
        story.truth.extend([(1000, 1000, 1000), (1000, 1000, 1000)]);
        assert_eq!(
            outcome(&story),
            Outcome::Held("0 of 2 measurements differ by more".to_owned())
        );
        story.truth.push((1000, 1020, 1000));
        story.truth[3].2 = 1200;
        story.truth[4].2 = 1200;
        assert_eq!(
            outcome(&story),
            Outcome::Failed("2 of 3 measurements differ by more".to_owned())
        );
    }
}
